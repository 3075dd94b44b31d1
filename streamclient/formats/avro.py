"""Avro: schemas, values as Python's, and values as JSON. A value is one record's bytes, without a container file."""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import io
import json
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamclient.errors import error
from streamclient.formats.schemas import Schema, UndecodableError, package

#: What `fastavro` raises for bytes that are no value of a schema, and for values that do not fit it.
WRONG = (EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Parsed:
    """A schema as `fastavro` takes it, and the types that it names, by their full names."""

    schema: Any
    named: dict[str, Any]


@functools.lru_cache(maxsize=1000)
def parsed(schema: Schema, source: str, *, raw: bool = False) -> Parsed:
    """Return the schema, parsed. Raises SCHEMA_UNUSABLE; `source` says where the schema is from.

    `raw`: without logical types, whose values then stay numbers and texts; all but decimals.
    """
    fastavro = package("fastavro")
    problems = package("fastavro.schema")
    named: dict[str, Any] = {}
    try:
        for each in _in_order(schema):
            text = json.loads(each.text)
            made = fastavro.parse_schema(_raw(text) if raw else text, named)
    except (problems.SchemaParseException, problems.UnknownType, *WRONG) as cause:
        raise error("SCHEMA_UNUSABLE", source=source, reason=f"{type(cause).__name__}: {cause}") from cause
    return Parsed(made, named)


def _raw(schema: Any) -> Any:
    """Return the schema without logical types but decimals."""
    if isinstance(schema, list):
        return [_raw(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name != "logicalType" or value == "decimal"}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _raw(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_raw(each) for each in kept["fields"]]
    return kept


def _in_order(schema: Schema) -> list[Schema]:
    """Return the schemas that this one refers to, directly or not, each before those that need it, and the schema."""
    found: dict[Schema, None] = {}
    for reference in schema.references:
        found.update(dict.fromkeys(_in_order(reference.schema)))
    return [*found, schema]


def reader(writer: Any, reader: Any = None) -> Callable[[bytes], Any]:
    """Return a function from bytes of the one parsed schema to a value of the other. UndecodableError otherwise.

    Without the other one the value is that of the writer's schema.
    """
    read = package("fastavro").schemaless_reader
    problems = (*WRONG, package("fastavro.read").SchemaResolutionError)
    if reader == writer:
        reader = None

    def value_of(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            value = read(stream, writer, reader)
        except problems as cause:
            raise UndecodableError(f"{type(cause).__name__}: {cause}") from cause
        if stream.tell() != len(data):
            raise UndecodableError(f"{len(data) - stream.tell()} bytes follow the value")
        return value

    return value_of


def as_json(value: Any) -> Any:
    """Return a value of Avro or MessagePack as one of JSON.

    Times are in ISO 8601, decimals are texts with all digits; bytes that are no text are `{"base64": ...}`.
    """
    for kinds, shown in _SHOWN:
        if isinstance(value, kinds):
            return shown(value)
    return str(value)


def _float(value: float) -> Any:
    return value if math.isfinite(value) else str(value)


def _bytes(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


_SHOWN: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((str, bool, int, type(None)), lambda value: value),
    (float, _float),
    (dict, lambda value: {str(as_json(name)): as_json(item) for name, item in value.items()}),
    ((list, tuple), lambda value: [as_json(item) for item in value]),
    ((bytes, bytearray), lambda value: _bytes(bytes(value))),
    ((datetime.datetime, datetime.date, datetime.time), lambda value: value.isoformat()),
    ((decimal.Decimal, uuid.UUID), str),
)
