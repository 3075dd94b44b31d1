"""Sharing a group with other programs: redis-py consumers that take part, die, and return.

One long module, because all cases use one query of one site.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from spark_streams.errors import StreamError
from spark_streams.read.shared import protocol
from streamwire.slots import slot_of
from tests.spark_streams.driver import Query, Site, numbers
from tests.suite.waiting import wait_for

SCHEMA = "_id string, n int, _deliveries int"
SHARED = {"consume": "shared", "startingOffsets": "earliest", "maxEntriesPerTrigger": "1"}


def query_of(site: Site, **said: Any) -> Query:
    return Query(
        site.url, SCHEMA, **{"stream": "s", "group": "g", "consume": "shared", "startingOffsets": "earliest", **said}
    )


def taken(reply: Any) -> list[int]:
    """The numbers of the entries that a redis-py consumer got."""
    return [int(fields[b"n"]) for _, entries in reply for _, fields in entries]


def test_a_group_is_shared(site: Site) -> None:
    """The query and a redis-py consumer together take everything, and nothing twice."""
    site.add("s", 50)
    query = query_of(site, maxEntriesPerTrigger=10)
    mine: list[int] = []
    theirs: list[int] = []
    while len(mine) + len(theirs) < 50:
        reply = site.client.xreadgroup("g", "python", {"s": ">"}, count=5) if query.log else []
        theirs += taken(reply)
        for _, entries in reply:
            site.client.xack("s", "g", *(entry_id for entry_id, _ in entries))
        mine += numbers(query.trigger() or [])
    assert sorted(mine + theirs) == list(range(50))
    assert theirs
    assert query.trigger() is None
    assert (site.group()["pending"], site.group()["lag"]) == (0, 0)
    names = [consumer["name"] for consumer in site.client.xinfo_consumers("s", "g")]
    assert names == [b"python"]


def test_entries_are_pending_for_the_batchs_consumers(site: Site) -> None:
    """Each partition is a separate consumer, named after the batch; it is removed when the batch is finished."""
    site.add("s", 30)
    query = query_of(site, consumerPrefix="job", minPartitions=3)
    assert sorted(numbers(query.trigger() or [])) == list(range(30))
    assert query.partitions == [[10, 10, 10]]
    consumers = site.client.xpending("s", "g")["consumers"]
    assert consumers == [{"name": b"job-1-%d" % i, "pending": 10} for i in range(3)]
    assert query.trigger() is None
    assert site.client.xinfo_consumers("s", "g") == []


def test_a_retry_and_a_replay_get_what_the_first_attempt_got(site: Site) -> None:
    """Run again, by another worker or another driver, a partition has the same rows, though others have read on."""
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
    """A partition larger than a page is the same on every attempt; entries deleted meanwhile are left out."""
    site.add("s", 100)
    query = query_of(site, pageSize=7, failOnDataLoss="false")
    assert numbers(query.trigger() or []) == list(range(100))
    site.client.xdel("s", *(f"{n}-1" for n in range(7, 30)))
    assert numbers(query.run()) == [n for n in range(100) if not 6 <= n < 29]
    assert query.trigger() is None
    assert site.group()["pending"] == 0


def test_scans_of_one_batch_count_once(site: Site) -> None:
    """A batch that is scanned again and again in one run has the same rows each time, and was delivered once."""
    site.add("s", 3)
    query = query_of(site, maxDeliveries=2, deadLetterStream="dead")
    first = query.trigger()
    for _ in range(5):
        assert query.run() == first
    assert {row["_deliveries"] for row in first or []} == {1}
    assert not site.client.exists("dead")
    assert query.trigger() is None
    assert site.group()["pending"] == 0


def test_entries_stay_pending_while_dead_letters_have_no_place(site: Site) -> None:
    """Where the dead-letter stream is another key, nothing is acknowledged; without that key, all are moved."""
    site.add("s", 3)
    site.client.set("dead", "x")
    query = query_of(site, maxDeliveries=1, deadLetterStream="dead")
    assert numbers(query.trigger() or []) == [0, 1, 2]
    for _ in range(2):
        query.restart()
        with pytest.raises(StreamError, match=r"NOT_A_STREAM.*'dead'"):
            query.run()
    assert site.group()["pending"] == 3
    site.client.delete("dead")
    query.restart()
    assert query.run() == []
    assert (site.group()["pending"], site.client.xlen("dead")) == (0, 3)


@pytest.mark.parametrize("how", ["trimmed", "deleted"])
def test_entries_that_go_between_two_attempts_are_lost(site: Site, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Entries that an attempt has read and a later one finds deleted are an error at every attempt, or a warning."""
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
    """Claimed entries at scattered positions are read again, and none of the other consumers' entries in between."""
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


