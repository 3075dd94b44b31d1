"""Repeated attempts of batches, without Spark: the correct rows, or an error without changes.

This module is long because all cases use `Attempt`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
import redis

from spark_streams.config.write import WriteOptions
from spark_streams.errors import ServerError, WriteError
from spark_streams.write.encoding import EncodedRows, RowEncoder, WriteSchema
from spark_streams.write.exactly_once import ExactlyOnceSender, pack_index, unpack_rows
from spark_streams.write.executor import number_of_write
from spark_streams.write.publishing import Publisher
from spark_streams.write.records import TaskRows, WriterId, manifest_of, parse_manifest
from spark_streams.write.sink import Sink, plan, run_in
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests import servers
from tests.suite.long import FULL

QUERY = "0b8e9a10-0000-4000-8000-000000000002"
MODES = ("exactlyOnce", "atomic", "staged")


@dataclass
class Attempt:
    """One attempt of a batch, with the results of its tasks."""

    url: str
    name: str
    mode: str = "exactlyOnce"
    batch: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    task_rows: list[TaskRows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.options = WriteOptions(stream="s", mode=self.mode, chunk_size=5, **self.more)  # type: ignore[arg-type]
        self.connection = Connection(Address(self.url, retry_ms=5000))

    def sender(self, partition: int) -> ExactlyOnceSender:
        writer = WriterId(QUERY, self.batch, partition, self.name)
        return ExactlyOnceSender(self.connection, writer, self.options, lasting=True)

    def chunks(self, rows: Sequence[int], stream: str = "s") -> Iterator[list[EncodedRows]]:
        table = pa.RecordBatch.from_pydict({"n": pa.array(rows, pa.int64())})
        options = replace(self.options, stream=stream)
        return RowEncoder(options, WriteSchema(("n",), False, False, False)).chunks(iter([table]))

    def task(self, partition: int, rows: Sequence[int], dies: bool = False, stream: str = "s") -> Attempt:
        """Run a task; if it dies, its result is lost."""
        sender = self.sender(partition)
        for chunk in self.chunks(rows, stream):
            sender.submit(chunk)
        task_rows = sender.finish()
        if not dies:
            self.task_rows += task_rows
        return self

    def commit(self) -> None:
        """Commit the batch like a driver."""
        writer = WriterId(QUERY, self.batch, 0, self.name)
        Publisher(self.connection, writer, self.options, lasting=True).commit(self.task_rows)


def numbers(client: redis.Redis, stream: str = "s") -> list[int]:
    return [int(fields[b"n"]) for _, fields in client.xrange(stream)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_complete_batch_may_have_any_partitions_and_order(
    client: redis.Redis, instance: servers.Running, mode: str, is_committed: bool
) -> None:
    """Repeating a complete batch with any partitions and order adds nothing; other rows are rejected, or ignored if
    staged.
    """
    first = Attempt(instance.url, "first", mode).task(0, range(20)).task(1, range(20, 40))
    if is_committed or mode == "staged":
        first.commit()
    for parts in ([range(39, -1, -1)], [range(k, 40, 3) for k in range(3)]):
        again = Attempt(instance.url, f"again{len(parts)}", mode)
        for partition, part in enumerate(parts):
            again.task(partition, part)
        again.commit()
        assert numbers(client) == list(range(40))
    new_stream = Attempt(instance.url, "new", mode).task(0, range(40)).task(1, [7], stream="new")
    for other in (new_stream, Attempt(instance.url, "other", mode).task(0, range(20)).task(1, range(21, 41))):
        if mode == "staged":  # the batch is already published, so the rows are ignored
            other.commit()
        else:
            with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
                other.commit()
        assert (numbers(client), numbers(client, "new")) == (list(range(40)), [])
    assert not client.keys("*staged*")


def test_other_rows_for_a_published_batch_are_a_warning_or_an_error(
    client: redis.Redis, instance: servers.Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Repeating a published batch with other rows is a warning for a query, and an error with a `writeId`."""
    more = {"write_id": "x"}
    Attempt(instance.url, "first", "staged", more=more).task(0, range(20)).commit()
    Attempt(instance.url, "same", "staged", more=more).task(0, range(9)).task(1, range(9, 20)).commit()
    assert not caplog.records
    with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
        Attempt(instance.url, "other", "staged", more=more).task(0, range(25)).commit()
    Attempt(instance.url, "a query's", "staged").task(0, range(25)).commit()
    assert "Batch 0 was already published with 20 rows. It was repeated with different rows (25)" in caplog.text
    assert numbers(client) == list(range(20))


