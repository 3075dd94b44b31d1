"""Rows as Avro records: types, conversion of a page's values to columns, and of columns to values.

A union with null is nullable. Apart from null, a union of one type is that type, a union of integers is a long, and a
union of numbers with a floating-point type is a double. Other unions, and records that are recursive or have no fields,
are read as JSON text and cannot be written.
"""

from __future__ import annotations

import functools
import io
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import conversion
from spark_streams.columns.scalars import dump
from spark_streams.errors import error, fail
from spark_streams.formats.base import (
    Change,
    Decoder,
    Plan,
    RecordField,
    RecordReader,
    check_fields,
    spark_fields,
    stored,
    value_refused,
)
from streamclient.formats import avro
from streamclient.formats.schemas import MEMBERS, Budget, Schema, UndecodableError, header, package, split

_PLAIN = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_NUMBERS = ("int", "long", "float", "double")


def _as_json_text(value: Any) -> Any:
    return None if value is None else dump(avro.as_json(value))


_JSON = RecordField(pa.string(), _as_json_text, None, is_writable=False)


class AvroTypes:
    """The types of one parsed schema. `named`: the named types, by full name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._budget = Budget(MEMBERS)

    def fields(self, record: Any) -> dict[str, RecordField]:
        """Return the types of a record's fields."""
        return {field["name"]: self.of(field["type"], (record["name"],)) for field in record["fields"]}

    def of(self, schema: Any, inside: tuple[str, ...] = ()) -> RecordField:
        """Return the type of a schema. `inside`: names of the enclosing records.

        Raises UndecodableError if the schema has too many members.
        """
        self._budget.spend()
        if isinstance(schema, list):
            return self._union(schema, inside)
        if isinstance(schema, str):
            return RecordField(_PLAIN[schema]) if schema in _PLAIN else self._record_or(self._named[schema], inside)
        return self._record_or(schema, inside)

    def _record_or(self, schema: Any, inside: tuple[str, ...]) -> RecordField:
        kind, logical = schema["type"], schema.get("logicalType")
        if not isinstance(kind, str):
            return self.of(kind, inside)
        if kind in ("record", "error"):
            return self._record(schema, inside)
        if kind == "array":
            item = self.of(schema["items"], inside)
            return RecordField(pa.list_(item.arrow), _each(item.read), _each(item.write), item.is_writable)
        if kind == "map":
            item = self.of(schema["values"], inside)
            write = _map_of(item.write)
            return RecordField(pa.map_(pa.string(), item.arrow), _values(item.read), write, item.is_writable)
        if kind == "enum":
            return RecordField(pa.string())
        if logical == "decimal" and 0 < schema.get("precision", 0) <= 38:
            return RecordField(pa.decimal128(schema["precision"], schema.get("scale", 0)))
        if kind == "fixed":
            is_uuid = logical == "uuid" and schema["size"] == 16
            return RecordField(pa.string(), _uuid_text, _uuid_bytes) if is_uuid else RecordField(pa.binary())
        if kind not in _PLAIN:
            return self._record_or(self._named[kind], inside)
        return RecordField(_LOGICAL.get((kind, logical or ""), _PLAIN[kind]))

    def _record(self, schema: Any, inside: tuple[str, ...]) -> RecordField:
        if schema["name"] in inside or not schema["fields"]:
            return _JSON
        fields = {field["name"]: self.of(field["type"], (*inside, schema["name"])) for field in schema["fields"]}
        return RecordField(
            pa.struct([(name, kind.arrow) for name, kind in fields.items()]),
            members({name: kind.read for name, kind in fields.items()}),
            members({name: kind.write for name, kind in fields.items()}),
            all(kind.is_writable for kind in fields.values()),
        )

    def _union(self, branches: list[Any], inside: tuple[str, ...]) -> RecordField:
        others = [each for each in branches if each != "null"]
        if len(others) == 1:
            return self.of(others[0], inside)
        if others and all(each in _NUMBERS for each in others):
            return RecordField(pa.int64() if set(others) == {"int", "long"} else pa.float64(), write=None)
        return _JSON if others else RecordField(pa.string())


