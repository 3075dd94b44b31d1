"""Samples of groups and streams that appear and disappear, for `groups lag` and the job `lag`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from pystreams.streams import inventory
from pystreams.streams.groups.group_history import History
from pystreams.streams.groups.status import Status
from spark_streams.config import options
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.pool import borrow, close_all
from tests import servers


@pytest.fixture
def connection(instance: servers.Running, client: redis.Redis) -> Iterator[Connection]:
    address = options.server({"url": instance.url})
    assert isinstance(address, Address)
    with borrow(address) as made:
        yield made
    close_all()


def test_a_recreated_group_has_no_history(connection: Connection, client: redis.Redis) -> None:
    """The history of a deleted group is dropped, so a group created again is not reported as moved back."""
    history = History()

    def sample(name: bytes | None = None) -> dict[tuple[str, str], Status]:
        found, _ = history.sample(connection, inventory.scan(connection, b"s*"), name)
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


def test_a_limited_sample_says_that_there_are_more_groups(connection: Connection, client: redis.Redis) -> None:
    client.xadd("s", {"n": 1})
    for name in "abc":
        client.xgroup_create("s", name, "0")
    history = History()
    assert [group.name for group, _ in history.sample(connection, [b"s"], limit=2)[0]] == [b"a", b"b"]
    assert (history.sample(connection, [b"s"], limit=2)[1], history.sample(connection, [b"s"], limit=3)[1]) == (
        True,
        False,
    )
