"""Values through Spark: formats with a registry, texts as in the CSV source, `nullValue` and `timeZone`."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pystreams.testing import schema_registry
from spark_streams.columns import conversion
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


WORDS = (
    "2013 2013-07 2013-7-4 2013-07-04 2013-07-04T12:30:00 2013-07-04T12:30:00.25Z 2013-07-04T12:30:00+02:00 "
    "1372941000 1372941000001 20130732 1 -7 +3 007 1.5 -1e3 .5 0x1F 1_000 NaN true FALSE yes x"
)
TYPES = {
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
#: Texts that Spark's CSV source reads as null, and the types that the connector reads from them.
BEYOND = {"20130704": ("date", "timestamp"), "20130704T123000Z": ("date", "timestamp")}


def test_texts_mean_what_they_mean_in_csv(spark: SparkSession, tmp_path: Path) -> None:
    """Each text converts to each type as in Spark's CSV source, except that compact ISO dates are also accepted."""
    path = tmp_path / "texts.csv"
    texts = [*WORDS.split(), *BEYOND]
    path.write_text("".join(f"{text}\n" for text in texts))
    column = pa.array([text.encode() for text in texts])
    for name, kind in TYPES.items():
        frame = spark.read.schema(f"value {name}").option("timeZone", "UTC").csv(str(path))
        rows = frame.selectExpr("unix_micros(value)" if name == "timestamp" else "value").collect()
        found = conversion.from_text(column, kind)
        converted = (found.cast(pa.int64()) if name == "timestamp" else found).to_pylist()
        for text, value, (expected,) in zip(texts, converted, rows, strict=True):
            if name in BEYOND.get(text, ()):
                assert (expected, value is None) == (None, False), (text, name)
            else:
                assert repr(value) == repr(expected), (text, name)
    assert conversion.from_text(pa.array([b"20130704"]), pa.date32()).to_pylist() == [datetime.date(2013, 7, 4)]


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
