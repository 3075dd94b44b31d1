"""Streaming reads and writes through Spark, on a real Redis and on the engine."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark_streams import register
from tests.spark.bench import ON_BOTH, Bench
from tests.suite.long import long_only
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.spark


def stream_of(bench: Bench, **options: Any) -> DataFrame:
    """Return the stream's numbers, read from its first entry through the group g unless `options` differ."""
    options = {"stream": "s", "group": "g", "startingOffsets": "earliest", **options}
    options = {name: value for name, value in options.items() if value is not None}
    frame: DataFrame = bench.reader(streaming=True, **options).schema("_stream string, n int").load()
    return frame.select("n", frame["_stream"].alias("origin"))


@ON_BOTH
def test_a_query_continues_from_its_checkpoint(bench: Bench) -> None:
    """A restarted query continues without loss or repetition, leaves nothing pending, and shows its progress."""
    bench.add("s", 100)
    query = bench.run(stream_of(bench, maxEntriesPerTrigger=40), stream="out")
    last_id = bench.client.xinfo_stream("s")["last-generated-id"].decode()
    first, _, last = query.recentProgress
    assert first["numInputRows"] == 40
    assert json.loads(first["sources"][0]["latestOffset"])["streams"]["s"] == last_id
    assert json.loads(last["sources"][0]["endOffset"])["streams"]["s"] == last_id
    wait_for(lambda: not bench.client.keys("pystreams:*:lease:*"), "the lease to be released")
    assert bench.numbers("out") == list(range(100))
    assert bench.group("s")["pending"] == 0
    bench.add("s", 50, first=100)
    bench.run(stream_of(bench), stream="out")
    bench.run(stream_of(bench), stream="out")
    assert bench.numbers("out") == list(range(150))
    assert (bench.group("s")["pending"], bench.group("s")["lag"]) == (0, 0)


def test_two_streams_of_different_volume_within_a_limit(bench: Bench) -> None:
    """Each batch has exactly the limit, with both streams in proportion; the last batch has the rest."""
    bench.add("big", 900)
    bench.add("small", 100)
    sizes: list[dict[str, int]] = []

    def look(frame: DataFrame, _batch: int) -> None:
        sizes.append({row.origin: row["count"] for row in frame.groupBy("origin").count().collect()})

    frame = stream_of(bench, stream=None, streams="big,small", maxEntriesPerTrigger=300, pageSize=64)
    bench.run(frame, foreach_batch=look)
    assert [sum(size.values()) for size in sizes] == [300, 300, 300, 100]
    assert sizes[0] == {"big": 270, "small": 30}
    assert sum(size.get("small", 0) for size in sizes) == 100
    for stream in ("big", "small"):
        assert (bench.group(stream)["pending"], bench.group(stream)["lag"]) == (0, 0)


def test_connections_are_as_many_as_processes_whatever_the_streams(bench: Bench) -> None:
    """Twenty streams in six partitions need at most a reader's and a writer's connection per core, and the driver's."""
    for number in range(20):
        bench.add(f"s:{number:02}", 2)
    login = {"user": "counted", "password": "pw"}
    bench.client.execute_command("ACL", "SETUSER", "counted", "on", ">pw", "~*", "+@all")
    seen: set[int] = set()
    try:
        options = {"stream": None, "streamPattern": "s:*", "minPartitions": 6, "maxEntriesPerTrigger": 20}
        query = bench.start(stream_of(bench, **options, **login), stream="out", **login)

        def is_done() -> bool:
            clients = bench.client.client_list()
            seen.add(sum(client["user"] == "counted" for client in clients))
            return bool(bench.client.xlen("out") == 40)

        wait_for(is_done, "all rows", 180)
        query.stop()
    finally:
        bench.client.execute_command("ACL", "DELUSER", "counted")
    cores, driver = 2, 3  # the planner's, the sink's and, for a moment, the lease's
    assert 0 < max(seen) <= 2 * cores + driver


@pytest.mark.parametrize(
    ("bench", "partitions"),
    [pytest.param("redis", 2, marks=pytest.mark.redis), pytest.param("engine", 1, marks=long_only)],
    indirect=["bench"],
)
def test_a_batch_is_finished_however_much_of_it_is_read(bench: Bench, partitions: int) -> None:
    """Each batch is pending as a whole while it runs, under one consumer, and acknowledged afterwards, whatever
    foreachBatch reads of it, and a restarted query continues.
    """
    actions: list[Callable[[DataFrame], Any]] = [
        lambda frame: None,
        lambda frame: frame.isEmpty(),
        lambda frame: frame.take(1),
        lambda frame: frame.first(),
        lambda frame: frame.limit(3).collect(),
        lambda frame: frame.show(2),
        lambda frame: frame.where("1 = 0").count(),
        lambda frame: frame.union(frame).count(),
        lambda frame: frame.repartition(3).limit(1).count(),
    ]
    pending: list[int] = []

    def act(frame: DataFrame, batch: int) -> None:
        actions[batch % len(actions)](frame)
        pending.append(bench.group("s")["pending"])
        consumers.update(each["name"] for each in bench.client.xpending("s", "g")["consumers"])

    consumers: set[bytes] = set()
    options = {"maxEntriesPerTrigger": 10, "minPartitions": partitions, "consumer": "job"}
    for batches in (len(actions), 1):
        bench.add("s", 10 * batches)
        bench.run(stream_of(bench, **options), foreach_batch=act)
        assert pending == [10] * batches
        pending.clear()
        assert consumers == {b"job-0"}
        assert (bench.group("s")["pending"], bench.group("s")["lag"]) == (0, 0)


