"""Cost of a query without new entries, and the changes that it still notices."""

from __future__ import annotations

import pytest

from spark_streams.config.read import ReadOptions
from spark_streams.errors import StreamError
from spark_streams.read.query.selection import Selection
from streamclient.connection import Connection
from streamclient.streams.stream_server import open_server
from tests.spark_streams.driver import Query, Site, numbers


def idle(query: Query, times: int) -> None:
    """Run triggers without new entries; the first one checks all streams."""
    for _ in range(times):
        assert query.trigger() is None


@pytest.mark.parametrize("consume", ["range", "shared"])
def test_an_idle_query_transfers_no_values(site: Site, consume: str) -> None:
    """A trigger without new entries transfers a few hundred bytes, however large the entries are."""
    site.add("s", 3, payload="x" * 100_000)
    query = site.query(stream="s", group="g", consume=consume, idleWaitMs=0)
    assert len(query.drain()) == 3
    idle(query, 2)
    before = site.client.info("stats")["total_net_output_bytes"]
    idle(query, 10)
    assert site.client.info("stats")["total_net_output_bytes"] - before < 10_000
    site.add("s", 3, first=3)
    assert numbers(query.drain()) == [3, 4, 5]


@pytest.mark.parametrize("consume", ["range", "shared"])
def test_a_trigger_looks_at_the_streams_that_have_changed(site: Site, consume: str) -> None:
    """If one of thirty streams has a new entry, the trigger requests the state of that stream only, and reads the
    entry.
    """
    names = [f"s{n}" for n in range(30)]
    for name in names:
        site.add(name, 3)
    query = site.query(streams=",".join(names), group="g", consume=consume, idleWaitMs=0, maxPartitions=2)
    assert len(query.drain()) == 90
    idle(query, 1)
    looks = states_asked(site)
    for n in range(3, 6):
        site.add("s7", 1, first=n)
        assert numbers(query.drain()) == [n]
    assert states_asked(site) - looks < 30
    site.add("s8", 2, first=3)
    site.client.delete("s9")
    with pytest.raises(StreamError, match=r"(STREAM|GROUP)_LOST.*s9"):
        query.trigger()


def states_asked(site: Site) -> int:
    """Return the number of stream states requested from the server so far."""
    stats = site.client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("xinfo|stream", "ps.state"))


@pytest.mark.parametrize("options", [{}, {"group": "g"}], ids=["no group", "group"])
def test_an_idle_query_notices_a_loss_at_the_next_trigger(site: Site, options: dict[str, str]) -> None:
    """Deleting a stream of an idle query is a loss at the next trigger."""
    site.add("s", 10)
    query = site.query(stream="s", idleWaitMs=0, **options)
    query.drain()
    idle(query, 3)
    site.client.delete("s")
    with pytest.raises(StreamError, match="STREAM_LOST"):
        query.trigger()


def test_a_pattern_is_looked_up_after_its_refresh_time(site: Site, connection: Connection) -> None:
    """A query with a pattern scans the keys every streamPatternRefreshMs, not at every trigger."""
    now = [0.0]
    selection = Selection(ReadOptions(pattern="in:*", pattern_refresh=5000), lambda: now[0])
    server = open_server(connection)
    site.add("in:a", 1)
    assert selection.streams(server) == ["in:a"]
    site.add("in:b", 1)
    now[0] = 4.9
    assert selection.streams(server) == ["in:a"]
    now[0] = 5.0
    assert selection.streams(server) == ["in:a", "in:b"]


def test_a_shared_batch_sends_no_requests_for_other_streams(site: Site) -> None:
    """A shared batch with entries of one of thirty streams looks up and deletes consumers of that stream only."""
    names = [f"s{n}" for n in range(30)]
    for name in names:
        site.add(name, 1)
    query = site.query(streams=",".join(names), group="g", consume="shared", idleWaitMs=0, maxPartitions=2)
    assert len(query.drain()) == 30
    site.add("s7", 1, first=1)
    before = site.client.info("commandstats")
    assert numbers(query.drain()) == [1]
    after = site.client.info("commandstats")
    for name in ("cmdstat_hkeys", "cmdstat_xinfo|consumers", "cmdstat_xgroup|delconsumer"):
        assert after[name]["calls"] - before[name]["calls"] == 1, name
    assert site.client.xinfo_consumers("s7", "g") == []
