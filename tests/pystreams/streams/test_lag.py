"""Lags that the server does not report: counted within a budget, and estimated with bounds beyond it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from pystreams.connect import Wanted, connect
from pystreams.streams import group_states as groups
from pystreams.streams.group_states import Group
from streamclient.connection import Connection
from streamclient.streams.lag import Budget
from tests import servers

_BEFORE, _AFTER = 300, 2_000


@pytest.fixture
def connection(client: redis.Redis, instance: servers.Running) -> Iterator[Connection]:
    """A connection to the server."""
    made = connect(Wanted(instance.url), "")
    yield made
    made.close()


def _burst(client: redis.Redis, name: str) -> None:
    """Write one entry per second, then a burst within a second, with a group positioned before the burst.

    An entry after the group's position is deleted, so XINFO GROUPS does not report the lag.
    """
    pipe = client.pipeline(transaction=False)
    for number in range(1, _BEFORE + 1):
        pipe.xadd(name, {"n": number}, id=f"{number * 1000}-0")
    for number in range(1, _AFTER + 2):
        pipe.xadd(name, {"n": number}, id=f"{_BEFORE * 1000 + 1}-{number}")
    pipe.xgroup_create(name, "g", f"{_BEFORE * 1000}-0")
    pipe.xdel(name, f"{_BEFORE * 1000 + 1}-2")
    pipe.execute()


def _groups(connection: Connection, *names: bytes, budget: Budget | None = None) -> list[Group]:
    return list(groups.groups(connection, names, 0, budget=budget))


def test_a_lag_that_xinfo_does_not_report_is_counted(client: redis.Redis, connection: Connection) -> None:
    """If XINFO reports no lag, the entries are counted, and the result is exact."""
    _burst(client, "burst")
    assert client.xinfo_groups("burst")[0]["lag"] is None
    (found,) = _groups(connection, b"burst")
    assert (found.lag, found.exact, found.bounds) == (_AFTER, True, (_AFTER, _AFTER))


def test_a_lag_has_no_trimmed_entries(client: redis.Redis, connection: Connection) -> None:
    """Undelivered entries that were trimmed are not part of the lag, whatever XINFO reports."""
    client.xgroup_create("s", "g", "0", mkstream=True)
    client.xadd("s", {"n": 0})
    client.xreadgroup("g", "c", {"s": ">"})
    for present in (3, 2, 0):
        for n in range(4):
            client.xadd("s", {"n": n})
        client.xtrim("s", maxlen=present, approximate=False)
        (found,) = _groups(connection, b"s")
        assert (found.lag, found.exact) == (present, True)


@pytest.mark.redis
@pytest.mark.parametrize("entries", [1, 10, 100, 400, 4_000])
def test_an_estimate_has_bounds(redis_process: servers.Running, entries: int) -> None:
    """The true lag is within the estimate's bounds. The lag is exact only if the budget suffices to count it."""
    with redis.Redis(port=redis_process.port, protocol=2) as client:
        client.flushall()
        _burst(client, "burst")
        connection = connect(Wanted(redis_process.url), "")
        budget = Budget(entries)
        (found,) = _groups(connection, b"burst", budget=budget)
        connection.close()
        least, most = found.bounds
        assert least is not None
        assert most is not None
        assert found.lag is not None
        assert least <= min(found.lag, _AFTER)
        assert most >= max(found.lag, _AFTER)
        assert found.exact == (least == most) == (entries >= 4_000)
        client.flushall()


@pytest.mark.redis
def test_many_streams_share_one_budget(redis_process: servers.Running) -> None:
    """A thousand groups with an unknown lag share one budget, and short lags among them are exact."""
    with redis.Redis(port=redis_process.port, protocol=2) as client:
        client.flushall()
        _burst(client, "burst")
        for number in range(1000):
            client.copy("burst", f"s{number}")
        for number in range(0, 1000, 2):
            client.xgroup_setid(f"s{number}", "g", f"{_BEFORE * 1000 + 1}-{_AFTER - 1}")
            client.xdel(f"s{number}", f"{_BEFORE * 1000 + 1}-{_AFTER + 1}")
        connection = connect(Wanted(redis_process.url), "")
        budget = Budget(30_000)
        before = client.info("commandstats")
        names = [f"s{number}".encode() for number in range(1000)]
        found = _groups(connection, *names, budget=budget)
        after = client.info("commandstats")
        connection.close()
        calls = after["cmdstat_xrange"]["calls"] - before.get("cmdstat_xrange", {}).get("calls", 0)
        assert budget.entries > -8 * 1000
        assert calls < 6_000
        assert [(each.lag, each.exact) for each in found if each.lag == 1] == [(1, True)] * 500
        assert all((each.bounds[0] or 0) <= _AFTER <= (each.bounds[1] or 0) for each in found if each.lag != 1)
        client.flushall()
