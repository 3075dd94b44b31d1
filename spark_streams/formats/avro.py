"""Rows as Avro records: types, conversion of a page's values to columns, and of columns to values.

A union with null is nullable. Apart from null, a union of one type is that type, a union of integers is a long, and a
union of numbers with a floating-point type is a double. Other unions, and records that are recursive or have no fields,
are read as JSON text and cannot be written.

`fastavro` decodes a value at a time. If all fields of the records are plain (numbers, booleans, texts, bytes and enums,
each with or without null) and a page has one schema, all records are decoded in parallel, field by field, each from its
own offset: sixteen times as fast for four fields. Every step moves the offsets forward. The result is used only if each
record ends exactly at the end of its value, which also proves that no step has read past a value.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import conversion, json_values
from spark_streams.columns.json_values import Converted
from spark_streams.columns.scalars import dump
from spark_streams.errors import error, fail
from spark_streams.formats.base import (
    Rows,
    adapted,
    as_type,
    can_adapt,
    columns_of,
    spark_fields,
    stored,
    value_refused,
)
from streamclient.formats import avro
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import HEADER, MEMBERS, Budget, Schema, UndecodableError, header, package, split
from streamwire.lazy import compute as pc

Change = Callable[[Any], Any] | None


@dataclass(frozen=True)
class AvroType:
    """An Avro type. `arrow`: its Arrow type.

    `read` converts a value of `fastavro` to a value for Arrow, and `write` is the reverse. Either is None if the value
    stays the same.
    """

    arrow: Any
    read: Change = None
    write: Change = None
    is_writable: bool = True


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


_JSON = AvroType(pa.string(), _as_json_text, None, is_writable=False)


class AvroTypes:
    """The types of one parsed schema. `named`: the named types, by full name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._budget = Budget(MEMBERS)

    def fields(self, record: Any) -> dict[str, AvroType]:
        """Return the types of a record's fields."""
        return {field["name"]: self.of(field["type"], (record["name"],)) for field in record["fields"]}

    def of(self, schema: Any, inside: tuple[str, ...] = ()) -> AvroType:
        """Return the type of a schema. `inside`: names of the enclosing records.

        Raises UndecodableError if the schema has too many members.
        """
        self._budget.spend()
        if isinstance(schema, list):
            return self._union(schema, inside)
        if isinstance(schema, str):
            return AvroType(_PLAIN[schema]) if schema in _PLAIN else self._record_or(self._named[schema], inside)
        return self._record_or(schema, inside)

    def _record_or(self, schema: Any, inside: tuple[str, ...]) -> AvroType:
        kind, logical = schema["type"], schema.get("logicalType")
        if not isinstance(kind, str):
            return self.of(kind, inside)
        if kind in ("record", "error"):
            return self._record(schema, inside)
        if kind == "array":
            item = self.of(schema["items"], inside)
            return AvroType(pa.list_(item.arrow), _each(item.read), _each(item.write), item.is_writable)
        if kind == "map":
            item = self.of(schema["values"], inside)
            write = _map_of(item.write)
            return AvroType(pa.map_(pa.string(), item.arrow), _values(item.read), write, item.is_writable)
        if kind == "enum":
            return AvroType(pa.string())
        if logical == "decimal" and 0 < schema.get("precision", 0) <= 38:
            return AvroType(pa.decimal128(schema["precision"], schema.get("scale", 0)))
        if kind == "fixed":
            is_uuid = logical == "uuid" and schema["size"] == 16
            return AvroType(pa.string(), _uuid_text, _uuid_bytes) if is_uuid else AvroType(pa.binary())
        if kind not in _PLAIN:
            return self._record_or(self._named[kind], inside)
        return AvroType(_LOGICAL.get((kind, logical or ""), _PLAIN[kind]))

    def _record(self, schema: Any, inside: tuple[str, ...]) -> AvroType:
        if schema["name"] in inside or not schema["fields"]:
            return _JSON
        fields = {field["name"]: self.of(field["type"], (*inside, schema["name"])) for field in schema["fields"]}
        return AvroType(
            pa.struct([(name, kind.arrow) for name, kind in fields.items()]),
            members({name: kind.read for name, kind in fields.items()}),
            members({name: kind.write for name, kind in fields.items()}),
            all(kind.is_writable for kind in fields.values()),
        )

    def _union(self, branches: list[Any], inside: tuple[str, ...]) -> AvroType:
        others = [each for each in branches if each != "null"]
        if len(others) == 1:
            return self.of(others[0], inside)
        if others and all(each in _NUMBERS for each in others):
            return AvroType(pa.int64() if set(others) == {"int", "long"} else pa.float64(), write=None)
        return _JSON if others else AvroType(pa.string())


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


