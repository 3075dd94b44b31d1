"""Avro: parsed schemas, and decoding to Python values and JSON. A value is one record without a container file."""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import io
import json
import math
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamclient.errors import error
from streamclient.formats.schemas import (
    DIGITS,
    ITEMS,
    LEVELS,
    Budget,
    Schema,
    UndecodableError,
    is_deep,
    most_items,
    package,
)

#: Exceptions of `fastavro` for bytes that are not a value of the schema, and for values that do not fit it.
WRONG = (EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)


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
            if is_deep(text):
                raise ValueError(f"it is nested in more than {LEVELS} levels")
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
    reduced = {name: value for name, value in schema.items() if name != "logicalType" or value == "decimal"}
    for name in ("type", "items", "values"):
        if name in reduced:
            reduced[name] = _raw(reduced[name])
    if isinstance(reduced.get("fields"), list):
        reduced["fields"] = [_raw(each) for each in reduced["fields"]]
    return reduced


def _in_order(schema: Schema) -> list[Schema]:
    """Return the schema and all schemas that it refers to, directly or indirectly; referenced schemas come first."""
    found: dict[Schema, None] = {}
    for reference in schema.references:
        found.update(dict.fromkeys(_in_order(reference.schema)))
    return [*found, schema]


class Reader:
    """Decodes bytes of the schema `writer` to values of the schema `reader`. Without `reader`, the values have the
    schema `writer`.

    Calling it raises UndecodableError for invalid bytes. If a value may exceed a bound, its items are counted before
    `fastavro` decodes it.
    """

    def __init__(self, writer: Parsed, reader: Parsed | None = None) -> None:
        package("fastavro").read.LOGICAL_READERS.update(dict.fromkeys(_DECIMALS, _decimal))
        self._writer = writer
        wanted = None if reader in (None, writer) else reader
        self._schemas = _guarded(_within(writer)), None if wanted is None else _within(wanted)
        known: dict[str, float] = {}
        for schema in writer.named.values():
            _most(schema, known)
        self._is_bounded = _most(writer.schema, known) <= ITEMS

    def __call__(self, data: bytes) -> Any:
        """Return the value of these bytes."""
        try:
            if not self._is_bounded:
                _Count(data, self._writer.named).run(self._writer.schema)
            stream = io.BytesIO(data + _END)
            found = package("fastavro").schemaless_reader(stream, *self._schemas)["value"]
        except UndecodableError:
            raise
        except (*WRONG, package("fastavro.read").SchemaResolutionError) as cause:
            raise UndecodableError(f"{type(cause).__name__}: {cause}") from cause
        if stream.read() != _END:
            raise UndecodableError("the value does not end where its bytes end")
        return found


#: Random bytes after each value. If they follow the decoded value, it ends where its bytes end.
_END = secrets.token_bytes(16)


def _within(schema: Parsed) -> Any:
    """Return the schema of a record with a value of this schema, for which `fastavro` needs no further parsing."""
    made = {"type": "record", "name": "Value-", "fields": [{"name": "value", "type": schema.schema}]}
    return {**made, "__fastavro_parsed": True, "__named_schemas": {**schema.named, "Value-": made}}


_LONGEST = 10  # maximum number of bytes of an integer
_OURS = "pystreams-decimal"
_DECIMALS = (f"bytes-{_OURS}", f"fixed-{_OURS}")
_DIGIT_BITS = math.log2(10)  # bits per decimal digit


def _decimal(data: bytes, schema: Any, _: Any = None) -> decimal.Decimal:
    """Convert bytes to a decimal. Raises ValueError for too many digits.

    `fastavro` would round such a decimal, in time quadratic in its size.
    """
    precision = min(schema["precision"], DIGITS)
    number = int.from_bytes(data, "big", signed=True)
    if number.bit_length() > precision * _DIGIT_BITS + 1 or abs(number) >= 10**precision:
        raise ValueError(f"a decimal of more than {precision} digits")
    return decimal.Decimal(number).scaleb(-schema.get("scale", 0), decimal.Context(prec=precision))