def test_two_attempts_at_once_take_once(site: Site) -> None:
    """Of two attempts of a task, the first one takes entries; the other gets the same, and none in between."""
    site.add("s", 20)
    query = query_of(site, maxEntriesPerTrigger=10)
    query.plan()
    start, end = (json.loads(text) for text in query.log[-2:])
    (part,) = query.reader.partitions(start, end)
    one, other = (query.reader.read(pickle.loads(pickle.dumps(part))) for _ in range(2))
    rows = [[row["n"] for batch in attempt for row in batch.to_pylist()] for attempt in (one, other)]
    assert rows == [list(range(10)), list(range(10))]
    assert site.group()["pending"] == 10


def test_a_task_that_wakes_up_too_late_takes_nothing(site: Site) -> None:
    """An attempt that starts after its batch was finished takes no entries, because they would have no output."""
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
    """Entries pending for claimIdleMs are read by the query; those of an active consumer are not."""
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
    # The dead consumer returns: its former entries are not its own any more.
    assert site.client.xreadgroup("g", "dead", {"s": "0"}) == [[b"s", []]]
    assert site.client.xack("s", "g", *(f"{n}-1" for n in range(6, 11))) == 5
    assert query.trigger() is None
    assert site.group()["pending"] == 0


def test_without_claiming_others_keep_what_they_have(site: Site) -> None:
    """Without claimIdleMs no entry of another consumer is touched, regardless of its idle time."""
    site.add("s", 10)
    query = query_of(site)
    query.reader.initialOffset()
    site.client.xreadgroup("g", "slow", {"s": ">"}, count=5)
    assert numbers(query.drain()) == list(range(5, 10))
    assert site.client.xpending("s", "g")["consumers"] == [{"name": b"slow", "pending": 5}]


def test_poison_goes_to_the_dead_letter_stream(site: Site) -> None:
    """An entry delivered more often than maxDeliveries goes there whole; a schema can have its origin and count."""
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


def test_a_query_that_fails_again_and_again_gets_past_its_poison(site: Site) -> None:
    """A batch replayed more often than maxDeliveries goes to the dead-letter stream, and the query continues."""
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
    """A query restarted from scratch with the same name reads what its former run had taken and never finished."""
    site.add("s", 10)
    old = query_of(site, maxEntriesPerTrigger=4)
    assert numbers(old.trigger() or []) == [0, 1, 2, 3]
    old.reader.stop()
    new = query_of(site, maxEntriesPerTrigger=100)
    assert sorted(numbers(new.drain())) == list(range(10))
    assert site.group()["pending"] == 0
    assert site.client.xinfo_consumers("s", "g") == []


def test_available_now_ends(site: Site) -> None:
    """Entries added after the start of an availableNow query do not keep it running."""
    site.add("s", 25)
    query = query_of(site, maxEntriesPerTrigger=10)
    query.reader.prepareForTriggerAvailableNow()
    rows = numbers(query.trigger() or [])
    site.add("s", 10, first=25)
    rows += numbers(query.drain())
    assert rows[:25] == list(range(25))
    assert len(rows) <= 35


def test_a_pattern_with_a_group(site: Site) -> None:
    """A stream that is found later gets the group, from its first entry."""
    site.add("in:a", 3)
    said = {"consume": "shared", "startingOffsets": "earliest", "streamPatternRefreshMs": 0}
    query = Query(site.url, SCHEMA, streamPattern="in:*", group="g", **said)
    assert numbers(query.drain()) == [0, 1, 2]
    site.add("in:b", 2, first=10)
    assert numbers(query.drain()) == [10, 11]


