"""Masking, without I/O: fields whose values never leave this process.

A rule is `FIELD` or `STREAM:FIELD`, with `*` and `?` as wildcards; the stream ends at the last colon. A rule matches a
field's name. In a value that is JSON or was decoded, it also matches the name of a nested field, or the end of its path
(`card.number` matches `payload.card.number`). JSON inside a JSON string is masked in the same way. Rules are applied
before conditions are evaluated, so a search cannot reveal a masked value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pystreams.values import names
from streamclient.errors import PystreamsError

MASKED = "(masked)"
_MASKED = MASKED.encode()
#: Control characters that do not occur in text.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
#: Characters that may precede a JSON document: blanks, and byte-order marks and zeros of other encodings.
_BEFORE_JSON = b" \t\r\n\v\f\0\xef\xbb\xbf\xfe\xff"


class Masks:
    """The rules of one server."""

    def __init__(self, rules: Sequence[str] = ()) -> None:
        # Brackets are not wildcards, since field names may contain them.
        split = [rule.replace("[", "[[]").rpartition(":") for rule in rules]
        self._rules = [(stream or "*", field) for stream, _, field in split if field]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, *streams: bytes) -> Mask:
        """Return the rules for entries of a stream. For dead letters, also pass the original stream."""
        shown = [names.shown(stream) for stream in streams]
        return Mask([field for stream, field in self._rules if any(fnmatchcase(name, stream) for name in shown)])


class Mask:
    """The rules of one stream: patterns of field names and paths."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._patterns = list(patterns)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def hides(self, name: str) -> bool:
        """Return whether the field is masked: a pattern matches its name or path, or the end of its path after a
        dot.
        """
        return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}") for pattern in self._patterns)

    def words(self, words: Sequence[bytes], decode: Callable[[bytes], Any] = json.loads) -> list[bytes]:
        """Return the alternating field names and values with masked values replaced.

        `decode` returns a value as JSON, and raises ValueError if the value has another format.
        """
        if not self._patterns:
            return list(words)
        found = list(words)
        for at in range(0, len(found) - 1, 2):
            found[at + 1] = self._value(names.shown(found[at]), found[at + 1], decode)
        return found

    def _value(self, name: str, value: bytes, decode: Callable[[bytes], Any]) -> bytes:
        if self.hides(name):
            return _MASKED
        try:
            found, masked = self._nested(name, decode(value))
            return json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass") if masked else value
        except PystreamsError:
            return _MASKED  # without the value's registry or package, masked fields cannot be found
        except (ValueError, RecursionError):
            first = value.lstrip(_BEFORE_JSON)[:1]
            if first == b'"' and decode is not json.loads:
                return self._value(name, value, json.loads)  # parse a JSON string, which other decoders do not do
            # Mask an object that cannot be parsed, and any value that is not text: both may contain a masked field.
            return _MASKED if first in (b"{", b"[") or not _is_text(value) else value

    def _nested(self, path: str, value: Any) -> tuple[Any, bool]:
        if isinstance(value, dict):
            masked = False
            made: dict[Any, Any] = {}
            for key, each in value.items():
                inner = f"{path}.{key}"
                if self.hides(inner):
                    made[key], changed = MASKED, True
                else:
                    made[key], changed = self._nested(inner, each)
                masked |= changed
            return made, masked
        if isinstance(value, list | tuple):
            items = [self._nested(path, each) for each in value]
            return [item for item, _ in items], any(changed for _, changed in items)
        if isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            if text.lstrip(_BEFORE_JSON)[:1] in (b"{", b"[", b'"'):
                shown = self._value(path, text, json.loads)
                if shown is not text:
                    return shown.decode("utf-8", "surrogatepass"), True
        return value, False


def _is_text(value: bytes) -> bool:
    """Return whether a value is UTF-8 without control characters, which nearly all encoded records contain."""
    try:
        return not _CONTROL.search(value.decode())
    except UnicodeDecodeError:
        return False


NOTHING = Masks()
