"""Samples of groups and streams that appear and disappear, for `groups lag`."""

from __future__ import annotations

import redis

from pystreams.streams import inventory
from pystreams.streams.group_states import Status
from pystreams.streams.sampling import Samples
from streamclient.connection import Connection


def test_a_recreated_group_has_no_history(connection: Connection, client: redis.Redis) -> None:
    """The history of a deleted group is dropped, so a group created again is not reported as moved back."""
    history = Samples()

    def sample(name: bytes | None = None) -> dict[tuple[str, str], Status]:
        found, _ = history.groups(connection, inventory.scan(connection, b"s*"), name)
        return {(group.stream.name.decode(), group.name.decode()): status for group, status in found}

    for stream in ("s", "s2"):
        client.xadd(stream, {"n": 1})
        client.xgroup_create(stream, "g", "$")
    assert sample() == {("s", "g"): Status.OK, ("s2", "g"): Status.OK}
    client.delete("s")
    client.xgroup_destroy("s2", "g")
    client.set("s3", "no stream")
    assert (sample(), sample(b"g")) == ({}, {})
    client.xadd("s", {"n": 1}, id="1-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    assert sample() == {("s", "g"): Status.OK}
    client.xgroup_setid("s", "g", "0")
    assert sample(b"g") == {("s", "g"): Status.REWIND}


def test_progress_is_measured_between_samples(connection: Connection, client: redis.Redis) -> None:
    """Later samples have the rate of delivery, and the time to catch up if the lag shrinks."""
    samples = Samples()

    def progress(now: int) -> tuple[float | None, float | None, int | None]:
        (page,) = samples.pages(connection, [b"s"], now)
        ((group, _),) = page.groups
        return group.stream.rate, group.rate, group.catch_up_ms

    def add(count: int) -> None:
        for _ in range(count):
            client.xadd("s", {"n": 1})

    add(100)
    client.xgroup_create("s", "g", "0")
    assert progress(1_000) == (None, None, None)
    client.xreadgroup("g", "c", {"s": ">"}, count=60)
    add(20)
    assert progress(11_000) == (2.0, 6.0, 15_000)
    add(60)
    client.xreadgroup("g", "c", {"s": ">"}, count=50)
    assert progress(21_000) == (6.0, 5.0, None)
    client.xreadgroup("g", "c", {"s": ">"})
    assert progress(31_000) == (0.0, 7.0, 0)
