"""Schema inference from entries: for each field, the narrowest type that fits all its values.

Types follow Spark's CSV source for texts, and Spark's JSON source for JSON. Columns are in the order of their fields'
first occurrences. `spark_streams.read.infer` reads the entries.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import json_reference, values
from spark_streams.columns.names import attributes

_TEXTS: tuple[tuple[spark.DataType, Any], ...] = (
    (spark.IntegerType(), pa.int32()),
    (spark.LongType(), pa.int64()),
    (spark.DoubleType(), pa.float64()),
    (spark.BooleanType(), pa.bool_()),
    (spark.DateType(), pa.date32()),
    (spark.TimestampType(), pa.timestamp("us", "UTC")),
    (spark.StringType(), pa.string()),
)


Entry = dict[bytes, bytes]


def schema(entries: Sequence[Entry], json_field: str | None, null_value: str | None) -> spark.StructType:
    """Return the columns `_id`, `_stream`, `_timestamp`, `_ms` and `_seq`, followed by one column per field.

    If `json_field` is set, that field contains JSON objects, and there is one column per member instead.
    """
    made = attributes()
    found = _columns(entries, null_value) if json_field is None else _members(entries, json_field.encode())
    for name, kind in found.items():
        if name not in made.fieldNames():
            made.add(name, kind)
    return made


def _columns(entries: Iterable[Entry], null_value: str | None) -> dict[str, spark.DataType]:
    null = None if null_value is None else null_value.encode()
    texts: dict[str, list[bytes]] = {}
    for entry in entries:
        for name, text in entry.items():
            texts.setdefault(name.decode("utf-8", "replace"), []).append(b"" if text == null else text)
    return {name: text_type(found) for name, found in texts.items() if "\ufffd" not in name}


def text_type(texts: Sequence[bytes]) -> spark.DataType:
    """Return the narrowest type that fits all of these texts. An empty text is null, which fits every type."""
    nonempty = pa.array([text for text in texts if text], pa.binary())
    if not len(nonempty):
        return spark.StringType()
    for kind, target in _TEXTS:
        if isinstance(kind, spark.DateType) and any(len(text) > len("2013-07-04") for text in texts):
            continue  # a text has a time of day, which a date would lose
        if not values.from_text(nonempty, target).null_count and not _is_year(kind, nonempty):
            return kind
    return spark.BinaryType()


def _is_year(kind: spark.DataType, texts: Any) -> bool:
    """Return whether the type is a date or time and the texts are numbers, which could be read as years or epochs."""
    numbers = isinstance(kind, (spark.DateType, spark.TimestampType))
    return numbers and not values.from_text(texts, pa.float64()).null_count


def _members(entries: Iterable[Entry], field: bytes) -> dict[str, spark.DataType]:
    found: dict[str, spark.DataType] = {}
    for entry in entries:
        try:
            row = json_reference.load(entry.get(field, b"{}"))
        except ValueError:
            continue
        if isinstance(row, dict):
            for name, value in row.items():
                found[name] = merged(found.get(name, spark.NullType()), json_type(value))
    return {name: _settled(kind) for name, kind in found.items()}


_JSON: tuple[tuple[type, Callable[[], spark.DataType]], ...] = (
    (bool, spark.BooleanType),
    (int, spark.LongType),
    (decimal.Decimal, spark.DoubleType),
    (float, spark.DoubleType),
    (str, spark.StringType),
)


def json_type(value: Any) -> spark.DataType:
    """Return the Spark type of a JSON value."""
    if isinstance(value, dict):
        return spark.StructType([spark.StructField(name, json_type(member)) for name, member in value.items()])
    if isinstance(value, list):
        element: spark.DataType = spark.NullType()
        for item in value:
            element = merged(element, json_type(item))
        return spark.ArrayType(element)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return spark.DoubleType()
    return next((make() for kind, make in _JSON if isinstance(value, kind)), spark.NullType())


def merged(left: spark.DataType, right: spark.DataType) -> spark.DataType:
    """Return the narrowest type that fits the values of both types."""
    if isinstance(left, spark.NullType) or left == right:
        return right
    if isinstance(right, spark.NullType):
        return left
    if isinstance(left, spark.StructType) and isinstance(right, spark.StructType):
        fields = {field.name: field.dataType for field in left}
        for field in right:
            fields[field.name] = merged(fields.get(field.name, spark.NullType()), field.dataType)
        return spark.StructType([spark.StructField(name, kind) for name, kind in fields.items()])
    if isinstance(left, spark.ArrayType) and isinstance(right, spark.ArrayType):
        return spark.ArrayType(merged(left.elementType, right.elementType))
    if {type(left), type(right)} == {spark.LongType, spark.DoubleType}:
        return spark.DoubleType()
    return spark.StringType()


def _settled(kind: spark.DataType) -> spark.DataType:
    """Return the type, with string in place of each type for which only nulls were found."""
    if isinstance(kind, spark.NullType):
        return spark.StringType()
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(_settled(kind.elementType))
    if isinstance(kind, spark.StructType):
        return spark.StructType([spark.StructField(field.name, _settled(field.dataType)) for field in kind])
    return kind
