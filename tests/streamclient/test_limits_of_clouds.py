"""A server like managed ones: it lacks some commands, and a transaction has keys of one slot only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from spark_streams.errors import PystreamsError, ServerError
from streamclient import pool
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests.spark_streams.driver import Query, Site, numbers
from tests.streamclient.test_topologies import one_node, port_of, write

pytestmark = pytest.mark.redis
#: Commands that the server does not know. It is a cluster's only node, so it has one database.
UNKNOWN = "config hello info role debug command eval evalsha fcall script function acl monitor save client"


@pytest.fixture(scope="module")
def limited() -> Iterator[Site]:
    renamed = [word for name in UNKNOWN.split() for word in ("--rename-command", name, f"hidden-{name}")]
    with one_node(*renamed) as client:
        yield Site(f"redis://127.0.0.1:{port_of(client)}", client, "redis")


@pytest.fixture
def cloud(limited: Site) -> Iterator[Site]:
    limited.client.flushall()
    yield limited
    pool.close_all()


@pytest.mark.parametrize("given", [{"trimOnCommit": "true"}, {"consume": "shared"}], ids=["range", "shared"])
def test_reading_needs_none_of_these_commands(cloud: Site, given: dict[str, str]) -> None:
    """Streams of several slots are read, waited for and acknowledged."""
    for number in range(3):
        cloud.add(f"s{number}", 20, payload="x" * 3000)
    query = cloud.query(streamPattern="s*", group="g", idleWaitMs="50", maxEntriesPerTrigger="30", **given)
    assert sorted(numbers(query.drain())) == sorted([*range(20)] * 3)
    cloud.add("s1", 5, first=20)
    assert numbers(query.drain()) == [20, 21, 22, 23, 24]
    assert [cloud.group(f"s{number}")["pending"] for number in range(3)] == [0, 0, 0]
    query.reader.stop()


@pytest.mark.parametrize("mode", ["exactlyOnce", "atomic"])
def test_writing_needs_none_of_these_commands(cloud: Site, mode: str) -> None:
    """Rows are written to streams of two slots."""
    with closing(Connection(Address(cloud.url))) as connection:
        write(connection, 0, 200, mode=mode).finish()
        write(connection, 0, 100, stream="t", mode=mode).finish()
    for stream, count in (("s", 200), ("t", 100)):
        assert [int(fields[b"n"]) for _, fields in cloud.client.xrange(stream)] == list(range(count))


def test_the_limits_of_the_server_are_named(cloud: Site) -> None:
    """A database is an error, and so is waitReplicas because the server has no replicas."""
    with pytest.raises(ServerError, match=r"SELECT 3"):
        Query(f"{cloud.url}/3", stream="s").trigger()
    with pytest.raises(PystreamsError, match=r"NOT_REPLICATED"), closing(Connection(Address(cloud.url))) as connection:
        write(connection, 0, 10, wait_replicas=1, wait_timeout=100).finish()
