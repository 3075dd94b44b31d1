"""Rows as Protobuf messages: conversion of a page's values to columns, and of columns to values.

Messages are parsed in C, then their fields are extracted column by column. A missing field is null if the field has
presence (messages, `optional`, members of a oneof). Otherwise it has its type's zero value. Google's Timestamp and
Duration are times, and Google's wrappers are nullable values. Google's Struct, Value, ListValue, Any and Empty are JSON
texts, and so are other messages that are recursive or have no fields.
"""

from __future__ import annotations

import base64
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns.json_values import Converted
from spark_streams.columns.scalars import dump
from spark_streams.errors import error
from spark_streams.formats.base import check_fields, columns_of, spark_fields, stored, value_refused
from streamclient.formats import protobuf
from streamclient.formats.protobuf import Messages
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import (
    LEVELS,
    MEMBERS,
    Budget,
    Schema,
    UndecodableError,
    header,
    package,
    split,
    split_indexes,
)

_MICROS, _NANOS = 1_000_000, 1_000  # microseconds per second, nanoseconds per microsecond
_GROUP, _MESSAGE, _ENUM = 10, 11, 14  # type numbers of field descriptors
#: Arrow types by the type numbers of field descriptors.
_ARROW = {
    1: pa.float64(),  # double
    2: pa.float32(),  # float
    3: pa.int64(),  # int64
    4: pa.decimal128(20, 0),  # uint64
    5: pa.int32(),  # int32
    6: pa.decimal128(20, 0),  # fixed64
    7: pa.int64(),  # fixed32
    8: pa.bool_(),  # bool
    9: pa.string(),  # string
    12: pa.binary(),  # bytes
    13: pa.int64(),  # uint32
    _ENUM: pa.string(),
    15: pa.int32(),  # sfixed32
    16: pa.int64(),  # sfixed64
    17: pa.int32(),  # sint32
    18: pa.int64(),  # sint64
}
_GOOGLE = "google.protobuf."
_JSON = ("Struct", "Value", "ListValue", "Any", "Empty")
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")


@dataclass(frozen=True)
class ProtobufReader:
    """Reads messages. `schema`: schema of the columns, and of values without a header.

    `message`: name of the message in that schema; None for its first message.
    `registry`: registry with the writers' schemas, which the values' headers identify.
    """

    schema: Schema | None
    registry: Registry | None
    source: str
    message: str | None = None

    def fields(self) -> list[spark.StructField]:
        """Return the columns of the schema's message."""
        return spark_fields({name: each.arrow for name, each in self._default_plan().fields.items()})

    def _default_plan(self) -> _Plan:
        assert self.schema is not None
        messages = _messages(self.schema, self.source)
        return _plan(messages, messages.message(self.message)[0])

    def members(self, texts: Any, kinds: Mapping[str, Any]) -> dict[str, Converted]:
        """Return the columns with these names and types; see `json_values.members`."""
        return columns_of(texts, kinds, functools.partial(self._message, functools.cache(self._plan_at)), _arrays)

    def _plan_at(self, schema_id: int, path: tuple[int, ...]) -> _Plan:
        """Return the plan of the message at a path in the registry's schema with this ID; without a registry, of the
        reader's message. Raises UndecodableError.
        """
        if self.registry is None:
            return self._default_plan()
        schema = self.registry.schema(schema_id)
        if schema is None or schema.kind != "PROTOBUF":
            raise UndecodableError(f"{self.registry} has no Protobuf schema with the ID {schema_id}")
        messages = _messages(schema, f"{schema_id} at {self.registry}")
        return _plan(messages, messages.at(path))

    def _message(self, plan_at: Callable[[int, tuple[int, ...]], _Plan], value: bytes) -> tuple[Any, _Plan]:
        """Return the message of a value, and its plan. Raises UndecodableError."""
        schema_id, path, payload = 0, tuple[int, ...](), value
        if self.registry is not None:
            schema_id, rest = split(value)
            path, payload = split_indexes(rest)
        plan = plan_at(schema_id, path)
        return protobuf.parse(plan.kind, payload), plan

    def member_texts(self, value: bytes) -> dict[str, str]:
        """Return each field of a message as JSON text. Raises UndecodableError if the message cannot be decoded."""
        message, plan = self._message(self._plan_at, value)
        return {name: dump(each) for name, each in plan.messages.as_json(message).items()}

    def text(self, value: bytes) -> str:
        """Return a value as Base64."""
        return base64.b64encode(value).decode()


