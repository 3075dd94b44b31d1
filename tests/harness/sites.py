"""Fixtures: a server, a real Redis and the engine in turn, for tests of the client and the connector without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from streamclient import pool
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests import servers
from tests.spark_streams.driver import Site


@pytest.fixture
def client(client: redis.Redis) -> Iterator[redis.Redis]:
    """The same; afterwards no connection of the connector's to that server is left."""
    yield client
    pool.close_all()


@pytest.fixture
def site(place: servers.Running, client: redis.Redis, request: pytest.FixtureRequest) -> Site:
    """The same as an address, a client and the server's kind."""
    return Site(place.url, client, request.node.callspec.params["place"])


@pytest.fixture
def connection(place: servers.Running) -> Iterator[Connection]:
    """A connection of the connector to that server."""
    made = Connection(Address(place.url))
    yield made
    made.close()
