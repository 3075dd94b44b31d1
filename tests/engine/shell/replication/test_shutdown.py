"""Shutdown of a master: it waits for lagging replicas until a timeout, and can be cancelled."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.core.environment.durability import Durability
from engine.core.environment.host import Host as NoProcess
from engine.core.protocol.replies import CommandError
from engine.shell.replication.failover import Shutdown
from tests.engine.shell.replication.world import World, in_loop
from tests.servers.connection import Connection
from tests.servers.sentinels import Member, family
from tests.suite.waiting import wait_for


@contextmanager
def stopped(replica: Member) -> Iterator[None]:
    """Stop the replica's process with SIGSTOP while the context is open."""
    assert replica.process is not None
    os.kill(replica.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(replica.process.pid, signal.SIGCONT)


class Host(NoProcess):
    """A host that records requests to exit."""

    def __init__(self, ended: list[bool]) -> None:
        self._ended = ended

    def shut_down(self) -> None:
        self._ended.append(True)


class Unwilling(Durability):
    """A disk to which the data cannot be written."""

    def prepare_shutdown(self, words: set[bytes]) -> None:
        raise CommandError(b"ERR " + b" ".join(words))


def has_exited(member: Member) -> bool:
    return member.process is not None and member.process.poll() is not None


@pytest.mark.redis
def test_shutdown_waits_for_a_lagging_replica():
    """While a replica lags, writes wait, and SHUTDOWN has no reply; ABORT cancels it for all callers.

    A signal also waits until the replica has caught up, including with clients' last writes.
    """
    with family("engine", "redis") as (master, replica):
        with Connection(master) as client, Connection(master) as caller, Connection(master) as writer:
            with stopped(replica):
                client.run("SET", "k", "1")
                caller.send("SHUTDOWN")
                wait_for(lambda: client.run("INFO", "clients").find(b"blocked_clients:1") > 0, "SHUTDOWN to wait")
                writer.send("SET", "k", "2")
                assert client.run("GET", "k") == b"1"
                left = re.search(rb"shutdown_in_milliseconds:(\d+)", client.run("INFO", "server"))
                assert left is not None
                assert 0 < int(left[1]) <= 10_000
                assert client.run("SHUTDOWN", "ABORT") == b"OK"
                assert b"shutdown_in" not in client.run("INFO", "server")
                assert "Errors trying to SHUTDOWN" in str(caller.receive())
                assert writer.receive() == b"OK"
                assert "No shutdown in progress" in str(client.run("SHUTDOWN", "ABORT"))
                assert master.process is not None
                master.process.send_signal(signal.SIGTERM)
                wait_for(lambda: "shutting down after waiting" in master.output.read_text(), "the signal")
                assert client.run("GET", "k") == b"2"
            wait_for(lambda: has_exited(master), "the master to exit")
        assert replica.run("GET", "k") == b"2"
        assert "1 of 1 replicas have caught up" in master.output.read_text()


def test_shutdown_now_ends_the_wait():
    """SHUTDOWN NOW stops a server that waits for its replicas; its log has the lagging replicas and their lag."""
    with family("engine", "engine") as (master, replica), stopped(replica):
        with Connection(master) as client, Connection(master) as other:
            client.run("SET", "k", "x" * 1000)
            client.send("SHUTDOWN", "NOSAVE")
            wait_for(lambda: b"blocked_clients:1" in other.run("INFO", "clients"), "SHUTDOWN to wait")
            other.send("SHUTDOWN", "NOW")
            wait_for(lambda: has_exited(master), "the master to exit")
        log = master.output.read_text()
        assert f"replica 127.0.0.1:{replica.port} (online) is 10" in log
        assert "0 of 1 replicas have caught up" in log


@in_loop
async def test_the_wait_ends_after_shutdown_timeout(tmp_path):
    """After shutdown-timeout a process with lagging replicas exits; if its data cannot be saved, it continues."""
    world = World(tmp_path, "--shutdown-timeout", "1")
    core, ended = world.core, list[bool]()
    core.host = Host(ended)  # type: ignore[assignment]
    await world.join(b"eof")
    shutdown = Shutdown(core, world, world.master, asyncio.get_running_loop(), lambda: world.master.written)
    for disk in (Unwilling(), Durability()):
        core.durability = disk  # type: ignore[assignment]
        assert not ended
        assert not core.pause.until
        assert shutdown.delays(frozenset(), None)
        assert core.pause.until
        assert 500 < (shutdown.left() or 0) <= 1000
        async with asyncio.timeout(20):
            while shutdown.left() is not None:
                await asyncio.sleep(0.01)
    assert ended
