"""Avro: parsed schemas, and decoding to Python values and JSON. A value is one record without a container file."""

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

#: Exceptions of `fastavro` for bytes that are not a value of the schema, and for values that do not fit it.
WRONG = (EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)

#: Maximum nesting of a value of a recursive schema. Its depth is up to the bytes, not to the schema.
_DEEPEST = 200


@dataclass(frozen=True)
class Parsed:
    """A parsed schema of `fastavro`, and its named types by full name."""

    schema: Any
    named: dict[str, Any]


@functools.lru_cache(maxsize=1000)
def parsed(schema: Schema, source: str, *, raw: bool = False) -> Parsed:
    """Return the parsed schema. Raises SCHEMA_UNUSABLE; `source`: origin of the schema, for the message.

    `raw`: whether to ignore logical types other than decimals, so that their values stay numbers and texts.
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
    """Return the schema without logical types other than decimals."""
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
    """Return the schema and all schemas that it refers to, directly or indirectly; referenced schemas come first."""
    found: dict[Schema, None] = {}
    for reference in schema.references:
        found.update(dict.fromkeys(_in_order(reference.schema)))
    return [*found, schema]


def reader(writer: Any, reader: Any = None) -> Callable[[bytes], Any]:
    """Return a function that decodes bytes of the schema `writer` to a value of the schema `reader` (None: `writer`).

    The function raises UndecodableError for invalid bytes. Both schemas are parsed.
    If `writer` is recursive, bytes that nest deeply would overflow the stack of fastavro's compiled reader, which ends
    the process. Its twin in Python is used then.
    """
    recursive = _is_recursive(writer)
    read = package("fastavro._read_py" if recursive else "fastavro").schemaless_reader
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
        if recursive and _is_deep(value):
            raise UndecodableError(f"the value is nested in more than {_DEEPEST} levels")
        return value

    return value_of


def _is_recursive(schema: Any) -> bool:
    """Return whether a parsed schema has a record that contains itself."""
    named: dict[str, Any] = {}
    is_open: dict[str, bool] = {}

    def visit(part: Any) -> bool:
        if isinstance(part, list):
            return any(map(visit, part))
        if isinstance(part, str):
            return part in named and (is_open[part] if part in is_open else visit(named[part]))
        named.update(part.get("__named_schemas", {}))
        name = part.get("name")
        if name is not None:
            named[name], is_open[name] = part, True
        found = any(visit(part[word]) for word in ("type", "items", "values") if word in part)
        found = found or any(visit(each["type"]) for each in part.get("fields", ()))
        if name is not None:
            is_open[name] = False
        return found

    return visit(schema)


def _is_deep(value: Any) -> bool:
    """Return whether a value is nested in more levels than `_DEEPEST`."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list, tuple))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def as_json(value: Any) -> Any:
    """Convert a value of Avro or MessagePack to a JSON value.

    Times become ISO 8601, decimals texts with all digits, and bytes that are not text `{"base64": ...}`.
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
