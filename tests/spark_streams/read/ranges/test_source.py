"""Range reads on Redis and on the engine, with Spark's sequence of calls."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spark_streams.config import options
from spark_streams.errors import StreamError
from spark_streams.read.query.selection import check_exist
from streamclient.config.address import Address
from streamclient.link import Command, Link
from streamclient.streams.delivery import Delivery
from streamwire.stream_id import StreamId
from tests.spark_streams.driver import Query, Site, numbers


def test_a_long_stream_is_split_without_parsing_every_id(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of partitions are within one percent of the average, and the driver parses few of the IDs."""
    site.add("s", 3000)
    parsed: list[bytes | str] = []
    parse = StreamId.parse
    monkeypatch.setattr(StreamId, "parse", lambda text: parsed.append(text) or parse(text))
    query = site.query(stream="s", minPartitions=2, group="g")
    query.plan()
    assert len(parsed) < 500
    assert numbers(query.run()) == list(range(3000))
    assert all(abs(size - 1500) <= 15 for size in query.partitions[0])


def test_a_long_range_is_delivered_a_page_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request delivers less than two pages of entries, so other clients of the server do not wait long."""
    requests: list[list[Command]] = []
    request = Link.request
    monkeypatch.setattr(Link, "request", lambda link, words: requests.append([*words]) or request(link, words))
    monkeypatch.setattr(Delivery, "limits", replace(Delivery.limits, page=100))
    site.add("s", 1050)
    query = site.query(stream="s", minPartitions=4, group="g")
    assert numbers(query.trigger() or []) == list(range(1050))
    assert (site.group()["pending"], site.group()["last-delivered-id"]) == (1050, b"1050-1")
    delivered = [
        sum(int(word[5]) for word in words if word[0] == "XREADGROUP" and ">" in word and len(word) == 9)
        for words in requests
    ]
    assert max(delivered, default=0) < 200
    if site.kind == "redis":
        assert sum(delivered) == 1050


def test_no_partition_has_more_than_its_limit(site: Site) -> None:
    """No partition exceeds maxEntriesPerPartition, and a replay has the same partitions even if the
    option has changed.
    """
    site.add("s", 1001)
    query = site.query(stream="s", maxEntriesPerPartition=300, group="g")
    query.trigger()
    first = query.partitions[0]
    assert sum(first) == 1001
    assert max(first) <= 300
    assert len(first) == 4
    query.restart(maxEntriesPerPartition=100)
    assert numbers(query.run()) == list(range(1001))
    assert query.partitions == [first, first]


def test_cursor_only_moves_the_group(site: Site) -> None:
    """With ack=cursor, nothing is pending, and the group's last delivered ID is the finished position."""
    site.add("s", 20)
    query = site.query(stream="s", group="g", ack="cursor", maxEntriesPerTrigger=10)
    query.trigger()
    assert (site.group()["pending"], site.group()["last-delivered-id"]) == (0, b"0-0")
    query.trigger()
    assert (site.group()["pending"], site.group()["last-delivered-id"]) == (0, b"10-1")
    assert query.trigger() is None
    assert site.group()["last-delivered-id"] == b"20-1"


def test_a_pattern_finds_new_streams(site: Site) -> None:
    """A stream that appears while the query runs is read from its first entry; unmatched streams are not read."""
    site.add("in:a", 5)
    site.add("other", 5)
    query = site.query(streamPattern="in:*", startingOffsets="latest", group="g", streamPatternRefreshMs=0)
    assert query.trigger() is None
    site.add("in:b", 3)
    site.add("in:a", 2, first=5)
    assert sorted(numbers(query.drain())) == [0, 1, 2, 5, 6]
    assert site.group("in:b")["pending"] == 0


