"""The connection to the master, on uvloop as in the engine, against a real socket."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import uvloop

from engine.shell.replication.replica.link import MasterLink

_DEADLINE = 20


class Owner:
    """Stores the events of a link."""

    def __init__(self) -> None:
        self.is_connected = asyncio.Event()
        self.is_lost = asyncio.Event()
        self.data = b""
        self.why = ""

    def connected(self) -> None:
        self.is_connected.set()

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self, why: str) -> None:
        self.why = why
        self.is_lost.set()


async def _lost_link() -> tuple[Owner, MasterLink]:
    """Return a link that its master has closed after sending some bytes."""

    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"last words")
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    async with server:
        owner = Owner()
        link = MasterLink(owner, asyncio.get_running_loop().time)
        link.open("127.0.0.1", server.sockets[0].getsockname()[1], None, "")
        await asyncio.wait_for(owner.is_lost.wait(), _DEADLINE)
    return owner, link


def test_sending_on_a_lost_link_is_harmless() -> None:
    """Sends on a lost link are dropped, because data received before may still be loading."""

    async def body() -> None:
        owner, link = await _lost_link()
        assert (owner.data, link.is_closed) == (b"last words", True)
        link.send(b"REPLCONF ACK 1\r\n")
        link.pause(True)
        assert not link.is_paused
        link.drop()
        link.send(b"REPLCONF ACK 2\r\n")

    uvloop.run(body())


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", b"127.0.0.1"), ("::1", b"[::1]")])
def test_addresses_are_shown_as_in_client_list(host: str, shown: bytes) -> None:
    """The master's address and the local address have the form of CLIENT LIST, with brackets around an IPv6 host."""

    async def body() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), host, 0)
        port = server.sockets[0].getsockname()[1]
        found: list[tuple[bytes, bytes]] = []

        class First(Owner):
            def connected(self) -> None:
                found.append(link.address)

        async with server:
            owner = First()
            link = MasterLink(owner, asyncio.get_running_loop().time)
            link.open(host, port, None, "")
            await asyncio.wait_for(owner.is_lost.wait(), _DEADLINE)
        [(peer, local)] = found
        assert peer == b"%b:%d" % (shown, port)
        assert local.startswith(shown + b":")

    uvloop.run(body())
