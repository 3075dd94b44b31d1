"""Rows as Avro records: conversion of a page's values to columns, and of columns to values."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import json_values
from spark_streams.columns.json_reference import Converted
from spark_streams.columns.types.strings import dump
from spark_streams.errors import error, fail
from spark_streams.formats import avro_columns, avro_types
from spark_streams.formats.adaptation import adapted, as_type, can_adapt
from spark_streams.formats.avro_columns import PlainField
from spark_streams.formats.avro_types import AvroType, AvroTypes
from spark_streams.formats.base import Rows, columns_of, spark_fields, stored, value_refused
from streamclient.formats import avro
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import HEADER, Schema, UndecodableError, header, package, split
from streamwire.lazy import compute as pc


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
        """Return the columns with these names and types; see `json_reference.members`."""
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
        found = avro_columns.columns(texts, skipped, plan.plain, set(kinds))
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
    changed = avro_types.members({name: kind.read for name, kind in fields.items()}) or (lambda record: record)
    plain = avro_columns.plain_fields(record, fields)
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
