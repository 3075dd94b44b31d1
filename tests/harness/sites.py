"""Fixtures: a server, a real Redis and the engine in turn, for tests of the client and the connector without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from streamclient import pool
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests import servers
from tests.spark_streams.driver import Site, end_queries


@pytest.fixture
def client(client: redis.Redis) -> Iterator[redis.Redis]:
    """Yield a client of the server; afterwards close all pooled connections of the connector."""
    yield client
    pool.close_all()


@pytest.fixture
def site(instance: servers.Running, client: redis.Redis, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Yield the server as an address, a client and its kind."""
    yield Site(instance.url, client, request.node.callspec.params["instance"])
    end_queries()


@pytest.fixture
def connection(instance: servers.Running) -> Iterator[Connection]:
    """Yield a connection of the connector to the server."""
    made = Connection(Address(instance.url))
    yield made
    made.close()
