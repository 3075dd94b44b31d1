"""The columns of the rows to write: which become fields of an entry, and which belong to the connector.

Owns the check that every column can be written, and the way from a record batch to fields. Knows Spark's types and the
codec's columns; no server, no options but those that say how values are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from engine.wire.arrow import Column
from spark_streams import json_text, time_zones, values
from spark_streams.errors import fail

ID, STREAM, TIMESTAMP, DELIVERIES, FIELDS = "_id", "_stream", "_timestamp", "_deliveries", "fields"
#: What the connector's own columns must be to be written; those that say nothing new are left out.
_OWN: dict[str, tuple[type[spark.DataType], ...]] = {
    ID: (spark.StringType,),
    STREAM: (spark.StringType,),
    TIMESTAMP: (spark.TimestampType, spark.TimestampNTZType),
    DELIVERIES: (spark.LongType, spark.IntegerType),
}
_SCALARS = (
    spark.StringType, spark.BinaryType, spark.BooleanType, spark.ByteType, spark.ShortType, spark.IntegerType,
    spark.LongType, spark.FloatType, spark.DoubleType, spark.DecimalType, spark.DateType, spark.TimestampType,
    spark.TimestampNTZType, spark.NullType,
)  # fmt: skip
_TEXTS = (spark.StringType, spark.BinaryType)


@dataclass(frozen=True)
class WriteSchema:
    """`fields`: the columns that become fields, by name. `null_value` is written for nulls; None leaves them out.

    `json_field`: the one field that holds all of them as a JSON object, or None. `zone`: in which times are written.
    """

    fields: tuple[str, ...]
    has_map: bool
    has_id: bool
    has_stream: bool
    null_value: str | None = None
    json_field: str | None = None
    zone: str = time_zones.UTC

    @classmethod
    def of(
        cls,
        schema: spark.StructType,
        null_value: str | None = None,
        json_field: str | None = None,
        zone: str = time_zones.UTC,
    ) -> WriteSchema:
        """Check that every column can be written."""
        names: list[str] = []
        has_map = False
        for field in schema.fields:
            kind = field.dataType
            if field.name in _OWN:
                if not isinstance(kind, _OWN[field.name]):
                    expected = _OWN[field.name][0]().simpleString()
                    fail("RESERVED_COLUMN", column=field.name, type=kind.simpleString(), expected=expected)
            elif _is_fields_map(field) and json_field is None:
                has_map = True
            elif _writable(kind):
                names.append(field.name)
            else:
                fail("UNSUPPORTED_TYPE", column=field.name, type=kind.simpleString(), done="written to a field")
        if not names and not has_map:
            fail("NO_FIELD_COLUMNS", columns=", ".join(schema.fieldNames()) or "there are none")
        there = schema.fieldNames()
        return cls(tuple(names), has_map, ID in there, STREAM in there, null_value, json_field, zone)

    def columns(self, batch: Any) -> list[Column]:
        """The columns whose names are fields."""
        if self.json_field is not None:
            columns = [time_zones.array_in(batch.column(name), self.zone) for name in self.fields]
            return [(self.json_field.encode(), json_text.rows(list(self.fields), columns, batch.num_rows))]
        return [(name.encode(), self._filled(to_text(batch.column(name), self.zone))) for name in self.fields]

    def _filled(self, texts: Any) -> Any:
        if self.null_value is None or not texts.null_count:
            return texts
        return pc.fill_null(texts, self.null_value.encode())

    def pairs(self, batch: Any) -> tuple[Any, Any, Any] | None:
        """The fields of the map column, row by row, without those whose value is null."""
        if not self.has_map:
            return None
        column = batch.column(FIELDS)
        if column.null_count or column.items.null_count:
            return self._pairs_slowly(column)
        bounds = column.offsets.to_numpy()
        first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
        names, texts = column.keys.slice(first, count), column.items.slice(first, count)
        return pa.array(bounds - bounds[0], pa.int32()), values.to_text(names), values.to_text(texts)

    def _pairs_slowly(self, column: Any) -> tuple[Any, Any, Any]:
        offsets: list[int] = [0]
        names: list[Any] = []
        texts: list[Any] = []
        for entry in column.to_pylist():
            kept: Sequence[tuple[Any, Any]] = [
                pair for pair in entry or () if pair[1] is not None or self.null_value is not None
            ]
            names.extend(name for name, _ in kept)
            texts.extend(text for _, text in kept)
            offsets.append(len(names))
        kinds = column.type
        found = values.to_text(pa.array(texts, kinds.item_type))
        return (pa.array(offsets, pa.int32()), values.to_text(pa.array(names, kinds.key_type)), self._filled(found))


def to_text(column: Any, zone: str = time_zones.UTC) -> Any:
    """The column as a binary array of its values' text: nested ones as JSON."""
    column = time_zones.array_in(column, zone)
    if pa.types.is_nested(column.type):
        return pc.cast(json_text.column(column), pa.binary())
    return values.to_text(column)


def _writable(kind: spark.DataType) -> bool:
    if isinstance(kind, spark.StructType):
        return all(_writable(field.dataType) for field in kind.fields)
    if isinstance(kind, spark.ArrayType):
        return _writable(kind.elementType)
    if isinstance(kind, spark.MapType):
        return isinstance(kind.keyType, _SCALARS) and _writable(kind.valueType)
    return isinstance(kind, _SCALARS)


def _is_fields_map(field: spark.StructField) -> bool:
    kind = field.dataType
    return (
        field.name == FIELDS
        and isinstance(kind, spark.MapType)
        and isinstance(kind.keyType, _TEXTS)
        and isinstance(kind.valueType, _TEXTS)
    )
