"""Times of day, intervals, variants and voids, written as text or JSON and read back."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from spark_streams.columns import conversion, json_values, json_writer
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.errors import SchemaError
from spark_streams.write.encoding import WriteSchema
from streamclient.codec.reference import ScalarPage

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), inner, max_size=3),
    ),
    max_leaves=5,
)
VARIANTS = VALUES.map(lambda value: conversion.variant_of(json.dumps(value)))
SCHEMA = (
    t.StructType()
    .add("at", t.TimeType())
    .add("took", t.DayTimeIntervalType())
    .add("v", t.VariantType())
    .add("many", t.ArrayType(t.StructType().add("at", t.TimeType()).add("took", t.DayTimeIntervalType())))
    .add("nothing", t.NullType())
    .add("n", t.IntegerType())
)
_ROW: dict[str, Any] = {"at": None, "took": None, "many": [], "nothing": None, "n": 0}
ROWS = st.one_of(st.none(), VARIANTS).map(lambda value: {**_ROW, "v": value})


def there_and_back(rows: list[dict[str, Any]], **extra: str) -> Any:
    """Write the rows to entries, and return the rows read from them."""
    given_options = {"stream": "s", "url": "redis://127.0.0.1:1", **extra}
    read = ReadSchema.of(SCHEMA, options.read_options(given_options))
    write = WriteSchema.of(SCHEMA, row_field=options.write_options(given_options).row_field)
    columns = write.columns(pa.RecordBatch.from_pylist(rows, schema=read.arrow))
    assert b"nothing" not in [name for name, _ in columns]
    entries = []
    for row in range(len(rows)):
        texts = [(name, column[row].as_py()) for name, column in columns]
        entries.append((b"%d-1" % (row + 1), [word for pair in texts if pair[1] is not None for word in pair]))
    return plain(read.batch(ScalarPage(entries), "s").to_pylist())


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with variants as Python values, because their bytes depend on the order of members."""
    return [{**_ROW, "v": ("variant", conversion.variant_to_python(row["v"])) if row["v"] else None} for row in rows]


@pytest.mark.parametrize("extra", [{}, {"valueFormat": "json"}])
@settings(deadline=None, max_examples=15)
@given(rows=st.lists(ROWS, min_size=1, max_size=3))
def test_variants_round_trip(rows: list[dict[str, Any]], extra: dict[str, str]) -> None:
    """Variants are unchanged after a round trip through fields or a JSON object, and void columns are not written."""
    assert there_and_back(rows, **extra) == plain(rows)


def test_numbers_of_a_variant_keep_their_form() -> None:
    """A variant's number with an exponent stays a double, and one without stays a decimal with all 38 digits."""
    doubles = ["1.5e-05", "[1e-06, 2.50]", "1e22"]
    decimals = ["12345678901234567890123456789012345678", "-1234567890123456789012345678901234.5678", '{"a":0.0000001}']
    rows = [{**_ROW, "v": conversion.variant_of(text)} for text in doubles + decimals]
    assert there_and_back(rows, valueFormat="json") == there_and_back(rows) == plain(rows)
    column = pa.array([each["v"] for each in rows[3:]], ReadSchema.of(SCHEMA).arrow.field("v").type)
    assert json_writer.column(column).to_pylist() == decimals


def test_nan_in_a_variant_is_a_json_string() -> None:
    """NaN and infinities in a variant are written as JSON strings."""
    variant = ReadSchema.of(SCHEMA).arrow.field("v").type
    column = pa.array([conversion.variant_of("[NaN, -Infinity, 1.5]")], variant)
    assert json_writer.column(column).to_pylist() == ['["NaN","-Infinity",1.5]']


def test_the_texts_are_iso_8601_and_json() -> None:
    """Times and intervals are written as ISO 8601, and variants as JSON."""
    schema = WriteSchema.of(SCHEMA)
    row = {
        "at": datetime.time(12, 30, 0, 500_000),
        "took": datetime.timedelta(1, 7384),
        "v": conversion.variant_of('{"a": [1.50, null]}'),
        "many": [],
        "nothing": None,
        "n": 1,
    }
    columns = schema.columns(pa.RecordBatch.from_pylist([row], schema=ReadSchema.of(SCHEMA).arrow))
    assert {name: column[0].as_py() for name, column in columns} == {
        b"at": b"12:30:00.5",
        b"took": b"P1DT2H3M4S",
        b"v": b'{"a":[1.50,null]}',
        b"many": b"[]",
        b"n": b"1",
    }


@pytest.mark.parametrize("kind", [t.YearMonthIntervalType(), t.ArrayType(t.YearMonthIntervalType())])
def test_year_month_intervals_are_refused_with_advice(kind: t.DataType) -> None:
    """Year-month intervals, which Spark passes to no Python data source, are rejected with advice to cast them."""
    schema = t.StructType().add("ym", kind)
    for refused in (lambda: ReadSchema.of(schema), lambda: WriteSchema.of(schema)):
        with pytest.raises(SchemaError, match=r"UNSUPPORTED_TYPE.*'ym'.*intervals to string or to a number of months"):
            refused()


def test_null_in_json_is_a_variant_and_a_missing_member_is_none() -> None:
    """JSON's null is read as a variant that is not null itself, and a missing member as null."""
    kind = to_arrow_type(t.VariantType())
    (null, missing), wrong = json_values.members(pa.array([b'{"v":null}', b"{}"]), {"v": kind})["v"]
    assert (conversion.variant_to_python(null.as_py()), missing.as_py(), wrong) == (None, None, None)
    assert null.is_valid
