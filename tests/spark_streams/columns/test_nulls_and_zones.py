"""`nullValue` and `timeZone`: their effect on texts of every type, written and read, alone and nested."""

# ruff: noqa: DTZ001 - Spark's timestamps in Python have no zone

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_type

from spark_streams.columns import inference
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options, positions, time_zones
from spark_streams.errors import OptionsError
from spark_streams.read.batch import infer_schema
from spark_streams.write.encoding import WriteSchema
from streamclient.codec import reference
from streamclient.config import address
from tests.spark_streams.columns.test_json import NESTED, shown, unhurried
from tests.spark_streams.columns.test_schema import page_of
from tests.spark_streams.columns.test_values import VALUES, columns
from tests.spark_streams.driver import Site

UTC = datetime.UTC
NULLS = ["\\N", "null", "", "0", "-1", "NaN", "true", "1970-01-01", "[]"]


def there_and_back(column: Any, **extra: str) -> Any:
    """Write the column as the field x, and return it as read by both decoders."""
    kind = from_arrow_type(column.type, prefer_timestamp_ntz=True)
    given = options.write_options({"stream": "s", **extra})
    schema = WriteSchema.of(t.StructType().add("x", kind), given.null_value, given.row_field, given.zone)
    (field,) = schema.columns(pa.RecordBatch.from_arrays([column], ["x"]))
    entries = [{b"y": b"", **({} if text is None else {field[0]: text})} for text in field[1].to_pylist()]
    reading = ReadSchema.of(t.StructType().add("x", kind), options.read_options({"stream": "s", **extra}))
    fast = page_of(*entries)
    slow = reference.ScalarPage(
        [(b"%d-1" % n, [word for pair in entry.items() for word in pair]) for n, entry in enumerate(entries, 1)]
    )
    found = [reading.batch(page, "s").column("x") for page in (fast, slow)]
    assert found[0].equals(found[1])
    return found[0]


@unhurried
@given(columns([*VALUES, *NESTED], 4), st.sampled_from(NULLS))
def test_nulls_come_back_as_nulls(column: Any, null_value: str) -> None:
    """Nulls of every type are read back as nulls, and so are values whose text is nullValue; other values are
    unchanged.
    """
    (written,) = WriteSchema(("x",), False, False, False).columns(pa.RecordBatch.from_arrays([column], ["x"]))
    kept = [None if text == null_value.encode() else at for at, text in enumerate(written[1].to_pylist())]
    assert shown(there_and_back(column, nullValue=null_value)) == shown(column.take(pa.array(kept, pa.int32())))


def test_nulls_do_not_affect_inferred_types() -> None:
    """The text of nullValue does not affect the inferred type of a column."""
    found = inference.schema([{b"n": b"1", b"m": b"\\N"}, {b"n": b"\\N", b"m": b"\\N"}], None, "\\N")
    assert (found["n"].dataType, found["m"].dataType) == (t.IntegerType(), t.StringType())


def test_sampling_size_limits_the_inferred_entries(site: Site) -> None:
    """samplingSize limits the entries of each stream from which types are inferred."""
    for n in range(30):
        site.client.xadd("s", {"n": n if n < 20 else "many"})
    there = address.parse(site.url)
    for size, kind in (("20", t.IntegerType()), ("21", t.StringType())):
        parsed = options.read_options({"url": site.url, "stream": "s", "inferSchema": "true", "samplingSize": size})
        assert infer_schema(parsed, there)["n"].dataType == kind


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("UTC", "UTC"),
        ("Z", "UTC"),
        ("GMT", "UTC"),
        ("Etc/UTC", "UTC"),
        ("+2", "+02:00"),
        ("GMT-0330", "-03:30"),
        ("Europe/Berlin", "Europe/Berlin"),
        (" +05:30 ", "+05:30"),
        ("PST", "America/Los_Angeles"),
        ("CST", "America/Chicago"),
        ("HST", "-10:00"),
        ("+02:30:15", "+02:30:15"),
        ("UT-18", "-18:00"),
    ],
)
def test_names_of_zones(text: str, name: str) -> None:
    """Names and offsets of time zones are those of Spark. Times in a zone are read with its offset, and come back."""
    assert time_zones.parse(text) == name
    local = datetime.datetime(2013, 7, 4, 12, 30)
    moment = local.replace(tzinfo=time_zones.info(name))
    given = options.read_options({"stream": "s", "timeZone": text})
    schema = t.StructType().add("x", t.TimestampType()).add("a", t.ArrayType(t.TimestampType()))
    entry = {b"x": str(local).encode(), b"a": json.dumps([str(local), f"{local} {text.strip()}"]).encode()}
    (row,) = ReadSchema.of(schema, given).batch(page_of(entry), "s").to_pylist()
    assert row == {"x": moment, "a": [moment, moment]}
    column = pa.array([moment, None], pa.timestamp("us", "UTC"))
    assert there_and_back(column, timeZone=text).to_pylist() == [moment, None]
    assert there_and_back(pa.array([[moment, None]], pa.list_(column.type)), timeZone=text).to_pylist() == [
        [moment, None]
    ]


