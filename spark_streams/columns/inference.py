"""Schema inference from entries: for each field, the narrowest type that fits all its values.

Types follow Spark's CSV source for texts, and Spark's JSON source for JSON. Columns are in the order of their fields'
first occurrences. `spark_streams.read.batch` reads the entries.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.columns import conversion, json_values
from spark_streams.columns.conversion import attributes
from streamwire.lazy import compute as pc

_TEXTS: tuple[tuple[spark.DataType, Any], ...] = (
    (spark.IntegerType(), pa.int32()),
    (spark.LongType(), pa.int64()),
    (spark.DecimalType(38, 0), pa.decimal128(38, 0)),
    (spark.DoubleType(), pa.float64()),
    (spark.BooleanType(), pa.bool_()),
    (spark.DateType(), pa.date32()),
    (spark.TimestampType(), pa.timestamp("us", "UTC")),
    (spark.StringType(), pa.string()),
)
_WHOLE = r"^[+-]?[0-9]+$"
_MOST_DIGITS = 38  # of a decimal
_LONG = spark.DecimalType(20, 0)  # the type of longs next to decimals, as in Spark
_DEEPEST = 30  # maximum nesting of an inferred type; parts of a value that are nested deeper become strings

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
        if conversion.from_text(nonempty, target).null_count or _is_year(kind, nonempty):
            continue
        if not isinstance(kind, spark.DecimalType):
            return kind
        if _are_whole(nonempty):
            return spark.DecimalType(max(len(text.lstrip(b"+-").lstrip(b"0")) for text in texts), 0)
    return spark.BinaryType()


def _are_whole(texts: Any) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py())


def _is_year(kind: spark.DataType, texts: Any) -> bool:
    """Return whether the type is a date or time and the texts are numbers, which could be read as years or epochs."""
    numbers = isinstance(kind, (spark.DateType, spark.TimestampType))
    return numbers and not conversion.from_text(texts, pa.float64()).null_count


def _members(entries: Iterable[Entry], field: bytes) -> dict[str, spark.DataType]:
    found: dict[str, spark.DataType] = {}
    for entry in entries:
        row = json_values.object_in(entry.get(field)) or {}
        for name, value in row.items():
            if _is_text(name):
                found[name] = merged(found.get(name, spark.NullType()), json_type(value))
    return {name: _settled(kind) for name, kind in found.items()}


_JSON: tuple[tuple[type, Callable[[], spark.DataType]], ...] = (
    (bool, spark.BooleanType),
    (int, spark.LongType),
    (decimal.Decimal, spark.DoubleType),
    (float, spark.DoubleType),
    (str, spark.StringType),
)


def json_type(value: Any, depth: int = 0) -> spark.DataType:
    """Return the Spark type of a JSON value, `depth` levels below the row."""
    if isinstance(value, (dict, list)) and depth == _DEEPEST:
        return spark.StringType()
    if isinstance(value, dict):
        members = [(name, json_type(member, depth + 1)) for name, member in value.items() if _is_text(name)]
        return spark.StructType([spark.StructField(name, kind) for name, kind in members])
    if isinstance(value, list):
        element: spark.DataType = spark.NullType()
        for item in value:
            element = merged(element, json_type(item, depth + 1))
        return spark.ArrayType(element)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return _whole_type(len(str(abs(value))))
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
    kinds = {type(left), type(right)}
    if kinds <= {spark.LongType, spark.DecimalType}:
        return _whole_type(max(each.precision for each in (left, right, _LONG) if isinstance(each, spark.DecimalType)))
    if kinds <= {spark.LongType, spark.DecimalType, spark.DoubleType}:
        return spark.DoubleType()
    return spark.StringType()


def _whole_type(digits: int) -> spark.DataType:
    """Return the type of whole numbers that do not fit a long: a decimal if they have few enough digits."""
    return spark.DecimalType(digits, 0) if digits <= _MOST_DIGITS else spark.DoubleType()


def _is_text(name: str) -> bool:
    """Return whether the name of a member can be the name of a column: surrogates without their pair are not text."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _settled(kind: spark.DataType) -> spark.DataType:
    """Return the type, with string in place of each type for which only nulls were found."""
    if isinstance(kind, spark.NullType):
        return spark.StringType()
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(_settled(kind.elementType))
    if isinstance(kind, spark.StructType):
        return spark.StructType([spark.StructField(field.name, _settled(field.dataType)) for field in kind])
    return kind
