"""The link to a master: the handshake and the framing of its data, as bytes in and bytes out; and a real socket."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from engine.shell.replication.link import (
    Continue,
    FullSyncError,
    Handshake,
    HandshakeError,
    Introduction,
    MasterLink,
    Payload,
    command,
)

ID, OTHER = b"1" * 40, b"2" * 40
WHO = Introduction(b"user", b"secret", 6380, b"10.0.0.1", (b"eof", b"psync2"), b"7.0.15")


def talk(shake: Handshake, *lines: bytes) -> list[bytes]:
    """Return what the replica sends at first, and after each of the master's lines."""
    return [shake.start(), *(shake.line(line) for line in lines)]


def test_the_replica_announces_itself_and_its_position():
    """The replica sends PING, AUTH, REPLCONF for each fact, and PSYNC with the history and the first missing offset."""
    shake = Handshake(WHO, (ID, 11))
    sent = talk(shake, b"+PONG", b"+OK", b"+OK", b"+OK", b"+OK", b"-ERR unknown", b"+CONTINUE")
    assert sent == [
        command(b"PING"),
        command(b"AUTH", b"user", b"secret"),
        command(b"REPLCONF", b"listening-port", b"6380"),
        command(b"REPLCONF", b"ip-address", b"10.0.0.1"),
        command(b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"),
        command(b"REPLCONF", b"version", b"7.0.15"),
        command(b"PSYNC", ID, b"11"),
        b"",
    ]
    assert shake.outcome == Continue()


@pytest.mark.parametrize(
    ("lines", "pattern"),
    [
        ([b"-MISCONF x"], "PING.*MISCONF"),
        ([b"$-1"], "PING"),
        ([b"+PONG", b"-WRONGPASS x"], "masterauth.*WRONGPASS"),
        ([b"+PONG", b"+OK", b"+OK", b"+OK", b"+OK", b"+OK", b"-NOMASTERLINK x"], "PSYNC.*NOMASTERLINK"),
        ([b"+PONG", b"+OK", b"+OK", b"+OK", b"+OK", b"+OK", b"+CONTINUE"], "PSYNC.*CONTINUE"),
        ([b"+PONG", b"+OK", b"+OK", b"+OK", b"+OK", b"+OK", b"+FULLRESYNC short 1"], "PSYNC.*short"),
    ],
)
def test_a_rejection_by_the_master_is_an_error(lines, pattern):
    """The error has the command and the master's reply, but never the password."""
    shake = Handshake(WHO, None)
    talk(shake, *lines[:-1])
    with pytest.raises(HandshakeError, match=pattern) as caught:
        shake.line(lines[-1])
    assert "secret" not in str(caught.value) + repr(WHO)


@pytest.mark.parametrize("line", [b"-ERR no\r\n", b"$x\r\n", b"$EOF:" + b"m" * 40 + b"\r\n", b"$" + b"1" * 200])
def test_invalid_data_is_an_error(line):
    """An invalid first line is an error, and so is one without an end."""
    with pytest.raises(FullSyncError):
        Payload().feed(line)


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", b"127.0.0.1"), ("::1", b"[::1]")])
def test_a_lost_link_drops_what_is_sent(host, shown):
    """A link has addresses in the form of CLIENT LIST. After its master has closed it, sending is harmless, because
    data received before may still be loading.
    """

    async def story() -> None:
        events: list[object] = []
        lost = asyncio.Event()

        def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"last words")
            writer.close()

        async with await asyncio.start_server(leave, host, 0) as server:
            port = server.sockets[0].getsockname()[1]
            clock = asyncio.get_running_loop().time
            link = MasterLink(lambda: events.append(link.address), events.append, lambda _: lost.set(), clock)
            link.open(host, port, None)
            await asyncio.wait_for(lost.wait(), 20)
        [(peer, local), data] = events
        assert (peer, data, link.is_closed) == (b"%b:%d" % (shown, port), b"last words", True)
        assert local.startswith(shown + b":")
        link.send(b"REPLCONF ACK 1\r\n")
        link.pause(True)
        assert not link.is_paused
        link.drop()
        link.send(b"REPLCONF ACK 2\r\n")

    uvloop.run(story())