@functools.lru_cache(maxsize=1000)
def _messages(schema: Schema, source: str) -> Messages:
    return Messages(schema, source)


@dataclass(frozen=True)
class _Field:
    """One field of a message: its Arrow type, and a function from messages (or None) to an array of its values."""

    arrow: Any
    decode: Callable[[Sequence[Any]], Any]
    #: Converts a stored value to a value for the message's constructor; None if the value stays the same.
    encode: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class _Plan:
    """Reader of messages of one class: the message class and its fields."""

    kind: Any
    fields: dict[str, _Field]
    messages: Messages

    __hash__ = object.__hash__


@functools.lru_cache(maxsize=1000)
def _plan(messages: Messages, kind: Any) -> _Plan:
    try:
        return _Plan(kind, _fields(kind.DESCRIPTOR, _Making(messages, Budget(MEMBERS)), ()), messages)
    except UndecodableError as cause:
        raise error("SCHEMA_UNUSABLE", source=messages.source, reason=cause) from cause


def _arrays(plan: _Plan, messages: list[Any], names: list[str]) -> dict[str, Any]:
    """Return these fields of messages as arrays of the schema's types. Fields that the schema lacks are omitted."""
    return {name: plan.fields[name].decode(messages) for name in names if name in plan.fields}


@dataclass(frozen=True)
class _Making:
    """State while a plan is built: the schema's messages, and the number of members that may still be added."""

    messages: Messages
    budget: Budget


def _fields(descriptor: Any, making: _Making, inside: tuple[str, ...]) -> dict[str, _Field]:
    """Return the fields of a message. `inside`: names of the enclosing messages. Raises UndecodableError."""
    making.budget.spend(len(descriptor.fields))
    if len(inside) == LEVELS:
        raise UndecodableError(f"it is nested in more than {LEVELS} levels")
    return {each.name: _field(each, making, (*inside, descriptor.full_name)) for each in descriptor.fields}


def _field(field: Any, making: _Making, inside: tuple[str, ...]) -> _Field:
    name, of = field.name, attrgetter(field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field, making, inside)
    inner = _value(field, making, inside)
    if field.is_repeated:
        encode = inner.encode
        return _Field(
            pa.list_(inner.arrow),
            lambda rows: _lists([None if row is None else of(row) for row in rows], inner),
            None if encode is None else lambda values: [encode(value) for value in values],
        )
    if not field.has_presence:
        return _Field(
            inner.arrow, lambda rows: inner.decode([None if row is None else of(row) for row in rows]), inner.encode
        )
    default = field.default_value if field.has_default_value else None
    return _Field(
        inner.arrow,
        lambda rows: inner.decode(
            [None if row is None else of(row) if row.HasField(name) else default for row in rows]
        ),
        inner.encode,
    )


def _lists(rows: list[Any], inner: _Field) -> Any:
    """Return repeated values as an array of lists."""
    values = inner.decode([value for row in rows if row is not None for value in row])
    return pa.ListArray.from_arrays(_bounds(rows), values)


def _bounds(rows: list[Any]) -> Any:
    """Return the offsets of each row's values in a list array; null for a row without a message."""
    ends = np.cumsum([0, *(0 if row is None else len(row) for row in rows)])
    nulls = np.array([*(row is None for row in rows), False], bool)
    return pa.array(ends, pa.int32(), mask=nulls)


def _map(field: Any, making: _Making, inside: tuple[str, ...]) -> _Field:
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    keys, items = _value(key, making, inside), _value(value, making, inside)
    of, encode_item = attrgetter(field.name), items.encode

    def decode(rows: Sequence[Any]) -> Any:
        found = [None if row is None else of(row) for row in rows]
        names = keys.decode([name for each in found if each is not None for name in each])
        values = items.decode([each[name] for each in found if each is not None for name in each])
        return pa.MapArray.from_arrays(_bounds(found), names, values)

    def encode(pairs: Any) -> Any:
        return {name: item if encode_item is None else encode_item(item) for name, item in pairs}

    return _Field(pa.map_(keys.arrow, items.arrow), decode, encode)


def _value(field: Any, making: _Making, inside: tuple[str, ...]) -> _Field:
    """Return the conversion of single values of a field, which may be repeated."""
    if field.type in (_GROUP, _MESSAGE):
        return _message(field.message_type, making, inside)
    arrow = _ARROW[field.type]
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return _Field(
            arrow, lambda values: pa.array([None if v is None else names.get(v, str(v)) for v in values], arrow)
        )
    if pa.types.is_decimal(arrow):
        return _Field(arrow, lambda values: pa.array(values, arrow), int)
    return _Field(arrow, lambda values: pa.array(values, arrow))


