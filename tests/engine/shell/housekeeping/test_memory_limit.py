"""maxmemory: which memory counts, how often it is measured, and which commands still work above it."""

from __future__ import annotations

import asyncio
import os
import re

import pytest

from engine.core.dispatch import Core
from engine.core.streams.compressed.packed import Span
from engine.settings.config import Config
from engine.shell.housekeeping.memory import MemoryLimit
from engine.shell.network.server import ServerHost
from engine.shell.observation.process_facts import Facts
from tests import servers
from tests.engine.shell.network.without_sockets import runner_of
from tests.servers.connection import Connection
from tests.suite.waiting import wait_for

NOW_US = 1_700_000_000_000_000
OOM = "OOM command not allowed when used memory > 'maxmemory'."


class Machine:
    """A stand-in for the process: its size, the memory that it can return, and the bytes received from clients."""

    def __init__(self, limit: int) -> None:
        self.size, self.spare, self.sent, self.looks = 100, 0, 0, 0
        config = Config()
        config.put("maxmemory", b"%d" % limit)
        self.core = Core(config)
        self.core.changes.set_time(NOW_US)
        self.memory = MemoryLimit(
            self.core.config, self.core.admission, lambda: self.sent, self.release, self.measure, lambda: NOW_US
        )

    def measure(self) -> int:
        self.looks += 1
        return self.size

    def release(self) -> None:
        self.size -= self.spare
        self.spare = 0

    def full(self, milliseconds: int) -> bool:
        self.memory.check(NOW_US + 1000 * milliseconds)
        return self.core.admission.memory_full


def test_a_replica_ignores_maxmemory_by_default() -> None:
    """A replica above its maxmemory replies READONLY to writes, or accepts them if it is writable, as Redis does.

    With `replica-ignore-maxmemory no`, and as a master, it rejects them.
    """
    with servers.engine("--maxmemory", "1", "--replicaof", "127.0.0.1 1") as running, Connection(running) as client:

        def refused(error: str) -> bool:
            return str(client.run("SET", "k", "v")).startswith(error or "b'OK'")

        assert refused("READONLY")
        client.run("CONFIG", "SET", "replica-read-only", "no")
        assert refused("")
        client.run("CONFIG", "SET", "replica-ignore-maxmemory", "no")
        wait_for(lambda: refused("OOM"), "maxmemory to apply")
        client.run("CONFIG", "SET", "replica-ignore-maxmemory", "yes")
        wait_for(lambda: refused(""), "maxmemory to be ignored")
        client.run("REPLICAOF", "NO", "ONE")
        wait_for(lambda: refused("OOM"), "maxmemory to apply to the new master")


def test_memory_is_measured_ten_times_a_second() -> None:
    """Memory is measured ten times per second; in between, bytes received from clients count as used."""
    machine = Machine(1000)
    looks = machine.looks
    assert not any(machine.full(milliseconds) for milliseconds in range(100))
    assert machine.looks == looks
    machine.sent = 901
    assert machine.full(99)
    assert not machine.full(100)
    assert machine.looks == looks + 1
    machine.size = 1001
    assert machine.full(200)
    machine.size = 1000
    assert machine.full(250)
    assert not machine.full(300)


def test_free_memory_is_returned_before_writes_are_rejected() -> None:
    """Free memory is returned to the system before writes are rejected, at most once per second because
    that is slow.
    """
    machine = Machine(1000)
    machine.size, machine.spare = 1500, 600
    assert not machine.full(100)
    machine.size, machine.spare = 1500, 600
    assert machine.full(200)
    assert not machine.full(1100)


def test_decompressed_entries_are_dropped_when_memory_is_short() -> None:
    """The cache of decompressed entries is emptied when memory is full, and by MEMORY PURGE."""
    core = Core(Config())
    core.changes.set_time(NOW_US)
    runner = runner_of(core, asyncio.new_event_loop())
    facts = Facts(core.config, runner.traffic, core.telemetry, type(runner.loop), 0)
    core.host = ServerHost(core.config, runner, facts, lambda: None)
    cache = core.streams.storage.cache
    session = core.open_session(NOW_US)
    for release in ([b"CONFIG", b"SET", b"maxmemory", b"1"], [b"MEMORY", b"PURGE"]):
        cache.add(0, 2, Span(memoryview(bytes(1000)), 0, 2))
        core.execute(session, release, NOW_US)
        assert not cache.spans
    assert core.admission.memory_full
    runner.loop.close()


def test_the_limit_can_change() -> None:
    """A new maxmemory is in force at once; 0 means no limit."""
    machine = Machine(0)
    assert machine.memory.limit == 0
    machine.core.config.change([(b"maxmemory", b"50")])
    assert machine.core.admission.memory_full
    machine.core.config.change([(b"maxmemory", b"0")])
    assert not machine.core.admission.memory_full


def info(client: Connection, name: str) -> int:
    text = client.run("INFO", "memory")
    assert isinstance(text, bytes)
    found = re.search(rb"^%b:(\d+)" % name.encode(), text, re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("pipeline", [1, 200])
def test_accepted_entries_are_kept_when_memory_is_full(pipeline: int) -> None:
    """When memory is full, XADD is rejected, accepted entries are kept, XACK and XTRIM work, and DEL frees memory."""
    with servers.engine() as engine, Connection(engine) as client:
        limit = info(client, "used_memory") + (24 << 20)
        client.run("CONFIG", "SET", "maxmemory", str(limit))
        assert info(client, "maxmemory") == limit
        client.run("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        command = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$4000\r\n%b\r\n"
        accepted, refused = [], False
        while not refused:
            # Random values cannot be compressed.
            client.socket.sendall(b"".join(command % os.urandom(4000) for _ in range(pipeline)))
            for reply in [client.receive() for _ in range(pipeline)]:
                if isinstance(reply, bytes):
                    accepted.append(reply)
                else:
                    assert str(reply) == OOM
                    refused = True
            assert len(accepted) < 20_000
        assert len(accepted) > 1000
        assert info(client, "used_memory") < limit + (48 << 20)
        entries = client.run("XRANGE", "s", "-", "+")
        assert isinstance(entries, list)
        assert [entry[0] for entry in entries] == accepted
        del entries
        assert client.run("XLEN", "s") == len(accepted)
        client.run("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">")
        assert client.run("XACK", "s", "g", accepted[0]) == 1
        client.run("XTRIM", "s", "MAXLEN", "10")
        assert client.run("DEL", "s") == 1
        wait_for(lambda: isinstance(client.run("XADD", "t", "*", "f", "v"), bytes), "memory to be free again")