def test_a_task_of_a_batch_before_the_committed_one_is_refused(client: redis.Redis, instance: servers.Running) -> None:
    """A late copy of a task fails if a later batch is committed, also if its rows are for another stream."""
    for batch in (0, 1):
        Attempt(instance.url, "first", batch=batch).task(0, [batch]).commit()
    with pytest.raises(WriteError, match=r"BATCH_COMMITTED.*batch 0, but batch 1 .*committed"):
        Attempt(instance.url, "copy").task(0, [7], stream="elsewhere")
    assert (numbers(client), numbers(client, "elsewhere")) == ([0, 1], [])


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_that_was_deleted_gets_its_rows_again(
    client: redis.Redis, instance: servers.Running, mode: str
) -> None:
    """Records of a stream that was deleted or recreated are ignored, also with other partitions, so all rows are
    written again.
    """
    Attempt(instance.url, "first", mode).task(0, range(20)).task(1, range(20, 40)).commit()
    client.delete("s")
    Attempt(instance.url, "second", mode).task(0, range(40)).commit()
    assert numbers(client) == list(range(40))
    client.delete("s")
    client.xadd("s", {"n": "-1"})
    Attempt(instance.url, "third", mode).task(0, range(20)).task(1, range(20, 40)).commit()
    assert numbers(client) == [-1, *range(40)]
    client.xtrim("s", maxlen=0)
    Attempt(instance.url, "fourth", mode).task(0, range(40)).commit()
    assert numbers(client) == []  # a trimmed stream had its rows, so they are not written again


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("before", [0, 7])
def test_a_recreated_stream_with_more_entries_gets_its_rows_again(
    client: redis.Redis, instance: servers.Running, is_committed: bool, before: int
) -> None:
    """A recreated stream gets its rows again, with greater or smaller IDs; a stream with removed entries does not."""
    for n in range(before):
        client.xadd("s", {"n": n}, id=f"5-{n + 1}")
    first = Attempt(instance.url, "first").task(0, range(20))
    if is_committed:
        first.commit()
    records = {key: client.dump(key) for key in client.keys("pystreams:*")}
    stream = client.dump("s")
    for ids in (["1-1"], ["*"], [f"5-{n}" for n in range(20, 80)], ["*"] * 80):
        client.flushall()
        for key, value in records.items():
            client.restore(key, 0, value)
        for each in ids:
            client.xadd("s", {"n": -1}, id=each)
        if len(ids) < before + 20 or before or is_committed:
            Attempt(instance.url, f"after {len(ids)}").task(0, range(20)).commit()
            assert numbers(client) == [-1] * len(ids) + [*range(20)], ids
    for removed in range(0, before + 20, 5):
        client.flushall()
        for key, value in {**records, b"s": stream}.items():
            client.restore(key, 0, value)
        ids = [entry for entry, _ in client.xrange("s")]
        client.xdel("s", *ids[removed:]) if removed % 2 else client.xtrim("s", minid=ids[removed], approximate=False)
        left = numbers(client)
        Attempt(instance.url, "again").task(0, range(20)).commit()
        assert numbers(client) == left, removed


@pytest.mark.parametrize("mode", ["exactlyOnce", "atomic"])
def test_a_partly_rejected_batch_adds_nothing_when_it_is_repeated(
    client: redis.Redis, instance: servers.Running, mode: str, request: pytest.FixtureRequest
) -> None:
    """If a stream runs out of IDs within a transaction, repeating the batch adds no row twice.

    The engine gets the rows as columns and rejects a chunk as a whole.
    """
    is_by_columns = request.node.callspec.params["instance"] == "engine"
    client.xadd("s", {"n": -1}, id=f"{(1 << 64) - 1}-{(1 << 64) - 4}")
    for name in ("first", "second"):
        refused = 0 if is_by_columns else 3
        with pytest.raises(WriteError, match=rf"ROW_REFUSED.*Row {refused} .*exhausted the last possible ID"):
            Attempt(instance.url, name, mode).task(0, range(20)).commit()
        assert numbers(client) == [-1, *range(refused)]


