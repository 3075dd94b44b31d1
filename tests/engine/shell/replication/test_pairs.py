"""Real pairs: a master and an engine that follows it, over links that break at any byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis as redis_py

from pystreams.testing.proxy import FaultProxy as Proxy
from pystreams.testing.proxy import proxy
from tests import servers
from tests.engine.shell.replication.family import (
    contents,
    follow,
    port_of,
    replication,
    trouble,
    wait_until_equal,
    wait_until_up,
)
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.redis
#: A script, which a master replicates as its effects.
SCRIPT = "redis.call('HSET', KEYS[1], ARGV[1], 'v') redis.call('XADD', KEYS[2], '*', 'by', 'script')"
MASTER = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")


@contextmanager
def client_of(running: servers.Running) -> Iterator[redis_py.Redis]:
    with redis_py.Redis(port=running.port, socket_timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def master():
    with servers.redis(*MASTER) as running, client_of(running) as client:
        yield client


@pytest.fixture(scope="module")
def engine():
    with servers.engine() as running:
        yield running


@pytest.fixture
def replica(engine, master):
    """Yield an engine that is not yet a replica; afterwards the engine and the master are empty."""
    with client_of(engine) as client:
        yield client
        client.execute_command("REPLICAOF", "NO", "ONE")
        for server in (client, master):
            server.flushall()


def fill(master: redis_py.Redis) -> None:
    """Create data of every type, with a group that has read some entries."""
    pipe = master.pipeline()
    for number in range(300):
        pipe.xadd("s", {"number": number, "text": "x" * (number % 50)})
    pipe.xgroup_create("s", "g", "0").xreadgroup("g", "one", {"s": ">"}, count=20).xtrim("s", maxlen=290)
    pipe.set("a", "1", ex=1000).hset("h", mapping={"f": "v"}).append("raw", "text")
    pipe.hset("table", mapping={f"m{n}": n for n in range(300)})
    pipe.execute()


def test_a_link_broken_at_any_byte_recovers(master, replica):
    """Wherever the link breaks, the replica reconnects, and in the end has all data of its master."""
    chance = random.Random(5)
    fill(master)
    before = master.info("stats")
    with proxy(port_of(master)) as between:
        # During the handshake and the data, REPLICAOF with another host name skips the delay before the next attempt.
        for number, position in enumerate((1, 20, 150, 230, 300, 400, 2000)):
            between.cut_after(position)
            follow(replica, between.port, ("localhost", "127.0.0.1")[number % 2])
            wait_for(lambda: not between.pending_cut(), "the cut")
        follow(replica, between.port, "localhost" if number % 2 else "127.0.0.1")
        wait_until_up(replica)
        for _ in range(6):
            cut(between, master, chance.randint(1, 4000))
        wait_until_equal(replica, master)
        assert contents(replica) == contents(master)
    after = master.info("stats")
    assert after["sync_partial_ok"] >= before["sync_partial_ok"] + 6


def cut(between: Proxy, master: redis_py.Redis, position: int) -> None:
    """Write to the master until the link is cut, after ``position`` more bytes."""
    between.cut_after(position)
    number = 0

    def is_cut() -> bool:
        nonlocal number
        number += 1
        with master.pipeline(transaction=number % 2 == 0) as pipe:
            pipe.xadd("s", {"n": number}).incr("count").set(f"k{number % 7}", "v", px=10_000_000)
            pipe.hincrby("table", f"m{number % 400}", 3).hdel("table", f"m{number % 100}")
            pipe.eval(SCRIPT, 2, "h", "s", number).execute()
        return not between.pending_cut()

    wait_for(is_cut, "the cut")


def test_a_master_with_unsupported_types_is_refused(engine, master, replica):
    """A replica reports the number of keys and the first key of each type, keeps its data, and tries again only when
    told.
    """
    fill(master)
    replica.set("old", "kept")
    master.rpush("jobs", 1, 2)
    master.rpush("more", 1)
    master.execute_command("ZADD", "scores", 1, "a")
    syncs = master.info("stats")["sync_full"]
    logged = engine.output.stat().st_size
    follow(replica, port_of(master))
    wait_for(lambda: "engine_master_refused" in replication(replica), "the refusal")
    assert "sorted sets: 1 (first: key 'scores' of database 0)" in trouble(replica)
    assert "lists: 2 (first: key '" in trouble(replica)
    assert replication(replica)["master_link_status"] == "down"
    assert replica.keys() == [b"old"]
    assert b"discarding" not in engine.output.read_bytes()[logged:]
    assert master.info("stats")["sync_full"] == syncs + 1
    master.delete("jobs", "more", "scores")
    follow(replica, port_of(master))
    wait_until_up(replica)
    assert contents(replica) == contents(master)
    assert b"discarding 1 keys" in engine.output.read_bytes()[logged:]
    assert master.info("stats")["sync_full"] == syncs + 2


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_command_that_the_engine_lacks_stops_replication(master, replica, in_transaction):
    """A command that the engine lacks stops replication until the next REPLICAOF, and INFO has its family and key."""
    port = port_of(master)
    master.set("a", "1")
    follow(replica, port)
    wait_until_up(replica)
    syncs = master.info("stats")["sync_full"]
    with master.pipeline(transaction=in_transaction) as pipe:
        pipe.set("a", "2").rpush("jobs", "first").set("a", "3").execute()
    wait_for(lambda: "RPUSH jobs first ... failed: " in trouble(replica), "the refusal of a command")
    assert "this engine stores streams; lists need Redis or Valkey" in trouble(replica)
    assert replication(replica)["engine_master_refused"] == 1
    assert replica.get("a") == (b"1" if in_transaction else b"2")
    master.delete("jobs")
    assert master.info("stats")["sync_full"] == syncs
    follow(replica, port)
    wait_until_up(replica)
    assert replica.get("a") == b"3"
