"""Values through Spark: formats with a registry, texts as in the CSV source, `nullValue` and `timeZone`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pystreams.testing import schema_registry
from spark_streams.columns import conversion
from spark_streams.columns.json_writer import stored_type
from tests.spark.bench import Bench
from tests.spark.test_streaming import undo_last_batch
from tests.suite.long import short_and_long

pytestmark = pytest.mark.spark

PROTO = """
syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Place { double lat = 1; }
message Row {
  int32 k = 1; repeated string tags = 2; Place place = 3; map<string, int64> marks = 4;
  google.protobuf.Timestamp at = 5;
}
"""
COLUMNS = ["k", "tags", "place", "marks", "at"]


@pytest.mark.parametrize("form", short_and_long(["avro"], [["protobuf"], ["json"]]))
def test_rows_of_every_format_come_back(bench: Bench, form: str) -> None:
    """A batch write registers a schema, and a query reads with it and writes exactly once."""
    frame = bench.spark.sql(
        "select 1 k, array('a', 'é') tags, named_struct('lat', 1.5D) place, map('x', 5L) marks, "
        "timestamp'2026-01-01 05:00:00.5' at union all select 2, array(), null, map(), null"
    )
    rows = sorted(frame.collect(), key=str)
    with schema_registry() as registry:
        options = {"valueFormat": form, "schemaRegistry.url": registry.url}
        of_stream = {"valueSchema": PROTO, "valueMessage": "Row"} if form == "protobuf" else {}
        bench.write(frame, stream=form, **options, **of_stream)
        message = {"valueMessage": "Row"} if form == "protobuf" else {}
        source = bench.reader(streaming=True, stream=form, startingOffsets="earliest", **options, **message).load()
        for _ in range(2):
            bench.run(source.select(COLUMNS), stream="copy", **options, **of_stream)
            undo_last_batch(bench.checkpoint)
        copied = bench.reader(stream="copy", **options, **message).load().select(COLUMNS)
        if form == "json":  # which has no type for an int
            copied = copied.selectExpr("cast(k as int) k", *COLUMNS[1:])
        assert sorted(copied.collect(), key=str) == rows


#: Days, times and numbers, and texts that are almost such, in one text.
TEXTS = (
    "2013|2013-07|2013-7-4|2013-07-04|2013-07-04T12:30:00|2013-07-04T12:30:00.25Z|2013-07-04T12:30:00+02:00|"
    "1372941000|1372941000001|20130732|1|-7|+3|007|1.5|-1e3|.5|0x1F|1_000|NaN|true|FALSE|yes|x|"
    "2013-07-04 12:30 Nowhere/Land|2013-03-10 02:30:00|2013-11-03 01:30:00|"
    "2038-04-01 00:00:00|9999-12-31T23:59:59-05:00|+10000-01-01T04:59:59Z|10000-01-01T00:00:00Z|+10000-01-01|"
    "10000-01-01|-0001-01-01|0000-01-01|-0001-06-01T00:00:00Z|+294247-01-10T04:00:54.775807Z|"
    "-290308-12-21T19:59:05.224192Z|+294247-01-10T04:00:54.775808Z|2020-01-01T00|2020-01-01 00|2020-01-01T00:00|"
    "2020-01-01T00:00:00+18:01|2020-01-01T00:00:00+18:00|2020-01-01T00:00:00+02:00:30|2020-01-01T00:00:00+2|"
    "2020-01-01T00:00:00+0200|2020-01-01T00:00:00 +02:00| 2020-01-01 | 2020-01-01T00:00:00 |"
    "2020-01-01T00:00:00Z |2020-1-1|2020-01-01T1:2:3|2020|2020-01|2020-01-01T|2020-01-01T00:00:00.1234567890|"
    "2020-01-01T00:00:00.|1582-10-10|2020-02-30|2020-01-01T24:00:00|2020-01-01T00:00:60|"
    "2020-01-01T00:00:00 Europe/Paris|2020-01-01T00:00:00[Europe/Paris]|2020-01-01T00:00:00+02:00[Europe/Paris]|"
    "2020-01-01T00:00:00UTC|2020-01-01T00:00:00 CET|now|epoch|today|2020-01-01x|2020-01-01 x|-2020-01-01|"
    "02020-01-01|12345-01-01|123456-01-01|1234567-01-01|+2020-01-01|999999-12-31|5881580-07-11|+5881580-07-11|"
    "+5881580-07-12|-5877641-06-23|-5877641-06-22|0001-01-01T00:00:00|2020-01-01T00:00:00-00:00|"
    "2020-01-01T00:00:00+14:00:00|2020-01-01T00:00:00Z+1|2020-01-01T00:00:00GMT+2|2020-01-01T00:00:00UTC+02:00|"
    "\t2020-01-01|2020-01-01\xa0|2020-01-01T00:00:00-18:00:00| 2020-01-01T00:00:00+18:00:01|+5|2147483648|1.0|"
    "1e30|408918896702269219711730387391746|99999999999999999999.5|1.005|1234|1,234.50| 1|1 |1d|1D|1f|1F|0x1p3|"
    "Inf|-Inf|Infinity|+Infinity|-Infinity|1e5|1E+5|5.|+1|1,000|--1|1e|1e400|-1e400|1L|0x10|\t1|1\xa0|"
    "+.5e-3|1.5d|- 1|+-1|NaNd|1e5f"
)
#: Types, and what is compared of their values, because Python does not have all dates and times.
TYPES = {
    "int": (pa.int32(), "value"),
    "double": (pa.float64(), "value"),
    "boolean": (pa.bool_(), "value"),
    "decimal(38,18)": (pa.decimal128(38, 18), "value"),
    "decimal(5,2)": (pa.decimal128(5, 2), "value"),
    "date": (pa.date32(), "unix_date(value)"),
    "timestamp": (pa.timestamp("us", "America/New_York"), "unix_micros(value)"),
    "timestamp_ntz": (pa.timestamp("us"), "unix_micros(cast(value AS timestamp))"),
}
#: Texts that Spark's CSV source reads as null, and the types that the connector reads from them.
BEYOND = dict.fromkeys(
    ("20130704", "20130704T123000Z", "2013-07-04 12:30 America/New_York"), ("date", "timestamp", "timestamp_ntz")
)


def test_texts_mean_what_they_mean_in_csv(spark: SparkSession, tmp_path: Path) -> None:
    """Each text converts to each type as in Spark's CSV source, which reads no compact dates."""
    path = tmp_path / "texts.csv"
    texts = [*TEXTS.split("|"), *BEYOND]
    path.write_text("".join(f"{text}\n" for text in texts))
    column = pa.array([text.encode() for text in texts])
    differ = []
    for name, (kind, compared) in TYPES.items():
        source = spark.read.schema(f"value {name}").options(timeZone="America/New_York", sep="\x01")
        rows = source.csv(str(path)).selectExpr(compared).collect()
        found = conversion.from_text(column, kind)
        converted = found.cast(stored_type(kind)).to_pylist()
        for text, value, (expected,) in zip(texts, converted, rows, strict=True):
            if repr(value) != repr(expected) and (expected is not None or name not in BEYOND.get(text, ())):
                differ.append((text, name, value, expected))
    assert differ == []