@pytest.mark.parametrize("seed", range(50 if FULL else 3))
def test_random_attempts_write_the_rows_or_fail(client: redis.Redis, instance: servers.Running, seed: int) -> None:
    """Attempts with random partitions, orders and deaths end with exactly the rows, or with REPLAY_DIFFERS and no
    changes.
    """
    chance = random.Random(seed)
    for batch in range(4):
        mode = chance.choice(MODES)
        rows = list(range(1000 * batch, 1000 * batch + chance.randrange(1, 60)))
        before = numbers(client)
        for number in range(6):
            order = chance.sample(rows, len(rows)) if chance.random() < 0.3 else rows
            count = chance.choice((2, 2, 3))
            attempt = Attempt(instance.url, f"{seed}-{number}", mode, batch)
            there = numbers(client)
            for partition in range(count):
                part = order[partition::count]
                if number < 2 and chance.random() < 0.5:
                    if part and chance.random() < 0.7:
                        attempt.task(partition, part[: chance.randrange(len(part))] or part, dies=True)
                    break
                attempt.task(partition, part)
            else:
                try:
                    attempt.commit()
                except WriteError as refusal:
                    assert refusal.condition == "REPLAY_DIFFERS"  # noqa: PT017
                    assert mode != "staged"
                    assert numbers(client) == there
                    continue
                assert Counter(numbers(client)) == Counter([*before, *rows])
            assert not Counter(numbers(client)) - Counter([*before, *rows])


def test_writes_of_a_batch_are_counted_by_run(client: redis.Redis, instance: servers.Running) -> None:
    """Writes of a batch are numbered separately in each run of the query, and an execution keeps its number; an earlier
    batch is an error.

    The count lasts longer than a short fenceRetention.
    """
    connection, options = Connection(Address(instance.url)), WriteOptions(stream="s", fence_retention=5)

    def number(batch: int, run: str, execution: str) -> int:
        return number_of_write(connection, "q", batch, run, execution, options)

    assert [number(0, "a", each) for each in ("5", "7", "5", "9", "7")] == [0, 1, 0, 2, 1]
    assert [number(0, "b", each) for each in ("1", "2")] == [0, 1]
    assert number(0, "a", "7") == 1
    assert number(1, "b", "4") == 0
    with pytest.raises(WriteError, match="ATTEMPT_REPLACED"):
        number(0, "a", "5")
    (key,) = client.keys("*")
    assert client.pttl(key) > 80_000_000


def test_the_run_is_found_among_a_jobs_tags() -> None:
    """The run is found among a job's tags, and a user's tags are not taken for it."""
    session = "spark-session-f541ce15-c57b-4f3e-b87f-3bc0b293dc5a"
    assert run_in(f"mine,{session},{session}-execution-root-id-2,x") == f"{session}-execution-root-id-2"
    assert run_in(f"{session},etl") is None
    assert run_in("") is None


def test_staged_rows_and_manifests_come_back(client: redis.Redis, instance: servers.Running) -> None:
    """Staged rows and manifests are unchanged after a round trip, with and without IDs, for any stream name."""
    options = WriteOptions(stream="s")
    table = pa.RecordBatch.from_pydict({"_id": ["1-1", None, "2-*"], "n": [1, 2, 3]})
    (rows,) = next(RowEncoder(options, WriteSchema(("n",), False, True, False)).chunks(iter([table])))
    for part in (rows, rows.part(1, 3)):
        found = unpack_rows(b"s", bytes(part.commands), pack_index(part))
        assert (bytes(found.commands), found.bounds.tolist()) == (bytes(part.commands), part.bounds.tolist())
        assert (found.rows.tolist(), found.ids) == (part.rows.tolist(), part.ids)
    task_rows = Attempt(instance.url, "a", "staged").task(3, range(9)).task_rows
    named = [TaskRows(b"\xff", *list(vars(task_rows[0]).values())[1:])]
    assert parse_manifest(manifest_of(named)) == named


def test_lost_staged_rows_are_an_error(client: redis.Redis, instance: servers.Running) -> None:
    """Staged rows that are missing at publication are an error that names their batch and stream."""
    attempt = Attempt(instance.url, "first", "staged").task(0, range(20))
    client.delete(*client.keys("*staged*"))
    with pytest.raises(WriteError, match=r"STAGED_LOST.*batch 0.*'s'"):
        attempt.commit()


