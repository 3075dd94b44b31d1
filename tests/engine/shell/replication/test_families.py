"""Engines that follow each other: chains, promotion, servers that return, and their data."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest
import redis as redis_py

from tests import servers
from tests.engine.shell.replication.family import (
    contents,
    follow,
    port_of,
    replication,
    wait_until_equal,
    wait_until_up,
)
from tests.suite.waiting import wait_for


@pytest.fixture(scope="module")
def engines():
    with ExitStack() as stack:
        flags = ("--enable-debug-command", "yes", "--appendonly")
        yield [stack.enter_context(servers.engine(*flags, word)) for word in ("yes", "no", "no")]


@pytest.fixture
def family(engines):
    """Yield clients of a master, its replica, and the replica's replica; afterwards all are masters without data."""
    with ExitStack() as stack:
        clients = [stack.enter_context(redis_py.Redis(port=engine.port, socket_timeout=20)) for engine in engines]
        yield clients
        for client in clients:
            client.execute_command("REPLICAOF", "NO", "ONE")
            client.flushall()


def syncs(client: redis_py.Redis) -> tuple[int, int]:
    """Return the numbers of full and partial synchronisations as a master."""
    found = client.info("stats")
    return found["sync_full"], found["sync_partial_ok"]


def test_a_chain_and_a_promotion(family):
    """The third server applies writes of the first, in each database.

    After the second is promoted, the others follow it without a full synchronisation; divergent writes are discarded
    and logged.
    """
    first, second, third = family
    for number in range(500):
        first.xadd("s", {"number": number})
    first.xgroup_create("s", "g", "0")
    first.xreadgroup("g", "c", {"s": ">"}, count=300)
    follow(second, port_of(first))
    wait_until_up(second)
    with redis_py.Redis(port=port_of(first), db=3) as other:
        other.set("in 3", "1")
        assert other.wait(1, 20_000) == 1
        # The third server's stream starts in the middle of the first one's.
        follow(third, port_of(second))
        wait_until_up(third)
        other.set("also in 3", "2")
    wait_until_equal(third, first)
    assert contents(third) == contents(first) == contents(second)
    with redis_py.Redis(port=port_of(third), db=3) as other:
        assert contents(other) == {b"in 3": (b"1", -1), b"also in 3": (b"2", -1)}
    given = syncs(second)
    second.execute_command("REPLICAOF", "NO", "ONE")
    second.xadd("s", {"after": "promotion"})
    follow(first, port_of(second))
    wait_until_equal(first, second)
    wait_until_equal(third, second)
    assert contents(first) == contents(second) == contents(third)
    assert syncs(second) == (given[0], given[1] + 2)


def test_two_masters_after_a_partition(family, engines):
    """A former master that continued to write takes all data of the new one, and logs the discarded writes."""
    first, second, _ = family
    first.set("common", "1")
    follow(second, port_of(first))
    wait_until_up(second)
    assert first.wait(1, 20_000) == 1
    second.execute_command("REPLICAOF", "NO", "ONE")
    first.set("lost", "x" * 100)
    second.set("kept", "y")
    before = replication(first)["master_repl_offset"]
    follow(first, port_of(second))
    wait_until_equal(first, second)
    assert contents(first) == contents(second)
    assert "lost" not in first
    log = engines[0].output.read_text()
    assert f"discarding 2 keys at offset {before} of the history" in log
    unconfirmed = re.search(r"the last (\d+) bytes of that history, which no replica has acknowledged", log)
    assert unconfirmed is not None
    assert 100 < int(unconfirmed[1]) < 300


def test_the_log_of_a_replica_is_of_its_masters_data(family, engines):
    """The log of a replica contains the master's stream."""
    first, second, _ = family
    first.set("own", "gone")
    second.set("k", "1")
    follow(first, port_of(second))
    wait_until_up(first)
    wait_for(lambda: first.info("persistence")["aof_enabled"], "the log of the new data")
    second.set("k", "2")
    assert second.wait(1, 20_000) == 1
    assert first.execute_command("DEBUG", "LOADAOF") == b"OK"
    assert contents(first) == {b"k": (b"2", -1)}


def test_keys_expire_again_after_a_promotion(family):
    """A replica hides an expired key that its master has not deleted, and deletes the key after its promotion."""
    first, second, _ = family
    follow(second, port_of(first))
    wait_until_up(second)
    first.set("soon", "1", px=100)
    first.execute_command("CLIENT", "PAUSE", 3_600_000, "WRITE")
    wait_until_equal(second, first)
    wait_for(lambda: "soon" not in second, "the key's time to come")
    assert second.dbsize() == 1
    second.execute_command("REPLICAOF", "NO", "ONE")
    wait_for(lambda: second.dbsize() == 0, "the key to be deleted")
    first.execute_command("CLIENT", "UNPAUSE")


def test_blocked_clients_are_disconnected_when_the_role_changes(family):
    """A blocked client gets UNBLOCKED and is disconnected when its server becomes a replica."""
    first, second, _ = family
    with redis_py.Redis(port=port_of(first), socket_timeout=20) as waiting:
        connection = waiting.connection_pool.get_connection()
        connection.send_command("XREAD", "BLOCK", 0, "STREAMS", "nothing", "$")
        wait_for(lambda: first.info("clients")["blocked_clients"], "the client to wait")
        follow(first, port_of(second))
        with pytest.raises(redis_py.ResponseError, match="UNBLOCKED force unblock"):
            connection.read_response()
        with pytest.raises(redis_py.ConnectionError):
            connection.read_response()
