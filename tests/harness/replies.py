"""Expected and actual replies of tests.

Actual replies are decoded by hiredis: bytes for bulk and simple strings, int, float, None for every nil, list, dict for
a RESP3 map, and `Error` for an error reply, also within a reply. Expected replies are shorter and serve both protocols:
text means its UTF-8 bytes, `Map` and `Streams` are maps that exist only in RESP3, and
`tests.servers.releases.Newest` has replies that differ between releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hiredis

from tests.servers.releases import NEWEST, Newest, Release

Reply = Any


@dataclass(frozen=True)
class Error:
    """An error reply; ``text`` follows the ``-``."""

    text: str


class Map(dict[Any, Any]):
    """A map; in RESP2 its pairs are one flat array."""


class Streams(dict[Any, Any]):
    """The reply of XREAD and XREADGROUP, entries by key; in RESP2 it is an array of pairs."""


class _Any:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ANY"


#: A value that equals every reply.
ANY = _Any()


@dataclass(frozen=True)
class Between:
    """A value that equals every integer from ``low`` to ``high``."""

    low: int
    high: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and self.low <= other <= self.high

    def __hash__(self) -> int:
        return 0


OK = b"OK"
WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
SYNTAX = Error("ERR syntax error")
NOT_AN_INTEGER = Error("ERR value is not an integer or out of range")
INVALID_ID = Error("ERR Invalid stream ID specified as stream command argument")

_VECTOR_SETS = Map({"name": "vectorset", "ver": 1, "path": "", "args": []})
_LUA = Map({"name": "lua", "ver": 1, "path": "lua", "args": []})
#: Modules that a server has from its start.
MODULES = Newest([_VECTOR_SETS], before={"8.0": []}, valkey={"9.1": [_LUA]}, engine=[])


def unknown_command(name: str) -> Newest:
    """Return the error of an unknown command without arguments."""
    text = f"ERR unknown command '{name}'"
    return Newest(Error(text), before={"8.6": Error(f"{text}, with args beginning with: ")})


def entry(text: str) -> list[Any]:
    """Return an entry as XRANGE does, from ``"ID field value ..."``."""
    entry_id, *fields = text.split()
    return [entry_id.encode(), [word.encode() for word in fields]]


def entries(*texts: str) -> list[Any]:
    """Return entries, each from ``"ID field value ..."``."""
    return [entry(text) for text in texts]


def as_sent(expected: Any, proto: int, release: Release = NEWEST) -> Any:
    """Return hiredis's result for the reply described by ``expected``, in that protocol and release."""
    while isinstance(expected, Newest):
        expected = expected.of(release)
    if isinstance(expected, str):
        return expected.encode()
    if isinstance(expected, Streams):
        pairs = [[as_sent(key, proto, release), as_sent(value, proto, release)] for key, value in expected.items()]
        return {key: value for key, value in pairs} if proto == 3 else pairs  # noqa: C416
    if isinstance(expected, dict):
        pairs = [[as_sent(key, proto, release), as_sent(value, proto, release)] for key, value in expected.items()]
        return {key: value for key, value in pairs} if proto == 3 else [part for pair in pairs for part in pair]  # noqa: C416
    if isinstance(expected, list | tuple):
        return [as_sent(part, proto, release) for part in expected]
    return expected


def words(command: tuple[Any, ...]) -> list[bytes]:
    """Return a command's words as bytes; a single string is divided at its blanks."""
    parts: Any = command
    if len(command) == 1 and isinstance(command[0], str):
        parts = command[0].split()
    return [part if isinstance(part, bytes) else str(part).encode() for part in parts]


_NOTHING = object()


class Decoder:
    """A decoder of replies that keeps each reply's bytes."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=Error, notEnoughData=_NOTHING)

    def feed(self, data: bytes) -> None:
        """Take more bytes of the connection."""
        self._reader.feed(data)

    def next(self) -> tuple[bool, Reply]:
        """Return whether there is a complete reply, and the reply."""
        value = self._reader.gets()
        return (False, None) if value is _NOTHING else (True, value)
