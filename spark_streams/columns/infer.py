"""Inferring a schema: from the first entries of the streams, the narrowest type that all values of a field have.

The order of types is that of Spark's CSV source for text, and of its JSON source for JSON. A field is a column in the
order in which it is first seen; the connector's own columns stand before. Reads a sample, and knows no more of servers.
"""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spark_streams.client.connection import borrow
from spark_streams.columns import json_reference, values
from spark_streams.config.address import Address
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.server import xrange
from spark_streams.server.open import open_server
from spark_streams.stream_id import LAST, ZERO

_TEXTS: tuple[tuple[spark.DataType, Any], ...] = (
    (spark.IntegerType(), pa.int32()),
    (spark.LongType(), pa.int64()),
    (spark.DoubleType(), pa.float64()),
    (spark.BooleanType(), pa.bool_()),
    (spark.DateType(), pa.date32()),
    (spark.TimestampType(), pa.timestamp("us", "UTC")),
    (spark.StringType(), pa.string()),
)


def schema(options: ReadOptions, address: Address) -> spark.StructType:
    """The schema of the streams that the options name. CANNOT_INFER_SCHEMA where they have no entries."""
    with borrow(address) as connection:
        streams: Sequence[str] = options.streams
        if options.pattern is not None:
            streams = open_server(connection).find_streams(options.pattern)
        entries: list[dict[bytes, bytes]] = []
        for stream in streams:
            left = options.samples or 0
            for page in xrange.pages(connection, stream, ZERO, LAST, min(left, options.page_size)):
                entries += _entries(page, left)
                left -= page.count
                if left <= 0:
                    break
            connection.close()  # the reply to a page that was asked for ahead is not waited for
    if not entries:
        fail("CANNOT_INFER_SCHEMA", streams=options.pattern or ", ".join(streams))
    made = spark.StructType()
    made.add("_id", spark.StringType()).add("_stream", spark.StringType()).add("_timestamp", spark.TimestampType())
    if options.json_field is not None:
        found = _members(entries, options.json_field.encode())
    else:
        found = _columns(entries, options.null_value)
    for name, kind in found.items():
        if name not in made.fieldNames():
            made.add(name, kind)
    return made


def _entries(page: Any, most: int) -> list[dict[bytes, bytes]]:
    offsets, names, texts = (part.to_pylist() for part in page.fields())
    return [
        dict(zip(names[first:last], texts[first:last], strict=True))
        for first, last in itertools.pairwise(offsets[: most + 1])
    ]


def _columns(entries: Iterable[dict[bytes, bytes]], null_value: str | None = None) -> dict[str, spark.DataType]:
    null = None if null_value is None else null_value.encode()
    texts: dict[str, list[bytes]] = {}
    for entry in entries:
        for name, text in entry.items():
            texts.setdefault(name.decode("utf-8", "replace"), []).append(b"" if text == null else text)
    return {name: text_type(found) for name, found in texts.items() if "\ufffd" not in name}


def text_type(texts: Sequence[bytes]) -> spark.DataType:
    """The narrowest type that all of these texts have; the empty ones are nulls and say nothing."""
    said = pa.array([text for text in texts if text], pa.binary())
    if not len(said):
        return spark.StringType()
    for kind, target in _TEXTS:
        if isinstance(kind, spark.DateType) and any(len(text) > len("2013-07-04") for text in texts):
            continue  # a time of day, which a date would leave out
        if not values.from_text(said, target).null_count and not _is_year(kind, said):
            return kind
    return spark.BinaryType()


def _is_year(kind: spark.DataType, texts: Any) -> bool:
    """Whether texts read as times only because a number may stand for one."""
    numbers = isinstance(kind, (spark.DateType, spark.TimestampType))
    return numbers and not values.from_text(texts, pa.float64()).null_count


def _members(entries: Iterable[dict[bytes, bytes]], field: bytes) -> dict[str, spark.DataType]:
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
    """The type of a JSON value."""
    if isinstance(value, dict):
        return spark.StructType([spark.StructField(name, json_type(one)) for name, one in value.items()])
    if isinstance(value, list):
        element: spark.DataType = spark.NullType()
        for one in value:
            element = merged(element, json_type(one))
        return spark.ArrayType(element)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return spark.DoubleType()
    return next((make() for kind, make in _JSON if isinstance(value, kind)), spark.NullType())


def merged(one: spark.DataType, other: spark.DataType) -> spark.DataType:
    """The narrowest type for values of both."""
    if isinstance(one, spark.NullType) or one == other:
        return other
    if isinstance(other, spark.NullType):
        return one
    if isinstance(one, spark.StructType) and isinstance(other, spark.StructType):
        fields = {field.name: field.dataType for field in one}
        for field in other:
            fields[field.name] = merged(fields.get(field.name, spark.NullType()), field.dataType)
        return spark.StructType([spark.StructField(name, kind) for name, kind in fields.items()])
    if isinstance(one, spark.ArrayType) and isinstance(other, spark.ArrayType):
        return spark.ArrayType(merged(one.elementType, other.elementType))
    if {type(one), type(other)} == {spark.LongType, spark.DoubleType}:
        return spark.DoubleType()
    return spark.StringType()


def _settled(kind: spark.DataType) -> spark.DataType:
    """The type with strings where nothing but nulls was seen."""
    if isinstance(kind, spark.NullType):
        return spark.StringType()
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(_settled(kind.elementType))
    if isinstance(kind, spark.StructType):
        return spark.StructType([spark.StructField(field.name, _settled(field.dataType)) for field in kind])
    return kind