# -- plain records, all at once ---------------------------------------------------------------------------------------

_PADDING = 16  # maximum number of bytes that a step reads after the last value
_LONGEST = 10  # maximum number of bytes of an integer


@dataclass(frozen=True)
class PlainField:
    """A plain field. `null`: index of null in the field's union; None if the field is not a union."""

    name: str
    kind: str
    null: int | None
    arrow: Any
    symbols: tuple[str, ...] = ()


def plain_fields(record: Any, types: dict[str, AvroType]) -> tuple[PlainField, ...] | None:
    """Return the fields of a record; None if one of them is not plain."""
    found = []
    for field in record["fields"]:
        kind, null = field["type"], None
        if isinstance(kind, list):
            if len(kind) != 2 or "null" not in kind:
                return None
            null = kind.index("null")
            kind = kind[1 - null]
        symbols: tuple[str, ...] = ()
        if isinstance(kind, dict):
            if kind.get("logicalType") == "decimal":
                return None
            symbols = tuple(kind.get("symbols", ()))
            kind = kind["type"]
        if kind not in _READERS:
            return None
        found.append(PlainField(field["name"], kind, null, types[field["name"]].arrow, symbols))
    return tuple(found)


def columns(values: Any, skipped: int, fields: tuple[PlainField, ...], names: set[str]) -> dict[str, Any] | None:
    """Return the fields `names` of the records in `values`; None if only the fallback can decode the records.

    `values`: a binary array without nulls. `skipped`: number of bytes before each record.
    """
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    octets = np.concatenate([np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]], np.zeros(_PADDING, np.uint8)])
    bounds -= bounds[0]
    walk = _Walk(octets, bounds[:-1] + skipped, bounds[1:])
    found: dict[str, Any] = {}
    for field in fields:
        try:
            column = _column(walk, field, is_needed=field.name in names)
        except (_DeclinedError, pa.ArrowInvalid):
            return None
        if column is not None:
            found[field.name] = column
    return found if np.array_equal(walk.at, walk.ends) else None


class _DeclinedError(Exception):
    """A value that only the fallback can decode."""


class _Walk:
    """Current offset and end of each record."""

    def __init__(self, octets: Any, at: Any, ends: Any) -> None:
        self.octets = octets
        self.at = at
        self.ends = ends

    def numbers(self, rows: Any) -> Any:
        """Decode the next integer of each of these rows as int64, and advance their offsets."""
        at = self.at[rows]
        octets = self.octets[at]
        made = (octets & 127).astype(np.uint64)
        at += 1
        left = np.flatnonzero(octets > 127)
        for shift in range(7, 7 * _LONGEST, 7):
            if not len(left):
                break
            octets = self.octets[at[left]]
            if shift == 7 * (_LONGEST - 1) and np.any(octets > 1):
                raise _DeclinedError
            made[left] |= (octets & 127).astype(np.uint64) << np.uint64(shift)
            at[left] += 1
            left = left[octets > 127]
        self.move(rows, at)
        return (made >> np.uint64(1)).astype(np.int64) ^ -(made & np.uint64(1)).astype(np.int64)

    def move(self, rows: Any, at: Any) -> None:
        """Set the offsets of these rows. Raises _DeclinedError if an offset is after its record's end."""
        if np.any(at > self.ends[rows]):
            raise _DeclinedError
        self.at[rows] = at

    def read(self, rows: Any, size: int) -> Any:
        """Return the next `size` bytes of each of these rows, and advance their offsets."""
        at = self.at[rows]
        self.move(rows, at + size)
        return self.octets[at[:, None] + np.arange(size)]


def _column(walk: _Walk, field: PlainField, *, is_needed: bool) -> Any:
    """Decode the next field of all records, and advance.

    Returns the field's values as an array; None if the field is not needed.
    """
    everywhere = np.arange(len(walk.at))
    rows, nulls = everywhere, None
    if field.null is not None:
        branches = walk.read(everywhere, 1)[:, 0]
        nulls = branches == 2 * field.null
        if np.any(branches[~nulls] != 2 * (1 - field.null)):
            raise _DeclinedError
        rows = np.flatnonzero(~nulls)
    made = _READERS[field.kind](walk, rows, field)
    if not is_needed:
        return None
    if nulls is None or not nulls.any():
        return made
    indexes = np.cumsum(~nulls) - 1
    return made.take(pa.array(indexes, pa.int64(), mask=nulls))


def _integers(walk: _Walk, rows: Any, field: PlainField) -> Any:
    found = walk.numbers(rows)
    if field.kind == "long":
        return pa.array(found).view(field.arrow)
    if len(found) and (found.min() < -(2**31) or found.max() >= 2**31):
        raise _DeclinedError
    return pa.array(found.astype(np.int32)).view(field.arrow)


