"""Batches that are attempted again, without Spark: exactly the right rows, or an error and nothing changed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
import redis

from spark_streams.client.connection import Connection
from spark_streams.columns.write_schema import WriteSchema
from spark_streams.config.address import Address
from spark_streams.config.write import WriteOptions
from spark_streams.errors import ServerError, WriteError
from spark_streams.write import foreach_batch
from spark_streams.write.encoding import RowEncoder, merged
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.fence import StreamFence, WriterId
from spark_streams.write.publishing import Publisher
from spark_streams.write.record import StagedRows, manifest_of, parse_manifest
from spark_streams.write.sink import Sink, plan
from spark_streams.write.slot_transaction import SlotTransaction
from spark_streams.write.staging import pack_rows, unpack_rows
from tests import servers

QUERY = "0b8e9a10-0000-4000-8000-000000000002"
MODES = ("exactlyOnce", "atomic", "staged")


@dataclass
class Attempt:
    """One attempt of a batch: its tasks' rows by partition, each of them at the stream s, or at s and t in turn."""

    url: str
    name: str
    mode: str = "exactlyOnce"
    batch: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    fences: list[StreamFence] = field(default_factory=list)
    staged: list[StagedRows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.options = WriteOptions(stream="s", mode=self.mode, chunk_size=5, **self.more)  # type: ignore[arg-type]
        self.connection = Connection(Address(self.url, retry_ms=5000))

    def task(self, partition: int, rows: Sequence[int], dies: bool = False) -> Attempt:
        """Run a task; if it dies, it is never heard of again."""
        writer = WriterId(QUERY, self.batch, partition, self.name)
        sender = ExactlyOnceSender(self.connection, writer, self.options, lasting=True)
        table = pa.RecordBatch.from_pydict({"n": pa.array(rows, pa.int64())})
        chunks = RowEncoder(self.options, WriteSchema(("n",), False, False, False)).chunks(iter([table]))
        for chunk in [merged(chunks)] if self.mode == "atomic" else chunks:
            sender.submit(chunk)
        fences = sender.finish()
        if not dies:
            self.fences += fences
            self.staged += sender.staged
        return self

    def commit(self) -> None:
        """The driver's end of the batch."""
        writer = WriterId(QUERY, self.batch, 0, self.name)
        publisher = Publisher(self.connection, writer, self.options, 60_000)
        publisher.commit(dict.fromkeys(fence.stream for fence in self.fences), self.staged)


def numbers(client: redis.Redis, stream: str = "s") -> list[int]:
    return [int(fields[b"n"]) for _, fields in client.xrange(stream)]


@pytest.mark.parametrize("mode", ["exactlyOnce", "atomic"])
def test_other_partitions_behind_a_task_that_had_ended_are_refused(
    client: redis.Redis, place: servers.Running, mode: str
) -> None:
    """One of two tasks had ended, and the batch comes in three parts: an error, nothing added; as before: the rest."""
    rows = list(range(40))
    Attempt(place.url, "first", mode).task(0, rows[::2])
    again = Attempt(place.url, "second", mode)
    for partition in range(3):
        again.task(partition, rows[partition::3])
    with pytest.raises(WriteError, match=r"REPLAY_DIFFERS.*Partition 0 of batch 0.*default\.parallelism.*staged"):
        again.commit()
    assert numbers(client) == rows[::2]
    with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
        Attempt(place.url, "fewer", mode).task(1, rows[1::2]).commit()
    Attempt(place.url, "third", mode).task(0, rows[::2]).task(1, rows[1::2]).commit()
    assert sorted(numbers(client)) == rows
    Attempt(place.url, "next", mode, batch=1).task(0, [7]).commit()
    assert numbers(client)[-1] == 7
    assert not client.keys("*staged*")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_committed", [True, False])
def test_rows_that_are_all_there_may_come_in_any_partitions_and_order(
    client: redis.Redis, place: servers.Running, mode: str, is_committed: bool
) -> None:
    """A batch that was written completely adds nothing, however it comes again; other rows are refused."""
    first = Attempt(place.url, "first", mode).task(0, range(20)).task(1, range(20, 40))
    if is_committed or mode == "staged":
        first.commit()
    for parts in ([range(39, -1, -1)], [range(k, 40, 3) for k in range(3)]):
        again = Attempt(place.url, f"again{len(parts)}", mode)
        for partition, part in enumerate(parts):
            again.task(partition, part)
        again.commit()
        assert numbers(client) == list(range(40))
    with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
        Attempt(place.url, "other", mode).task(0, range(20)).task(1, range(21, 41)).commit()
    assert numbers(client) == list(range(40))


def test_a_complete_task_in_another_order_is_skipped_and_the_rest_is_written(
    client: redis.Redis, place: servers.Running
) -> None:
    """The order within a partition may change, as after a shuffle, once its task had ended."""
    Attempt(place.url, "first").task(0, range(20))
    Attempt(place.url, "second").task(0, range(19, -1, -1)).task(1, range(20, 40)).commit()
    assert sorted(numbers(client)) == list(range(40))


def test_a_task_of_an_attempt_that_was_replaced_or_finished_writes_nothing(
    client: redis.Redis, place: servers.Running
) -> None:
    """Late tasks fail or find the batch finished, also when their own fence is gone."""
    Attempt(place.url, "first").task(0, range(20))
    late = Attempt(place.url, "first")
    sender = ExactlyOnceSender(late.connection, WriterId(QUERY, 0, 1, "first"), late.options, lasting=True)
    encoder = RowEncoder(late.options, WriteSchema(("n",), False, False, False))
    table = pa.RecordBatch.from_pydict({"n": pa.array(range(20, 40), pa.int64())})
    chunks = list(encoder.chunks(iter([table])))
    sender.submit(chunks[0])
    sender.settle()
    Attempt(place.url, "second").task(0, range(20)).task(1, range(20, 40)).commit()
    sender.submit(chunks[1])
    with pytest.raises(WriteError, match=r"ATTEMPT_REPLACED.*batch 0"):
        sender.finish()
    for key in client.keys("pystreams:fence:*:[01]"):
        client.delete(key)
    Attempt(place.url, "second").task(0, range(20)).task(1, range(20, 40))
    assert sorted(numbers(client)) == list(range(40))


@pytest.mark.parametrize("published", [0, 1, 3])
def test_a_publication_that_was_begun_is_finished_by_any_other_attempt(
    client: redis.Redis, place: servers.Running, published: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies while it publishes: the next one finishes that, whatever its own plan and rows are."""
    first = Attempt(place.url, "first", "staged").task(0, range(20)).task(1, range(20, 40))
    assert numbers(client) == []
    begin, left = SlotTransaction.begin, [published]

    def die(self: SlotTransaction, rows: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        begin(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(SlotTransaction, "begin", die)
        with pytest.raises(KeyboardInterrupt):
            first.commit()
    Attempt(place.url, "second", "staged").task(0, range(100, 110)).commit()
    assert numbers(client) == list(range(40))
    Attempt(place.url, "third", "staged", batch=1).task(0, range(40, 45)).commit()
    assert numbers(client) == list(range(45))


def test_staged_rows_of_an_attempt_that_died_are_never_published(client: redis.Redis, place: servers.Running) -> None:
    """Tasks that staged without their driver's commit leave nothing but keys that expire."""
    Attempt(place.url, "first", "staged").task(0, range(20))
    assert numbers(client) == []
    assert all(0 < client.pttl(key) <= 86_400_000 for key in client.keys("*staged*"))
    second = Attempt(place.url, "second", "staged").task(1, range(5), dies=True).task(1, range(5)).task(0, [7, 8])
    second.commit()
    assert numbers(client) == [7, 8, *range(5)]


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_that_was_deleted_gets_its_rows_again(client: redis.Redis, place: servers.Running, mode: str) -> None:
    """Records of a stream that is gone, or was made anew since, do not count; in other partitions as well."""
    Attempt(place.url, "first", mode).task(0, range(20)).task(1, range(20, 40)).commit()
    client.delete("s")
    Attempt(place.url, "second", mode).task(0, range(40)).commit()
    assert numbers(client) == list(range(40))
    client.delete("s")
    client.xadd("s", {"n": "-1"})
    Attempt(place.url, "third", mode).task(0, range(20)).task(1, range(20, 40)).commit()
    assert numbers(client) == [-1, *range(40)]
    client.xtrim("s", maxlen=0)
    Attempt(place.url, "fourth", mode).task(0, range(40)).commit()
    assert numbers(client) == []  # trimmed, not deleted: the rows have been there


@pytest.mark.parametrize("seed", range(12))
def test_never_other_rows_in_silence(client: redis.Redis, place: servers.Running, seed: int) -> None:
    """Attempts with parts, orders and deaths by chance: exactly the rows, or REPLAY_DIFFERS and what was there."""
    chance = random.Random(seed)
    for batch in range(4):
        mode = chance.choice(MODES)
        rows = list(range(1000 * batch, 1000 * batch + chance.randrange(1, 60)))
        before = numbers(client)
        for number in range(6):
            order = chance.sample(rows, len(rows)) if chance.random() < 0.3 else rows
            count = chance.choice((2, 2, 3))
            attempt = Attempt(place.url, f"{seed}-{number}", mode, batch)
            there = numbers(client)
            for partition in range(count):
                mine = order[partition::count]
                if number < 2 and chance.random() < 0.5:
                    if mine and chance.random() < 0.7:
                        attempt.task(partition, mine[: chance.randrange(len(mine))] or mine, dies=True)
                    break
                attempt.task(partition, mine)
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


def test_writes_of_a_batch_are_counted_by_run(client: redis.Redis, place: servers.Running) -> None:
    """Each execution keeps its number; a run after a restart counts anew, a later batch too, an earlier one fails."""
    connection, options = Connection(Address(place.url)), WriteOptions(stream="s")

    def number(batch: int, run: str, execution: str) -> int:
        return foreach_batch.number_of_write(connection, "q", batch, run, execution, options)

    assert [number(0, "a", each) for each in ("5", "7", "5", "9", "7")] == [0, 1, 0, 2, 1]
    assert [number(0, "b", each) for each in ("1", "2")] == [0, 1]
    assert number(0, "a", "7") == 1
    assert number(1, "b", "4") == 0
    with pytest.raises(WriteError, match="ATTEMPT_REPLACED"):
        number(0, "a", "5")
    assert len(client.keys("*")) == 1


def test_staged_rows_and_manifests_come_back(client: redis.Redis, place: servers.Running) -> None:
    """Stored and read again they are the same, with IDs and without, whatever the stream is called."""
    options = WriteOptions(stream="s")
    table = pa.RecordBatch.from_pydict({"_id": ["1-1", None, "2-*"], "n": [1, 2, 3]})
    (rows,) = next(RowEncoder(options, WriteSchema(("n",), False, True, False)).chunks(iter([table])))
    for part in (rows, rows.part(1, 3)):
        found = unpack_rows(b"s", pack_rows(part))
        assert (bytes(found.commands), found.bounds.tolist()) == (bytes(part.commands), part.bounds.tolist())
        assert (found.rows.tolist(), found.ids) == (part.rows.tolist(), part.ids)
    staged = Attempt(place.url, "a", "staged").task(3, range(9)).staged
    named = [StagedRows(b"\xff", *list(vars(staged[0]).values())[1:])]
    assert parse_manifest(manifest_of(named, [b"\xff", b"s"])) == (named, [b"\xff", b"s"])


def test_staged_rows_that_were_lost_are_an_error(client: redis.Redis, place: servers.Running) -> None:
    """Staged rows that are gone when they are to be published are missed by name."""
    attempt = Attempt(place.url, "first", "staged").task(0, range(20))
    client.delete(*client.keys("*staged*"))
    with pytest.raises(WriteError, match=r"STAGED_LOST.*batch 0.*'s'"):
        attempt.commit()


def test_ids_of_the_rows_are_kept_or_left_out(client: redis.Redis, place: servers.Running) -> None:
    """Entries copied to a stream with newer ones are refused with a way out, and with keepIds=false get new IDs."""
    client.xadd("s", {"n": "0"}, id="9-9")
    table = pa.RecordBatch.from_pydict({"_id": ["1-1", "2-2"], "n": [1, 2]})

    def copy(mode: str, keep: bool) -> None:
        options = WriteOptions(stream="s", mode=mode, keep_ids=keep)  # type: ignore[arg-type]
        Sink(Address(place.url), options, WriteSchema(("n",), False, True, False)).write(iter([table]))

    for mode in ("exactlyOnce", "append"):
        with pytest.raises(WriteError, match=r"ROW_REFUSED.*equal or smaller.*keepIds=false"):
            copy(mode, keep=True)
        copy(mode, keep=False)
    assert numbers(client) == [0, 1, 2, 1, 2]


@pytest.mark.redis
def test_a_server_that_may_evict_the_records_is_refused(redis_process: servers.Running) -> None:
    """With maxmemory and a policy that evicts, a write is refused unless the user allows it or keeps no records."""

    def planned(streaming: bool = True, **said: Any) -> Sink:
        options = WriteOptions(stream="s", **said)
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
