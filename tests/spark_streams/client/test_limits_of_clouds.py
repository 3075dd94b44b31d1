"""Servers that leave commands out, as managed ones do: the connector finds its way, or says what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from spark_streams.client import pool
from spark_streams.client.connection import Connection
from spark_streams.config import options
from spark_streams.config.address import Address
from spark_streams.errors import PystreamsError, ServerError
from tests.spark_streams.client.test_topologies import write
from tests.spark_streams.driver import Query, Site, numbers

#: What managed servers refuse, one or the other: none of it is needed.
MISSING = "config select hello wait info role debug command eval script acl cluster monitor save"


@pytest.fixture
def limited(site: Site) -> Iterator[redis.Redis]:
    """The user `cloud` of a server that refuses all of that."""
    refused = [f"-{word}" for word in MISSING.split()]
    site.client.execute_command("ACL", "SETUSER", "cloud", "reset", "on", ">pw", "~*", "&*", "+@all", *refused)
    yield site.client
    pool.close_all()
    site.client.execute_command("ACL", "DELUSER", "cloud")


@pytest.mark.parametrize(
    "said",
    [{}, {"group": "g"}, {"group": "g", "consume": "shared"}, {"minPartitions": "4", "maxEntriesPerTrigger": "30"}],
    ids=["no group", "group", "shared", "limits"],
)
def test_reading_needs_none_of_it(site: Site, limited: redis.Redis, said: dict[str, str]) -> None:
    """Queries of every kind run in RESP2 on what is left, with values that scripts would keep at the server as well."""
    site.add("s", 50, payload="x" * 3000)
    query = Query(site.url, user="cloud", password="pw", streamPattern="s*", startingOffsets="earliest", **said)
    assert numbers(query.drain()) == list(range(50))
    assert limited.info("commandstats")["cmdstat_xrange" if said.get("consume") is None else "cmdstat_xreadgroup"]


def test_writing_needs_none_of_it(site: Site, limited: redis.Redis) -> None:
    """Rows are written exactly once."""
    address = options.server({"url": site.url, "user": "cloud", "password": "pw"})
    assert isinstance(address, Address)
    connection = Connection(address)
    write(connection, 0, 200).finish()
    connection.close()
    assert [int(fields[b"n"]) for _, fields in limited.xrange("s")] == list(range(200))


def test_what_cannot_do_without_says_so(site: Site, limited: redis.Redis) -> None:
    """A database needs SELECT, and waitReplicas WAIT and replicas: the error names what is missing."""
    with pytest.raises(ServerError, match=r"\[NOT_PERMITTED\].*SELECT 3"):
        Query(f"{site.url}/3", user="cloud", password="pw", stream="s").trigger()
    address = options.server({"url": site.url, "user": "cloud", "password": "pw"})
    assert isinstance(address, Address)
    with pytest.raises(PystreamsError, match=r"WAIT"):
        write(Connection(address), 0, 10, wait_replicas=1, wait_timeout=100).finish()
    with pytest.raises(PystreamsError, match=r"NOT_REPLICATED"):  # WAIT is there, and gives 0
        write(Connection(Address(site.url)), 0, 10, stream="t", wait_replicas=1, wait_timeout=100).finish()
