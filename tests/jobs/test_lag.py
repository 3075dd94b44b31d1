"""The job `lag` where groups and streams come and go between its looks."""

from __future__ import annotations

from collections.abc import Iterator

import lag
import pytest
import redis

from pystreams.streams.groups.status import Sample, Status
from spark_streams.client.connection import Connection
from spark_streams.client.pool import borrow, close_all
from spark_streams.config import options
from spark_streams.config.address import Address
from tests import servers


@pytest.fixture
def connection(place: servers.Running, client: redis.Redis) -> Iterator[Connection]:
    address = options.server({"url": place.url})
    assert isinstance(address, Address)
    with borrow(address) as made:
        yield made
    close_all()


def test_a_group_that_comes_back_is_judged_anew(connection: Connection, client: redis.Redis) -> None:
    """A stream that was deleted and made anew has not gone back; nothing is kept of groups that are gone."""
    history: dict[tuple[bytes, bytes], list[Sample]] = {}

    def look(*streams: str) -> dict[tuple[str, str], Status]:
        found = lag._look(connection, streams, "s*", None, history)
        return {(each.stream.name.decode(), each.name.decode()): judged for each, judged in found}

    for stream in ("s", "s2"):
        client.xadd(stream, {"n": 1})
        client.xgroup_create(stream, "g", "$")
    assert look() == {("s", "g"): Status.OK, ("s2", "g"): Status.OK}
    client.delete("s")
    client.xgroup_destroy("s2", "g")
    client.set("s3", "no stream")
    assert (look(), look("s", "s2", "s3"), history) == ({}, {}, {})
    client.xadd("s", {"n": 1}, id="1-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    assert look() == {("s", "g"): Status.OK}
    client.xgroup_setid("s", "g", "0")
    assert look("s", "missing") == {("s", "g"): Status.REWIND}
