"""Writes through Spark: exactly once under repetition, in every mode, without showing a password."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as f

from spark_streams import preflight
from tests.spark.bench import Bench
from tests.spark.test_streaming import undo_last_batch

pytestmark = pytest.mark.spark


def copy(bench: Bench, **options: Any) -> None:
    """Copy the stream s to `out` in batches of twenty, through the group g, with the bench's checkpoint."""
    frame = bench.reader(streaming=True, stream="s", group="g", startingOffsets="earliest", maxEntriesPerTrigger=20)
    bench.run(frame.schema("n int, _stream string").load().withColumnRenamed("_stream", "origin"), **options)


def test_a_replayed_batch_is_not_written_twice(bench: Bench) -> None:
    """If the last record of the commit log is removed, the batch runs again with the same delivered entries, without
    adding rows, and the next batch is written.
    """
    bench.add("s", 50)
    copy(bench, stream="out")
    undo_last_batch(bench.checkpoint)
    bench.add("s", 5, first=50)
    copy(bench, stream="out")
    assert bench.numbers("out") == list(range(55))
    undo_last_batch(bench.checkpoint)
    copy(bench, stream="out", writeMode="atomic")
    assert bench.numbers("out") == list(range(55))
    assert (bench.group("s")["pending"], bench.group("s")["lag"]) == (0, 0)


def test_a_replay_with_other_rows_is_refused(bench: Bench) -> None:
    """If a query is changed under its checkpoint, a replay with other rows raises an error and writes nothing."""
    bench.add("s", 10)
    copy(bench, stream="out")
    undo_last_batch(bench.checkpoint)
    frame = bench.reader(streaming=True, stream="s", group="g", startingOffsets="earliest", maxEntriesPerTrigger=20)
    with pytest.raises(StreamingQueryException, match=r"REPLAY_DIFFERS.*Partition 0 of batch 0 "):
        bench.run(frame.schema("n int").load().select((f.col("n") + 1).alias("n")), stream="out")
    assert bench.numbers("out") == list(range(10))


def test_a_plan_that_is_not_deterministic_is_warned_of_once(bench: Bench) -> None:
    """A query whose batches would have other rows when they are repeated is warned of once, also in `foreachBatch`."""
    preflight.install(connect=False)
    bench.add("s", 50)
    frame = bench.reader(streaming=True, stream="s", startingOffsets="earliest", maxEntriesPerTrigger=20)
    rows = frame.schema("n int").load().withColumn("chance", f.rand())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bench.run(rows, foreach_batch=lambda batch, _: bench.write(batch, stream="out"))
    texts = [str(each.message) for each in caught if "not deterministic" in str(each.message)]
    assert len(texts) == 1
    assert "(rand())" in texts[0]
    assert texts[0].endswith("Use writeMode=staged.")
    assert bench.numbers("out") == list(range(50))


def test_a_write_that_is_repeated_adds_nothing_twice(bench: Bench, tmp_path: Path) -> None:
    """A named write whose tasks fail midway is repeated until it succeeds, and once more: each row is written once."""
    marks = str(tmp_path)

    def die_once(rows: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        mark = Path(marks) / str(context.partitionId())
        for number, row in enumerate(rows):
            if number == 333 and not mark.exists():
                mark.touch()
                raise RuntimeError("on purpose")
            yield row

    bench.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    failures: list[str] = []
    try:
        rows = bench.spark.range(0, 2000, 1, 2).rdd.mapPartitions(die_once).toDF("n long")
        for _ in range(4):
            try:
                bench.write(rows, stream="out", writeId="w", chunkSize=100)
            except PySparkException as failure:
                failures.append(str(failure))
    finally:
        bench.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert 1 <= len(failures) <= 2
    assert all("on purpose" in failure for failure in failures)
    assert sorted(bench.numbers("out")) == list(range(2000))


def test_batch_modes(bench: Bench) -> None:
    """append adds rows, and overwrite replaces them and keeps the groups."""
    ten, three = bench.spark.range(10).toDF("n"), bench.spark.range(100, 103).toDF("n").coalesce(1)
    bench.write(ten, stream="out")
    bench.write(three, stream="out")
    assert bench.client.xlen("out") == 13
    bench.client.xgroup_create("out", "readers", "0")
    bench.client.xreadgroup("readers", "c", {"out": ">"}, count=4)
    for mode in ("exactlyOnce", "append"):
        frame = three.write.format("pystreams").mode("overwrite").options(url=bench.url, stream="out", writeMode=mode)
        frame.save()
        assert bench.numbers("out") == [100, 101, 102]
    assert bench.group("out", "readers")["pending"] == 4
    bench.spark.range(0).toDF("n").write.format("pystreams").mode("overwrite").options(
        url=bench.url, stream="out"
    ).save()
    assert bench.numbers("out") == []
    assert bench.group("out", "readers")["name"] == b"readers"
    for key in bench.client.scan_iter("pystreams:fence:*"):
        is_fence = key.rpartition(b":")[2].isdigit()
        assert 0 < bench.client.pttl(key) <= (600_000 if is_fence else 86_400_000)
