"""`nullValue` and `timeZone` through Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as f

from tests.spark.bench import Bench

pytestmark = pytest.mark.spark


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
    java = bench.spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    default = java.getDefault()
    bench.spark.conf.set("spark.sql.session.timeZone", "JST")
    try:
        assert hours() == hours(streaming=True) == [(-9 * 3600, None)]
        bench.spark.conf.unset("spark.sql.session.timeZone")
        java.setDefault(java.getTimeZone("America/New_York"))  # as with -Duser.timezone
        assert hours() == [(4 * 3600, None)]
        bench.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert hours(timeZone="UTC") == [(0, None)]
        frame = bench.reader(stream="s", nullValue="-").schema(schema).load()
        bench.write(frame, stream="copy", nullValue="nil", timeZone="+02:00")
        (entry,) = bench.client.xrange("copy")
        assert entry[1] == {b"at": b"2013-07-04T05:30:00+02:00", b"n": b"nil"}
        again = bench.reader(stream="copy", nullValue="nil").schema(schema).load()
        assert again.collect() == frame.collect()
    finally:
        java.setDefault(default)
        bench.spark.conf.set("spark.sql.session.timeZone", "UTC")
