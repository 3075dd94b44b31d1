"""Rows as Protobuf messages: conversion of a page's values to columns, and of columns to values.

Messages are parsed in C. A missing field is null if the field has presence (messages, `optional`, members of a oneof).
Otherwise it has its type's zero value. Google's Timestamp and Duration are times, and Google's wrappers are nullable
values. Google's Struct, Value, ListValue, Any and Empty are JSON texts, and so are other messages that are recursive or
have no fields.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns.scalars import dump
from spark_streams.errors import error
from spark_streams.formats.base import (
    Decoder,
    Plan,
    RecordField,
    RecordReader,
    check_fields,
    spark_fields,
    stored,
    value_refused,
)
from streamclient.formats import protobuf
from streamclient.formats.protobuf import Messages
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
class ProtobufReader(RecordReader):
    """Reads messages. `schema`: schema of the columns, and of values without a header.

    `message`: name of the message in that schema; None for its first message.
    `registry`: registry with the writers' schemas, which the values' headers identify.
    """

    message: str | None = None

    def fields(self) -> list[spark.StructField]:
        """Return the columns of the schema's message."""
        assert self.schema is not None
        fields = _message_plan(self.schema, self.source, self.message)[0].fields
        return spark_fields({name: each.arrow for name, each in fields.items()})

    def decoder(self, names: Iterable[str]) -> Decoder:
        """Return a function that decodes values; see `RecordReader.decoder`."""
        plan_at = functools.cache(functools.partial(_plan_at, self))

        def decode(value: bytes) -> tuple[dict[str, Any], _Plan]:
            message, plan = self._message(value, plan_at)
            return {name: plan.getters[name](message) for name in names if name in plan.getters}, plan

        return decode

    def _message(self, value: bytes, plan_at: Callable[[int, tuple[int, ...]], _Plan]) -> tuple[Any, _Plan]:
        """Return the message of a value, and its plan. Raises UndecodableError."""
        schema_id, path, payload = 0, tuple[int, ...](), value
        if self.registry is not None:
            schema_id, rest = split(value)
            path, payload = split_indexes(rest)
        plan = plan_at(schema_id, path)
        return protobuf.parse(plan.kind, payload), plan

    def member_texts(self, value: bytes) -> dict[str, str]:
        """Return each field of a message as JSON text. Raises UndecodableError if the message cannot be decoded."""
        message, plan = self._message(value, functools.partial(_plan_at, self))
        return {name: dump(each) for name, each in plan.messages.as_json(message).items()}


@functools.lru_cache(maxsize=10_000)
def _plan_at(reader: ProtobufReader, schema_id: int, path: tuple[int, ...]) -> _Plan:
    """Return the plan of the message at a path in the registry's schema with this ID; without a registry, of the
    reader's message. Raises UndecodableError.
    """
    if reader.registry is None:
        assert reader.schema is not None
        return _message_plan(reader.schema, reader.source, reader.message)[0]
    schema = reader.registry.schema(schema_id)
    if schema is None or schema.kind != "PROTOBUF":
        raise UndecodableError(f"{reader.registry} has no Protobuf schema with the ID {schema_id}")
    messages = _messages(schema, f"{schema_id} at {reader.registry}")
    return _plan(messages, messages.at(path))


def _message_plan(schema: Schema, source: str, message: str | None) -> tuple[_Plan, tuple[int, ...]]:
    """Return the plan of a message, and its path in the schema."""
    messages = _messages(schema, source)
    kind, path = messages.message(message)
    return _plan(messages, kind), path


@functools.lru_cache(maxsize=1000)
def _messages(schema: Schema, source: str) -> Messages:
    return Messages(schema, source)


@dataclass(frozen=True, eq=False)
class _Plan(Plan):
    """Reader of messages of one class: its fields, the message class, and a function for each field that returns its
    value, ready for Arrow, from a message.
    """

    kind: Any
    getters: dict[str, Callable[[Any], Any]]
    messages: Messages


@functools.lru_cache(maxsize=1000)
def _plan(messages: Messages, kind: Any) -> _Plan:
    try:
        fields, getters = _Making(messages, Budget(MEMBERS)).members(kind.DESCRIPTOR, ())
    except UndecodableError as cause:
        raise error("SCHEMA_UNUSABLE", source=messages.source, reason=cause) from cause
    return _Plan(fields, kind, getters, messages)


