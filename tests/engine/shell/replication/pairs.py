"""Pairs of servers in processes: an engine as master, and its replica."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests import servers
from tests.servers.connection import Connection
from tests.servers.keyspaces import everything
from tests.suite.waiting import wait_for

#: Settings without a delay for other replicas to join.
AT_ONCE = ("--repl-diskless-sync-delay", "0")


def info(client: Connection, section: str = "replication") -> dict[str, str]:
    """Return a section of INFO."""
    lines = client.run("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def is_up(replica: Connection) -> bool:
    """Return whether a replica is connected to its master."""
    return info(replica).get("master_link_status") == "up"


def wait_until_up(replica: Connection) -> None:
    """Wait until a replica is connected to its master and has its data."""
    wait_for(lambda: is_up(replica), "the replica to have its master's data")


def settled(master: Connection) -> None:
    """Wait until at least one replica has all writes of this connection."""
    assert master.run("WAIT", 1, 20_000) >= 1


def assert_same(master: Connection, replica: Connection) -> None:
    """Wait until a replica has all writes, and check that its data equals the master's in all databases."""
    settled(master)
    assert everything(replica.run) == everything(master.run)


@contextmanager
def redis_following(master: servers.Running, *flags: str) -> Iterator[Connection]:
    """Yield a connection to a redis-server that follows ``master`` and has its data."""
    with (
        servers.redis("--replicaof", f"{master.host} {master.port}", *flags) as running,
        Connection(running) as client,
    ):
        wait_until_up(client)
        yield client
