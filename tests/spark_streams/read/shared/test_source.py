"""Groups shared with other programs: redis-py consumers that join, die and return.

This module is long because all cases use `query_of`.
"""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest

from spark_streams.errors import StreamError
from spark_streams.read.shared import task
from streamwire.slots import slot_of
from tests.spark_streams.driver import Query, Site, numbers
from tests.suite.waiting import wait_for

SCHEMA = "_id string, n int, _deliveries int"
SHARED = {"consume": "shared", "startingOffsets": "earliest", "maxEntriesPerTrigger": "1"}


def query_of(site: Site, **options: Any) -> Query:
    return Query(
        site.url, SCHEMA, **{"stream": "s", "group": "g", "consume": "shared", "startingOffsets": "earliest", **options}
    )


def taken(reply: Any) -> list[int]:
    """Return the numbers of the entries in a redis-py consumer's reply."""
    return [int(fields[b"n"]) for _, entries in reply for _, fields in entries]


def test_entries_are_pending_for_the_batchs_consumers(site: Site) -> None:
    """Each partition has a consumer named after the batch, which is removed when the batch is finished."""
    site.add("s", 30)
    query = query_of(site, consumerPrefix="job", minPartitions=3)
    assert sorted(numbers(query.trigger() or [])) == list(range(30))
    assert query.partitions == [[10, 10, 10]]
    consumers = site.client.xpending("s", "g")["consumers"]
    assert consumers == [{"name": b"job-1-%d" % i, "pending": 10} for i in range(3)]
    assert query.trigger() is None
    assert site.client.xinfo_consumers("s", "g") == []


def test_a_retry_and_a_replay_have_the_rows_of_the_first_attempt(site: Site) -> None:
    """A retry and a replay have the rows of the first attempt, even if other consumers have read further."""
    site.add("s", 20)
    query = query_of(site, maxEntriesPerTrigger=8)
    first = query.trigger()
    site.client.xreadgroup("g", "python", {"s": ">"}, count=5)
    assert numbers(query.run()) == numbers(first or [])
    query.restart()
    again = query.run()
    assert numbers(again) == numbers(first or [])
    assert [row["_deliveries"] for row in again] == [2] * 8
    assert numbers(query.drain()) == list(range(13, 20))


def test_a_long_history_is_read_page_by_page(site: Site) -> None:
    """Every attempt of a partition larger than a page has the same rows, except entries deleted in the meantime."""
    site.add("s", 100)
    query = query_of(site, pageSize=7, failOnDataLoss="false")
    assert numbers(query.trigger() or []) == list(range(100))
    site.client.xdel("s", *(f"{n}-1" for n in range(7, 30)))
    assert numbers(query.run()) == [n for n in range(100) if not 6 <= n < 29]
    assert query.trigger() is None
    assert site.group()["pending"] == 0


def test_scans_of_one_batch_count_once(site: Site) -> None:
    """Repeated scans of a batch in one run have the same rows and count as one delivery."""
    site.add("s", 3)
    query = query_of(site, maxDeliveries=2, deadLetterStream="dead")
    first = query.trigger()
    for _ in range(5):
        assert query.run() == first
    assert {row["_deliveries"] for row in first or []} == {1}
    assert not site.client.exists("dead")
    assert query.trigger() is None
    assert site.group()["pending"] == 0


