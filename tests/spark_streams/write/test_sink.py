"""Batch writes without Spark, from the plan to the commit, in particular overwriting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis

from spark_streams.config.write import WriteOptions
from spark_streams.errors import OptionsError, WriteError
from spark_streams.write.encoding import WriteSchema
from spark_streams.write.sink import Sink, Written, plan
from streamclient.config.address import Address
from tests import servers
from tests.spark_streams.write.test_attempts import numbers

MODES = ("exactlyOnce", "atomic", "staged", "append")


def planned(url: str, overwrite: bool = True, **given: Any) -> Sink:
    """Return the batch write as Spark plans it."""
    options = WriteOptions(**{"stream": "s", "chunk_size": 7, **given})
    return plan(Address(url), options, WriteSchema(("n",), False, False, False), streaming=False, overwrite=overwrite)


def wrote(sink: Sink, rows: Sequence[int]) -> Written:
    """Write these rows in one task, and return its message."""
    return sink.write(iter([pa.RecordBatch.from_pydict({"n": pa.array(rows, pa.int64())})]))


@pytest.mark.parametrize("mode", MODES)
def test_overwriting_removes_only_the_previous_entries(
    client: redis.Redis, instance: servers.Running, mode: str
) -> None:
    """Overwriting removes the previous entries when the write ends, and keeps entries that were
    added during the write.
    """
    client.xadd("s", {"n": -1})
    sink = planned(instance.url, mode=mode)
    message = wrote(sink, range(20))
    assert numbers(client)[0] == -1
    client.xadd("s", {"n": 100})
    sink.finish([message])
    assert sorted(numbers(client)) == [*range(20), 100]
    planned(instance.url, mode=mode).finish([])
    assert numbers(client) == []


def test_overwriting_warns_of_entries_that_groups_have_not_finished(
    client: redis.Redis, instance: servers.Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Overwriting logs the unread and pending entries of each group, and nothing if all groups have finished."""
    for n in range(5):
        client.xadd("s", {"n": n})
    client.xgroup_create("s", "slow", "0")
    client.xgroup_create("s", "done", "$")
    client.xreadgroup("slow", "c", {"s": ">"}, count=2)
    planned(instance.url)
    assert (
        "Overwriting s removes entries that consumer groups have not read or acknowledged: slow (3 unread, 2 pending)."
        in caplog.text
    )
    client.xgroup_destroy("s", "slow")
    caplog.clear()
    planned(instance.url)
    planned(instance.url, stream="none")
    planned(instance.url, overwrite=False)
    assert not caplog.text


@pytest.mark.parametrize(("keep", "has_id"), [(True, True), (False, True), (False, False)])
def test_an_id_that_is_not_written_is_logged(
    instance: servers.Running, caplog: pytest.LogCaptureFixture, keep: bool, has_id: bool
) -> None:
    """With keepIds=false, a warning names the column `_id`, whose values are not written."""
    options = WriteOptions(stream="s", keep_ids=keep)
    plan(Address(instance.url), options, WriteSchema(("n",), False, has_id, False), streaming=False, overwrite=False)
    assert ("The column '_id' is not written" in caplog.text) == (has_id and not keep)


def test_overwriting_unread_entries_can_be_rejected(client: redis.Redis, instance: servers.Running) -> None:
    """With overwriteUnread=false, a write fails when it is planned if a group has unread or pending entries."""
    client.xadd("s", {"n": 1})
    client.xgroup_create("s", "g", "0")
    with pytest.raises(WriteError, match=r"\[OVERWRITE_UNREAD\] Overwriting 's' .*: g \(1 unread, 0 pending\)"):
        planned(instance.url, overwrites_unread=False)
    client.xreadgroup("g", "c", {"s": ">"})
    with pytest.raises(WriteError, match=r"g \(0 unread, 1 pending\)"):
        planned(instance.url, overwrites_unread=False)
    ((entry, _),) = client.xrange("s")
    client.xack("s", "g", entry)
    sink = planned(instance.url, overwrites_unread=False)
    sink.finish([wrote(sink, range(3))])
    assert numbers(client) == [0, 1, 2]
    planned(instance.url, stream="none", overwrites_unread=False)
    with pytest.raises(OptionsError, match="'overwriteUnread' is 'false', but it needs the option 'stream'"):
        planned(instance.url, stream=None, overwrites_unread=False)


@pytest.mark.parametrize("mode", MODES[:3])
def test_a_repeated_overwrite_keeps_its_rows(client: redis.Redis, instance: servers.Running, mode: str) -> None:
    """Repeating an overwriting write with its writeId gives the same rows, even if it died before removing the old
    entries.
    """
    client.xadd("s", {"n": -1})
    sink = planned(instance.url, mode=mode, write_id="w")
    sink.commit([wrote(sink, range(20))])
    assert numbers(client) == [-1, *range(20)]
    for _ in range(2):
        again = planned(instance.url, mode=mode, write_id="w")
        again.finish([wrote(again, range(20))])
        assert numbers(client) == [*range(20)]
    other = planned(instance.url, mode=mode, write_id="w")
    message = wrote(other, range(5))
    with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
        other.finish([message])
    assert numbers(client) == [*range(20)]


@pytest.mark.parametrize("given", [{}, {"write_id": "w"}])
def test_rows_staged_by_copies_of_a_task_are_published_once(
    client: redis.Redis, instance: servers.Running, given: dict[str, Any]
) -> None:
    """If copies of a task stage the same rows, one set is published, and the others are removed."""
    sink = planned(instance.url, mode="staged", overwrite=False, **given)
    for _ in range(2):
        wrote(sink, range(20))
    assert len(client.keys("*staged*")) == 2
    sink.finish([wrote(sink, range(20))])
    assert numbers(client) == [*range(20)]
    assert client.keys("*staged*") == []
    assert all(client.pttl(key) > 0 for key in client.keys("pystreams:*"))


VALUES = ["", "a", "\r\n", "$1\r\na\r\n", "x" * 700, "é\0", None, "*3"]
TABLES = {
    "values": {
        "n": [*range(len(VALUES) * 90)],
        "v": VALUES * 90,
        "%d.[(-^": ["7"] * 90 * len(VALUES),
    },
    "a name with a zero": {"n": [1, 2, 3], "a\0b": ["x", "y", "z"]},
    "many fields": {f"f{k}": [f"{k}", "\r", ""] for k in range(40)},
    "a thousand words": {f"f{k}": ["v", "w"] for k in range(600)},
    "large values": {"n": [1, 2, 3], "v": ["x" * (1 << 21), "y", "z" * (1 << 20)]},
}


@pytest.mark.parametrize("name", TABLES)
def test_staged_rows_equal_appended_rows(client: redis.Redis, instance: servers.Running, name: str) -> None:
    """Staged rows equal appended rows, for any bytes and any number of fields."""
    found = []
    for mode in ("append", "staged"):
        batch = pa.RecordBatch.from_pydict(TABLES[name])
        options = WriteOptions(stream="s", mode=mode)  # type: ignore[arg-type]
        schema = WriteSchema(tuple(batch.schema.names), False, False, False)
        sink = plan(Address(instance.url), options, schema, streaming=False, overwrite=True)
        sink.finish([sink.write(iter([batch]))])
        found.append([fields for _, fields in client.xrange("s")])
    assert len(found[0]) == len(next(iter(TABLES[name].values())))
    assert found[0] == found[1]
