"""Servers without some commands, such as managed ones: the connector uses alternatives, or names
the missing command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
import redis

from spark_streams.config import options
from spark_streams.errors import PystreamsError, ServerError
from streamclient import pool
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests.servers.cloud_proxy import cloud_proxy
from tests.spark_streams.driver import Query, Site, numbers
from tests.streamclient.test_topologies import write

#: Commands rejected by some managed servers: none of them is required.
MISSING = "config select hello wait info role debug command eval script acl cluster monitor save"


@pytest.fixture
def limited(site: Site) -> Iterator[redis.Redis]:
    """The user `cloud`, whom the server denies all of these commands."""
    lacking = {"eval", "script"} if site.kind == "engine" else set()
    refused = [f"-{word}" for word in MISSING.split() if word not in lacking]
    site.client.execute_command("ACL", "SETUSER", "cloud", "reset", "on", ">pw", "~*", "&*", "+@all", *refused)
    yield site.client
    pool.close_all()
    site.client.execute_command("ACL", "DELUSER", "cloud")


@pytest.mark.parametrize(
    "given",
    [{}, {"group": "g"}, {"group": "g", "consume": "shared"}, {"minPartitions": "4", "maxEntriesPerTrigger": "30"}],
    ids=["no group", "group", "shared", "limits"],
)
def test_reading_needs_none_of_these_commands(site: Site, limited: redis.Redis, given: dict[str, str]) -> None:
    """Queries of every kind work in RESP2 without these commands, also with values so large that scripts would normally
    avoid their transfer.
    """
    site.add("s", 50, payload="x" * 3000)
    query = Query(site.url, user="cloud", password="pw", streamPattern="s*", startingOffsets="earliest", **given)
    assert numbers(query.drain()) == list(range(50))
    assert limited.info("commandstats")["cmdstat_xrange" if given.get("consume") is None else "cmdstat_xreadgroup"]


def test_writing_needs_none_of_these_commands(site: Site, limited: redis.Redis) -> None:
    """Rows are written exactly once without these commands."""
    address = options.server({"url": site.url, "user": "cloud", "password": "pw"})
    assert isinstance(address, Address)
    connection = Connection(address)
    write(connection, 0, 200).finish()
    connection.close()
    assert [int(fields[b"n"]) for _, fields in limited.xrange("s")] == list(range(200))


def test_a_required_missing_command_is_named(site: Site, limited: redis.Redis) -> None:
    """Without SELECT, a database is an error; without WAIT, or without replicas, waitReplicas is an error. Each names
    the command.
    """
    with pytest.raises(ServerError, match=r"\[NOT_PERMITTED\].*SELECT 3"):
        Query(f"{site.url}/3", user="cloud", password="pw", stream="s").trigger()
    address = options.server({"url": site.url, "user": "cloud", "password": "pw"})
    assert isinstance(address, Address)
    with pytest.raises(PystreamsError, match=r"WAIT"):
        write(Connection(address), 0, 10, wait_replicas=1, wait_timeout=100).finish()
    with pytest.raises(PystreamsError, match=r"NOT_REPLICATED"):  # WAIT exists and returns 0
        write(Connection(Address(site.url)), 0, 10, stream="t", wait_replicas=1, wait_timeout=100).finish()


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
