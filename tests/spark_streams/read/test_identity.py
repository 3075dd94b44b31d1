"""Identity of streams and checkpoints: a query notices that a stream was recreated or that the checkpoint belongs to
other streams.
"""

from __future__ import annotations

import logging

import pytest
import redis

from spark_streams.errors import StreamError
from tests.spark_streams.driver import Site, numbers


def recreate(site: Site, how: str) -> None:
    """Replace the stream `s` of 350 entries by another one of 400 entries, in one of several ways."""
    if how == "deleted":
        site.client.delete("s")
        site.add("s", 400, first=1000)
    elif how == "trimmed":
        site.client.delete("s")
        site.add("s", 400, first=1000)
        site.client.xtrim("s", maxlen=390, approximate=False)
    elif how == "smaller IDs":
        site.client.delete("s")
        site.add("s", 400)
    elif how == "renamed":
        site.add("other", 400, first=1000)
        site.client.rename("other", "s")
    else:
        site.client.flushall()
        site.add("s", 400, first=1000)


HOWS = ["deleted", "trimmed", "smaller IDs", "renamed", "server emptied"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_a_recreated_stream_with_more_entries_is_noticed(site: Site, how: str, *, restarts: bool) -> None:
    """A stream that was replaced while it had unread entries is a loss, even if the new stream is longer."""
    site.add("s", 300, first=50)
    query = site.query(stream="s")
    assert len(query.drain()) == 300
    site.add("s", 50, first=350)
    recreate(site, how)
    if restarts:
        query.restart()
    with pytest.raises(StreamError, match="STREAM_LOST"):
        query.trigger()
    query.restart(failOnDataLoss="false")
    left = {"trimmed": range(1010, 1400), "smaller IDs": range(400)}.get(how, range(1000, 1400))
    assert numbers(query.drain()) == list(left)
    assert sum(query.offset("lost").values()) >= 1


@pytest.mark.parametrize("fails", [True, False])
def test_a_server_that_lost_read_entries_is_noticed(
    site: Site, caplog: pytest.LogCaptureFixture, *, fails: bool
) -> None:
    """A server that has lost entries already read, like a promoted replica, is detected even if newer entries were
    added since.
    """
    site.add("s", 7)
    replica = site.client.dump("s")
    site.add("s", 3, first=7)
    query = site.query(stream="s", failOnDataLoss=fails)
    assert numbers(query.drain()) == list(range(10))
    site.client.restore("s", 0, replica, replace=True)
    site.client.xadd("s", {"n": 99}, id="9-5")
    site.add("s", 4, first=10)
    site.client.client_kill_filter(_type="normal", skipme=True)
    if fails:
        with pytest.raises(StreamError, match=r"STREAM_LOST.* 10-1, but that entry is gone"):
            query.trigger()
    else:
        assert numbers(query.drain()) == [10, 11, 12, 13]
        for n in (14, 15):
            site.add("s", 1, first=n)
            assert numbers(query.drain()) == [n]
        site.add("s", 1, first=16)
        site.client.client_kill_filter(_type="normal", skipme=True)
        assert numbers(query.drain()) == [16]
        assert caplog.text.count("STREAM_LOST") == 1


def test_a_busy_stream_is_not_taken_for_another_one(site: Site) -> None:
    """Additions, trims of read entries and deletions are not taken for a recreated stream."""
    query = site.query(stream="s", maxEntriesPerTrigger=7)
    rows: list[int] = []
    for n in range(0, 200, 20):
        site.add("s", 20, first=n)
        rows += numbers(query.drain())
        if n % 60 == 0:
            site.client.xtrim("s", maxlen=n % 40, approximate=False)
        if n % 80 == 0:
            query.restart()
        site.client.xdel("s", f"{n + 20}-1")
    assert rows == list(range(200))


@pytest.mark.parametrize(
    "changed", [{"stream": "t"}, {"stream": "misspelt"}, {"stream": "", "streams": "t,u"}], ids=str
)
def test_a_checkpoint_of_other_streams_is_refused(site: Site, changed: dict[str, str]) -> None:
    """A query whose checkpoint contains none of its streams fails before it reads anything."""
    site.add("s", 10)
    site.add("t", 10)
    query = site.query(stream="s")
    query.drain()
    if changed["stream"] == "":
        del query.options["stream"]
        changed = {"streams": changed["streams"]}
    query.restart(**changed)
    with pytest.raises(StreamError, match=r"CHECKPOINT_STREAMS.* \(s\)\. .*\"\(10-1\""):
        query.trigger()


def test_a_logged_batch_of_other_streams_is_refused(site: Site) -> None:
    """A batch that was planned before the restart is rejected if the query now reads another stream."""
    site.add("s", 10)
    query = site.query(stream="s")
    query.plan()
    query.restart(stream="t")
    with pytest.raises(StreamError, match="CHECKPOINT_STREAMS"):
        query.run()


def test_streams_may_be_added_and_removed(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A restart may add and remove streams: the log names them, new streams are read completely, and a stream added
    again continues.
    """
    for stream in "abc":
        site.add(stream, 5)
    query = site.query(streams="a,b", group="g")
    assert len(query.drain()) == 10
    with caplog.at_level(logging.WARNING, "spark_streams"):
        query.restart(streams="b,c")
        assert numbers(query.drain()) == list(range(5))
    assert "now also reads c" in caplog.text
    assert "no longer reads a" in caplog.text
    site.add("a", 5, first=5)
    query.restart(streams="a,b,c")
    assert numbers(query.drain()) == list(range(5, 10))


def test_another_pattern_reads_its_own_streams(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """After a change of the pattern, streams that only the old pattern matched are no longer read."""
    for stream in ("x:a", "x:b", "y:b"):
        site.add(stream, 5)
    query = site.query(streamPattern="x:*")
    assert len(query.drain()) == 10
    site.add("x:a", 5, first=5)
    with caplog.at_level(logging.WARNING, "spark_streams"):
        query.restart(streamPattern="*:b")
        assert numbers(query.drain()) == list(range(5))
    assert "no longer reads x:a" in caplog.text
    query.restart()
    assert query.drain() == []
    query.restart(streamPattern="nothing:*")
    with pytest.raises(StreamError, match="CHECKPOINT_STREAMS"):
        query.trigger()


@pytest.mark.parametrize(("was", "now"), [("shared", "range"), ("range", "shared")])
def test_a_checkpoint_of_the_other_mode_is_refused(site: Site, was: str, now: str) -> None:
    """A query that changes between ranges and a shared group fails."""
    site.add("s", 10)
    query = site.query(stream="s", group="g", consume=was)
    query.trigger()
    query.restart(consume=now)
    with pytest.raises(StreamError, match=rf"CHECKPOINT_MODE.*consume={was}.*startingOffsets=group"):
        query.trigger()
    with pytest.raises(StreamError, match="CHECKPOINT_MODE"):
        query.run()


@pytest.mark.parametrize("consume", ["range", "shared"])
def test_a_checkpoint_of_another_database_is_refused(site: Site, consume: str) -> None:
    """A query that changes to another database of the server fails, even if a stream with the same name continues the
    IDs.
    """
    site.add("s", 10)
    query = site.query(stream="s", group="g", consume=consume)
    query.trigger()
    with redis.Redis.from_url(f"{site.url}/1", protocol=2) as other:
        for n in range(20):
            other.xadd("s", {"n": n}, id=f"{n + 1}-1")
        other.xgroup_create("s", "g", "10-1")
    query.restart(url=f"{site.url}/1")
    with pytest.raises(StreamError, match=r"CHECKPOINT_DATABASE.* database 0 .*/1 is database 1"):
        query.trigger()
    with pytest.raises(StreamError, match="CHECKPOINT_DATABASE"):
        query.run()
    query.restart(url=site.url)
    assert query.trigger() is None


def test_a_shared_checkpoint_of_another_group_or_stream_is_refused(site: Site) -> None:
    """A query with a shared group fails if its group or its streams change."""
    site.add("s", 10)
    site.add("t", 10)
    query = site.query(stream="s", group="g", consume="shared")
    query.trigger()
    query.restart(group="h")
    with pytest.raises(StreamError, match=r"CHECKPOINT_GROUP.*'g'.*'h'"):
        query.trigger()
    query.restart(group="g", stream="t")
    with pytest.raises(StreamError, match="CHECKPOINT_STREAMS"):
        query.trigger()


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_a_finished_stream_of_a_pattern_may_be_deleted(
    site: Site, caplog: pytest.LogCaptureFixture, *, restarts: bool
) -> None:
    """A deleted stream that was read completely is retired with one log line, and a new stream with its name is read
    from its start.
    """
    site.add("in:a", 5)
    site.add("in:b", 5)
    query = site.query(streamPattern="in:*", streamPatternRefreshMs=0, group="g", trimOnCommit="true")
    assert len(query.drain()) == 10
    site.client.delete("in:a")
    if restarts:
        query.restart()
    with caplog.at_level(logging.INFO, "spark_streams"):
        for _ in range(3):
            assert query.trigger() is None
        site.add("in:b", 5, first=5)
        assert numbers(query.drain()) == list(range(5, 10))
        assert query.trigger() is None
    assert caplog.text.count("in:a") == 1
    assert list(query.offset("streams")) == ["in:b"]
    site.add("in:a", 3, first=20)
    assert numbers(query.drain()) == [20, 21, 22]


def test_a_retired_stream_may_return_before_the_next_batch(site: Site) -> None:
    """A retired stream that returns before the next batch is read from its first entry, whatever its IDs."""
    site.add("in:a", 5, first=100)
    query = site.query(streamPattern="in:*")
    query.drain()
    site.client.delete("in:a")
    assert query.trigger() is None
    site.add("in:a", 2)
    assert numbers(query.drain()) == [0, 1]
    site.add("in:a", 1, first=2)
    assert numbers(query.drain()) == [2]


@pytest.mark.parametrize("options", [{}, {"group": "g"}, {"group": "g", "consume": "shared"}], ids=str)
def test_a_stream_of_a_pattern_may_be_deleted_and_recreated(site: Site, options: dict[str, str]) -> None:
    """A stream found while the query runs may be read, deleted and recreated with other IDs without a loss."""
    site.add("in:a", 2)
    query = site.query(streamPattern="in:*", streamPatternRefreshMs=0, idleWaitMs=0, **options)
    assert numbers(query.drain()) == [0, 1]
    for first in (10, 20, 30):
        site.add("in:b", 2, first=first)
        assert numbers(query.drain()) == [first, first + 1]
        site.client.delete("in:b")
        assert query.trigger() is None


def test_an_unread_stream_of_a_pattern_is_lost(site: Site) -> None:
    """A stream deleted with unread entries is a loss, also with a pattern and after a restart."""
    site.add("in:a", 10)
    query = site.query(streamPattern="in:*", maxEntriesPerTrigger=5)
    query.trigger()
    site.client.delete("in:a")
    for _ in range(2):
        with pytest.raises(StreamError, match="STREAM_LOST"):
            query.trigger()
        query.restart()


def test_a_lost_stream_is_warned_of_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a missing stream causes one warning, not one per trigger."""
    site.add("s", 10)
    query = site.query(stream="s", failOnDataLoss="false")
    query.drain()
    site.client.delete("s")
    with caplog.at_level(logging.WARNING, "spark_streams"):
        for _ in range(5):
            assert query.trigger() is None
    assert caplog.text.count("STREAM_LOST") == 1


def test_the_lag_stays_known(site: Site) -> None:
    """With ack=cursor, the server reports the group's entries-read and lag after every move."""
    site.add("s", 30)
    query = site.query(stream="s", group="g", ack="cursor", maxEntriesPerTrigger=10)
    query.trigger()
    for read in (10, 20, 30):
        query.trigger()
        assert (site.group()["entries-read"], site.group()["lag"]) == (read, 30 - read)
    later = site.query(stream="s", group="later", ack="cursor", startingOffsets="6-1")
    later.drain()
    site.add("s", 5, first=30)
    assert (site.group(name="later")["entries-read"], site.group(name="later")["lag"]) == (30, 5)