def _symbols(walk: _Walk, rows: Any, field: PlainField) -> Any:
    found = walk.numbers(rows)
    if len(found) and (found.min() < 0 or found.max() >= len(field.symbols)):
        raise _DeclinedError
    return pa.array(field.symbols, pa.string()).take(pa.array(found))


def _booleans(walk: _Walk, rows: Any, _: PlainField) -> Any:
    found = walk.read(rows, 1)[:, 0]
    if np.any(found > 1):
        raise _DeclinedError
    return pa.array(found.astype(bool))


def _floats(walk: _Walk, rows: Any, field: PlainField) -> Any:
    kind = np.dtype("<f4" if field.kind == "float" else "<f8")
    return pa.array(np.ascontiguousarray(walk.read(rows, kind.itemsize)).view(kind)[:, 0])


def _texts(walk: _Walk, rows: Any, field: PlainField) -> Any:
    sizes = walk.numbers(rows)
    starts = walk.at[rows]
    if np.any(sizes < 0) or np.any(sizes > walk.ends[rows] - starts):
        raise _DeclinedError
    walk.move(rows, starts + sizes)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    positions = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(walk.octets[positions])]
    made = pa.BinaryArray.from_buffers(pa.binary(), len(sizes), buffers)
    return made if field.kind == "bytes" else made.cast(pa.string())  # the cast raises if a text is not UTF-8


_READERS = {
    "boolean": _booleans,
    "int": _integers,
    "long": _integers,
    "float": _floats,
    "double": _floats,
    "string": _texts,
    "bytes": _texts,
    "enum": _symbols,
}


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AvroReader:
    """Reads Avro values. `schema`: the reader's schema. Without it, values are read with their writer's schema.

    `registry`: registry with the writers' schemas, which the values' headers identify. Without it, values have no
    header.
    """

    schema: Schema | None
    registry: Registry | None
    source: str

    def fields(self) -> list[spark.StructField]:
        """Return the columns of the reader's schema."""
        assert self.schema is not None
        return spark_fields({name: kind.arrow for name, kind in _plan(self.schema, self.source).fields.items()})

    def members(self, texts: Any, kinds: Mapping[str, Any]) -> dict[str, Converted]:
        """Return the columns with these names and types; see `json_values.members`."""
        return json_values.in_chunks(
            texts, lambda some: self._columns(some, kinds), lambda some: self.members_slowly(some, kinds)
        )

    def _columns(self, texts: Any, kinds: Mapping[str, Any]) -> dict[str, Converted] | None:
        """Return the result of `members`, decoding all values at once.

        Return None if a value is null or empty, if the values have several schemas, or if their schema is not plain or
        not the reader's schema.
        """
        if not len(texts) or texts.null_count or not pc.all(pc.greater(pc.binary_length(texts), 0)).as_py():
            return None
        plan, skipped = None, 0
        if self.registry is None:
            plan = None if self.schema is None else _plan(self.schema, self.source)
        else:
            head = texts[0].as_py()[:HEADER]
            skipped = len(head)
            if skipped < HEADER or head[0] or not pc.all(pc.starts_with(texts, head)).as_py():
                return None
            schema_id = int.from_bytes(head[1:], "big")
            schema = self.registry.schema(schema_id)
            if schema is not None and schema.kind == "AVRO" and self.schema in (None, schema):
                plan = _plan(schema, f"{schema_id} at {self.registry}")
        if plan is None or plan.plain is None:
            return None
        found = columns(texts, skipped, plan.plain, set(kinds))
        if found is None:
            return None
        return {
            name: adapted(found[name], kind) if name in found else (pa.nulls(len(texts), kind), None)
            for name, kind in kinds.items()
        }

    def members_slowly(self, texts: Any, kinds: Mapping[str, Any]) -> dict[str, Converted]:
        """Return the result of `members`, decoding a value at a time. This is the definition of the result."""
        rows = Rows()
        known: dict[int, tuple[Callable[[bytes], Any], _Plan]] = {}
        plain = None if self.schema is None or self.registry is not None else _plan(self.schema, self.source)
        for value in texts.to_pylist():
            if value is None:
                rows.add(None)
                continue
            try:
                if plain is not None:
                    rows.add(plain.changed(plain.read(value)), plain)
                else:
                    schema_id, payload = split(value)
                    if schema_id not in known:
                        known[schema_id] = _resolved(schema_id, self)
                    read, plan = known[schema_id]
                    rows.add(plan.changed(read(payload)), plan)
            except UndecodableError:
                rows.add(None, wrong=True)
        return columns_of(rows, kinds, _arrays)

    def text(self, value: bytes) -> str:
        """Return a value as Base64."""
        return base64.b64encode(value).decode()

    def member_texts(self, value: bytes) -> dict[str, str]:
        """Return each field of a value as JSON text. Raises UndecodableError if the value cannot be decoded."""
        if self.schema is not None and self.registry is None:
            record = _plan(self.schema, self.source).read(value)
        else:
            schema_id, payload = split(value)
            record = _resolved(schema_id, self)[0](payload)
        return {name: dump(avro.as_json(each)) for name, each in record.items()}


