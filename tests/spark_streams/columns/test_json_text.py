"""Values written as JSON text and read back: every type, alone, nested, and as a whole row."""

# ruff: noqa: DTZ001 - Spark's timestamps in Python have no zone

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

from spark_streams.columns import json_values, json_writer
from spark_streams.columns.write_schema import WriteSchema, to_text
from spark_streams.errors import SchemaError
from tests.spark_streams.columns.test_values import MOMENTS, UTC

unhurried = settings(deadline=None, max_examples=40)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=5)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.timestamp("us", "America/New_York"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.timestamp("us"), MOMENTS),
    (pa.decimal128(38, 18), st.decimals("-9999999999999999999", "9999999999999999999", places=18)),
    (pa.decimal128(10, 2), st.decimals("-99999999", "99999999", places=2)),
]
KINDS = st.sampled_from(SCALARS)


def nested(kind: Any, of: st.SearchStrategy[Any]) -> list[tuple[Any, st.SearchStrategy[Any]]]:
    """Return arrays, structs and maps of the type with strategies for their values."""
    maybe = st.one_of(st.none(), of)
    struct, structs = pa.struct([("a", kind), ("b c", pa.string())]), st.fixed_dictionaries({"a": maybe, "b c": TEXTS})
    return [
        (pa.list_(kind), st.lists(maybe, max_size=3)),
        (struct, structs),
        (pa.map_(pa.string(), kind), st.dictionaries(TEXTS, maybe, max_size=3).map(lambda found: [*found.items()])),
        (pa.list_(struct), st.lists(st.one_of(st.none(), structs), max_size=3)),
    ]


@pytest.mark.parametrize(("kind", "of"), SCALARS, ids=[str(kind) for kind, _ in SCALARS])
@unhurried
@given(data=st.data())
def test_nested_values_round_trip(kind: Any, of: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """Arrays, structs and maps of every type, with nulls, are unchanged after a round trip."""
    shape, strategy = data.draw(st.sampled_from(nested(kind, of)))
    column = pa.array(data.draw(st.lists(st.one_of(st.none(), strategy), max_size=4)), shape)
    text = to_text(column)
    assert text.type == pa.binary()
    for read in (json_values.from_text, json_values.from_text_slowly):
        found, wrong = read(text, shape)
        assert wrong is None
        assert found.to_pylist() == column.to_pylist()


@pytest.mark.parametrize(("kind", "of"), SCALARS, ids=[str(kind) for kind, _ in SCALARS])
@unhurried
@given(data=st.data())
def test_rows_round_trip(kind: Any, of: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """All columns of a row written as one JSON object are unchanged after a round trip."""
    column = pa.array(data.draw(st.lists(st.one_of(st.none(), of), min_size=1, max_size=4)), kind)
    names = ["plain", 'na"me\\ é']
    text = json_writer.rows(names, [column, column], len(column))
    for read in (json_values.members, json_values.members_slowly):
        for found, wrong in read(text, dict.fromkeys(names, kind)).values():
            assert wrong is None
            assert found.to_pylist() == column.to_pylist()
    assert all(isinstance(json.loads(each), dict) for each in text.to_pylist())


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (pa.int32(), -5),
        (pa.float64(), 1.5),
        (pa.bool_(), True),
        (pa.decimal128(5, 2), decimal.Decimal("1.50")),
        (pa.date32(), datetime.date(2013, 1, 1)),
        (pa.timestamp("us"), datetime.datetime(2013, 1, 1, 5)),
        (pa.timestamp("us", "UTC"), datetime.datetime(2013, 1, 1, 5, tzinfo=UTC)),
        (pa.binary(), b"\xff\r\n"),
        (pa.string(), '"'),
    ],
)
def test_keys_of_maps_round_trip(kind: Any, key: Any) -> None:
    """Keys of maps, which are strings in JSON, are read back with their type."""
    shape = pa.map_(kind, pa.int32())
    column = pa.array([[(key, 7)], None, []], shape)
    found, wrong = json_values.from_text_slowly(to_text(column), shape)
    assert wrong is None
    assert found.to_pylist() == column.to_pylist()


def test_numbers_that_json_does_not_have() -> None:
    """NaN and infinities are written as strings, as Spark's to_json does."""
    column = pa.array([[math.nan, math.inf, -math.inf]], pa.list_(pa.float64()))
    assert to_text(column).to_pylist() == [b'["NaN","Infinity","-Infinity"]']
    found, _ = json_values.from_text_slowly(to_text(column), column.type)
    assert math.isnan(found.to_pylist()[0][0])


def test_nulls_are_left_out_or_written_as_a_text() -> None:
    """A null is omitted, or written as the text of `nullValue`, in columns and in the map."""
    batch = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([1, None], pa.int32()),
            "fields": pa.array([[("a", "x"), ("b", None)], None], pa.map_(pa.string(), pa.string())),
        }
    )
    texts = spark.MapType(spark.StringType(), spark.StringType())
    schema = spark.StructType().add("n", spark.IntegerType()).add("fields", texts)
    plain, filled = WriteSchema.of(schema), WriteSchema.of(schema, null_value="\\N")
    assert plain.columns(batch)[0][1].to_pylist() == [b"1", None]
    assert filled.columns(batch)[0][1].to_pylist() == [b"1", b"\\N"]
    assert [part.to_pylist() for part in plain.pairs(batch) or ()] == [[0, 1, 1], [b"a"], [b"x"]]
    assert [part.to_pylist() for part in filled.pairs(batch) or ()] == [[0, 2, 2], [b"a", b"b"], [b"x", b"\\N"]]


@pytest.mark.parametrize(
    "kind",
    [spark.YearMonthIntervalType(), spark.CalendarIntervalType()],
    ids=str,
)
def test_types_without_a_text_are_refused(kind: spark.DataType) -> None:
    """Interval types that Spark does not pass to data sources are rejected when the write is planned, also nested."""
    for shape in (kind, spark.ArrayType(spark.StructType().add("b", kind))):
        with pytest.raises(SchemaError, match="UNSUPPORTED_TYPE"):
            WriteSchema.of(spark.StructType().add("a", shape))


def test_a_null_struct_of_fields_that_may_not_be_null() -> None:
    """A null struct whose fields are not nullable is written as null, also in a list."""
    kind = pa.struct([pa.field("at", pa.timestamp("us", "UTC"), nullable=False)])
    times = pa.array([0, None], pa.timestamp("us", "UTC"))
    column = pa.StructArray.from_arrays([times], fields=list(kind), mask=pa.array([False, True]))
    assert json_writer.column(column).to_pylist() == ['{"at":"1970-01-01T00:00:00Z"}', None]
    listed = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), column)
    assert json_writer.column(listed).to_pylist() == ['[{"at":"1970-01-01T00:00:00Z"},null]']