def test_nulls_and_zones_in_spark(bench: Bench) -> None:
    """In batches and queries, Spark's session time zone applies unless the option is set, and nulls
    are read as nulls.
    """
    bench.client.xadd("s", {"at": "2013-07-04 12:30:00", "n": "-"})
    schema = "at timestamp, n string"

    def hours(streaming: bool = False, **options: str) -> list[Any]:
        frame = bench.reader(streaming, stream="s", startingOffsets="earliest", nullValue="-", **options).schema(schema)
        if not streaming:
            rows = frame.load().select(f.unix_timestamp("at"), "n").collect()
        else:
            rows = []
            bench.checkpoint = bench.checkpoint.with_name(f"c{len(bench.queries)}")
            look = frame.load().select(f.unix_timestamp("at"), "n")
            bench.run(look, foreach_batch=lambda batch, _: rows.extend(batch.collect()))
        return [(row[0] - 1372941000, row[1]) for row in rows]

    assert hours() == [(0, None)]  # the tests' session is in UTC
    assert hours(timeZone="America/New_York") == [(4 * 3600, None)]
    bench.spark.conf.set("spark.sql.session.timeZone", "JST")
    try:
        assert hours() == hours(streaming=True) == [(-9 * 3600, None)]
        bench.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert hours(timeZone="UTC") == [(0, None)]
        frame = bench.reader(stream="s", nullValue="-").schema(schema).load()
        bench.write(frame, stream="copy", nullValue="nil", timeZone="+02:00")
        (entry,) = bench.client.xrange("copy")
        assert entry[1] == {b"at": b"2013-07-04T05:30:00+02:00", b"n": b"nil"}
        again = bench.reader(stream="copy", nullValue="nil").schema(schema).load()
        assert again.collect() == frame.collect()
    finally:
        bench.spark.conf.set("spark.sql.session.timeZone", "UTC")
