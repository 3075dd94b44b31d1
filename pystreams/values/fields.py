"""Entries as an ID with alternating field names and values, and their conversion to JSON and to strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystreams.values import names

#: An entry's ID, and its alternating field names and values.
Entry = tuple[bytes, list[bytes]]


def pairs(words: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return alternating names and values as pairs."""
    return list(zip(words[0::2], words[1::2], strict=True))


def as_json(words: Sequence[bytes], value_of: Callable[[bytes, bytes], Any] | None = None) -> Any:
    """Return alternating names and values as an object, or as a list of pairs if a name occurs twice or is not UTF-8.

    `value_of`: conversion of a value to JSON, called with the field's name and bytes.
    """
    shown = value_of or (lambda _, value: names.as_json(value))
    found = [(names.as_json(name), shown(name, value)) for name, value in pairs(words)]
    keys = [key for key, _ in found]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        return dict(found)
    return [list(pair) for pair in found]


def as_text(words: Sequence[bytes]) -> dict[str, str]:
    """Return fields as strings, for conditions. If a name occurs twice, the last field wins."""
    return {names.shown(name): value.decode("utf-8", "replace") for name, value in pairs(words)}