def test_available_now_leaves_new_streams_to_the_next_run(site: Site) -> None:
    """A stream that appears during an availableNow query is read by the next run, from its first entry."""
    site.add("p:a", 3)
    query_options = {"streamPattern": "p:*", "group": "g", "maxEntriesPerTrigger": 2}
    query = site.query(**query_options)
    query.reader.prepareForTriggerAvailableNow()
    assert numbers(query.trigger() or []) == [0, 1]
    site.add("p:b", 4)
    site.add("p:a", 4, first=3)
    assert numbers(query.drain()) == [2]
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert sorted(numbers(query.drain())) == sorted([3, 4, 5, 6, 0, 1, 2, 3])
    assert [len(batch) for batch in query.batches[2:]] == [2, 2, 2, 2]
    assert (site.group("p:b")["pending"], site.group("p:b")["lag"]) == (0, 0)


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("there", [0, 5], ids=["no stream yet", "five entries"])
def test_a_start_after_the_end_of_the_stream(site: Site, group: str | None, there: int) -> None:
    """If a query starts at a future ID, earlier entries are not read; only the removal of later entries is a loss."""
    site.add("s", there)
    site.add("t", 1)
    extra = {} if group is None else {"group": group}
    query = site.query(streams="s,t", startingOffsets='{"s": "21-0", "t": "earliest"}', **extra)
    assert numbers(query.drain()) == [0]
    site.add("s", 10, first=there)
    site.client.xtrim("s", maxlen=2, approximate=False)
    assert query.trigger() is None
    site.add("t", 1, first=1)
    assert numbers(query.drain()) == [1]
    query.restart()
    site.add("s", 10, first=there + 10)
    expected = [n for n in range(there + 20) if n >= 20]
    assert numbers(query.drain()) == expected
    site.add("s", 3, first=30)
    assert numbers(query.trigger() or []) == [30, 31, 32]
    assert numbers(query.run()) == [30, 31, 32]
    site.client.xtrim("s", maxlen=1, approximate=False)
    site.add("s", 3, first=33)
    site.client.xtrim("s", maxlen=2, approximate=False)
    with pytest.raises(StreamError, match="ENTRIES_LOST"):
        query.drain()


def test_a_batch_waits_for_enough_entries(site: Site) -> None:
    """After the first batch, a batch waits for minEntriesPerTrigger entries, at most for maxTriggerDelay."""
    site.add("s", 5)
    query = site.query(stream="s", minEntriesPerTrigger=10, maxTriggerDelay="1h")
    assert len(query.trigger() or []) == 5
    site.add("s", 9, first=5)
    assert query.trigger() is None
    site.add("s", 1, first=14)
    assert len(query.trigger() or []) == 10
    site.add("s", 1, first=15)
    query.restart(maxTriggerDelay="0")
    assert len(query.trigger() or []) == 1


def test_available_now_trims_its_only_batch(site: Site) -> None:
    """An availableNow query trims the entries it has read before it ends, even with a single batch."""
    site.add("s", 25)
    query = site.query(stream="s", group="g", trimOnCommit="true")
    query.reader.prepareForTriggerAvailableNow()
    assert len(query.trigger() or []) == 25
    assert site.client.xlen("s") == 25
    assert query.trigger() is None
    assert site.client.xlen("s") == 0


@pytest.mark.parametrize("consume", ["range", "shared"])
@pytest.mark.parametrize("streams", [{"stream": "none"}, {"streams": "s,none"}, {"streamPattern": "none:*"}])
def test_a_missing_stream_fails_an_available_now_query(site: Site, consume: str, streams: dict[str, str]) -> None:
    """A missing stream fails an availableNow query and is not created; failOnMissingStream=false allows it."""
    site.add("s", 3)
    query = site.query(**streams, group="g", consume=consume)
    query.reader.prepareForTriggerAvailableNow()
    with pytest.raises(StreamError, match=r"\[STREAM_MISSING\] There is no stream (that matches )?'none"):
        query.trigger()
    assert not site.client.exists("none")
    allowed = site.query(**streams, group="g", consume=consume, failOnMissingStream="false")
    allowed.reader.prepareForTriggerAvailableNow()
    assert len(allowed.drain()) == (3 if "streams" in streams else 0)


@pytest.mark.parametrize("consume", ["range", "shared"])
def test_a_missing_stream_may_fail_any_query(site: Site, consume: str) -> None:
    """With failOnMissingStream=true, a missing stream also fails a query with another trigger."""
    query = site.query(stream="none", group="g", consume=consume, failOnMissingStream="true")
    with pytest.raises(StreamError, match="STREAM_MISSING"):
        query.trigger()
    assert not site.client.exists("none")


@pytest.mark.parametrize(
    ("streams", "error"),
    [("s,none", r"\[STREAM_MISSING\] There is no stream 'none'"), ("s", r"STREAM_LOST.*'s'")],
    ids=["added", "deleted"],
)
def test_a_restart_with_available_now_tells_missing_from_lost_streams(site: Site, streams: str, error: str) -> None:
    """A stream that is added to the query must exist, and a stream that was deleted since is a loss."""
    site.add("s", 3)
    query = site.query(streams="s", group="g")
    assert len(query.drain()) == 3
    if streams == "s":
        site.client.delete("s")
    query.restart(streams=streams)
    query.reader.prepareForTriggerAvailableNow()
    query.reader.initialOffset()  # as Spark does after a restart
    with pytest.raises(StreamError, match=error):
        query.trigger()
    assert not site.client.exists("none")


