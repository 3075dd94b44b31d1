"""Rates of added and delivered entries, as measured by the sampler."""

from __future__ import annotations

import pytest
import redis

from pystreams.dashboard.sampler import pause_after
from pystreams.streams.sampling import Rates
from tests.pystreams.dashboard.conftest import Started


def test_a_rate_is_over_the_last_seconds() -> None:
    """Rates cover the last seconds. The first sample has none, a decrease gives zero, and a clock that goes back
    restarts them.
    """
    rates: Rates[str] = Rates()
    seen = [(1_000, 10), (2_000, 30), (3_000, 30), (12_000, 30), (13_000, 1), (500, 99), (1_500, 109)]
    assert [rates.add("a", at, count) for at, count in seen] == [None, 20.0, 10.0, 0.0, 0.0, None, 10.0]


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_idle_server_has_no_commands_of_others(started: Started, client: redis.Redis, size: int) -> None:
    """Requests of pages and of ended sessions, also those that run scripts because of large entries, are not counted as
    commands of other clients.
    """
    for at in range(3):
        client.xadd(f"s{at}", {"v": "x" * size})
        client.xgroup_create(f"s{at}", "g", 0)
    dashboard = started()
    for _ in range(3):
        dashboard.log_in()
        for _ in range(20):
            dashboard.get("stream", stream="s0")
            dashboard.get("group", stream="s1", group="g")
        dashboard.wait_for_sample()
        seen = dashboard.sampler.state.snapshot.commands
        assert seen["own"] > 20
        assert seen["others"] < seen["own"] / 20
        dashboard.web.post("/api/logout", json={}, headers={"x-csrf-token": dashboard.csrf})


def test_many_commands_make_the_pause_longer() -> None:
    """The pause after a sample keeps the average below 250 commands per second."""
    assert pause_after(0.1, 100) == pytest.approx(0.4)
    assert pause_after(0.1, 2_000) == pytest.approx(8.0)
