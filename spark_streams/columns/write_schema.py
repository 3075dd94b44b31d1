"""Columns of a write: the columns that become fields, and the conversion of a record batch to fields.

This module checks that every column can be written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import conversion, json_writer
from spark_streams.columns.conversion import (
    FIELDS,
    ID,
    RESERVED,
    STREAM,
    check_reserved,
    has_text,
    is_fields_map,
    is_nested,
)
from spark_streams.config import time_zones
from spark_streams.errors import fail
from streamclient.codec.encode import Column
from streamwire.lazy import compute as pc


class ValueWriter(Protocol):
    """Encodes each row as one value."""

    def values(self, names: list[str], columns: list[Any], count: int) -> Any:
        """Return a binary array with one value per row."""


@dataclass(frozen=True)
class WriteSchema:
    """The columns of a write. `fields`: names of the columns that become fields.

    `has_map`: whether the entries of the map column `fields` become fields (never with `row_field`). `has_id`,
    `has_stream`: whether the columns `_id` and `_stream` exist. `null_value`: text for nulls; None omits them.
    `row_field`: the field whose value contains all columns; None if each column is a field. `writer`: encoder of this
    value; None for a JSON object. `zone`: zone of written times.
    """

    fields: tuple[str, ...]
    has_map: bool
    has_id: bool
    has_stream: bool
    null_value: str | None = None
    row_field: str | None = None
    zone: str = time_zones.UTC
    writer: ValueWriter | None = None

    @classmethod
    def of(
        cls,
        schema: spark.StructType,
        null_value: str | None = None,
        row_field: str | None = None,
        zone: str | None = None,
    ) -> WriteSchema:
        """Return the schema. Without a zone, times are written in UTC.

        Raises DUPLICATE_COLUMN, RESERVED_COLUMN or UNSUPPORTED_TYPE if a column cannot be written, and NO_FIELD_COLUMNS
        if no column becomes a field.
        """
        _check_names(schema)
        names: list[str] = []
        has_map = False
        for field in schema.fields:
            kind = field.dataType
            if field.name in RESERVED:  # not a field of the entry
                check_reserved(field)
            elif is_fields_map(field) and row_field is None:
                has_map = True
            elif isinstance(kind, spark.NullType):
                continue  # a column without values
            elif has_text(kind):
                names.append(field.name)
            else:
                fail("UNSUPPORTED_TYPE", column=field.name, type=kind.simpleString(), done="written to a field")
        if not names and not has_map:
            fail("NO_FIELD_COLUMNS", columns=", ".join(schema.fieldNames()) or "(none)")
        given = schema.fieldNames()
        return cls(tuple(names), has_map, ID in given, STREAM in given, null_value, row_field, zone or time_zones.UTC)

    def columns(self, batch: Any) -> list[Column]:
        """Return the fields made of columns: each field's name, and a binary array of its texts."""
        if self.row_field is not None:
            columns = [conversion.array_in(batch.column(name), self.zone) for name in self.fields]
            rows = json_writer.rows if self.writer is None else self.writer.values
            return [(self.row_field.encode(), rows(list(self.fields), columns, batch.num_rows))]
        return [(name.encode(), self._filled(to_text(batch.column(name), self.zone))) for name in self.fields]

    def _filled(self, texts: Any) -> Any:
        if self.null_value is None or not texts.null_count:
            return texts
        return pc.fill_null(texts, self.null_value.encode())

    def pairs(self, batch: Any) -> tuple[Any, Any, Any] | None:
        """Return the fields in the map column of all rows as offsets, names and values; None if there is no map column.

        Null values become `null_value`, or are omitted if `null_value` is None.
        """
        if not self.has_map:
            return None
        column = batch.column(FIELDS)
        if column.null_count:
            column = pc.if_else(column.is_null(), pa.scalar([], column.type), column)
        bounds = column.offsets.to_numpy()
        first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
        bounds, names, texts = bounds - first, column.keys.slice(first, count), column.items.slice(first, count)
        if texts.null_count and self.null_value is None:
            is_there = texts.is_valid()
            bounds = np.concatenate(([0], np.cumsum(np.asarray(is_there))))[bounds]
            names, texts = names.filter(is_there), texts.filter(is_there)
        return pa.array(bounds, pa.int32()), conversion.to_text(names), self._filled(conversion.to_text(texts))


def _check_names(kind: spark.DataType) -> None:
    """Raise DUPLICATE_COLUMN if two columns or two members of a struct have the same name."""
    if isinstance(kind, spark.StructType):
        for name, count in Counter(kind.fieldNames()).items():
            if count > 1:
                fail("DUPLICATE_COLUMN", column=name)
        for field in kind:
            _check_names(field.dataType)
    elif isinstance(kind, spark.ArrayType):
        _check_names(kind.elementType)
    elif isinstance(kind, spark.MapType):
        _check_names(kind.valueType)


def to_text(column: Any, zone: str = time_zones.UTC) -> Any:
    """Return a binary array of the column's texts, with nested values as JSON."""
    column = conversion.array_in(column, zone)
    if is_nested(column.type):
        return pc.cast(json_writer.column(column), pa.binary())
    return conversion.to_text(column)
