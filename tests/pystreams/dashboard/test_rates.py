"""Rates of added and delivered entries, as measured by the sampler."""

from __future__ import annotations

from contextlib import closing

import pytest
import redis

from pystreams.connect.target import Wanted, connect
from pystreams.dashboard.sampler import ServerSamples, pause_after
from pystreams.metrics.collector import Collector
from pystreams.streams.groups.sampling import Rates
from streamclient.connection import Connection
from tests import servers
from tests.pystreams.dashboard.conftest import Started
from tests.suite.waiting import wait_for


def test_a_rate_is_over_the_last_seconds() -> None:
    """Rates cover the last seconds. The first sample has none, a decrease gives zero, and a clock that goes back
    restarts them.
    """
    rates: Rates[str] = Rates()
    seen = [(1_000, 10), (2_000, 30), (3_000, 30), (12_000, 30), (13_000, 1), (500, 99), (1_500, 109)]
    assert [rates.add("a", at, count) for at, count in seen] == [None, 20.0, 10.0, 0.0, 0.0, None, 10.0]


def test_groups_have_a_rate_of_delivery(client: redis.Redis, instance: servers.Running) -> None:
    """A group's rate counts delivered entries, and its stream's rate counts added entries."""
    for number in range(100):
        client.xadd("s", {"n": number})
    for group in ("busy", "idle"):
        client.xgroup_create("s", group, 0)
    connection = connect(Wanted(instance.url), "")
    samples = ServerSamples()
    first = samples.sample(connection)
    assert {row.group.rate for row in first.groups.values()} == {None}
    client.xreadgroup("busy", "c", {"s": ">"}, count=50)
    groups = wait_for(lambda: (s := samples.sample(connection)).at > first.at and s, "a later sample").groups
    assert groups[b"s", b"idle"].group.rate == 0
    assert (groups[b"s", b"busy"].group.rate or 0) > 0
    assert [(groups[b"s", each].group.catch_up_ms or 0) > 0 for each in (b"busy", b"idle")] == [True, False]
    assert groups[b"s", b"busy"].group.stream.rate == 0
    connection.close()


def test_a_sample_leaves_out_streams_that_the_user_may_not_read(client: redis.Redis, instance: servers.Running) -> None:
    """A sample contains only streams that the user may read, with their groups."""
    for name in ("open", "secret"):
        client.xadd(name, {"n": 1})
        client.xgroup_create(name, "g", 0)
    client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", ">pass", "~open", "+@all")
    try:
        with closing(connect(Wanted(f"redis://narrow:pass@{instance.host}:{instance.port}"), "")) as connection:
            found = ServerSamples().sample(connection)
    finally:
        client.acl_deluser("narrow")
    assert (set(found.streams), set(found.groups)) == ({b"open"}, {(b"open", b"g")})


def test_commands_of_the_dashboard_are_counted_separately(client: redis.Redis, instance: servers.Running) -> None:
    """The commands of the dashboard's samples and scrapes are counted separately from those of other clients."""
    for number in range(200):
        client.xadd(f"s{number}", {"n": number})
    connection = Connection(connect(Wanted(instance.url), "").address)
    collector = Collector(Wanted(instance.url))
    samples = ServerSamples(lambda: collector.sent)
    collector.collect(5.0)  # the first scrape runs scripts, whose commands Redis counts as well
    first = samples.sample(connection)
    assert first.sent >= 200
    collector.collect(5.0)
    later = wait_for(lambda: (s := samples.sample(connection)).commands.get("own") and s, "a later sample")
    assert later.commands["own"] > 400
    assert later.commands["others"] < later.commands["own"] / 100
    connection.close()
    collector.close()


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
