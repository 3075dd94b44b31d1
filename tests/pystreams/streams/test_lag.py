"""Lags that the server does not report: counted within a budget, and estimated with bounds beyond it."""

from __future__ import annotations

import pytest
import redis

from pystreams.streams import group_states as groups
from pystreams.streams.group_states import Group
from streamclient.connection import Connection
from streamclient.streams.lag import Budget

_BEFORE, _AFTER = 300, 2_000


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


_REDIS = pytest.mark.parametrize("instance", ["redis"], indirect=True)


@_REDIS
@pytest.mark.parametrize("entries", [1, 10, 100, 400, 4_000])
def test_an_estimate_has_bounds(client: redis.Redis, connection: Connection, entries: int) -> None:
    """The true lag is within the estimate's bounds. The lag is exact only if the budget suffices to count it."""
    _burst(client, "burst")
    (found,) = _groups(connection, b"burst", budget=Budget(entries))
    least, most = found.bounds
    assert least is not None
    assert most is not None
    assert found.lag is not None
    assert least <= min(found.lag, _AFTER)
    assert most >= max(found.lag, _AFTER)
    assert found.exact == (least == most) == (entries >= 4_000)


@_REDIS
def test_many_streams_share_one_budget(client: redis.Redis, connection: Connection) -> None:
    """A thousand groups with an unknown lag share one budget, and short lags among them are exact."""
    _burst(client, "burst")
    for number in range(1000):
        client.copy("burst", f"s{number}")
    for number in range(0, 1000, 2):
        client.xgroup_setid(f"s{number}", "g", f"{_BEFORE * 1000 + 1}-{_AFTER - 1}")
        client.xdel(f"s{number}", f"{_BEFORE * 1000 + 1}-{_AFTER + 1}")
    budget = Budget(30_000)
    before = client.info("commandstats")
    found = _groups(connection, *(f"s{number}".encode() for number in range(1000)), budget=budget)
    after = client.info("commandstats")
    calls = after["cmdstat_xrange"]["calls"] - before.get("cmdstat_xrange", {}).get("calls", 0)
    assert budget.entries > -8 * 1000
    assert calls < 6_000
    assert [(each.lag, each.exact) for each in found if each.lag == 1] == [(1, True)] * 500
    assert all((each.bounds[0] or 0) <= _AFTER <= (each.bounds[1] or 0) for each in found if each.lag != 1)