def _message(descriptor: Any, making: _Making, inside: tuple[str, ...]) -> _Field:
    full, messages = descriptor.full_name, making.messages
    google = full.removeprefix(_GOOGLE) if full.startswith(_GOOGLE) else ""
    if google == "Timestamp":
        return _Field(pa.timestamp("us", "UTC"), _times(pa.timestamp("us", "UTC")), _seconds)
    if google == "Duration":
        return _Field(pa.duration("us"), _times(pa.duration("us")), _duration)
    if google.removesuffix("Value") in _WRAPPERS:
        inner = _value(descriptor.fields_by_name["value"], making, inside)
        return _Field(
            inner.arrow,
            lambda values: inner.decode([None if value is None else value.value for value in values]),
            lambda value: {"value": value if inner.encode is None else inner.encode(value)},
        )
    fields = {} if google in _JSON or full in inside else _fields(descriptor, making, inside)
    if not fields:
        return _Field(
            pa.string(),
            lambda values: pa.array([None if v is None else dump(messages.as_json(v)) for v in values], pa.string()),
            lambda text: messages.from_json(full, text),
        )
    arrow = pa.struct([(name, each.arrow) for name, each in fields.items()])

    def decode(values: Sequence[Any]) -> Any:
        nulls = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(
            [each.decode(values) for each in fields.values()], fields=list(arrow), mask=nulls
        )

    return _Field(arrow, decode, lambda value: _keywords(value, fields))


def _keywords(value: Mapping[str, Any], fields: Mapping[str, _Field]) -> dict[str, Any]:
    """Return the keyword arguments for a message's constructor, without nulls."""
    found = {}
    for name, each in value.items():
        if each is not None:
            encode = fields[name].encode
            found[name] = each if encode is None else encode(each)
    return found


def _times(arrow: Any) -> Callable[[Sequence[Any]], Any]:
    """Return a function from Timestamps or Durations to an array of microseconds, with null for values out of range."""

    def decode(values: Sequence[Any]) -> Any:
        micros = [None if value is None else value.seconds * _MICROS + value.nanos // _NANOS for value in values]
        return pa.array([each if each is None or abs(each) < 2**63 else None for each in micros], pa.int64()).view(
            arrow
        )

    return decode


def _seconds(micros: int) -> dict[str, int]:
    seconds, rest = divmod(micros, _MICROS)
    return {"seconds": seconds, "nanos": rest * _NANOS}


def _duration(micros: int) -> dict[str, int]:
    """Return the fields of a Duration. Both fields must have the same sign."""
    seconds, rest = divmod(abs(micros), _MICROS)
    sign = -1 if micros < 0 else 1
    return {"seconds": sign * seconds, "nanos": sign * rest * _NANOS}


@dataclass(frozen=True)
class ProtobufWriter:
    """Writes rows as messages. `schema_id`: the registry's ID of the schema, for the header; None for no header."""

    schema: Schema
    schema_id: int | None
    source: str
    message: str | None = None

    def check(self, fields: Any) -> None:
        """Raise SCHEMA_UNUSABLE if the schema cannot represent rows with these Arrow fields."""
        known = {name: (each.arrow, True) for name, each in self._plan()[0].fields.items()}
        check_fields(fields, known, self.source)

    def _plan(self) -> tuple[_Plan, tuple[int, ...]]:
        messages = _messages(self.schema, self.source)
        kind, path = messages.message(self.message)
        return _plan(messages, kind), path

    def values(self, names: list[str], columns: list[Any], count: int) -> Any:
        """Return a binary array with one value per row. Raises VALUE_NOT_WRITABLE."""
        plan, path = self._plan()
        found = [
            stored("Protobuf", name, column, plan.fields[name].arrow)
            for name, column in zip(names, columns, strict=True)
        ]
        head = b"" if self.schema_id is None else header(self.schema_id, path)
        made: list[bytes] = []
        for row in zip(*found, strict=True) if found else itertools.repeat((), count):
            try:
                message = plan.kind(**_keywords(dict(zip(names, row, strict=True)), plan.fields))
                made.append(head + message.SerializeToString(deterministic=True))  # so that a replay has the same bytes
            except (ValueError, TypeError, AttributeError, package("google.protobuf.message").EncodeError) as cause:
                raise value_refused("Protobuf", len(made), cause) from cause
        return pa.array(made, pa.binary())
