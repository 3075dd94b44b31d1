"""FAILOVER: a master hands over to a replica, among engines and real servers; and its failures."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from streamclient.pool import close_all
from tests.servers.connection import Connection
from tests.servers.sentinels import Member
from tests.spark_streams.driver import Query, numbers
from tests.suite.waiting import wait_for


@contextmanager
def pair(servers: dict[str, Member], names: str) -> Iterator[tuple[Member, Member]]:
    """Yield an empty master and its replica."""
    master, replica = (servers[name] for name in names.split(" > "))
    for member in servers.values():
        member.run("REPLICAOF", "NO", "ONE")
        member.run("FLUSHALL")
    replica.run("REPLICAOF", "127.0.0.1", master.port)
    wait_for(lambda: is_online(master, replica), "the replica to follow")
    yield master, replica


def is_online(master: Member, replica: Member) -> bool:
    """Return whether the master has only this replica and sends it the stream."""
    info = master.info()
    reported: Any = info.get("slave0") or {}
    return (info["connected_slaves"], reported.get("port"), reported.get("state")) == (1, replica.port, "online")


def stage(member: Member) -> Any:
    return member.info()["master_failover_state"]


def synchronisations(*members: Member) -> int:
    """Return the number of full synchronisations that both servers have sent."""
    count = 0
    for member in members:
        with member.client() as client:
            count += client.info("stats")["sync_full"]
    return count


class Writer(threading.Thread):
    """Writes entries to the current master until stopped, and counts the confirmed ones."""

    def __init__(self, master: Member, replica: Member) -> None:
        super().__init__(daemon=True)
        self._members = (master, replica)
        self._ended = threading.Event()
        self.confirmed = 0
        self.errors: set[str] = set()

    def run(self) -> None:
        clients = [member.client() for member in self._members]
        at = 0
        while not self._ended.is_set():
            try:
                clients[at].xadd("s", {"n": self.confirmed + 1}, id=f"{self.confirmed + 1}-1")
                self.confirmed += 1
            except redis.ReadOnlyError:
                at = 1 - at
            except redis.RedisError as error:
                self.errors.add(str(error))
        for client in clients:
            client.close()

    def __enter__(self) -> Writer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(20)


@pytest.mark.redis
@pytest.mark.parametrize("names", ["engine > other engine", "engine > redis", "redis > engine"])
def test_a_replica_takes_over_while_clients_write(servers, names):
    """FAILOVER changes the roles and the history ID without a full synchronisation.

    Writes confirmed before and after it are on both servers, and waiting writers get only READONLY from the old master.
    """
    with pair(servers, names) as (master, replica), Writer(master, replica) as writer:
        wait_for(lambda: writer.confirmed > 50, "entries")
        full = synchronisations(master, replica)
        master.run("FAILOVER", "TO", "127.0.0.1", replica.port, "TIMEOUT", 15_000)
        wait_for(lambda: stage(master) == "no-failover" and master.follows(replica), "the failover")
        before = writer.confirmed
        wait_for(lambda: writer.confirmed > before + 50, "entries at the new master")
        # Fail over in the other direction. Without a target, the first replica that has all data is chosen.
        wait_for(lambda: is_online(replica, master), "the old master to follow")
        replica.run("FAILOVER")
        wait_for(lambda: stage(replica) == "no-failover" and replica.follows(master), "the failover back")
        before = writer.confirmed
        wait_for(lambda: writer.confirmed > before + 50, "entries at the first master")
    wait_for(lambda: replica.has_all_of(master), "all entries")
    for member in (master, replica):
        with member.client() as client:
            assert [int(fields[b"n"]) for _, fields in client.xrange("s")] == list(range(1, writer.confirmed + 1))
    assert synchronisations(master, replica) == full
    assert writer.errors == set()


@pytest.mark.redis
@pytest.mark.parametrize("names", ["redis > engine", "engine > redis"])
def test_a_production_server_is_migrated_with_its_readers(servers, names):
    """A server becomes a replica of another one under load, FAILOVER changes the roles, and a query gets the new url.

    The query continues from its checkpoint, including the unfinished batch, and gets each entry once. Entries pending
    in other groups are pending on the new server, for the same consumers.
    """
    with pair(servers, names) as (old, new), Writer(old, new) as writer:
        wait_for(lambda: writer.confirmed > 100, "entries")
        with old.client() as client:
            client.xgroup_create("s", "workers", "0")
            taken = client.xreadgroup("workers", "w1", {"s": ">"}, count=30)[0][1]
            client.xreadgroup("workers", "w2", {"s": ">"}, count=10)
            client.xack("s", "workers", *(entry for entry, _ in taken[:5]))
        options = {"stream": "s", "group": "g", "startingOffsets": "earliest", "maxEntriesPerTrigger": 60}
        query = Query(f"redis://127.0.0.1:{old.port}", "n int", **options)
        rows = numbers(query.trigger() or [])
        query.plan()
        pending = pending_of(old, "workers")
        old.run("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 15_000)
        wait_for(lambda: old.follows(new), "the migration")
        assert pending_of(new, "workers") == pending
        before = writer.confirmed
        wait_for(lambda: writer.confirmed > before + 50, "entries at the new server")
        query.restart(url=f"redis://127.0.0.1:{new.port}")
        rows += numbers(query.run())
        wait_for(lambda: writer.confirmed > before + 100, "more entries")
    rows += numbers(query.drain())
    assert rows == list(range(1, writer.confirmed + 1))
    assert pending_of(new, "workers") == pending
    assert pending_of(new, "g") == []
    close_all()


def pending_of(member: Member, group: str) -> list[tuple[Any, ...]]:
    """Return ID, consumer and delivery count of a group's pending entries."""
    with member.client() as client:
        found = client.xpending_range("s", group, "-", "+", 1000)
    return [(record["message_id"], record["consumer"], record["times_delivered"]) for record in found]