def test_a_thread_of_the_program_needs_no_preparation(bench: Bench) -> None:
    """After `register`, reads, writes and queries can be started in any thread, also in one without a session."""
    register(bench.spark)
    rows = bench.spark.range(5).selectExpr("cast(id AS int) AS n")
    done: list[int] = []

    def work() -> None:
        bench.write(rows, stream="s")
        done.append(bench.reader().schema("n int").load("s").count())
        bench.run(stream_of(bench), stream="out")
        done.append(bench.client.xlen("out"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [5, 5]


def test_the_last_batch_of_an_idle_stream_is_acknowledged(bench: Bench) -> None:
    """After a batch, the next trigger acknowledges its entries even if no new entries have arrived."""
    query = bench.start(stream_of(bench), stream="out")
    wait_for(lambda: bench.client.exists("s"), "the group to be created")
    bench.add("s", 10)
    wait_for(lambda: bench.client.xlen("out") == 10, "the batch to be written", 60)
    bench.wait_for_group("s", pending=0, lag=0)
    bench.add("s", 5, first=10)
    wait_for(lambda: bench.client.xlen("out") == 15, "the next batch to be written", 60)
    bench.wait_for_group("s", pending=0, lag=0)
    assert query.lastProgress is not None
    query.stop()
    wait_for(lambda: not bench.client.keys("pystreams:*:lease:*"), "the lease to be released")
    assert bench.numbers("out") == list(range(15))


def test_latest_starts_at_the_end_of_the_stream(bench: Bench) -> None:
    """A query that starts at the latest entry reads later entries, also if it was stopped before its first batch."""
    bench.add("s", 10)
    query = bench.start(stream_of(bench, startingOffsets="latest"), stream="out")
    wait_for(lambda: bench.client.xinfo_groups("s"), "the group to be created")
    query.stop()
    bench.add("s", 5, first=10)
    # A separate checkpoint: the first one may contain a half-written offset, depending on when the query was stopped.
    bench.checkpoint = bench.checkpoint.with_name("another")
    bench.run(stream_of(bench, startingOffsets="latest"), stream="out")
    assert bench.numbers("out") == [10, 11, 12, 13, 14]


def undo_last_batch(checkpoint: Path) -> None:
    """Make Spark treat the last planned batch as unfinished."""
    last = max(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
    )
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("bench", "start"),
    [pytest.param("redis", "latest", marks=pytest.mark.redis), pytest.param("engine", "earliest", marks=long_only)],
    indirect=["bench"],
)
def test_a_failed_batch_is_repeated_whole(bench: Bench, start: str) -> None:
    """A first batch that failed midway with delivered and pending entries is read again completely by the next run."""
    bench.client.xgroup_create("s", "g", "$", mkstream=True)
    bench.add("s", 10)
    done: list[int] = []

    def fail_once(frame: DataFrame, _batch: int) -> None:
        rows = [row.n for row in frame.collect()]
        if not failed:
            failed.append(True)
            raise RuntimeError("on purpose")
        done.extend(rows)

    failed: list[bool] = []
    with pytest.raises(StreamingQueryException, match="on purpose"):
        bench.run(stream_of(bench, startingOffsets=start), foreach_batch=fail_once)
    assert bench.group("s")["pending"] == 10
    bench.run(stream_of(bench, startingOffsets=start), foreach_batch=fail_once)
    assert done == list(range(10))
    assert (bench.group("s")["pending"], bench.group("s")["lag"]) == (0, 0)


def test_other_consumers_pending_entries_are_left_alone(bench: Bench) -> None:
    """Entries pending for another consumer of the group are neither read again nor acknowledged by the query."""
    bench.add("s", 5)
    bench.client.xgroup_create("s", "g", "0")
    bench.client.xreadgroup("g", "somebody", {"s": ">"}, count=2)
    bench.run(stream_of(bench, startingOffsets="group", groupTakeover="true"), stream="out")
    assert bench.numbers("out") == [2, 3, 4]
    assert bench.client.xpending("s", "g")["consumers"] == [{"name": b"somebody", "pending": 2}]


def test_a_stream_that_appears_later_is_read_from_its_first_entry(bench: Bench) -> None:
    """With startingOffsets=latest, a stream created after the query's first run is read from its first entry."""
    options = {"group": None, "startingOffsets": "latest", "failOnMissingStream": False}
    bench.run(stream_of(bench, **options), stream="out")
    bench.add("s", 3)
    bench.run(stream_of(bench, **options), stream="out")
    assert bench.numbers("out") == [0, 1, 2]


def test_a_stream_that_was_lost_is_an_error(bench: Bench) -> None:
    """A deleted stream is an error that names it."""
    bench.add("s", 10)
    bench.run(stream_of(bench), stream="out")
    bench.client.delete("s")
    with pytest.raises(StreamingQueryException) as refused:
        bench.run(stream_of(bench), stream="out")
    first = str(refused.value).partition("\n")[0]
    assert re.search(r"^\[STREAM_FAILED\].*pystreams: \[STREAM_LOST\] .*'s'.*no longer exists.*failOnDataLoss", first)
