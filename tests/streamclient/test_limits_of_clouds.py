"""Servers without some commands, such as managed ones: the connector uses alternatives, or names
the missing command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from spark_streams.errors import PystreamsError, ServerError
from streamclient import pool
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests.servers.cloud_proxy import cloud_proxy
from tests.spark_streams.driver import Query, Site, numbers
from tests.streamclient.test_topologies import write

#: Commands that the proxy rejects as unknown.
UNKNOWN = {
    *("CONFIG", "SELECT", "HELLO", "INFO", "ROLE", "DEBUG", "COMMAND", "EVAL", "EVALSHA", "EVAL_RO", "FCALL", "SCRIPT"),
    *(
        "FUNCTION",
        "ACL",
        "CLUSTER",
        "MONITOR",
        "SAVE",
        "CLIENT REPLY",
        "CLIENT SETINFO",
        "CLIENT ID",
        "CLIENT NO-EVICT",
    ),
}


@pytest.fixture
def cloud(site: Site) -> Iterator[Site]:
    """A server behind a proxy that lacks these commands, accepts only keys of one slot per command,
    and speaks RESP2.
    """
    with cloud_proxy(int(site.url.rpartition(":")[2]), UNKNOWN) as proxy:
        yield replace(site, url=f"redis://127.0.0.1:{proxy.port}")
        pool.close_all()


@pytest.mark.parametrize("given", [{"trimOnCommit": "true"}, {"consume": "shared"}], ids=["range", "shared"])
def test_reading_through_a_proxy(cloud: Site, given: dict[str, str]) -> None:
    """Through the limited proxy, streams of several slots are read, waited for and acknowledged."""
    for number in range(3):
        cloud.add(f"s{number}", 20, payload="x" * 3000)
    query = cloud.query(streamPattern="s*", group="g", idleWaitMs="50", maxEntriesPerTrigger="30", **given)
    assert sorted(numbers(query.drain())) == sorted([*range(20)] * 3)
    cloud.add("s1", 5, first=20)
    assert numbers(query.drain()) == [20, 21, 22, 23, 24]
    assert [cloud.group(f"s{number}")["pending"] for number in range(3)] == [0, 0, 0]
    query.reader.stop()


@pytest.mark.parametrize("mode", ["exactlyOnce", "atomic"])
def test_writing_through_a_proxy(cloud: Site, mode: str) -> None:
    """Through the limited proxy, rows are written to streams of two slots."""
    with closing(Connection(Address(cloud.url))) as connection:
        write(connection, 0, 200, mode=mode).finish()
        write(connection, 0, 100, stream="t", mode=mode).finish()
    for stream, count in (("s", 200), ("t", 100)):
        assert [int(fields[b"n"]) for _, fields in cloud.client.xrange(stream)] == list(range(count))


def test_the_limits_of_a_proxy_are_named(cloud: Site) -> None:
    """Through the limited proxy, a database is an error because SELECT is missing, and waitReplicas is an error because
    WAIT counts no replicas.
    """
    with pytest.raises(ServerError, match=r"SELECT 3"):
        Query(f"{cloud.url}/3", stream="s").trigger()
    with pytest.raises(PystreamsError, match=r"NOT_REPLICATED"), closing(Connection(Address(cloud.url))) as connection:
        write(connection, 0, 10, wait_replicas=1, wait_timeout=100).finish()
