"""The engine as the master of real replicas: full and partial synchronisation, the stream, acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator

import hiredis
import pytest

from tests import servers
from tests.engine.shell.replication.pairs import assert_same, info, redis_following, wait_until_up
from tests.servers.connection import Connection
from tests.suite import tools
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.redis


@pytest.fixture(autouse=True)
def _needs_redis() -> None:
    tools.needed("redis-server")


@pytest.fixture(scope="module")
def engine() -> Iterator[servers.Running]:
    tools.needed("redis-server")
    with servers.engine("--enable-debug-command", "yes") as running:
        yield running


@pytest.fixture
def master(engine: servers.Running) -> Iterator[Connection]:
    with Connection(engine) as client:
        client.run("FLUSHALL")
        yield client


@pytest.fixture(scope="module")
def following(engine: servers.Running) -> Iterator[Connection]:
    with redis_following(engine) as client:
        yield client


@pytest.fixture
def replica(following: Connection) -> Connection:
    """Return a client of a redis-server that follows the engine, for tests that do not change the link."""
    wait_until_up(following)
    return following


def test_a_transaction_and_messages_reach_the_replica(master, replica):
    """The changes of a transaction in two databases reach the replica, and published messages reach its subscribers."""
    replica.run("SUBSCRIBE", "news")
    for words in (["MULTI"], ["SET", "a", "1"], ["SELECT", "2"], ["XADD", "s", "*", "f", "v"], ["DEL", "a"], ["EXEC"]):
        master.run(*words)
    master.run("SELECT", 0)
    master.run("PUBLISH", "news", "hello")
    assert replica.receive() == [b"message", b"news", b"hello"]
    replica.run("UNSUBSCRIBE")
    assert_same(master, replica)


def test_a_replica_that_lacks_more_than_the_backlog_gets_all_data(master, engine):
    """An offset before the backlog, an unknown ID and a future offset cause a full synchronisation, and are counted
    until CONFIG RESETSTAT.
    """
    with Connection(engine) as other:
        other.run("REPLCONF", "capa", "eof", "capa", "psync2")
        other.send("PSYNC", "?", "-1")
        wait_for(lambda: info(master)["repl_backlog_active"] == "1", "the backlog")
        history = info(master)
        name, last = history["master_replid"], int(history["master_repl_offset"])
    refused = int(info(master, "stats")["sync_partial_err"])
    for id_, offset in (("a" * 40, last), (name, last + 100_000), (name, 0)):
        with Connection(engine) as other:
            other.run("REPLCONF", "capa", "eof")
            other.send("PSYNC", id_, offset)
            assert other.socket.recv(11) == b"+FULLRESYNC"
    assert int(info(master, "stats")["sync_partial_err"]) == refused + 3
    master.run("CONFIG", "RESETSTAT")
    counts = info(master, "stats")
    assert {counts[name] for name in ("sync_full", "sync_partial_ok", "sync_partial_err")} == {"0"}


def test_wait_counts_the_replicas_with_all_writes(master, replica):
    """WAIT counts the replicas that have all earlier writes; with too few replicas it times out with their number."""
    master.run("XADD", "s", "*", "f", "v")
    assert master.run("WAIT", 1, 0) == 1
    assert master.run("WAIT", 0, 0) == 1
    assert master.run("WAIT", 2, 30) == 1
    master.run("MULTI")
    master.run("SET", "k", "v")
    master.run("WAIT", 1, 0)
    assert master.run("EXEC")[0] == b"OK"


def test_writes_are_rejected_without_enough_replicas(master, replica):
    """With min-replicas-to-write above the number of replicas, write commands get NOREPLICAS, and others run."""
    master.run("CONFIG", "SET", "min-replicas-to-write", 2)
    error = master.run("SET", "k", "v")
    assert isinstance(error, hiredis.ReplyError)
    assert str(error) == "NOREPLICAS Not enough good replicas to write."
    assert master.run("GET", "k") is None
    assert master.run("PING") == b"PONG"
    master.run("CONFIG", "SET", "min-replicas-to-write", 1)
    wait_for(lambda: info(master)["min_slaves_good_slaves"] == "1", "an acknowledgement of the replica")
    assert master.run("SET", "k", "v") == b"OK"
    master.run("CONFIG", "SET", "min-replicas-to-write", 0)
