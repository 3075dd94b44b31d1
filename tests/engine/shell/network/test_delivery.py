"""Order in which results of commands reach the log, the caller and other clients; without sockets."""

from __future__ import annotations

import pytest

from engine.core.dispatch import Core
from tests.engine.shell.network.without_sockets import Shell


def test_effects_are_logged_before_any_reply(shell: Shell) -> None:
    """Effects are handed to the log before the client, a subscriber, or a woken client gets any bytes."""
    everybody = [shell.client() for _ in range(3)]
    (writer, _), (subscriber, _), (reader, _) = everybody
    reader.data_received(b"XREAD BLOCK 0 STREAMS s $\r\n")
    subscriber.data_received(b"CONFIG SET notify-keyspace-events KEA\r\nSUBSCRIBE __keyevent@0__:xadd\r\n")
    for _, transport in everybody:
        transport.taken()
    heard: list[list[bytes]] = []
    shell.log.on_effects = lambda effects: heard.append([transport.written for _, transport in everybody])
    writer.data_received(b"XADD s 1-1 f v\r\n")
    assert heard == [[b"", b"", b""]]
    assert all(transport.written for _, transport in everybody)


@pytest.mark.parametrize("subscribes", [False, True])
def test_no_reply_is_sent_if_effects_cannot_be_logged(shell: Shell, subscribes: bool) -> None:
    """If logging the effects fails unexpectedly, neither the client nor a subscriber gets any bytes."""
    (writer, transport), (subscriber, other) = shell.client(), shell.client()
    if subscribes:
        subscriber.data_received(b"CONFIG SET notify-keyspace-events KEA\r\nSUBSCRIBE __keyevent@0__:set\r\n")
        other.taken()

    def fails(_: object) -> None:
        raise RuntimeError("the log has a mistake")

    shell.log.on_effects = fails
    writer.data_received(b"SET k v\r\nGET k\r\n")
    assert (transport.written, other.written) == (b"", b"")
    assert shell.runner.failed


def test_a_reply_that_cannot_be_encoded_is_an_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client gets one reply for each command, also if the encoding of a reply fails."""
    client, transport = shell.client()
    monkeypatch.setattr(Core, "execute", lambda *_: [1, object()])
    client.data_received(b"PING\r\nPING\r\n")
    assert transport.taken() == b"-ERR internal error\r\n" * 2
    assert not shell.runner.failed