def members(changes: Mapping[str, Change]) -> Change:
    """Return a function that applies these changes to the members of a record; None if there are no changes."""
    needed = [(name, change) for name, change in changes.items() if change is not None]
    if not needed:
        return None

    def changed(record: Any) -> Any:
        if record is not None:
            for name, change in needed:
                record[name] = change(record[name])
        return record

    return changed


def _each(change: Change) -> Change:
    return None if change is None else lambda found: None if found is None else [change(item) for item in found]


def _values(change: Change) -> Change:
    if change is None:
        return None
    return lambda found: None if found is None else {name: change(item) for name, item in found.items()}


def _map_of(change: Change) -> Change:
    """Return a function that converts a map's pairs to a dictionary."""
    if change is None:
        return lambda pairs: None if pairs is None else dict(pairs)
    return lambda pairs: None if pairs is None else {name: change(item) for name, item in pairs}


def _uuid_text(value: bytes | None) -> Any:
    return None if value is None else str(uuid.UUID(bytes=value))


def _uuid_bytes(text: str | None) -> Any:
    return None if text is None else uuid.UUID(text).bytes


def schema_of(fields: Any) -> Schema:
    """Return a schema for rows with these Arrow fields: a record whose fields are nullable and null by default."""
    return Schema("AVRO", json.dumps(_record_of(fields, "Row", "")))


def _record_of(fields: Any, name: str, namespace: str) -> Any:
    made: dict[str, Any] = {"type": "record", "name": name}
    if namespace:
        made["namespace"] = namespace
    inner = f"{namespace}.{name}" if namespace else name
    made["fields"] = [
        {"name": field.name, "type": ["null", _written_as(field, inner)], "default": None} for field in fields
    ]
    return made


_WRITTEN = (
    (pa.types.is_boolean, "boolean"),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width < 64, "int"),
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_duration(kind), "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_null, "null"),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}),
    (pa.types.is_time, {"type": "long", "logicalType": "time-micros"}),
    (
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
        {"type": "long", "logicalType": "local-timestamp-micros"},
    ),
    (pa.types.is_timestamp, {"type": "long", "logicalType": "timestamp-micros"}),
)


def _written_as(field: Any, namespace: str) -> Any:
    kind, types = field.type, pa.types
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_list(kind):
        return {"type": "array", "items": ["null", _written_as(kind.value_field.with_name(field.name), namespace)]}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _written_as(kind.item_field.with_name(field.name), namespace)]}
    if types.is_struct(kind) and not conversion.is_variant(kind):
        return _record_of(kind, field.name, namespace)
    for is_kind, written in _WRITTEN:
        if is_kind(kind):
            return written
    return fail("UNSUPPORTED_TYPE", column=field.name, type=kind, done="written as Avro")


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AvroReader(RecordReader):
    """Reads Avro values, with the reader's schema or with their writer's."""

    def fields(self) -> list[spark.StructField]:
        """Return the columns of the reader's schema."""
        assert self.schema is not None
        return spark_fields({name: kind.arrow for name, kind in _plan(self.schema, self.source).fields.items()})

    def decoder(self, names: Iterable[str]) -> Decoder:  # noqa: ARG002 - all fields are decoded
        """Return a function that decodes values; see `RecordReader.decoder`."""
        resolved = functools.cache(functools.partial(_resolved, self))

        def decode(value: bytes) -> tuple[dict[str, Any], _Plan]:
            record, plan = self._record(value, resolved)
            return plan.changed(record), plan

        return decode

    def _record(self, value: bytes, resolved: Callable[[int], tuple[avro.Reader, _Plan]]) -> tuple[Any, _Plan]:
        """Return the record of a value, and the plan of its schema. Raises UndecodableError."""
        schema_id, payload = (0, value) if self.registry is None else split(value)
        read, plan = resolved(schema_id)
        return read(payload), plan

    def member_texts(self, value: bytes) -> dict[str, str]:
        """Return each field of a value as JSON text. Raises UndecodableError if the value cannot be decoded."""
        record, _ = self._record(value, functools.partial(_resolved, self))
        return {name: dump(avro.as_json(each)) for name, each in record.items()}


