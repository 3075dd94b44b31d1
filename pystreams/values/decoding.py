"""Decoded fields: which values of an entry are decoded, and what they are in JSON, as text and for conditions."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from pystreams.values import fields, names
from streamclient.formats.decoder import Decoder
from streamclient.formats.schemas import UndecodableError


class Decoding:
    """Decodes the fields with these names, or all of them. Values that cannot be decoded stay as they are."""

    def __init__(self, decoder: Decoder, chosen: Collection[bytes] | None = None) -> None:
        self._decoder = decoder
        self._chosen = None if chosen is None else frozenset(chosen)

    def as_json(self, words: Sequence[bytes]) -> Any:
        """Field names and values in turn as an object, as `fields.as_json` does."""
        return fields.as_json(words, self._or_bytes)

    def as_texts(self, words: Sequence[bytes]) -> list[bytes]:
        """Return the same names and values, with JSON texts of what was decoded."""
        found = list(words)
        for at, (name, value) in enumerate(fields.pairs(words)):
            decoded = self._decoded(name, value)
            if decoded is not None:
                text = json.dumps(decoded[0], ensure_ascii=False, separators=(",", ":"))
                found[2 * at + 1] = text.encode("utf-8", "backslashreplace")
        return found

    def members(self, words: Sequence[bytes]) -> dict[str, str]:
        """Fields as texts, for conditions, and the members of decoded objects. Fields precede members."""
        members: dict[str, str] = {}
        for name, value in fields.pairs(words):
            decoded = self._decoded(name, value)
            if decoded is not None and isinstance(decoded[0], dict):
                members |= {key: _text(item) for key, item in decoded[0].items() if item is not None}
        return members | fields.as_text(words)

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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