@pytest.mark.parametrize("text", ["", "Nowhere/Land", "+99", "../etc", "+01:99", "+18:01", "pst"])
def test_invalid_zones_are_rejected(text: str) -> None:
    """An invalid time zone is an error with examples of valid ones."""
    with pytest.raises(OptionsError, match=r"INVALID_OPTION.*timeZone.*Europe/Berlin"):
        options.read_options({"stream": "s", "timeZone": text})


def test_times_without_a_zone() -> None:
    """Times without a zone are in the option's zone, in columns, nested values, JSON rows and startingTimestamp."""
    text, moment = "2013-07-04 12:30:00", datetime.datetime(2013, 7, 4, 16, 30, tzinfo=UTC)
    kinds = {"plain": t.TimestampType(), "nested": t.ArrayType(t.TimestampType()), "local": t.TimestampNTZType()}
    schema = t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])
    schema = schema.add("m", t.MapType(t.StringType(), t.StructType().add("at", t.TimestampType())))
    local = datetime.datetime(2013, 7, 4, 12, 30)
    expected = {"plain": moment, "nested": [moment], "local": local, "m": [("k", {"at": moment})]}
    fields = {"plain": text, "nested": f'["{text}"]', "local": text, "m": f'{{"k":{{"at":"{text}"}}}}'}
    row = f'{{"plain":"{text}","nested":{fields["nested"]},"local":"{text}","m":{fields["m"]}}}'
    for extra, entry in (
        ({}, {name.encode(): value.encode() for name, value in fields.items()}),
        ({"valueFormat": "json"}, {b"value": row.encode()}),
    ):
        given = options.read_options({"stream": "s", "timeZone": "America/New_York", **extra})
        batch = ReadSchema.of(schema, given).batch(page_of(entry), "s")
        assert batch.schema == ReadSchema.of(schema).arrow
        assert batch.to_pylist() == [expected]
    (start,) = (positions.parse_times(text, (), "America/New_York").default,)
    assert start == positions.parse_times(moment.isoformat(), ()).default


def test_times_are_written_in_the_zone() -> None:
    """Timestamps are written in ISO 8601, in fields as in JSON, with the offset of timeZone, or in UTC without it."""
    column = pa.array([datetime.datetime(2013, 7, 4, 16, 30, tzinfo=UTC), None], pa.timestamp("us", "Asia/Tokyo"))
    for extra, text in (
        ({}, "2013-07-04T16:30:00Z"),
        ({"timeZone": "America/New_York"}, "2013-07-04T12:30:00-04:00"),
    ):
        given = options.write_options({"stream": "s", **extra})
        schema = t.StructType().add("at", t.TimestampType()).add("all", t.ArrayType(t.TimestampType()))
        batch = pa.RecordBatch.from_arrays(
            [column, pa.array([column.to_pylist(), []], pa.list_(column.type))], ["at", "all"]
        )
        written = dict(WriteSchema.of(schema, None, None, given.zone).columns(batch))
        assert written[b"at"].to_pylist() == [text.encode(), None]
        assert written[b"all"].to_pylist() == [f'["{text}",null]'.encode(), b"[]"]
        (rows,) = WriteSchema.of(schema, None, "value", given.zone).columns(batch)
        assert f'"at":"{text}"'.encode() in rows[1].to_pylist()[0]
