"""Every command that changes data changes a replica in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import servers
from tests.engine.shell.replication.pairs import AT_ONCE, redis_following, wait_until_up
from tests.engine.shell.replication.sequences import Pair, families
from tests.servers.connection import Connection
from tests.suite import tools

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    tools.needed("redis-server")
    with servers.engine() as engine, redis_following(engine) as replica:
        yield Pair(engine, replica)


def test_a_replica_has_the_same_data_after_any_commands(pair: Pair) -> None:
    """After random commands on all types and databases, in transactions and not, a replica has equal keys, entries,
    counters, groups and pending entries.
    """
    pair.check("arrives", families())


@contextmanager
def engine_following(master: servers.Running) -> Iterator[Connection]:
    with servers.engine("--replicaof", f"{master.host} {master.port}") as running, Connection(running) as client:
        wait_until_up(client)
        yield client


def test_an_engine_equals_a_redis_as_a_replica() -> None:
    """With a real master, an engine has the same data as a real replica after random commands."""
    tools.needed("redis-server")
    with (
        servers.redis(*AT_ONCE) as master,
        redis_following(master) as other,
        engine_following(master) as replica,
    ):
        Pair(master, replica, other).check("follows", families())
