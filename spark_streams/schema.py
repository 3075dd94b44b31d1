"""Columns of a read and of a write: which Spark column is what part of an entry.

Owns the names that begin with an underscore, the default schema, and the ways from a page of entries to a record batch
and from a record batch to fields. Knows Spark's types and the codec, no server.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from engine.wire.arrow import Column, Page
from spark_streams import values
from spark_streams.errors import error, fail

ID, STREAM, TIMESTAMP, FIELDS = "_id", "_stream", "_timestamp", "fields"
DEFAULT = "_id string, _stream string, _timestamp timestamp, fields map<string,string>"

_RESERVED: dict[str, tuple[type[spark.DataType], ...]] = {
    ID: (spark.StringType,),
    STREAM: (spark.StringType,),
    TIMESTAMP: (spark.TimestampType, spark.TimestampNTZType),
}
_READABLE = (
    spark.StringType, spark.BinaryType, spark.BooleanType, spark.ByteType, spark.ShortType, spark.IntegerType,
    spark.LongType, spark.FloatType, spark.DoubleType, spark.DecimalType, spark.DateType, spark.TimestampType,
    spark.TimestampNTZType,
)  # fmt: skip
_WRITABLE = (*_READABLE, spark.NullType)
_TEXTS = (spark.StringType, spark.BinaryType)
_LATEST_MS = (2**63 - 1) // 1000


@dataclass(frozen=True)
class ReadSchema:
    """The columns that a reader serves. `arrow` is exactly what Spark expects of every batch."""

    arrow: Any

    @classmethod
    def of(cls, schema: spark.StructType) -> ReadSchema:
        """Check that every column can be served."""
        for field in schema.fields:
            kind = field.dataType
            if field.name in _RESERVED:
                _check_reserved(field)
            elif not isinstance(kind, _READABLE) and not _is_fields_map(field):
                fail("UNSUPPORTED_TYPE", column=field.name, type=kind.simpleString(), done="read from a field")
        return cls(_arrow_schema(schema))

    def batch(self, page: Page, stream: str) -> Any:
        """The page as a record batch."""
        columns = [self._column(field, page, stream) for field in self.arrow]
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * page.count, pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _column(self, field: Any, page: Page, stream: str) -> Any:
        if field.name == ID:
            return pc.cast(page.ids(), field.type)
        if field.name == STREAM:
            return pa.repeat(pa.scalar(stream, field.type), page.count)
        if field.name == TIMESTAMP:
            return _timestamps(page.milliseconds(), field.type)
        if pa.types.is_map(field.type):
            return _map(page, stream, field.type)
        return values.from_text(page.column(field.name.encode()), field.type)


def _arrow_schema(schema: spark.StructType) -> Any:
    """What Spark expects a batch to look like. Its function takes the zone as an argument in some releases only."""
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_zone else to_arrow_schema(schema)


def _is_fields_map(field: spark.StructField) -> bool:
    kind = field.dataType
    return (
        field.name == FIELDS
        and isinstance(kind, spark.MapType)
        and isinstance(kind.keyType, _TEXTS)
        and isinstance(kind.valueType, _TEXTS)
    )


def _check_reserved(field: spark.StructField) -> None:
    kinds = _RESERVED[field.name]
    if not isinstance(field.dataType, kinds):
        expected = kinds[0]().simpleString()
        fail("RESERVED_COLUMN", column=field.name, type=field.dataType.simpleString(), expected=expected)


def _timestamps(milliseconds: Any, target: Any) -> Any:
    top = pc.max(milliseconds).as_py()
    if top is not None and top > _LATEST_MS:
        milliseconds = pc.if_else(pc.greater(milliseconds, _LATEST_MS), pa.scalar(None, pa.int64()), milliseconds)
    return pc.cast(pc.multiply(milliseconds, 1000), target)


def _map(page: Page, stream: str, target: Any) -> Any:
    offsets, names, texts = page.fields()
    keys = values.from_text(names, target.key_type)
    if keys.null_count:
        raise error("FIELD_NAME_NOT_TEXT", stream=stream, entry=page.ids()[0].as_py().decode("utf-8", "replace"))
    return pa.MapArray.from_arrays(offsets, keys, values.from_text(texts, target.item_type)).cast(target)


@dataclass(frozen=True)
class WriteSchema:
    """The columns of the rows to write: which become fields, and which of the connector's own are there."""

    fields: tuple[str, ...]
    has_map: bool
    has_id: bool
    has_stream: bool

    @classmethod
    def of(cls, schema: spark.StructType) -> WriteSchema:
        """Check that every column can be written. `_timestamp` says nothing that the ID does not, and is left out."""
        names: list[str] = []
        has_map = False
        for field in schema.fields:
            if field.name in _RESERVED:
                _check_reserved(field)
            elif _is_fields_map(field):
                has_map = True
            elif isinstance(field.dataType, _WRITABLE):
                names.append(field.name)
            else:
                fail(
                    "UNSUPPORTED_TYPE", column=field.name, type=field.dataType.simpleString(), done="written to a field"
                )
        if not names and not has_map:
            fail("NO_FIELD_COLUMNS", columns=", ".join(schema.fieldNames()) or "there are none")
        return cls(tuple(names), has_map, ID in schema.fieldNames(), STREAM in schema.fieldNames())

    def columns(self, batch: Any) -> list[Column]:
        """The columns whose names are fields."""
        return [(name.encode(), values.to_text(batch.column(name))) for name in self.fields]

    def pairs(self, batch: Any) -> tuple[Any, Any, Any] | None:
        """The fields of the map column, row by row, without those whose value is null."""
        if not self.has_map:
            return None
        column = batch.column(FIELDS)
        if column.null_count or column.items.null_count:
            return _pairs_slowly(column)
        bounds = column.offsets.to_numpy()
        first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
        names, texts = column.keys.slice(first, count), column.items.slice(first, count)
        return pa.array(bounds - bounds[0], pa.int32()), values.to_text(names), values.to_text(texts)


def _pairs_slowly(column: Any) -> tuple[Any, Any, Any]:
    offsets: list[int] = [0]
    names: list[Any] = []
    texts: list[Any] = []
    for entry in column.to_pylist():
        kept: Sequence[tuple[Any, Any]] = [pair for pair in entry or () if pair[1] is not None]
        names.extend(name for name, _ in kept)
        texts.extend(text for _, text in kept)
        offsets.append(len(names))
    kinds = column.type
    return (
        pa.array(offsets, pa.int32()),
        values.to_text(pa.array(names, kinds.key_type)),
        values.to_text(pa.array(texts, kinds.item_type)),
    )
