"""Entries as values: an ID, and field names and values in turn; and what they are in JSON and for conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystreams.values import names

#: An entry's ID, and its field names and values in turn.
Entry = tuple[bytes, list[bytes]]


def pairs(words: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Names and values in turn as pairs."""
    return list(zip(words[0::2], words[1::2], strict=True))


def as_json(words: Sequence[bytes], value_of: Callable[[bytes, bytes], Any] | None = None) -> Any:
    """Field names and values in turn as an object; as a list of pairs where a name occurs twice or is no text.

    `value_of`: what the value of a field is in JSON, from its name and its bytes.
    """
    shown = value_of or (lambda _, value: names.as_json(value))
    found = [(names.as_json(name), shown(name, value)) for name, value in pairs(words)]
    keys = [key for key, _ in found]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        return dict(found)
    return [list(pair) for pair in found]


def as_text(words: Sequence[bytes]) -> dict[str, str]:
    """Fields as texts, for conditions; of a name that occurs twice the last."""
    return {names.shown(name): value.decode("utf-8", "replace") for name, value in pairs(words)}