def test_ids_of_the_rows_are_kept_or_left_out(client: redis.Redis, instance: servers.Running) -> None:
    """Rows with IDs smaller than the stream's last ID, or with other keys, are rejected with advice; with keepIds=false
    they get new IDs.
    """
    client.xadd("s", {"n": "0"}, id="9-9")
    table = pa.RecordBatch.from_pydict({"_id": ["1-1", "2-2"], "n": [1, 2]})

    def copy(mode: str, keep: bool, table: Any = table) -> None:
        options = WriteOptions(stream="s", mode=mode, keep_ids=keep)  # type: ignore[arg-type]
        Sink(Address(instance.url), options, WriteSchema(("n",), False, True, False)).write(iter([table]))

    for mode in ("exactlyOnce", "append"):
        with pytest.raises(WriteError, match=r"ROW_REFUSED.*(equal or smaller|not larger).*keepIds=false"):
            copy(mode, keep=True)
        keys = pa.RecordBatch.from_pydict({"_id": ["order-17"], "n": [1]})
        with pytest.raises(WriteError, match=r"ROW_REFUSED.*stream ID.*keepIds=false.*rename"):
            copy(mode, keep=True, table=keys)
        copy(mode, keep=False)
    assert numbers(client) == [0, 1, 2, 1, 2]


@pytest.mark.redis
def test_a_server_that_may_evict_the_records_is_refused(redis_process: servers.Running) -> None:
    """A write to a server that may evict its records is rejected, unless allowEviction is set or no
    records are kept.
    """

    def planned(streaming: bool = True, **given: Any) -> Sink:
        options = WriteOptions(stream="s", **given)
        return plan(Address(redis_process.url), options, WriteSchema(("n",), False, False, False), streaming, False)

    with redis.Redis(host=redis_process.host, port=redis_process.port) as client:
        client.config_set("maxmemory-policy", "volatile-lru")
        planned()
        client.config_set("maxmemory", 1 << 30)
        try:
            for streaming in (True, False):
                with pytest.raises(ServerError, match=r"RECORDS_EVICTED.*'volatile-lru'.*noeviction.*allowEviction"):
                    planned(streaming)
            planned(allow_eviction=True)
            planned(mode="append")
            planned(fence_retention=0)
        finally:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")


@pytest.mark.parametrize("mode", MODES)
def test_abandoned_staged_rows_are_removed_by_the_next_commit(
    client: redis.Redis, instance: servers.Running, mode: str
) -> None:
    """The query's next commit removes rows that a dead driver left staged, for any stream."""
    Attempt(instance.url, "zeroth", mode).task(0, [1]).commit()
    Attempt(instance.url, "first", "staged", batch=1).task(0, range(20), stream="gone").task(1, range(20))
    assert len(client.keys("*staged*")) == 2
    Attempt(instance.url, "second", mode, batch=1).task(0, range(30)).commit()
    assert client.keys("*staged*") == []
    assert numbers(client) == [1, *range(30)]
    Attempt(instance.url, "second", mode, batch=2).task(0, [5]).commit()
    ledger = client.hgetall(*client.keys("*:ledger"))
    assert {name.split(b":")[1] for name in ledger if b":" in name} == {b"2"}


def test_rows_lost_before_the_commit_are_noticed(client: redis.Redis, instance: servers.Running) -> None:
    """If a failover lost rows of finished tasks, the commit fails, and the repeated batch writes the rows again."""
    first = Attempt(instance.url, "first").task(0, range(10)).task(1, range(10, 20))
    client.delete("s", *client.keys("pystreams:fence:{s}*"))
    with pytest.raises(WriteError, match=r"FENCE_BEHIND.*counts 0 rows, but the server had confirmed 10\."):
        first.commit()
    Attempt(instance.url, "second").task(0, range(20)).commit()
    assert numbers(client) == [*range(20)]


@pytest.mark.parametrize("may", ["+@all", "+@all -eval -command", "+@all -eval -ps.append", "+@all -eval -ps.exec"])
def test_staged_rows_are_published_with_any_permissions(
    client: redis.Redis, instance: servers.Running, request: pytest.FixtureRequest, may: str
) -> None:
    """Staged rows are published in order by the server, or by the driver if the user lacks the permissions."""
    known = "-eval -command" if request.node.callspec.params["instance"] == "redis" else "-command -ps.append -ps.exec"
    words = " ".join(["+@all", *(rule for rule in may.split() if rule in known.split())])
    client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">x", "~*", *words.split())
    client.config_resetstat()
    try:
        trimmed = {"maxlen": 150, "approximate": False}
        attempt = Attempt(instance.url.replace("://", "://job:x@"), "first", "staged", more=trimmed)
        attempt.task(0, range(130)).task(1, range(130, 200)).commit()
        calls = client.info("commandstats")
    finally:
        client.execute_command("ACL", "DELUSER", "job")
    assert numbers(client) == [*range(50, 200)]
    stats = (calls.get(f"cmdstat_{name}", {}) for name in ("eval", "ps.append"))
    assert (sum(each.get("calls", 0) - each.get("failed_calls", 0) for each in stats) > 1) == (may == "+@all")
