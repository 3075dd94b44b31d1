"""Queries restarted with other plans: the rows are exact, or an error says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tests.spark.bench import ON_BOTH, RELEASE, Bench
from tests.spark.test_streaming import undo_last_batch
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.spark


def shuffled(bench: Bench, partitions: int, died: Path) -> DataFrame:
    """Return the entries of s in this many partitions; in the first attempt, the last task fails after another task has
    written.
    """
    url, mark, last = bench.url, str(died), partitions - 1

    def die_once(batches: Any) -> Any:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == last and not Path(mark).exists():
            with redis.Redis.from_url(url) as client:
                end = time.monotonic() + 60
                while not client.keys("pystreams:fence:*:0") and time.monotonic() < end:
                    time.sleep(0.02)
            Path(mark).touch()
            raise RuntimeError("on purpose")
        yield from batches

    frame = bench.reader(streaming=True, stream="s", startingOffsets="earliest").schema("n int").load()
    return frame.repartition(partitions, "n").mapInArrow(die_once, "n int")


def test_a_batch_that_broke_off_and_comes_in_other_partitions(bench: Bench, tmp_path: Path) -> None:
    """After one finished task, a repetition in three partitions instead of two is refused with a remedy; in two, each
    row is written once.
    """
    bench.add("s", 40)
    died = tmp_path / "died"
    with pytest.raises(PySparkException, match="on purpose"):
        bench.run(shuffled(bench, 2, died), stream="out", chunkSize=5)
    there = bench.numbers("out")
    assert 0 < len(there) < 40
    with pytest.raises(PySparkException, match=r"REPLAY_DIFFERS.*default\.parallelism.*writeMode=staged"):
        bench.run(shuffled(bench, 3, died), stream="out", chunkSize=5)
    assert bench.numbers("out") == there
    bench.run(shuffled(bench, 2, died), stream="out", chunkSize=5)
    assert sorted(bench.numbers("out")) == list(range(40))
    undo_last_batch(bench.checkpoint)
    bench.add("s", 5, first=40)
    bench.run(shuffled(bench, 3, died), stream="out", writeMode="staged")
    assert sorted(bench.numbers("out")) == list(range(45))


def test_writes_from_foreach_batch_need_no_name(bench: Bench) -> None:
    """Two equal writes of a batch to one stream are both written, and repeating the batch in other partitions adds
    nothing.

    This also holds if the user's function sets a job group.
    """
    bench.add("s", 20)

    def twice(frame: DataFrame, _batch: int) -> None:
        for name in ("etl", "second"):
            bench.spark.sparkContext.setJobGroup(name, "the user's own")
            bench.write(frame, stream="out")

    def once_more(frame: DataFrame, batch: int) -> None:
        twice(frame.coalesce(1), batch)

    frame = bench.reader(streaming=True, stream="s", startingOffsets="earliest", minPartitions=2).schema("n int").load()
    bench.run(frame, foreach_batch=twice)
    assert sorted(bench.numbers("out")) == sorted([*range(20)] * 2)
    undo_last_batch(bench.checkpoint)
    bench.run(frame, foreach_batch=once_more)
    assert sorted(bench.numbers("out")) == sorted([*range(20)] * 2)
    records = [key for key in bench.client.keys("pystreams:fence:*") if key.endswith(b":batch")]
    assert len(records) == 2


class IntoStream:
    """A `foreach` sink that adds each n to the stream `out`; Spark allows it with asynchronous progress tracking."""

    def __init__(self, url: str) -> None:
        self._url = url

    def open(self, _partition: int, _epoch: int) -> bool:
        self._client = redis.Redis.from_url(self._url)
        return True

    def process(self, row: Any) -> None:
        self._client.xadd("out", {"n": row.n})

    def close(self, _error: Exception | None) -> None:
        self._client.close()


@ON_BOTH
@pytest.mark.skipif(RELEASE < (4, 3), reason="this Spark has no asynchronous progress tracking for foreach")
def test_a_checkpoint_that_is_written_late(bench: Bench, request: pytest.FixtureRequest) -> None:
    """With asynchronous progress tracking, a restart loses no entry, although entries are acknowledged and trimmed."""
    # Each server has one consume mode here; tests without Spark cover the other combinations.
    consume = {"redis": "shared", "engine": "range"}[request.node.callspec.params["bench"]]
    options = {"stream": "s", "startingOffsets": "earliest", "group": "g", "consume": consume, "trimOnCommit": "true"}

    def run(count: int) -> None:
        frame = bench.reader(streaming=True, maxEntriesPerTrigger=10, minPartitions=2, **options).schema("n int").load()
        writer = frame.writeStream.option("checkpointLocation", str(bench.checkpoint)).foreach(IntoStream(bench.url))
        writer = writer.option("asyncProgressTrackingEnabled", "true")
        query = writer.option("asyncProgressTrackingCheckpointIntervalMs", "600000").start()
        bench.queries.append(query)
        wait_for(lambda: not query.isActive or len(set(bench.numbers("out"))) == count, "all rows", 60)
        query.stop()
        problem = query.exception()
        assert problem is None, str(problem)

    bench.add("s", 20)
    run(20)
    assert not (bench.checkpoint / "offsets" / "1").exists()
    bench.add("s", 10, first=20)
    run(30)