def _guarded(schema: Any) -> Any:
    """Return a copy of a parsed schema that makes readers check decimals."""
    if isinstance(schema, list):
        return [_guarded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _guarded(each) if name in ("type", "items", "values") else each for name, each in schema.items()}
    if "fields" in made:
        made["fields"] = [{**each, "type": _guarded(each["type"])} for each in made["fields"]]
    if made.get("logicalType") == "decimal" and "precision" in made:
        made["logicalType"] = _OURS
    if "__named_schemas" in made:
        made["__named_schemas"] = {name: _guarded(each) for name, each in made["__named_schemas"].items()}
    return made


class _Count:
    """Counts the items and levels of a value. Raises UndecodableError, IndexError and EOFError."""

    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        self._data = data
        self._named = named
        self._at = 0
        self._budget = Budget(most_items(len(data)))

    def run(self, schema: Any, level: int = 0) -> None:
        """Pass over the next value, which is in `level` other values."""
        if level >= LEVELS:
            raise UndecodableError(f"the value is nested in more than {LEVELS} levels")
        if isinstance(schema, list):
            self.run(schema[self._index(len(schema))], level)
        elif isinstance(schema, str):
            self._scalar(schema, level)
        elif "fields" in schema:
            self._budget.spend()
            for each in schema["fields"]:
                self.run(each["type"], level + 1)
        elif schema["type"] in ("array", "map"):
            self._budget.spend()
            self._members(schema, level + 1)
        elif schema["type"] == "fixed":
            self._pass(schema["size"])
        elif schema["type"] == "enum":
            self._index(len(schema["symbols"]))
        else:
            self.run(schema["type"], level)

    def _scalar(self, kind: str, level: int) -> None:
        if kind in self._named:
            self.run(self._named[kind], level)
        elif kind in ("int", "long"):
            self._number()
        elif kind in ("bytes", "string"):
            self._pass(self._number())
        else:
            self._pass(_SIZES.get(kind, 1))

    def _members(self, schema: Any, level: int) -> None:
        is_map = schema["type"] == "map"
        inner = schema["values" if is_map else "items"]
        while count := self._number():
            if count < 0:
                count = -count
                self._number()  # the size of the members
            size = _SIZES.get(inner, 0) if isinstance(inner, str) and not is_map else 0
            self._pass(count * size)
            for _ in range(0 if size else count):
                before = self._at
                if is_map:
                    self._pass(self._number())
                self.run(inner, level)
                if self._at == before:
                    self._budget.spend()

    def _pass(self, size: int) -> None:
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise EOFError

    def _index(self, count: int) -> int:
        found = self._number()
        if not 0 <= found < count:
            raise IndexError(f"the index {found}")
        return found

    def _number(self) -> int:
        number = 0
        for shift in range(0, 7 * _LONGEST, 7):
            octet = self._data[self._at]
            self._at += 1
            number |= (octet & 127) << shift
            if octet < 128:
                return (number >> 1) ^ -(number & 1)
        raise EOFError(f"an integer of more than {_LONGEST} bytes")


_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}  # in bytes


def _most(schema: Any, known: dict[str, float]) -> float:
    """Return the maximum number of items in a value; infinity if it may have lists or maps, or contains its own type.

    `known`: the numbers of named types, which this function adds.
    """
    if isinstance(schema, list):
        return max((_most(each, known) for each in schema), default=0)
    if isinstance(schema, str):
        return known.get(schema, 0)
    if schema["type"] in ("array", "map"):
        return math.inf
    if "fields" not in schema:
        return 0 if "name" in schema else _most(schema["type"], known)
    known[schema["name"]] = math.inf
    made = known[schema["name"]] = 1 + sum(_most(each["type"], known) for each in schema["fields"])
    return made


def as_json(value: Any) -> Any:
    """Convert a value of Avro or MessagePack to a JSON value.

    Times become ISO 8601. Decimals become texts with all digits. Bytes become text if they are UTF-8, and otherwise
    `{"base64": ...}`.
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