@dataclass(frozen=True, eq=False)
class _Plan(Plan):
    """Decoder of values with one schema: `read` decodes a record.

    `changed` converts a decoded record's values to values for Arrow.
    """

    read: avro.Reader
    changed: Callable[[Any], Any]


@functools.lru_cache(maxsize=1000)
def _plan(schema: Schema, source: str) -> _Plan:
    found = avro.parsed(schema, source)
    record = _record(found, source)
    try:
        fields = AvroTypes(found.named).fields(record)
    except UndecodableError as cause:
        raise error("SCHEMA_UNUSABLE", source=source, reason=cause) from cause
    changed = members({name: kind.read for name, kind in fields.items()}) or (lambda record: record)
    return _Plan(fields, avro.Reader(avro.parsed(schema, source, raw=True)), changed)


def _record(found: avro.Parsed, source: str) -> Any:
    """Return the record at the top of a schema."""
    if not isinstance(found.schema, dict) or found.schema["type"] != "record":
        fail("SCHEMA_UNUSABLE", source=source, reason="it is not the schema of a record")
    return found.schema


@functools.lru_cache(maxsize=10_000)
def _resolved(reader: AvroReader, schema_id: int) -> tuple[avro.Reader, _Plan]:
    """Return the decoder of values whose schema has this ID, and the plan for their records. Raises UndecodableError.

    Without a registry, values have the reader's schema.
    """
    schema, source = reader.schema, reader.source
    if reader.registry is not None:
        schema, source = reader.registry.schema(schema_id), f"{schema_id} at {reader.registry}"
        if schema is None or schema.kind != "AVRO":
            raise UndecodableError(f"{reader.registry} has no Avro schema with the ID {schema_id}")
    assert schema is not None
    if reader.schema in (None, schema):
        plan = _plan(schema, source)
        return plan.read, plan
    assert reader.schema is not None
    writer, target = avro.parsed(schema, source, raw=True), avro.parsed(reader.schema, reader.source, raw=True)
    return avro.Reader(writer, target), _plan(reader.schema, reader.source)


# -- writing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AvroWriter:
    """Writes rows as Avro values. `schema_id`: the registry's ID of the schema, for the header; None for no header."""

    schema: Schema
    schema_id: int | None
    source: str

    def check(self, fields: Any) -> None:
        """Raise SCHEMA_UNUSABLE if the schema cannot represent rows with these Arrow fields."""
        record = _record(avro.parsed(self.schema, self.source), self.source)
        kinds = _plan(self.schema, self.source).fields
        check_fields(fields, {name: (kind.arrow, kind.is_writable) for name, kind in kinds.items()}, self.source)
        columns = {field.name for field in fields}
        for field in record["fields"]:
            if field["name"] not in columns and "default" not in field and not _may_be_null(field["type"]):
                reason = f"the field '{field['name']}' has no default value, and the rows have no such column"
                fail("SCHEMA_UNUSABLE", source=self.source, reason=reason)

    def values(self, names: list[str], columns: list[Any], count: int) -> Any:
        """Return a binary array with one value per row. Raises VALUE_NOT_WRITABLE."""
        plan = _plan(self.schema, self.source)
        parsed = avro.parsed(self.schema, self.source, raw=True).schema
        found = []
        for name, column in zip(names, columns, strict=True):
            kind = plan.fields[name]
            values = stored("Avro", name, column, kind.arrow)
            found.append(values if kind.write is None else list(map(kind.write, values)))
        write = package("fastavro").schemaless_writer
        head = b"" if self.schema_id is None else header(self.schema_id)
        buffer = io.BytesIO()
        offsets = [0]
        for row, each in enumerate(zip(*found, strict=True) if found else [()] * count):
            buffer.write(head)
            try:
                write(buffer, parsed, dict(zip(names, each, strict=True)))
            except avro.WRONG as cause:
                raise value_refused("Avro", row, cause) from cause
            offsets.append(buffer.tell())
        return pa.BinaryArray.from_buffers(
            pa.binary(),
            count,
            [None, pa.py_buffer(pa.array(offsets, pa.int32()).buffers()[1]), pa.py_buffer(buffer.getvalue())],
        )


def _may_be_null(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)