@dataclass(frozen=True)
class _Making:
    """State while a plan is built: the schema's messages, and the number of members that may still be added."""

    messages: Messages
    budget: Budget

    def members(
        self, descriptor: Any, inside: tuple[str, ...]
    ) -> tuple[dict[str, RecordField], dict[str, Callable[[Any], Any]]]:
        """Return the fields of a message and their getters. `inside`: names of the enclosing messages.

        Raises UndecodableError.
        """
        self.budget.spend(len(descriptor.fields))
        if len(inside) == LEVELS:
            raise UndecodableError(f"it is nested in more than {LEVELS} levels")
        found = {each.name: self._member(each, (*inside, descriptor.full_name)) for each in descriptor.fields}
        return {name: field for name, (field, _) in found.items()}, {name: get for name, (_, get) in found.items()}

    def _member(self, field: Any, inside: tuple[str, ...]) -> tuple[RecordField, Callable[[Any], Any]]:
        """Return a field of a message, and a function that returns its value from a message."""
        name, of = field.name, attrgetter(field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field, inside)
        inner = self._value(field, inside)
        read, write = inner.read or _same, inner.write
        if field.is_repeated:
            many = None if write is None else lambda values: [write(value) for value in values]
            return RecordField(pa.list_(inner.arrow), None, many), lambda message: [*map(read, of(message))]
        if not field.has_presence:
            return inner, lambda message: read(of(message))
        default = read(field.default_value) if field.has_default_value else None
        return inner, lambda message: read(of(message)) if message.HasField(name) else default

    def _map(self, field: Any, inside: tuple[str, ...]) -> tuple[RecordField, Callable[[Any], Any]]:
        key, item = (self._value(field.message_type.fields_by_name[name], inside) for name in ("key", "value"))
        of = attrgetter(field.name)
        read_key, read_item, write = key.read or _same, item.read or _same, item.write or _same
        return (
            RecordField(
                pa.map_(key.arrow, item.arrow), None, lambda pairs: {name: write(value) for name, value in pairs}
            ),
            lambda message: [(read_key(name), read_item(value)) for name, value in of(message).items()],
        )

    def _value(self, field: Any, inside: tuple[str, ...]) -> RecordField:
        """Return the conversion of single values of a field, which may be repeated."""
        if field.type in (_GROUP, _MESSAGE):
            return self._message(field.message_type, inside)
        arrow = _ARROW[field.type]
        if field.type == _ENUM:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return RecordField(arrow, lambda number: names.get(number, str(number)))
        return RecordField(arrow, None, int if pa.types.is_decimal(arrow) else None)

    def _message(self, descriptor: Any, inside: tuple[str, ...]) -> RecordField:
        full, messages = descriptor.full_name, self.messages
        google = full.removeprefix(_GOOGLE) if full.startswith(_GOOGLE) else ""
        if google == "Timestamp":
            return RecordField(pa.timestamp("us", "UTC"), _micros, _seconds)
        if google == "Duration":
            return RecordField(pa.duration("us"), _micros, _duration)
        if google.removesuffix("Value") in _WRAPPERS:
            inner = self._value(descriptor.fields_by_name["value"], inside)
            read, write = inner.read or _same, inner.write or _same
            return RecordField(inner.arrow, lambda value: read(value.value), lambda value: {"value": write(value)})
        fields, getters = ({}, {}) if google in _JSON or full in inside else self.members(descriptor, inside)
        if not fields:
            return RecordField(
                pa.string(),
                lambda value: dump(messages.as_json(value)),
                lambda text: messages.from_json(full, text),
            )
        return RecordField(
            pa.struct([(name, each.arrow) for name, each in fields.items()]),
            lambda message: {name: get(message) for name, get in getters.items()},
            lambda value: _keywords(value, fields),
        )


def _same(value: Any) -> Any:
    return value


def _keywords(value: Mapping[str, Any], fields: Mapping[str, RecordField]) -> dict[str, Any]:
    """Return the keyword arguments for a message's constructor, without nulls."""
    return {name: (fields[name].write or _same)(each) for name, each in value.items() if each is not None}


def _micros(value: Any) -> int | None:
    """Return a Timestamp or Duration in microseconds; None if it is out of range."""
    micros: int = value.seconds * _MICROS + value.nanos // _NANOS
    return micros if abs(micros) < 2**63 else None


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
        plan, _ = _message_plan(self.schema, self.source, self.message)
        check_fields(fields, {name: (each.arrow, True) for name, each in plan.fields.items()}, self.source)

    def values(self, names: list[str], columns: list[Any], count: int) -> Any:
        """Return a binary array with one value per row. Raises VALUE_NOT_WRITABLE."""
        plan, path = _message_plan(self.schema, self.source, self.message)
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
