"""Three real Sentinels watch engines and real servers; one is killed, another leads, the killed one comes back."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from streamclient.config.address import Address
from streamclient.connection import Connection as ConnectorConnection
from tests.servers.sentinels import PATIENCE, Member, Sentinels, family, sentinels
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.redis


def fails_over(watching: Sentinels, dead: Member, expected: Member, other: Member) -> None:
    """Kill the master and wait until Sentinels promote the replica with the best priority.

    The killed server must return as a replica.
    """
    expected.run("CONFIG", "SET", "replica-priority", 10)
    other.run("CONFIG", "SET", "replica-priority", 0)
    wait_for(
        lambda: announced(watching) == {(expected.port, 10), (other.port, 0)}, "the Sentinels to know the priorities"
    )
    dead.kill()
    wait_for(lambda: watching.master("main") == expected.port, "another master", PATIENCE)
    wait_for(lambda: expected.info().get("role") == "master", "the role of the new master", PATIENCE)
    dead.start()
    wait_for(lambda: dead.has_all_of(expected), "the killed one to follow", PATIENCE)
    # The Sentinels rewrote the configuration with CONFIG REWRITE, so the server also follows after a restart.
    assert f"replicaof 127.0.0.1 {expected.port}" in dead.config.read_text()
    assert "replicaof" not in expected.config.read_text()


def written(client: Any, connection: ConnectorConnection, number: int) -> None:
    """Add an entry with each client; both clients must find the master."""

    def add() -> bool:
        try:
            return bool(client.xadd("s", {"by": "redis-py"}, id=f"{number}-1"))
        except redis.ResponseError as refusal:
            return "equal or smaller" in str(refusal)
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    wait_for(add, "redis-py to find the master", PATIENCE)
    # After a broken link the connector repeats a read, but not an XADD, which may have run already.
    assert connection.command("XLEN", "s")
    assert connection.command("XADD", "s", f"{number}-2", "by", "connector") == f"{number}-2".encode()


def test_masters_die_and_clients_follow():
    """An engine is killed and a redis-server is promoted, then that is killed and another engine is promoted.

    redis-py's Sentinel client and the connector follow, each killed server becomes a replica, and nothing that replicas
    had is lost.
    """
    with sentinels() as watching, family("engine", "redis", "engine") as (first, real, last):
        last.run("CONFIG", "SET", "replica-announced", "no")
        with watching.watching("main", [first, real, last]):
            wait_for(
                lambda: announced(watching) == {(real.port, 100)},
                "the Sentinels to leave out the replica that is not announced",
            )
            last.run("CONFIG", "SET", "replica-announced", "yes")
            found = redis.Sentinel([("127.0.0.1", port) for port in watching.ports], socket_timeout=5)
            client = found.master_for("main", protocol=2, retry=None)
            connection = ConnectorConnection(Address(watching.url("main"), retry_ms=20_000))
            written(client, connection, 1)
            assert first.run("WAIT", 2, 20_000) == 2
            fails_over(watching, first, real, last)
            written(client, connection, 2)
            wait_for(lambda: last.has_all_of(real), "the other engine to follow", PATIENCE)
            fails_over(watching, real, last, first)
            written(client, connection, 3)
            connection.close()
            client.close()
            for member in (first, real, last):
                wait_for(lambda: member is last or member.has_all_of(last), "all to have everything", PATIENCE)  # noqa: B023
                with member.client() as reader:
                    ids = [entry for entry, _ in reader.xrange("s")]
                assert ids == [b"%d-%d" % (number, by) for number in (1, 2, 3) for by in (1, 2)]


def announced(watching: Sentinels) -> set[tuple[int, int]]:
    """Return the replicas that Sentinels report to clients, with their priorities; empty if the
    Sentinels do not agree.
    """
    found = []
    for number in range(len(watching.ports)):
        with watching.client(number) as sentinel:
            found.append(
                {(int(replica["port"]), int(replica["slave-priority"])) for replica in sentinel.sentinel_slaves("main")}
            )
    return found[0] if found[0] == found[1] == found[2] else set()
