"""Memory of clients: nothing stays after they disconnect, and replies do not pile up faster than they are read."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from pathlib import Path

import hiredis
import pytest
import uvloop

from engine.core.dispatch import Core
from engine.settings.config import Config
from engine.shell.network.runner import Client as EngineClient
from tests import servers
from tests.engine.shell.network.without_sockets import runner_of
from tests.servers import Running
from tests.servers.connection import Connection as Client
from tests.suite.long import long_only, short_and_long
from tests.suite.waiting import DEADLINE, wait_for

MB = 1 << 20


class Watched(EngineClient):
    """A connection that supports weak references."""


def resident(server: Running, line: str = "VmRSS") -> int:
    """Return the process's resident memory in bytes; ``VmHWM`` selects its peak."""
    text = Path(f"/proc/{server.pid}/status").read_text()
    return int(text.split(f"{line}:")[1].split()[0]) * 1024


LEAVES: dict[str, bytes] = {
    "a pipeline": b"PING\r\n" * 40,
    "a command that is not complete": b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000000\r\n" + bytes(MB),
    "a transaction": b"MULTI\r\nSET k v\r\nXADD s * f v\r\n",
    "watched keys": b"SET k v\r\nWATCH k\r\n",
    "a wait": b"XREAD BLOCK 100000 STREAMS s $\r\n",
    "a wait with bytes behind it": b"XREAD BLOCK 0 STREAMS s $\r\n" + b"PING\r\n" * 10_000,
    "a subscription": b"SUBSCRIBE channel\r\n",
    "a monitor": b"MONITOR\r\n",
    "a protocol error": b"*1\r\n:1\r\n",
    "unread replies": b"SET k " + bytes(60_000).replace(b"\0", b"v") + b"\r\n" + b"GET k\r\n" * 300,
}


#: What a client leaves behind, and the event loop; a short run has one loop for each.
_LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize(
    ("leaves", "loop"),
    short_and_long(
        [(leaves, _LOOPS[number % 2]) for number, leaves in enumerate(LEAVES)],
        [(leaves, _LOOPS[1 - number % 2]) for number, leaves in enumerate(LEAVES)],
    ),
)
def test_a_closed_connection_is_freed_without_the_collector(loop, leaves):
    """A disconnected client's connection is freed at once, because it is in no reference cycle."""

    async def main() -> weakref.ref[Watched]:
        runner = runner_of(Core(Config()), asyncio.get_running_loop())
        made: list[weakref.ref[Watched]] = []

        def accept() -> Watched:
            connection = Watched(runner)
            made.append(weakref.ref(connection))
            return connection

        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname()[:2], DEADLINE)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(client, LEAVES[leaves])
        while not (runner.traffic.bytes_in or made):
            await asyncio.sleep(0)
        for _ in range(200):
            await asyncio.sleep(0)
        client.close()
        end = asyncio.get_running_loop().time() + DEADLINE
        while runner.connections and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0)
        assert not runner.connections
        assert not len(runner.core.sessions)
        await asyncio.sleep(0)
        server.close()
        return made[0]

    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=loop) as running:
            left = running.run(main())
            assert left() is None, gc.get_referrers(left())
    finally:
        gc.enable()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see another process's memory")
@pytest.mark.parametrize("policy", ["always", pytest.param("no", marks=long_only)])
def test_replies_are_not_made_before_they_are_read(policy):
    """Sixteen pipelined reads of four megabytes each, whose replies are not read, take the memory of a few replies."""
    flags = () if policy == "no" else ("--appendonly", "yes", "--appendfsync", "always")
    with servers.engine(*flags) as server, Client(server) as client:
        for number in range(4):
            fields = [f"{number}-{field}" for field in range(1000)]
            client.run("HSET", "hash", *(word for field in fields for word in (field, "x" * 1000)))
        before = resident(server, "VmHWM")
        # With an fsync per iteration, everything after the first change of an iteration waits for the fsync.
        words = [("SET", "k", "v"), *[("HVALS", "hash")] * 16, ("PING",)]
        client.socket.sendall(b"".join(map(hiredis.pack_command, words)))
        with Client(server) as other:
            assert other.run("PING") == b"PONG"
        wanted = len(b"+OK\r\n+PONG\r\n") + 16 * (len(b"*4000\r\n") + 4000 * (1000 + len(b"$1000\r\n\r\n")))
        while wanted:
            data = client.socket.recv(MB)
            assert data
            wanted -= len(data)
        assert data.endswith(b"+PONG\r\n")
        assert resident(server, "VmHWM") - before < 40 * MB


def test_a_reply_above_the_hard_limit_disconnects_its_client():
    """GET of a value longer than client-output-buffer-limit disconnects the client, as in Redis.

    HVALS of a longer hash does not disconnect a client of the engine, which makes the reply in pieces.
    """
    for server_of in (servers.engine, servers.redis):
        with (
            server_of("--client-output-buffer-limit", "normal 2mb 0 0") as server,
            Client(server) as client,
            Client(server) as other,
        ):
            for number in range(40):
                fields = [f"{number}-{field}" for field in range(1000)]
                for key in ("short", "long") if number < 10 else ("long",):
                    client.run("HSET", key, *(word for field in fields for word in (field, "x" * 100)))
            assert len(client.run("HVALS", "short")) == 10_000
            if server_of is servers.engine:
                assert len(client.run("HVALS", "long")) == 40_000
            client.run("SET", "value", "x" * 4_000_000)
            client.send("GET", "value")
            with pytest.raises(ConnectionError):
                client.receive()
            assert other.run("PING") == b"PONG"


def unread(client: Client) -> int:
    """Return the largest number of unread bytes of a client."""
    return max(int(word[5:]) for word in client.run("CLIENT", "LIST").split() if word.startswith(b"omem="))


@pytest.mark.parametrize("line", ["XRANGE s - +", "XREAD STREAMS s 0", "PS.COLUMNS s - +"])
def test_an_unread_long_reply_counts_with_all_its_entries(line: str) -> None:
    """The rest of a long reply, which keeps a deleted stream in memory, counts as unread output."""
    with servers.engine() as engine, Client(engine) as control:
        for _ in range(200):
            control.run("XADD", "s", "*", *(word for field in range(100) for word in (field, "x" * 1000)))
        with Client(engine) as slow:
            slow.send(*line.split())
            wait_for(lambda: unread(control) > 15 * MB, "the reply")
            control.run("DEL", "s")
            control.run("CONFIG", "SET", "client-output-buffer-limit", "normal 10mb 0 0")
            counted = b"client_output_buffer_limit_disconnections:1"
            wait_for(lambda: counted in control.run("INFO", "stats"), "the end of the client")