@pytest.mark.parametrize(("start", "expected"), [("earliest", [0, 1, 2, 3]), ("latest", [3])])
def test_a_full_refresh_of_a_pipeline_is_a_new_query_with_the_group(
    site: Site, start: str, expected: list[int]
) -> None:
    """A new checkpoint moves the group back to startingOffsets and reads all entries again; with latest the group keeps
    its position.
    """
    site.add("s", 3)
    query = site.query(stream="s", group="g")
    query.reader.prepareForTriggerAvailableNow()
    assert numbers(query.drain()) == [0, 1, 2]
    query.reader.stop()
    site.add("s", 1, first=3)
    refresh = site.query(stream="s", group="g", startingOffsets=start)
    refresh.reader.prepareForTriggerAvailableNow()
    assert numbers(refresh.drain()) == expected
    assert (site.group()["pending"], site.group()["lag"]) == (0, 0)


def test_finished_entries_are_trimmed(site: Site) -> None:
    """trimOnCommit removes finished entries, except those that another group has yet to read or acknowledge."""
    site.add("s", 30)
    site.client.xgroup_create("s", "other", "0")
    site.client.xreadgroup("other", "c", {"s": ">"}, count=15)
    site.client.xack("s", "other", *(f"{n}-1" for n in range(1, 8)))
    query = site.query(stream="s", group="g", maxEntriesPerTrigger=10, trimOnCommit="true")
    query.trigger()
    assert site.client.xlen("s") == 30
    query.trigger()
    assert site.client.xrange("s")[0][0] == b"8-1"
    site.client.xack("s", "other", *(f"{n}-1" for n in range(8, 16)))
    query.drain()
    assert site.client.xrange("s")[0][0] == b"16-1"
    site.client.xgroup_destroy("s", "other")
    site.add("s", 1, first=30)
    assert numbers(query.drain()) == [30]
    assert site.client.xlen("s") == 0


def test_nothing_is_trimmed_ahead_of_the_checkpoint(site: Site) -> None:
    """With asynchronous progress tracking, which commits batches late, a restart finds all entries
    that it reads again.
    """
    site.add("s", 40)
    query = site.query(stream="s", group="g", maxEntriesPerTrigger=10, trimOnCommit="true")
    query.log.append(json.dumps(query.reader.initialOffset()))
    for _ in range(3):
        start = json.loads(query.log[-1])
        query.log.append(json.dumps(query.reader.latestOffset(start, query.reader.getDefaultReadLimit())))
        query.run()
    query.reader.latestOffset(json.loads(query.log[-1]), query.reader.getDefaultReadLimit())
    assert site.client.xlen("s") == 40
    assert site.group()["pending"] == 30
    other = site.query(stream="s", group="h", trimOnCommit="true", maxEntriesPerTrigger=20)
    assert len(other.drain()) == 40
    assert site.client.xlen("s") == 30
    query.reader.commit(json.loads(query.log[1]))
    assert site.client.xlen("s") == 30
    del query.log[3:]
    query.restart()
    assert numbers(query.run()) == list(range(10, 20))


@pytest.mark.parametrize("group", [None, "g"])
def test_a_replay_of_the_first_batch_has_the_same_start(site: Site, group: str | None) -> None:
    """A replay of the first batch starts where its first run started, even with startingOffsets=latest."""
    site.add("s", 5)
    query = site.query(stream="s", startingOffsets="latest", **({} if group is None else {"group": group}))
    assert not query.plan()
    site.add("s", 5, first=5)
    assert query.plan()
    query.restart()
    query.log[0] = json.dumps(query.reader.initialOffset())
    assert numbers(query.run()) == [5, 6, 7, 8, 9]
    site.add("s", 1, first=10)
    assert numbers(query.trigger() or []) == [10]


def test_a_start_in_the_future(site: Site) -> None:
    """If a stream has no entry at or after startingTimestamp, the query waits for one."""
    site.add("s", 3)
    waiting = Query(site.url, stream="s", startingTimestamp=100)
    assert waiting.trigger() is None
    site.add("s", 1, first=50)
    site.add("s", 1, first=150)
    assert numbers(waiting.drain()) == [150]


def test_only_the_embedded_engine_is_reported_as_private() -> None:
    """The error for a missing stream hints at other applications only if the embedded engine is used."""
    for address, hinted in ((Address("redis://h"), False), (Address("unix:///x", driver="1-1"), True)):
        with pytest.raises(StreamError, match="STREAM_MISSING") as missing:
            check_exist(options.read_options({"stream": "s"}), {"s": None}, address)
        assert ("set the option 'url'" in str(missing.value)) == hinted