@dataclass(frozen=True)
class _Plan:
    """Decoder of values with one schema: `read` decodes a record, and `fields` has the types of its fields.

    `changed` converts a decoded record's values to values for Arrow. `plain`: the fields if all are plain, else None.
    """

    read: Callable[[bytes], Any]
    fields: dict[str, AvroType]
    changed: Callable[[Any], Any]
    plain: tuple[PlainField, ...] | None

    __hash__ = object.__hash__


@functools.lru_cache(maxsize=1000)
def _plan(schema: Schema, source: str) -> _Plan:
    found = avro.parsed(schema, source)
    record = _record(found, source)
    try:
        fields = AvroTypes(found.named).fields(record)
    except UndecodableError as cause:
        raise error("SCHEMA_UNUSABLE", source=source, reason=cause) from cause
    changed = members({name: kind.read for name, kind in fields.items()}) or (lambda record: record)
    plain = plain_fields(record, fields)
    return _Plan(avro.reader(avro.parsed(schema, source, raw=True)), fields, changed, plain)


def _record(found: avro.Parsed, source: str) -> Any:
    """Return the record at the top of a schema."""
    if not isinstance(found.schema, dict) or found.schema["type"] != "record":
        fail("SCHEMA_UNUSABLE", source=source, reason="it is not the schema of a record")
    return found.schema


@functools.lru_cache(maxsize=10_000)
def _resolved_known(schema: Schema, schema_id: int, reader: AvroReader) -> tuple[Callable[[bytes], Any], _Plan]:
    source = f"{schema_id} at {reader.registry}"
    if reader.schema is None:
        plan = _plan(schema, source)
        return plan.read, plan
    writer = avro.parsed(schema, source, raw=True)
    return avro.reader(writer, avro.parsed(reader.schema, reader.source, raw=True)), _plan(reader.schema, reader.source)


def _resolved(schema_id: int, reader: AvroReader) -> tuple[Callable[[bytes], Any], _Plan]:
    """Return the function that decodes values of the schema with this ID, and the plan for its records."""
    assert reader.registry is not None
    schema = reader.registry.schema(schema_id)
    if schema is None or schema.kind != "AVRO":
        raise UndecodableError(f"{reader.registry} has no Avro schema with the ID {schema_id}")
    return _resolved_known(schema, schema_id, reader)


def _arrays(plan: _Plan, rows: list[Any], names: list[str]) -> dict[str, Any]:
    """Return these fields of records as arrays of the schema's types. Fields that the schema lacks are omitted."""
    present = [name for name in names if name in plan.fields]
    kind = pa.struct([(name, plan.fields[name].arrow) for name in present])
    return dict(zip(present, pa.array(rows, kind).flatten(), strict=True))


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
        columns = {field.name: field.type for field in fields}
        for name, kind in columns.items():
            if name not in kinds:
                reason = f"it has no field for the column '{name}'; its fields are {', '.join(kinds)}"
            elif not kinds[name].is_writable:
                reason = f"the field '{name}' is a union of several types, or a record inside itself"
            elif not can_adapt(kind, kinds[name].arrow):
                reason = f"the column '{name}' is {kind}, which does not fit the field's {kinds[name].arrow}"
            else:
                continue
            fail("SCHEMA_UNUSABLE", source=self.source, reason=reason)
        for field in record["fields"]:
            if field["name"] not in columns and "default" not in field and not _may_be_null(field["type"]):
                reason = f"the field '{field['name']}' has no default value, and the rows have no such column"
                fail("SCHEMA_UNUSABLE", source=self.source, reason=reason)

    def values(self, names: list[str], columns: list[Any], count: int) -> Any:
        """Return a binary array with one value per row. Raises VALUE_NOT_WRITABLE."""
        plan = _plan(self.schema, self.source)
        parsed = avro.parsed(self.schema, self.source, raw=True).schema
        found = [_stored(name, column, plan.fields[name]) for name, column in zip(names, columns, strict=True)]
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


def _stored(name: str, column: Any, kind: AvroType) -> list[Any]:
    """Return a column's values in the form that `fastavro` accepts."""
    try:
        found = stored(as_type(column, kind.arrow))
    except pa.ArrowInvalid as cause:
        raise value_refused("Avro", None, f"column '{name}': {cause}") from cause
    return found if kind.write is None else [kind.write(value) for value in found]
