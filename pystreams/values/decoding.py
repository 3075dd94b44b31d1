"""Decoding of an entry's values, to JSON for output and to strings for conditions."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pystreams.values import fields, names
from streamclient.formats.decoder import Decoder
from streamclient.formats.schemas import UndecodableError


class Decoding:
    """Decodes the fields `chosen`, or all fields if it is None. Values that cannot be decoded stay unchanged."""

    def __init__(self, decoder: Decoder, chosen: Collection[bytes] | None = None) -> None:
        self._decoder = decoder
        self._chosen = None if chosen is None else frozenset(chosen)

    def as_json(self, words: Sequence[bytes]) -> Any:
        """Return alternating names and values as an object, as `fields.as_json` does, with decoded values."""
        return fields.as_json(words, self._or_bytes)

    def as_texts(self, words: Sequence[bytes]) -> list[bytes]:
        """Return alternating names and values, with decoded values as JSON."""
        found = list(words)
        for at, (name, value) in enumerate(fields.pairs(words)):
            decoded = self._decoded(name, value)
            if decoded is not None:
                text = json.dumps(decoded[0], ensure_ascii=False, separators=(",", ":"))
                found[2 * at + 1] = text.encode("utf-8", "backslashreplace")
        return found

    def members(self, words: Sequence[bytes]) -> Members:
        """Return the fields and the members of decoded objects as strings, for conditions."""
        return Members(words, self._decoded)

    def _or_bytes(self, name: bytes, value: bytes) -> Any:
        decoded = self._decoded(name, value)
        return names.as_json(value) if decoded is None else decoded[0]

    def _decoded(self, name: bytes, value: bytes) -> tuple[Any] | None:
        if self._chosen is not None and name not in self._chosen:
            return None
        try:
            return (self._decoder.decode(value).value,)
        except UndecodableError:
            return None


class Members:
    """Fields of an entry as strings, and the members of decoded objects by name or path.

    Fields take precedence over members. `card.number` is found in the value of the field `card`, and in a member
    `card` of another field's value. Values are decoded when `get` is first called with a name that is not a field.
    """

    def __init__(self, words: Sequence[bytes], decoded: Callable[[bytes, bytes], tuple[Any] | None]) -> None:
        self._words, self._decoded = words, decoded
        self._fields = fields.as_text(words)
        self._objects: list[dict[str, Any]] | None = None

    def get(self, name: str) -> str | None:
        """Return the value of a field or member as a string; None if the entry has neither."""
        found = self._fields.get(name)
        if found is not None:
            return found
        if self._objects is None:
            self._objects = self._decode()
        value = next((value for each in self._objects if (value := _member(each, name)) is not None), None)
        return None if value is None else _text(value)

    def _decode(self) -> list[dict[str, Any]]:
        """Return the objects to search: all decoded objects by field name, then each of them, last field first."""
        named: dict[str, Any] = {}
        for name, value in fields.pairs(self._words):
            decoded = self._decoded(name, value)
            if decoded is not None and isinstance(decoded[0], dict):
                named[names.shown(name)] = decoded[0]
        return [named, *reversed(named.values())]


def _member(value: Any, path: str) -> Any:
    """Return the member of nested objects at a path, or None. Names of members may contain dots."""
    if not isinstance(value, dict):
        return None
    found = value.get(path)
    at = path.find(".")
    while found is None and at >= 0:
        found = _member(value.get(path[:at]), path[at + 1 :])
        at = path.find(".", at + 1)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
