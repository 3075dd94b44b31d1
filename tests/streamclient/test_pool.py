"""The number of connections of a process: one per server, regardless of queries and options."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from spark_streams.errors import ServerError
from spark_streams.source import PystreamsDataSource
from streamclient import pool
from tests.spark_streams.driver import Site, schema_of
from tests.suite.waiting import wait_for

SCHEMA = schema_of("_id string, n int")


@dataclass(frozen=True)
class Counted:
    """A server, and the connections that it had before the test."""

    site: Site
    earlier: frozenset[str]

    def connections(self) -> int:
        """Return the number of connections that were made since."""
        return len(identities(self.site) - self.earlier)


def identities(site: Site) -> frozenset[str]:
    """Return the identities of the server's connections."""
    return frozenset(client["id"] for client in site.client.client_list())


@pytest.fixture
def counted(site: Site) -> Counted:
    """Return the server, without the connections of the pool of earlier tests."""
    pool.close_all()
    return Counted(site, identities(site))


def batch(**given: Any) -> list[Any]:
    """Run a batch read whose task is in this process."""
    reader = PystreamsDataSource({name: str(value) for name, value in given.items()}).reader(SCHEMA)
    worker = pickle.loads(pickle.dumps(reader))
    return [rows for part in reader.partitions() for rows in worker.read(pickle.loads(pickle.dumps(part)))]


def test_queries_of_a_process_share_a_connection(site: Site, counted: Counted) -> None:
    """Queries with different streams, groups and retry times use the same connection, one after the other."""
    for number in range(12):
        site.add(f"s{number}", 3)
        assert batch(url=site.url, stream=f"s{number}", retryTimeoutMs=1000 + number)
        given = {"url": site.url, "stream": f"s{number}", "startingOffsets": "earliest"}
        if number % 2:
            given["group"] = f"g{number}"
        reader = PystreamsDataSource(given).streamReader(SCHEMA)
        start = reader.initialOffset()
        reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))  # type: ignore[call-arg]
        assert counted.connections() == 1
        if number % 4 == 0:
            reader.stop()
            wait_for(lambda: counted.connections() == 0, "the server to see its end")


def test_errors_are_those_of_the_query_that_has_the_connection(site: Site) -> None:
    """An error names the required ACL rules of the query that failed, although connections are shared."""
    site.add("a", 3)
    site.client.execute_command("ACL", "SETUSER", "poor", "on", ">pw", "~a", "+@all")
    try:
        assert batch(url=site.url, stream="a", user="poor", password="pw")
        with pytest.raises(ServerError, match=r"NOT_PERMITTED.*ACL SETUSER poor ~b "):
            batch(url=site.url, stream="b", user="poor", password="pw")
    finally:
        pool.close_all()
        site.client.execute_command("ACL", "DELUSER", "poor")


def test_connections_of_many_logins_are_bounded(site: Site, counted: Counted) -> None:
    """A process that connects to many servers, or as many users, keeps only the most recently used connections."""
    users = [f"user{number}" for number in range(12)]
    site.add("s", 3)
    try:
        for user in users:
            site.client.execute_command("ACL", "SETUSER", user, "on", ">pw", "~*", "+@all")
            assert batch(url=site.url, stream="s", user=user, password="pw")
        wait_for(lambda: counted.connections() == 8, "the server to see the end of the oldest connections")
    finally:
        pool.close_all()
        site.client.execute_command("ACL", "DELUSER", *users)