@pytest.mark.redis
def test_without_a_complete_replica_nothing_changes(servers):
    """While no replica has caught up, only writes wait, and other role commands are rejected.

    After TIMEOUT or ABORT the writes continue.
    """
    with pair(servers, "engine > other engine") as (master, replica), master.client() as client:
        assert replica.process is not None
        os.kill(replica.process.pid, signal.SIGSTOP)
        try:
            client.set("k", "1")
            client.execute_command("FAILOVER", "TIMEOUT", 700)
            assert stage(master) == "waiting-for-sync"
            assert client.get("k") == b"1"
            client.client_unpause()
            for words, error in (
                (("FAILOVER",), "already in progress"),
                (("REPLICAOF", "127.0.0.1", 1), "REPLICAOF not allowed while failing over"),
                (("REPLICAOF", "NO", "ONE"), "REPLICAOF not allowed while failing over"),
            ):
                with pytest.raises(redis.ResponseError, match=error):
                    client.execute_command(*words)
            with Connection(master) as waiting:
                waiting.send("SET", "k", "2")
                client.client_pause(1)  # shorter than the pause of the failover
                assert waiting.receive() == b"OK"
            assert stage(master) == "no-failover"
            client.execute_command("FAILOVER")
            with Connection(master) as waiting:
                waiting.send("SET", "k", "3")
                assert client.get("k") == b"2"
                client.execute_command("FAILOVER", "ABORT")
                assert waiting.receive() == b"OK"
            assert client.get("k") == b"3"
            assert client.info("replication")["role"] == "master"
            client.set("k", "4", px=1)
            wait_for(lambda: client.dbsize() == 0, "the key to expire after the pause")
        finally:
            os.kill(replica.process.pid, signal.SIGCONT)


@pytest.mark.redis
def test_a_forced_failover_can_be_aborted(servers):
    """After TIMEOUT with FORCE the master becomes a replica of a target that does not reply.

    ABORT makes it the master again, and the target gets its data.
    """
    with pair(servers, "engine > other engine") as (master, replica), master.client() as client:
        assert replica.process is not None
        os.kill(replica.process.pid, signal.SIGSTOP)
        try:
            client.set("k", "1")
            client.execute_command("FAILOVER", "TO", "127.0.0.1", replica.port, "TIMEOUT", 30, "FORCE")
            wait_for(lambda: stage(master) == "failover-in-progress", "the time to be over")
            assert client.info("replication")["role"] == "slave"
            client.execute_command("FAILOVER", "ABORT")
            assert client.info("replication")["role"] == "master"
            client.set("k", "2")
        finally:
            os.kill(replica.process.pid, signal.SIGCONT)
        wait_for(lambda: replica.has_all_of(master), "the replica to have everything")
        assert replica.run("GET", "k") == b"2"


@pytest.mark.redis
def test_a_replica_may_reject_the_promotion(servers):
    """If a replica rejects PSYNC ... FAILOVER, the master becomes the master again, and waiting clients continue."""
    with pair(servers, "engine > redis") as (master, replica), master.client() as client:
        name = client.info("replication")["master_replid"]
        replica.run("ACL", "SETUSER", "default", "-psync")
        try:
            client.execute_command("FAILOVER")
            client.set("k", "1")
            info = client.info("replication")
            assert (info["role"], info["master_replid2"]) == ("master", name)
        finally:
            replica.run("ACL", "SETUSER", "default", "+psync")
        wait_for(lambda: replica.has_all_of(master), "the replica to follow again")


@pytest.mark.redis
def test_only_the_replica_s_own_master_hands_over(servers):
    """PSYNC ... FAILOVER is rejected by a master, and by a replica with another history."""
    with pair(servers, "engine > other engine") as (master, replica):
        name = str(master.info()["master_replid"])
        for member, words, error in (
            (master, (name, 1), "can't be sent to a master"),
            (replica, ("a" * 40, 1), "replid must match my replid"),
        ):
            with pytest.raises(redis.ResponseError, match=error):
                member.run("PSYNC", *words, "FAILOVER")
        assert replica.follows(master)


@pytest.mark.redis
@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("TO 127.0.0.1", "syntax error"),
        ("TO 127.0.0.1 x", "not an integer"),
        ("TO 127.0.0.1 1", "target HOST and PORT is not a replica"),
        ("TIMEOUT 0", "timeout must be greater than 0"),
        ("TIMEOUT 5 TIMEOUT 6", "syntax error"),
        ("TIMEOUT 5 FORCE", "force option requires both"),
        ("FORCE", "force option requires both"),
        ("ABORT", "No failover in progress"),
        ("ABORT TIMEOUT 5", "syntax error"),
    ],
)
def test_errors_of_failover_are_those_of_redis(servers, words, error):
    """Invalid arguments of FAILOVER get the errors of a real server, on a master with a replica."""
    master = servers["engine"]
    if not is_online(master, servers["redis"]):
        with pair(servers, "engine > redis"):
            pass
    with pytest.raises(redis.ResponseError, match=error):
        master.run("FAILOVER", *words.split())
