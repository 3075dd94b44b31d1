"""Reading of entries: values are masked first, then decoded for display and for conditions.

A rule for decoding is `STREAM=FORMAT:FILE` or `STREAM=FORMAT`, with `*` and `?` as wildcards in the stream's name.
Values of other streams are decoded if their format is recognisable: JSON, MessagePack, or a registry's header.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, get_args

from pystreams.dashboard.security.masks import Masks
from pystreams.errors import fail
from pystreams.streams import dead_letters
from pystreams.values import names
from pystreams.values.fields import Decoding, Entry, Members
from streamclient.errors import PystreamsError
from streamclient.formats.decoder import Decoded, Decoder
from streamclient.formats.schemas import Format, UndecodableError

if TYPE_CHECKING:
    from streamclient.formats.registry import Registry

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
