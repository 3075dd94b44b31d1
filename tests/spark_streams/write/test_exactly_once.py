"""Writing tasks without Spark that are repeated, duplicated, interrupted or replayed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import redis

from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError, WriteError
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import RowEncoder, WriteSchema
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.protocol import retention_ms
from spark_streams.write.records import WriterId
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests import servers
from tests.spark_streams.write.test_attempts import numbers

QUERY = "0b8e9a10-0000-4000-8000-000000000001"


def table(first: int, end: int, **more: Any) -> pa.RecordBatch:
    columns = {"n": pa.array(range(first, end), pa.int64()), **more}
    return pa.RecordBatch.from_pydict(columns)


class Task:
    """A task of a query that writes record batches to streams."""

    def __init__(self, url: str, batch: int = 0, partition: int = 0, stream: str | None = "s", **options: Any) -> None:
        self.options = WriteOptions(**{"stream": stream, "chunk_size": 100, **options})
        self.connection = Connection(Address(url, retry_ms=5000))
        self.sender = ExactlyOnceSender(self.connection, WriterId(QUERY, batch, partition), self.options, lasting=True)

    def feed(self, *batches: pa.RecordBatch) -> Task:
        names = batches[0].schema.names
        schema = WriteSchema(
            tuple(name for name in names if name[0] != "_"),
            False,
            "_id" in names,
            "_stream" in names,
        )
        for chunk in RowEncoder(self.options, schema).chunks(iter(batches)):
            self.sender.submit(chunk)
        return self

    def finish(self) -> int:
        task_rows = self.sender.finish()
        self.connection.close()
        return sum(each.digest.rows for each in task_rows)


def test_rows_of_many_streams_have_a_fence_for_each(client: redis.Redis, instance: servers.Running) -> None:
    """With `_stream`, each stream has a fence, and gets its rows once and in order after a partial first attempt."""
    names = pa.array([f"s{n % 5}" for n in range(1000)])
    Task(instance.url, stream=None).feed(table(0, 333, _stream=names[:333])).finish()
    Task(instance.url, stream=None).feed(table(0, 1000, _stream=names)).finish()
    for k in range(5):
        assert numbers(client, f"s{k}") == list(range(k, 1000, 5))
    fences = client.keys("pystreams:fence:*")
    assert len(fences) == 16  # fence, record and list of partitions for each stream, and the ledger
    assert all(0 < client.pttl(key) <= 30 * 86_400_000 for key in fences)


def test_equal_keys_go_to_the_same_stream(client: redis.Redis, instance: servers.Running) -> None:
    """With `keyColumn` and `partitions`, rows with the same key are in one stream, in order."""
    keys = pa.array([f"k{n % 11}" if n % 13 else None for n in range(500)])
    Task(instance.url, partitions=3, key_column="key").feed(table(0, 500, key=keys)).finish()
    seen: dict[bytes | None, set[int]] = {}
    count = 0
    for k in range(3):
        entries = [fields for _, fields in client.xrange(f"s:{{{k}}}")]
        count += len(entries)
        assert [int(fields[b"n"]) for fields in entries] == sorted(int(fields[b"n"]) for fields in entries)
        for fields in entries:
            seen.setdefault(fields.get(b"key"), set()).add(k)
    assert count == 500
    assert all(len(streams) == 1 for streams in seen.values())
    assert seen[None] == {0}
    assert len(set.union(*seen.values())) == 3


def test_trimming_follows_each_chunk(client: redis.Redis, instance: servers.Running) -> None:
    """`maxlen` and `retentionMs` trim the stream to the exact limit if `approximate` is false."""
    Task(instance.url, maxlen=10, approximate=False).feed(table(0, 250)).finish()
    assert numbers(client) == list(range(240, 250))
    client.xadd("u", {"n": "-1"}, id="5-0")
    Task(instance.url, stream="u", retention=3_600_000, approximate=False).feed(table(0, 3)).finish()
    assert numbers(client, "u") == [0, 1, 2]


def test_rows_with_given_ids(client: redis.Redis, instance: servers.Running) -> None:
    """Given IDs are used; a chunk with an invalid or too small ID is rejected as a whole."""
    ids = pa.array([f"{n + 1}-0" for n in range(150)])
    Task(instance.url).feed(table(0, 150, _id=ids)).finish()
    Task(instance.url).feed(table(0, 150, _id=ids)).finish()
    assert [entry_id for entry_id, _ in client.xrange("s")] == [b"%d-0" % (n + 1) for n in range(150)]
    with pytest.raises(WriteError, match=r"ROW_REFUSED.*Row 2 .*3-0 is not larger"):
        Task(instance.url, stream="t").feed(table(0, 4, _id=pa.array(["2-0", "3-0", "3-0", "4-0"]))).finish()
    with pytest.raises(WriteError, match=r"ROW_REFUSED.*Row 1 .*'x' is not a stream ID"):
        Task(instance.url, stream="t").feed(table(0, 2, _id=pa.array(["2-0", "x"]))).finish()
    assert client.xlen("t") == 0
    mixed = pa.array(["7-0", "7-*", None, None, "99999999999999-0", "99999999999999-*", None])
    Task(instance.url, stream="m").feed(table(0, 7, _id=mixed)).finish()
    got = [entry_id for entry_id, _ in client.xrange("m")]
    assert (got[:2], got[4:6], len(got)) == ([b"7-0", b"7-1"], [b"99999999999999-0", b"99999999999999-1"], 7)
    assert numbers(client, "m") == list(range(7))


def test_an_unsuitable_key_is_rejected_before_anything_is_written(
    client: redis.Redis, instance: servers.Running
) -> None:
    """A key of another type is an error; no row and no fence is written."""
    client.set("s", "text")
    with pytest.raises(PystreamsError, match="NOT_A_STREAM"):
        Task(instance.url).feed(table(0, 3)).finish()
    assert [key for key in client.keys("*") if not key.endswith(b":ledger")] == [b"s"]


def test_appending_keeps_no_fence(client: redis.Redis, instance: servers.Running) -> None:
    """`writeMode=append` writes each row on every attempt and creates no other keys."""
    for _ in range(2):
        connection = Connection(Address(instance.url))
        options = WriteOptions(stream="s", chunk_size=30)
        sender = AtLeastOnceSender(connection, options)
        for chunk in RowEncoder(options, WriteSchema(("n",), False, False, False)).chunks([table(0, 100)]):
            sender.submit(chunk)
        sender.finish()
        connection.close()
    assert numbers(client) == [*range(100), *range(100)]
    assert client.keys("*") == [b"s"]


@pytest.mark.parametrize(
    ("retention", "named", "unnamed"), [(0, 0, 30), (1, 1, 30), (2, 2, 30), (30, 30, 30), (45, 45, 45)]
)
def test_a_short_retention_does_not_shorten_an_unnamed_write(retention: int, named: int, unnamed: int) -> None:
    """Records of a running unnamed write last at least 30 days; other records last as long as fenceRetention."""
    day = 86_400_000
    options = WriteOptions(stream="s", fence_retention=retention * day)
    assert (retention_ms(options, lasting=True), retention_ms(options, lasting=False)) == (named * day, unnamed * day)
