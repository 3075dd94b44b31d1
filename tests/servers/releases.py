"""Releases of Redis and Valkey, and which behaviour each one has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Release of Redis from which Valkey derives. Valkey has later changes of Redis only if it made them as well.
_VALKEY_BEGAN_AS = (7, 2, 4)


def version(text: str) -> tuple[int, ...]:
    """Return ``"8.10"`` as (8, 10)."""
    return tuple(int(part) for part in text.split("."))


@dataclass(frozen=True)
class Release:
    """A release. ``version`` is the release of Redis whose behaviour it has, and ``valkey`` is Valkey's own, or () for
    Redis.
    """

    version: tuple[int, ...]
    valkey: tuple[int, ...] = ()
    #: Whether it is the engine, which differs from Redis of its version only as tests state.
    engine: bool = False

    def since(self, text: str, valkey: str | None = None) -> bool:
        """Return whether it behaves as Redis ``text`` or later, or is a Valkey of release ``valkey`` or later."""
        taken_over = valkey is not None and self.valkey >= version(valkey)
        return taken_over or self.version >= version(text)

    def __str__(self) -> str:
        name, numbers = ("Valkey", self.valkey) if self.valkey else ("Redis", self.version)
        return f"{name} {'.'.join(map(str, numbers))}"


#: The latest release whose behaviour the engine has.
NEWEST = Release((8, 10), engine=True)


_SAME = object()


@dataclass(frozen=True)
class Newest:
    """The newest Redis's reply, and replies that differ from it.

    ``before`` maps a version of Redis to the reply of older ones, oldest first. ``valkey`` maps a version of Valkey to
    the reply of it and newer ones, newest first; an older Valkey replies as the Redis from which it derives. ``engine``
    is the engine's reply if it differs on purpose.
    """

    answer: Any
    before: Mapping[str, Any] = field(default_factory=dict)
    valkey: Mapping[str, Any] = field(default_factory=dict)
    engine: Any = _SAME

    def of(self, release: Release) -> Any:
        """Return the reply of a release."""
        if release.engine and self.engine is not _SAME:
            return self.engine
        for text, reply in self.valkey.items():
            if release.valkey >= version(text):
                return reply
        for text, old in self.before.items():
            if not release.since(text):
                return old
        return self.answer


def release_in(text: str) -> Release | None:
    """Return the release in the output of ``redis-server --version`` or ``valkey-server --version``, or None."""
    found = re.match(r"(Redis|Valkey) server v=(\d+(?:\.\d+)*)", text)
    if found is None:
        return None
    numbers = version(found[2])
    return Release(numbers) if found[1] == "Redis" else Release(_VALKEY_BEGAN_AS, numbers)
