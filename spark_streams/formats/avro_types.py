"""Conversion of Avro types to Arrow types, and the reverse.

A union with null is nullable. Apart from null, a union of one type is that type, a union of integers is a long, and a
union of numbers with a floating-point type is a double. Other unions, and records that are recursive or have no fields,
are read as JSON text and cannot be written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_streams.columns import variants
from spark_streams.columns.types.strings import dump
from spark_streams.errors import fail
from streamclient.formats import avro
from streamclient.formats.bounds import MEMBERS, Budget
from streamclient.formats.schemas import Schema

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
    if types.is_struct(kind) and not variants.is_variant(kind):
        return _record_of(kind, field.name, namespace)
    for is_kind, written in _WRITTEN:
        if is_kind(kind):
            return written
    return fail("UNSUPPORTED_TYPE", column=field.name, type=kind, done="written as Avro")
