"""What a query costs that has nothing to read, and that it still notices everything."""

from __future__ import annotations

import pytest

from spark_streams.client.connection import Connection
from spark_streams.config.read import ReadOptions
from spark_streams.errors import StreamError
from spark_streams.read.selection import Selection
from spark_streams.server.open import open_server
from tests.spark_streams.driver import Query, Site, numbers


def idle(query: Query, times: int) -> None:
    """Triggers that find nothing; the first one looks at everything."""
    for _ in range(times):
        assert query.trigger() is None


@pytest.mark.parametrize("consume", ["range", "shared"])
def test_an_idle_query_moves_no_values(site: Site, consume: str) -> None:
    """Triggers without data cost a few hundred bytes each, however large the entries are."""
    site.add("s", 3, payload="x" * 100_000)
    query = site.query(stream="s", group="g", consume=consume, idleWaitMs=0)
    assert len(query.drain()) == 3
    idle(query, 2)
    before = site.client.info("stats")["total_net_output_bytes"]
    idle(query, 10)
    assert site.client.info("stats")["total_net_output_bytes"] - before < 10_000
    site.add("s", 3, first=3)
    assert numbers(query.drain()) == [3, 4, 5]


@pytest.mark.parametrize("options", [{}, {"group": "g"}], ids=["no group", "group"])
def test_an_idle_query_notices_a_loss_at_once(site: Site, options: dict[str, str]) -> None:
    """A stream that is deleted while nothing happens is a loss at the next trigger."""
    site.add("s", 10)
    query = site.query(stream="s", idleWaitMs=0, **options)
    query.drain()
    idle(query, 3)
    site.client.delete("s")
    with pytest.raises(StreamError, match="STREAM_LOST"):
        query.trigger()


def test_a_pattern_is_looked_up_when_its_time_is_over(site: Site, connection: Connection) -> None:
    """A query with a pattern scans the keys every streamPatternRefreshMs, not at every trigger."""
    now = [0.0]
    selection = Selection(ReadOptions(glob="in:*", pattern_refresh=5000), lambda: now[0])
    server = open_server(connection)
    site.add("in:a", 1)
    assert selection.streams(server) == ["in:a"]
    site.add("in:b", 1)
    now[0] = 4.9
    assert selection.streams(server) == ["in:a"]
    now[0] = 5.0
    assert selection.streams(server) == ["in:a", "in:b"]
