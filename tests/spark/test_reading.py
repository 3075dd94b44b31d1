"""Aspects of reading through Spark that tests without Spark cannot cover."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from spark_streams.monitor import StreamMonitor
from spark_streams.reports import STREAM, StreamReport
from tests.spark.bench import Bench
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.spark


def test_a_split_stream_with_malformed_entries(bench: Bench) -> None:
    """If several tasks read one stream, every valid row arrives once, dropped rows are reported, and nothing stays
    pending.
    """
    bench.add("in:a", 400)
    bench.client.xadd("in:a", {"n": "many"})
    reports: list[StreamReport] = []
    monitor = StreamMonitor.install(bench.spark, bench.url, callback=reports.append)
    try:
        options = {"streamPattern": "in:*", "group": "g", "startingOffsets": "earliest"}
        options |= {"mode": "DROPMALFORMED", "maxEntriesPerTrigger": "300", "minPartitions": "3"}
        frame = bench.reader(streaming=True, **options).schema("n int").load()
        sizes: list[tuple[int, int]] = []

        def look(batch: Any, _number: int) -> None:
            rows = batch.groupBy(f.spark_partition_id()).agg(f.sum("n"), f.count("n")).collect()
            sizes.append((len(rows), sum(row[1] for row in rows)))

        bench.run(frame, foreach_batch=look)
        assert sizes == [(3, sum(range(300))), (3, sum(range(300, 400)))]
        wait_for(lambda: len(reports) > 1, "reports of both batches")
    finally:
        bench.spark.streams.removeListener(monitor)
    assert (reports[1].stream, reports[1].entries, reports[1].rejected, reports[1].lag_entries) == ("in:a", 101, 1, 0)
    assert (bench.group("in:a")["pending"], bench.group("in:a")["lag"]) == (0, 0)


def test_values_that_do_not_parse_are_counted_and_kept(bench: Bench) -> None:
    """The monitor counts unparsable values by column and batch, and the rows contain their texts."""
    bench.add("s", 10)
    bench.client.xadd("s", {"n": 2**40})
    bench.client.xadd("s", {"n": "many"})
    monitor = StreamMonitor.install(bench.spark, bench.url)
    rows: list[Any] = []
    try:
        reader = bench.reader(streaming=True, stream="s", startingOffsets="earliest", maxEntriesPerTrigger=11)
        frame = reader.schema("n int, _rescued string").load()
        bench.run(frame, foreach_batch=lambda batch, _: rows.extend(batch.where("_rescued is not null").collect()))
        wait_for(lambda: len(bench.client.xrange(STREAM)) == 2, "reports of both batches")
    finally:
        bench.spark.streams.removeListener(monitor)
    assert [row.asDict() for row in rows] == [
        {"n": None, "_rescued": f'{{"n":"{2**40}"}}'},
        {"n": None, "_rescued": '{"n":"many"}'},
    ]
    assert [json.loads(fields[b"malformed"]) for _, fields in bench.client.xrange(STREAM)] == [{"n": 1}, {"n": 1}]


def test_a_shared_group(bench: Bench) -> None:
    """A query shares a group with a redis-py consumer and reads the remaining entries, also after a restart; nothing
    stays pending.
    """
    bench.add("s", 50)
    bench.client.xgroup_create("s", "g", "0")
    bench.client.xreadgroup("g", "python", {"s": ">"}, count=10)

    def frame() -> Any:
        reader = bench.reader(streaming=True, stream="s", group="g", consume="shared", maxEntriesPerTrigger=15)
        return reader.schema("n int, _deliveries int").load()

    bench.run(frame().select("n", f.col("_deliveries").alias("d")), stream="out")
    bench.add("s", 5, first=50)
    bench.run(frame().select("n", f.col("_deliveries").alias("d")), stream="out")
    assert bench.numbers("out") == list(range(10, 55))
    assert bench.client.xpending("s", "g")["consumers"] == [{"name": b"python", "pending": 10}]


def test_types_are_inferred_and_filters_handed_over(bench: Bench) -> None:
    """Without a schema, columns are inferred from the fields; if Spark's setting is on, filters on streams, times and
    IDs are pushed down.
    """
    for n in range(6):
        bench.client.xadd(f"s{n % 2}", {"n": n, "x": n / 2, "tags": '["a"]'}, id=f"{1_700_000_000_000 + n}-1")
    frame = bench.reader(streams="s0,s1", inferSchema="true").load()
    assert frame.schema.simpleString() == (
        "struct<_id:string,_stream:string,_timestamp:timestamp,_ms:bigint,_seq:bigint,n:int,x:double,tags:string>"
    )
    moment = datetime.datetime.fromtimestamp(1_700_000_000.002, datetime.UTC)
    wanted = (f.col("_stream") == "s0") & (f.col("_timestamp") >= f.lit(moment))
    numbered = (f.col("_stream") == "s1") & (f.col("_ms") > 1_700_000_000_001)
    nested = bench.reader(streams="s0,s1", fieldsType="binary").load()
    assert dict(nested.dtypes)["fields"] == "map<binary,binary>"
    bench.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        with_types = bench.reader(streams="s0,s1").schema("_stream string, _timestamp timestamp, n int").load()
        found = with_types.where(wanted)
        assert sorted(row.n for row in found.collect()) == [2, 4]
        assert found.rdd.getNumPartitions() == 1
        by_id = bench.reader(streams="s0,s1").schema("_id string, _stream string, _ms bigint, n int").load()
        assert sorted(row.n for row in by_id.where(numbered).collect()) == [3, 5]
        assert [row.n for row in by_id.where(f.col("_id") == "1700000000003-1").collect()] == [3]
        assert by_id.where(f.col("_id") == "3").count() == 0
    finally:
        bench.spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert sorted(row.n for row in frame.where(wanted).collect()) == [2, 4]


@pytest.mark.parametrize("moment", ["earliest", pytest.param("in the middle", marks=long_only)])
def test_an_entry_deleted_between_two_scans_of_a_batch_is_an_error(bench: Bench, moment: str) -> None:
    """If foreachBatch scans a batch twice, and an entry is deleted between the scans, the query fails."""
    bench.add("s", 500)
    ids = [entry for entry, _ in bench.client.xrange("s", count=400)]
    start = "earliest" if moment == "earliest" else ids[100].decode()
    found: list[int] = []

    def look(batch: Any, _number: int) -> None:
        found.append(batch.count())
        bench.client.xdel("s", ids[300])
        found.append(batch.count())

    frame = bench.reader(streaming=True, stream="s", startingOffsets=start).schema("n int").load()
    with pytest.raises(PySparkException, match=r"ENTRIES_LOST.*'s'"):
        bench.run(frame, foreach_batch=look)
    assert found == [500 if moment == "earliest" else 400]


def test_lost_entries_end_the_query_with_advice(bench: Bench) -> None:
    """The error for lost entries names the stream, their number and failOnDataLoss, with which the query continues."""
    bench.add("s", 10)

    def frame(**options: Any) -> Any:
        reader = bench.reader(streaming=True, stream="s", startingOffsets="earliest", **options)
        return reader.schema("n int").load()

    bench.run(frame(), stream="out")
    assert bench.client.xinfo_groups("s") == []
    bench.add("s", 20, first=10)
    bench.client.xtrim("s", maxlen=5, approximate=False)
    with pytest.raises(PySparkException, match=r"ENTRIES_LOST.*'s'.*15 entries.*failOnDataLoss"):
        bench.run(frame(), stream="out")
    query = bench.run(frame(failOnDataLoss="false"), stream="out")
    assert bench.numbers("out") == [*range(10), *range(25, 30)]
    assert any('"lost":{"s":15}' in source["endOffset"].replace(" ", "") for source in query.lastProgress["sources"])
