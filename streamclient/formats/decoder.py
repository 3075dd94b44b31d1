"""Decoder of values to JSON, for display and for conditions on entries.

With the format `auto` the decoder recognises a registry's header (if there is a registry), JSON objects and arrays, and
MessagePack maps and arrays that span the whole value. Avro and Protobuf without a header cannot be recognised: they are
decoded only if the format is named, and need a schema.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamclient.errors import PystreamsError, error, fail
from streamclient.formats import avro, protobuf
from streamclient.formats.schemas import (
    LEVELS,
    Budget,
    Format,
    Schema,
    UndecodableError,
    is_deep,
    most_items,
    package,
    split,
    split_indexes,
)

if TYPE_CHECKING:  # HTTP takes time to import, and few commands need it
    from streamclient.formats.registry import Registry


@dataclass(frozen=True)
class Decoded:
    """A value as JSON: dictionaries with texts as keys, lists, texts, numbers, booleans and None.

    `format`: name of the value's format. `schema_id`: ID of the schema in the registry; None without a header. `name`:
    name of the record or message.
    """

    value: Any
    format: str
    schema_id: int | None = None
    name: str | None = None


_Read = Callable[[bytes], Decoded]
_FAILED_SECONDS = 10.0  # time for which an unreachable registry is not called again


class Decoder:
    """Decodes values, one at a time. Each schema is read once.

    `schema`: schema of values without a header. `message`: Protobuf message in that schema; a header contains the path
    of its message.
    """

    def __init__(
        self,
        form: Format = "auto",
        registry: Registry | None = None,
        schema: Schema | None = None,
        message: str | None = None,
    ) -> None:
        self._form = form
        self._registry = registry
        self._message = message
        self._by_id: dict[tuple[int, bytes], _Read] = {}
        self._plain: _Read | None = None
        self._failed: tuple[float, PystreamsError] | None = None
        if schema is not None:
            self._plain = self._reader(schema, "that was given", None)
        elif form in ("avro", "protobuf") and registry is None:
            fail("SCHEMA_MISSING", format=form)

    @classmethod
    def of_file(cls, form: Format, path: str, message: str | None = None) -> Decoder:
        """Return a decoder for a file: `.avsc`, a FileDescriptorSet or `.proto`. Raises SCHEMA_UNUSABLE."""
        return cls(form, schema=schema_in(form, path, message), message=message)

    def decode(self, value: bytes) -> Decoded:
        """Return the value as JSON. Raises UndecodableError if its format is unknown or differs from the named one.

        Also raises REGISTRY_UNREACHABLE and other errors of the registry.
        """
        if self._registry is not None and (self._form in ("avro", "protobuf") or value[:1] == b"\0"):
            return self._with_header(value)
        if self._plain is not None:
            return self._plain(value)
        if self._form == "json" or (self._form == "auto" and value.lstrip()[:1] in (b"{", b"[")):
            return Decoded(_json(value), "json")
        if self._form == "msgpack" or (self._form == "auto" and value[:1] and _is_container(value[0])):
            return Decoded(_message_pack(value), "msgpack")
        raise UndecodableError("the value's format cannot be recognised")

    def _with_header(self, value: bytes) -> Decoded:
        schema_id, payload = split(value)
        for (known, prefix), read in self._by_id.items():
            if known == schema_id and payload.startswith(prefix):
                return read(payload)
        if self._registry is None:
            raise UndecodableError("there is no registry")
        schema = self._asked(self._registry, schema_id)
        if schema is None:
            raise UndecodableError(f"{self._registry} has no schema with the ID {schema_id}")
        if self._form not in ("auto", schema.kind.lower()):
            raise UndecodableError(f"the schema {schema_id} at {self._registry} is of the type {schema.kind}")
        prefix = b""
        path: tuple[int, ...] | None = None
        if schema.kind == "PROTOBUF":
            path, rest = split_indexes(payload)
            prefix = payload[: len(payload) - len(rest)]
        read = self._reader(schema, f"{schema_id} at {self._registry}", path, schema_id, len(prefix))
        self._by_id[schema_id, prefix] = read
        return read(payload)

    def _asked(self, registry: Registry, schema_id: int) -> Schema | None:
        """Return the schema with this ID.

        After REGISTRY_UNREACHABLE, raise the same error for ten seconds without further requests.
        """
        if self._failed is not None and time.monotonic() < self._failed[0]:
            raise self._failed[1]
        try:
            return registry.schema(schema_id)
        except PystreamsError as failure:
            if failure.condition == "REGISTRY_UNREACHABLE":
                self._failed = time.monotonic() + _FAILED_SECONDS, failure
            raise

    def _reader(
        self, schema: Schema, source: str, path: tuple[int, ...] | None, schema_id: int | None = None, skip: int = 0
    ) -> _Read:
        """Return a function that decodes values of a schema.

        `path`: path of the Protobuf message. `skip`: size in bytes of the path that precedes the message in a value.
        """
        if schema.kind == "JSON":
            return lambda data: Decoded(_json(data), "json", schema_id)
        if schema.kind == "AVRO":
            parsed = avro.parsed(schema, source)
            read = avro.Reader(parsed)
            name = parsed.schema.get("name") if isinstance(parsed.schema, dict) else None
            return lambda data: Decoded(avro.as_json(read(data)), "avro", schema_id, name)
        messages = protobuf.Messages(schema, source)
        kind = messages.message(self._message)[0] if path is None else messages.at(path)
        full = kind.DESCRIPTOR.full_name

        def message_of(data: bytes) -> Decoded:
            return Decoded(messages.as_json(protobuf.parse(kind, data[skip:])), "protobuf", schema_id, full)

        return message_of


def schema_in(form: str, path: str, message: str | None = None) -> Schema:
    """Return the schema in a file: JSON of Avro or JSON Schema, a FileDescriptorSet, or the text of a `.proto` file."""
    try:
        content = Path(path).read_bytes()
    except OSError as cause:
        raise error("SCHEMA_UNUSABLE", source=f"in {path}", reason=cause.strerror or cause) from cause
    if form == "protobuf":
        return protobuf.from_file(content, f"in {path}", message)
    return Schema("AVRO" if form == "avro" else "JSON", content.decode("utf-8", "replace"))


def _json(value: bytes) -> Any:
    try:
        found = json.loads(value.decode(), parse_constant=str, parse_float=_finite)
        if b"\\u" in value:
            json.dumps(found, ensure_ascii=False).encode()  # raises for a lone surrogate, which is not text
    except (ValueError, RecursionError) as cause:
        raise UndecodableError(f"the value is not JSON: {cause}") from cause
    return _checked(found, value.count(b"{") + value.count(b"["))


def _checked(found: Any, most: int) -> Any:
    """Return a value with at most `most` levels. Raises UndecodableError if it is nested too deep."""
    if most > LEVELS and is_deep(found):
        raise UndecodableError(f"the value is nested in more than {LEVELS} levels")
    return found


def _finite(text: str) -> float | str:
    """Return the number, or its text if it exceeds a float's range. `NaN` and `Infinity` also stay texts."""
    number = float(text)
    return number if math.isfinite(number) else text


def _is_container(first: int) -> bool:
    """Return whether a byte starts a map or an array of MessagePack."""
    return 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF


def _message_pack(value: bytes) -> Any:
    msgpack = package("msgpack")
    budget = Budget(most_items(len(value)))

    def counted(item: Any) -> Any:
        budget.spend()
        return item

    try:
        # `unpackb` allocates a list with its announced size, so first check that the value is complete.
        unpacker = msgpack.Unpacker(max_buffer_size=len(value), strict_map_key=False, timestamp=3)
        unpacker.feed(value)
        unpacker.skip()
        found = msgpack.unpackb(value, strict_map_key=False, timestamp=3, object_hook=counted, list_hook=counted)
        return avro.as_json(_checked(found, len(value)))
    except UndecodableError:
        raise
    except (msgpack.UnpackException, ValueError, TypeError, OverflowError, RecursionError) as cause:
        raise UndecodableError(f"the value is not MessagePack: {cause}") from cause
