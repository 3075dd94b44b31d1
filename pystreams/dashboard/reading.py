"""Reading of entries: values are masked first, then decoded for display and for conditions.

A rule for masking is `FIELD` or `STREAM:FIELD`, with `*` and `?` as wildcards; the stream ends at the last colon. The
values of masked fields never leave this process. A rule matches a field's name. In a value that is JSON or was decoded,
it also matches the name of a nested field, or the end of its path (`card.number` matches `payload.card.number`). JSON
inside a JSON string is masked in the same way. Rules are applied before conditions are evaluated, so a search cannot
reveal a masked value.

A rule for decoding is `STREAM=FORMAT:FILE` or `STREAM=FORMAT`, with `*` and `?` as wildcards in the stream's name.
Values of other streams are decoded if their format is recognisable: JSON, MessagePack, or a registry's header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, get_args

from pystreams.errors import fail
from pystreams.streams import dead_letters
from pystreams.values import names
from pystreams.values.fields import Decoding, Entry, Members
from streamclient.errors import PystreamsError
from streamclient.formats.decoder import Decoded, Decoder
from streamclient.formats.schemas import Format, UndecodableError

if TYPE_CHECKING:
    from streamclient.formats.registry import Registry


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


_FORMATS: dict[str, Format] = {each: each for each in get_args(Format) if each != "auto"}


class Decoders:
    """Decoders for streams, chosen by rules. Schemas are read once. Raises INVALID_VALUE and SCHEMA_UNUSABLE."""

    def __init__(self, rules: Sequence[str] = (), registry: Registry | None = None) -> None:
        self._other = Decoder("auto", registry)
        self._rules: list[tuple[str, Decoder]] = []
        for rule in rules:
            stream, _, rest = rule.rpartition("=")
            word, _, file = rest.partition(":")
            form = _FORMATS.get(word)
            if not stream or form is None:
                expected = f"it must be STREAM=FORMAT:FILE with one of the formats {', '.join(_FORMATS)}"
                fail("INVALID_VALUE", name="--decode", value=rule, expected=expected)
            self._rules.append((stream, Decoder.of_file(form, file) if file else Decoder(form, registry)))

    def of(self, stream: bytes) -> Decoder:
        """Return the decoder for the values of a stream."""
        name = names.shown(stream)
        return next((decoder for pattern, decoder in self._rules if fnmatchcase(name, pattern)), self._other)


class _Tolerant(Decoder):
    """A decoder that treats values as undecodable if their registry or package is missing."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decode(self, value: bytes) -> Decoded:
        try:
            return self._decoder.decode(value)
        except PystreamsError as failure:
            raise UndecodableError(str(failure)) from failure


class Reader:
    """Masks and decodes the entries of one stream.

    For a dead letter, the masks of the original stream apply too, and the rule for the original stream decodes values.
    """

    def __init__(self, decoders: Decoders, masks: Masks, *streams: bytes) -> None:
        self._decoders, self._masks, self._streams = decoders, masks, streams
        self._decoder, self._mask = decoders.of(streams[-1]), masks.of(*streams)
        self._decoding = Decoding(_Tolerant(self._decoder))

    def of(self, found: Entry) -> Reader:
        """Return the reader for an entry: for a dead letter, a reader with the rules of the original stream."""
        letter = dead_letters.parsed(found)
        return self if letter is None else Reader(self._decoders, self._masks, *self._streams, letter.stream)

    def entry(self, found: Entry) -> Entry:
        """Return an entry with masked values replaced."""
        return found[0], self.of(found).words(found[1])

    def words(self, words: Sequence[bytes]) -> list[bytes]:
        """Return the alternating field names and values with masked values replaced.

        An encoded value with a masked field becomes JSON. If a value cannot be decoded because its registry or package
        is missing, the whole value is masked.
        """
        return self._mask.words(words, lambda value: self._decoder.decode(value).value)

    def members(self, masked: Sequence[bytes]) -> Members:
        """Return fields and members of decoded values as strings, by name. `masked`: names and masked values."""
        return self._decoding.members(masked)

    def texts(self, masked: Sequence[bytes]) -> list[bytes]:
        """Return names and masked values for display in a list. Values that can be decoded become JSON."""
        found = list(masked)
        for at in range(1, len(found), 2):
            decoded = self.decoded(found[at])
            if decoded is not None and "json" in decoded:
                found[at] = decoded["json"].encode("utf-8", "backslashreplace")
        return found

    def decoded(self, value: bytes) -> dict[str, Any] | None:
        """Return a masked value's decoded form and format, or the problem; None for JSON and for undecodable values."""
        try:
            found = self._decoder.decode(value)
        except UndecodableError:
            return None
        except PystreamsError as failure:
            return {"problem": str(failure)}
        if found.format == "json":
            return None
        text = json.dumps(found.value, ensure_ascii=False)  # sent as text, since JavaScript would round large numbers
        return {"format": found.format, "name": found.name, "schema_id": found.schema_id, "json": text}


AUTOMATIC = Decoders()