@pytest.mark.parametrize("how", ["trimmed", "deleted"])
def test_entries_removed_between_two_attempts_are_lost(site: Site, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Entries removed between two attempts fail every later attempt, or cause a warning with failOnDataLoss=false."""
    site.add("s", 6)
    query = query_of(site)
    assert numbers(query.trigger() or []) == list(range(6))
    if how == "trimmed":
        site.client.xtrim("s", maxlen=2, approximate=False)
    else:
        site.client.xdel("s", *(f"{n}-1" for n in range(1, 5)))
    for _ in range(2):
        with pytest.raises(StreamError, match=r"ENTRIES_LOST.* 4 entries"):
            query.run()
        query.restart()
    query.restart(failOnDataLoss="false")
    assert numbers(query.run()) == [4, 5]
    assert "4 entries" in caplog.text


def test_a_scattered_history_is_read_again_whole(site: Site) -> None:
    """A retry reads all claimed entries at scattered positions again, and none of other consumers' entries between
    them.
    """
    site.add("s", 60)
    query = query_of(site, claimIdleMs=1, maxEntriesPerTrigger=100)
    query.reader.initialOffset()
    for n in range(60):
        site.client.xreadgroup("g", "dead" if n % 3 == 0 else "alive", {"s": ">"}, count=1)
    claimable = ("s", "g", "-", "+", 60, "dead", 2)
    wait_for(lambda: len(site.client.xpending_range(*claimable)) == 20, "all of the dead consumer's entries to be idle")
    site.client.xack("s", "g", *(f"{n + 1}-1" for n in range(60) if n % 3))
    rows = numbers(query.trigger() or [])
    assert sorted(rows) == list(range(0, 60, 3))
    assert sorted(numbers(query.run())) == sorted(rows)


def test_two_concurrent_attempts_have_the_same_entries(site: Site) -> None:
    """Two concurrent attempts of a task return the same entries, which are delivered once."""
    site.add("s", 20)
    query = query_of(site, maxEntriesPerTrigger=10)
    query.plan()
    start, end = (json.loads(text) for text in query.log[-2:])
    (part,) = query.reader.partitions(start, end)
    first, second = (query.reader.read(pickle.loads(pickle.dumps(part))) for _ in range(2))
    rows = [[row["n"] for batch in attempt for row in batch.to_pylist()] for attempt in (first, second)]
    assert rows == [list(range(10)), list(range(10))]
    assert site.group()["pending"] == 10


def test_a_task_of_a_finished_batch_reads_nothing(site: Site) -> None:
    """A task that starts after its batch was finished reads no entries."""
    site.add("s", 20)
    query = query_of(site, maxEntriesPerTrigger=10)
    query.trigger()
    start, end = (json.loads(text) for text in query.log[-2:])
    (part,) = query.reader.partitions(start, end)
    assert len(query.drain()) == 10
    site.add("s", 5, first=20)
    assert list(query.reader.read(part)) == []
    assert site.group()["pending"] == 0
    assert numbers(query.drain()) == [20, 21, 22, 23, 24]


def test_a_dead_consumers_entries_are_taken_over(site: Site) -> None:
    """The query claims entries that were idle for claimIdleMs, but none of an active consumer."""
    site.add("s", 20)
    query = query_of(site, claimIdleMs=600_000)
    query.reader.initialOffset()
    site.client.xreadgroup("g", "dead", {"s": ">"}, count=5)
    site.client.xclaim("s", "g", "dead", 0, [f"{n}-1" for n in range(1, 6)], idle=700_000, justid=True)
    site.client.xreadgroup("g", "alive", {"s": ">"}, count=5)
    rows = query.trigger() or []
    assert sorted(numbers(rows)) == [*range(5), *range(10, 20)]
    assert {row["n"]: row["_deliveries"] for row in rows}[0] == 2
    again = query.run()
    assert sorted(numbers(again)) == sorted(numbers(rows))
    # The dead consumer returns, and its former entries now belong to the query.
    assert site.client.xreadgroup("g", "dead", {"s": "0"}) == [[b"s", []]]
    assert site.client.xack("s", "g", *(f"{n}-1" for n in range(6, 11))) == 5
    assert query.trigger() is None
    assert site.group()["pending"] == 0


def lost_for(site: Site, stream: str, removed: str) -> None:
    """Deliver 20 entries to a consumer that does not return, and remove 15 of them."""
    site.add(stream, 20)
    site.client.xgroup_create(stream, "g", "0")
    site.client.xreadgroup("g", "gone", {stream: ">"})
    wait_for(lambda: site.client.xpending_range(stream, "g", "-", "+", 9, idle=1), "the entries to be idle")
    if removed == "trimmed":
        site.client.xtrim(stream, maxlen=5, approximate=False)
    elif removed == "deleted":
        site.client.xdel(stream, *(f"{n}-1" for n in range(3, 18)))


@pytest.mark.parametrize("removed", ["trimmed", "deleted"])
@pytest.mark.parametrize("streams", ["s", "s,t,u"])
def test_pending_entries_that_no_longer_exist_are_lost(
    site: Site, caplog: pytest.LogCaptureFixture, removed: str, streams: str
) -> None:
    """Pending entries of other consumers that were trimmed or deleted are an error and stay pending; with
    failOnDataLoss=false they are reported once, counted in the progress and acknowledged.
    """
    names = streams.split(",")
    for stream in names:
        lost_for(site, stream, removed)
    query = Query(site.url, SCHEMA, group="g", streams=streams, claimIdleMs=1, **SHARED | {"maxEntriesPerTrigger": 100})
    with pytest.raises(StreamError, match=r"ENTRIES_LOST.*15 entries"):
        query.trigger()
    assert all(site.group(stream)["pending"] == 20 for stream in names)
    query.restart(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        left = numbers(query.drain())
    assert sorted(left) == sorted(len(names) * (list(range(15, 20)) if removed == "trimmed" else [0, 1, 17, 18, 19]))
    assert caplog.text.count("ENTRIES_LOST") == len(names)
    assert query.offset("lost") == dict.fromkeys(names, 15)
    assert all(site.group(stream)["pending"] == 0 for stream in names)


@pytest.mark.parametrize("removed", ["trimmed", "deleted"])
@pytest.mark.parametrize("streams", ["s", "s,t,u"])
def test_pending_entries_lost_after_planning_are_noticed(site: Site, removed: str, streams: str) -> None:
    """Pending entries that were removed after the claim was planned are an error."""
    names = streams.split(",")
    for stream in names:
        lost_for(site, stream, "nothing")
    query = Query(site.url, SCHEMA, group="g", streams=streams, claimIdleMs=1, **SHARED | {"maxEntriesPerTrigger": 100})
    assert query.plan()
    for stream in names:
        if removed == "trimmed":
            site.client.xtrim(stream, maxlen=5, approximate=False)
        else:
            site.client.xdel(stream, "7-1")
    with pytest.raises(StreamError, match=r"ENTRIES_LOST.*(15|1) entries"):
        query.run()


def test_a_running_querys_entries_are_not_claimed(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Two queries whose batches take longer than claimIdleMs read each entry once; a query that ends leaves its entries
    to the other one.
    """
    site.add("s", 40)
    first, second = (query_of(site, consumer=name, claimIdleMs=1, maxEntriesPerTrigger=10) for name in ("a", "b"))
    rows: list[int] = []
    for query in (first, second):
        rows += numbers(query.trigger() or [])
    wait_for(lambda: len(site.client.xpending_range("s", "g", "-", "+", 99, idle=2)) == 20, "the batches to be idle")
    for query in (first, second):
        rows += numbers(query.trigger() or [])
    assert sorted(rows) == list(range(40))
    assert caplog.text.count("longer than claimIdleMs (1 ms)") == 2
    second.reader.stop()
    wait_for(lambda: len(site.client.xpending_range("s", "g", "-", "+", 99, idle=2)) == 20, "idle batches")
    assert numbers(first.drain()) == list(range(30, 40))
    assert site.group()["pending"] == 0


def test_without_claim_idle_ms_nothing_is_claimed(site: Site) -> None:
    """Without claimIdleMs, the query claims no entries of other consumers, regardless of their idle time."""
    site.add("s", 10)
    query = query_of(site)
    query.reader.initialOffset()
    site.client.xreadgroup("g", "slow", {"s": ">"}, count=5)
    assert numbers(query.drain()) == list(range(5, 10))
    assert site.client.xpending("s", "g")["consumers"] == [{"name": b"slow", "pending": 5}]


def test_an_undeliverable_entry_becomes_a_dead_letter(site: Site) -> None:
    """An entry delivered more often than maxDeliveries is moved to the dead-letter stream with all fields; a schema can
    read its origin and delivery count.
    """
    site.add("s", 3)
    site.client.xadd("s", {"n": "99", b"raw\xff": b"\r\n\xfe"}, id="50-1")
    query = query_of(site, claimIdleMs=1, maxDeliveries=3, deadLetterStream="dead")
    query.reader.initialOffset()
    site.client.xreadgroup("g", "crashing", {"s": ">"})
    for _ in range(2):
        site.client.xclaim("s", "g", "crashing", 0, ["50-1"])
    wait_for(lambda: len(site.client.xpending_range("s", "g", "-", "+", 10, idle=2)) == 4, "the entries to be idle")
    assert numbers(query.trigger() or []) == [0, 1, 2]
    ((_, letter),) = site.client.xrange("dead")
    assert letter == {
        b"_original_stream": b"s",
        b"_original_id": b"50-1",
        b"_original_deliveries": b"4",
        b"_reason": b"delivered more than 3 times",
        b"n": b"99",
        b"raw\xff": b"\r\n\xfe",
    }
    assert query.trigger() is None
    assert site.group()["pending"] == 0
    columns = "_stream string, _original_stream string, _original_id string, _original_deliveries int, n int"
    (row,) = site.query(stream="dead", schema=columns).drain()
    assert list(row.values()) == ["dead", "s", "50-1", 4, 99]


def test_a_query_that_fails_repeatedly_continues_without_the_batch(site: Site) -> None:
    """A batch replayed more often than maxDeliveries is moved to the dead-letter stream, and the query continues."""
    site.add("s", 2)
    query = query_of(site, maxDeliveries=3, deadLetterStream="dead")
    query.trigger()
    sizes = []
    for _ in range(4):
        query.restart()
        sizes.append([len(query.run()) for _ in range(3)])
    assert sizes == [[2] * 3, [2] * 3, [0] * 3, [0] * 3]
    site.add("s", 1, first=2)
    assert numbers(query.drain()) == [2]
    assert site.client.xlen("dead") == 2


def test_a_new_checkpoint_takes_over_from_the_old_one(site: Site) -> None:
    """A query with the same name and a new checkpoint reads the unfinished entries of the previous run."""
    site.add("s", 10)
    old = query_of(site, maxEntriesPerTrigger=4)
    assert numbers(old.trigger() or []) == [0, 1, 2, 3]
    old.reader.stop()
    new = query_of(site, maxEntriesPerTrigger=100)
    assert sorted(numbers(new.drain())) == list(range(10))
    assert site.group()["pending"] == 0
    assert site.client.xinfo_consumers("s", "g") == []


@pytest.mark.parametrize("claims", [False, True])
def test_available_now_ends_if_its_batches_are_not_read(
    site: Site, caplog: pytest.LogCaptureFixture, *, claims: bool
) -> None:
    """An availableNow query whose function ignores its batches ends, reports it once, and leaves the entries in the
    group for the next run.
    """
    site.add("s", 5)
    if claims:
        site.client.xgroup_create("s", "g", "0")
        site.client.xreadgroup("g", "gone", {"s": ">"}, count=2)
        wait_for(lambda: site.client.xpending_range("s", "g", "-", "+", 9, idle=1), "the entries to be idle")
    query = query_of(site, claimIdleMs=1)
    query.reader.prepareForTriggerAvailableNow()
    planned = 0
    with caplog.at_level(logging.WARNING):
        while query.plan():
            query.reader.partitions(*map(json.loads, query.log[-2:]))
            planned += 1
            assert planned < 5
    assert caplog.text.count("no task has read its entries of s") == 1
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert sorted(numbers(query.drain())) == list(range(5))
    assert site.group()["pending"] == 0


def test_a_lost_ledger_loses_no_entries(site: Site) -> None:
    """A task repeated after its ledger was evicted returns the same entries, and unread entries are
    not acknowledged.
    """
    site.add("s", 10)
    query = query_of(site, maxEntriesPerTrigger=5)
    assert numbers(query.trigger() or []) == list(range(5))
    site.client.delete(task.ledger_key("s", "g", "spark"))
    assert numbers(query.run()) == list(range(5))
    assert numbers(query.drain()) == list(range(5, 10))
    assert site.group()["pending"] == 0


def test_a_shared_group_becomes_an_owned_group(site: Site) -> None:
    """A query that owns its group continues after a shared query of the group, as the error CHECKPOINT_MODE advises: it
    reads and acknowledges the unfinished entries.
    """
    site.add("s", 10)
    old = query_of(site, maxEntriesPerTrigger=4)
    old.trigger()
    old.trigger()
    options = {"stream": "s", "group": "g", "startingOffsets": "group"}
    with pytest.raises(StreamError, match=r"GROUP_IN_USE.*spark-2-0"):
        site.query(**options).trigger()
    old.reader.stop()
    query = site.query(**options)
    assert numbers(query.drain()) == list(range(4, 10))
    assert site.group()["pending"] == 0


def test_two_queries_of_one_group_need_different_consumer_names(site: Site) -> None:
    """A second query with the same consumer names is rejected; with different names it shares the entries."""
    site.add("s", 20)
    first = query_of(site, maxEntriesPerTrigger=5)
    rows = numbers(first.trigger() or [])
    second = query_of(site)
    with pytest.raises(StreamError, match=r"CONSUMERS_TAKEN.*'spark-...'.*consumer"):
        second.trigger()
    second = query_of(site, consumer="other", maxEntriesPerTrigger=5)
    for _ in range(2):
        rows += numbers(second.trigger() or []) + numbers(first.trigger() or [])
    assert sorted(rows) == list(range(20))
    assert first.trigger() is second.trigger() is None
    assert site.group()["pending"] == 0


def test_a_batch_missing_in_the_checkpoint_is_read_again(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Batches missing in the checkpoint, which Spark may write late, are read again, whatever the
    number of partitions.
    """
    site.add("s", 30)
    query = query_of(site, minPartitions=3, maxEntriesPerTrigger=10)
    for _ in range(3):
        query.trigger()
    assert query.partitions == [[3, 3, 4]] * 3
    del query.log[2:]
    query.restart(minPartitions=1)
    rows = query.drain()
    assert sorted(numbers(rows)) == list(range(20, 30))
    assert {row["_deliveries"] for row in rows} == {2}
    assert "The checkpoint is at batch 1, but the group g is at batch 3." in caplog.text
    site.add("s", 2, first=30)
    assert numbers(query.drain()) == [30, 31]
    assert site.group()["pending"] == 0


@pytest.mark.parametrize("how", ["trimmed", "emptied", "deleted"])
def test_entries_removed_before_delivery_are_lost(site: Site, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Entries removed before their delivery are an error or a warning; removing entries after their delivery is
    neither.
    """
    site.add("s", 30)
    query = query_of(site, maxEntriesPerTrigger=5)
    query.trigger()
    site.client.xreadgroup("g", "python", {"s": ">"}, count=5)
    site.client.xtrim("s", minid="6-1", approximate=False)
    assert numbers(query.trigger() or []) == [*range(10, 15)]
    site.client.xdel("s", "7-1", "14-1")
    assert numbers(query.trigger() or []) == [*range(15, 20)]
    if how == "deleted":
        site.client.xdel("s", "25-1")
    else:
        site.client.xtrim("s", maxlen=5 if how == "trimmed" else 0, approximate=False)
    count = {"trimmed": "5 entries", "emptied": "10 entries", "deleted": "an unknown number"}[how]
    with pytest.raises(StreamError, match=rf"ENTRIES_LOST.*'s'.*lost {count}.* after 20-1"):
        query.trigger()
    query.restart(failOnDataLoss="false")
    left = {"trimmed": [*range(25, 30)], "emptied": [], "deleted": [n for n in range(20, 30) if n != 24]}[how]
    site.add("s", 5, first=30)
    with caplog.at_level("WARNING", "spark_streams"):
        assert sorted(numbers(query.drain())) == [*left, *range(30, 35)]
    assert caplog.text.count("ENTRIES_LOST") == 1


@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
@pytest.mark.parametrize(("left", "parts"), [(2, 1), (0, 1), (2, 2)])
def test_entries_trimmed_between_planning_and_reading_are_lost(
    site: Site, first: bool, left: int, parts: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Entries trimmed after a batch was planned and before its tasks read them are an error or a warning."""
    site.add("s", 4)
    site.client.xdel("s", "2-1")  # before the query starts, so no loss
    query = query_of(site, minPartitions=parts)
    if not first:
        assert numbers(query.trigger() or []) == [0, 2, 3]
        site.client.xtrim("s", minid="4-1", approximate=False)
    site.add("s", 6, first=4)
    assert query.plan()
    assert site.client.xtrim("s", maxlen=left, approximate=False)
    for _ in range(2):
        with pytest.raises(StreamError, match=f"ENTRIES_LOST.*'s'.*lost {(9 if first else 6) - left} entries"):
            query.run()
    assert site.group()["pending"] == 0
    query.restart(failOnDataLoss="false")
    with caplog.at_level("WARNING", "spark_streams"):
        assert numbers(query.run()) == list(range(10 - left, 10))


def test_finished_entries_are_trimmed(site: Site) -> None:
    """trimOnCommit keeps all entries that any consumer of the group has yet to acknowledge."""
    site.add("s", 10)
    query = query_of(site, trimOnCommit="true")
    query.reader.initialOffset()
    site.client.xreadgroup("g", "slow", {"s": ">"}, count=2)
    site.client.xack("s", "g", "1-1")
    query.drain()
    assert site.client.xrange("s")[0][0] == b"2-1"
    site.client.xack("s", "g", "2-1")
    site.add("s", 1, first=10)
    query.drain()
    assert site.client.xlen("s") == 0


@pytest.mark.parametrize("stream", ["s", "name:{7}", "a}b", "{}x"])
def test_the_ledger_is_in_the_slot_of_its_stream(stream: str) -> None:
    """The ledger's key is in the cluster slot of its stream, for any stream name."""
    assert slot_of(task.ledger_key(stream, "g", "p")) == slot_of(stream.encode())
    assert task.ledger_key("a", "bc", "p") != task.ledger_key("a:1", "c", "p")