def test_a_ledger_that_is_lost_costs_no_entries(site: Site) -> None:
    """A task repeated after its ledger was evicted gets the same entries; nothing is acknowledged unread."""
    site.add("s", 10)
    query = query_of(site, maxEntriesPerTrigger=5)
    assert numbers(query.trigger() or []) == list(range(5))
    site.client.delete(protocol.ledger_key("s", "g", "spark"))
    assert numbers(query.run()) == list(range(5))
    assert numbers(query.drain()) == list(range(5, 10))
    assert site.group()["pending"] == 0


def test_a_shared_group_becomes_a_querys_own(site: Site) -> None:
    """As the error CHECKPOINT_MODE advises: the unfinished entries of the shared query are read, and acknowledged."""
    site.add("s", 10)
    old = query_of(site, maxEntriesPerTrigger=4)
    old.trigger()
    old.trigger()
    said = {"stream": "s", "group": "g", "startingOffsets": "group"}
    with pytest.raises(StreamError, match=r"GROUP_IN_USE.*spark-2-0"):
        site.query(**said).trigger()
    old.reader.stop()
    query = site.query(**said)
    assert numbers(query.drain()) == list(range(4, 10))
    assert site.group()["pending"] == 0


def test_two_queries_of_one_group_have_names_of_their_own(site: Site) -> None:
    """Under the same consumer names the second query is rejected; with other names it takes part."""
    site.add("s", 20)
    one = query_of(site, maxEntriesPerTrigger=5)
    rows = numbers(one.trigger() or [])
    other = query_of(site)
    with pytest.raises(StreamError, match=r"CONSUMERS_TAKEN.*'spark-...'.*consumer"):
        other.trigger()
    other = query_of(site, consumer="other", maxEntriesPerTrigger=5)
    for _ in range(2):
        rows += numbers(other.trigger() or []) + numbers(one.trigger() or [])
    assert sorted(rows) == list(range(20))
    assert one.trigger() is other.trigger() is None
    assert site.group()["pending"] == 0


def test_a_batch_that_no_checkpoint_knows_is_read_again(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Batches that the checkpoint lacks (Spark may write it late) are not lost, whatever partitions follow them."""
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


def test_a_group_that_is_gone_is_an_error(site: Site) -> None:
    """A group removed while the query runs is an error; with failOnDataLoss=false it is recreated."""
    site.add("s", 5)
    query = query_of(site)
    query.drain()
    site.client.xgroup_destroy("s", "g")
    with pytest.raises(StreamError, match="GROUP_LOST"):
        query.trigger()
    query.restart(failOnDataLoss="false")
    assert numbers(query.drain()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", ["trimmed", "emptied", "deleted"])
def test_entries_that_go_before_the_group_has_them(site: Site, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Entries trimmed or deleted before delivery are an error, or a warning; entries already read may be removed."""
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
def test_entries_that_go_between_planning_and_reading(
    site: Site, first: bool, left: int, parts: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Trimmed after a batch was planned, before its tasks have read, they are an error too, or a warning."""
    site.add("s", 4)
    site.client.xdel("s", "2-1")  # before the query began: no loss
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
    """trimOnCommit leaves what any consumer of any group has yet to acknowledge."""
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
def test_the_ledger_lies_in_its_streams_slot(stream: str) -> None:
    """In a cluster one node has both, whatever the stream's name."""
    assert slot_of(protocol.ledger_key(stream, "g", "p")) == slot_of(stream.encode())
    assert protocol.ledger_key("a", "bc", "p") != protocol.ledger_key("a:1", "c", "p")


@pytest.mark.parametrize("denied", ["", "-eval -command"])
def test_a_task_is_not_sent_the_entries_around_its_own(site: Site, denied: str) -> None:
    """The look for losses sends IDs and no entries where the user may run scripts; without that, rows are the same."""
    site.client.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", *denied.split())
    try:
        site.add("s", 3, payload="x" * 1_000_000)
        query = Query(site.url.replace("//", "//limited:pw@"), "n int", stream="s", group="g", **SHARED)
        query.reader.initialOffset()
        assert query.plan()
        before = site.client.info("stats")["total_net_output_bytes"]
        assert numbers(query.run()) == [0]
        if "eval" not in denied:
            assert site.client.info("stats")["total_net_output_bytes"] - before < 1_500_000
        assert numbers(query.drain()) == [1, 2]
    finally:
        site.client.acl_deluser("limited")
