"""Keyspace notifications of stream commands."""

from __future__ import annotations

import pytest

from tests.harness.clients import Client
from tests.harness.kinds import Server
from tests.harness.marks import since


@pytest.fixture
def listener(server: Server) -> Client:
    """Return a client that receives all events of key s, on a server with a stream s (1-0, 2-0), group g and consumer
    c.
    """
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    server.config("notify-keyspace-events", "KAn")
    client = server.client()
    client.expect("PSUBSCRIBE __keyspace@0__:*", ["psubscribe", "__keyspace@0__:*", 1])
    return client


def heard(server: Server, listener: Client) -> list[str]:
    """Return the events so far, as ``event`` for key s and ``key event`` for other keys."""
    server.given("PUBLISH __keyspace@0__:end end")
    events = []
    while True:
        _, _, channel, event = listener.receive()
        key = channel.decode().partition(":")[2]
        if key == "end":
            return events
        events.append(event.decode() if key == "s" else f"{key} {event.decode()}")


@pytest.mark.parametrize(
    ("command", "events"),
    [
        ("XADD s 3-0 f v", ["xadd"]),
        ("XADD s NOMKSTREAM 3-0 f v", ["xadd"]),
        ("XADD s MAXLEN 2 3-0 f v", ["xadd", "xtrim"]),
        ("XADD s MAXLEN 9 3-0 f v", ["xadd"]),
        ("XADD s 1-0 f v", []),
        ("XADD t 1-0 f v", ["t new", "t xadd"]),
        ("XADD t NOMKSTREAM 1-0 f v", []),
        ("XTRIM s MAXLEN 1", ["xtrim"]),
        ("XTRIM s MAXLEN 2", []),
        ("XDEL s 1-0 2-0", ["xdel"]),
        ("XDEL s 9-9", []),
        ("XSETID s 9-0", ["xsetid"]),
        ("XGROUP CREATE s h 0", ["xgroup-create"]),
        ("XGROUP CREATE s g 0", []),
        ("XGROUP CREATE t g 0 MKSTREAM", ["t new", "t xgroup-create"]),
        ("XGROUP SETID s g 0", ["xgroup-setid"]),
        ("XGROUP DESTROY s g", ["xgroup-destroy"]),
        ("XGROUP DESTROY s h", []),
        ("XGROUP CREATECONSUMER s g d", ["xgroup-createconsumer"]),
        ("XGROUP CREATECONSUMER s g c", []),
        ("XGROUP DELCONSUMER s g c", ["xgroup-delconsumer"]),
        ("XGROUP DELCONSUMER s g d", []),
        ("XREADGROUP GROUP g d STREAMS s >", ["xgroup-createconsumer"]),
        ("XREADGROUP GROUP g c STREAMS s >", []),
        ("XREADGROUP GROUP g c STREAMS s 0", []),
        ("XCLAIM s g d 0 1-0", ["xgroup-createconsumer"]),
        ("XCLAIM s g c 0 1-0", []),
        ("XAUTOCLAIM s g d 0 0", ["xgroup-createconsumer"]),
        ("XACK s g 1-0", []),
        ("XREAD STREAMS s 0", []),
        ("DEL s", ["del"]),
    ],
)
def test_events(server: Server, listener: Client, command: str, events: list[str]) -> None:
    """Each command publishes the same events as in Redis."""
    server.run(command)
    assert heard(server, listener) == events


@since("8.2")
@pytest.mark.parametrize(
    ("command", "events"),
    [
        ("XDELEX s IDS 2 1-0 2-0", ["xdel"]),
        ("XDELEX s IDS 1 9-9", []),
        ("XACKDEL s g IDS 1 1-0", ["xdel"]),
        ("XACKDEL s g IDS 1 2-0", []),
    ],
)
def test_events_of_newer_deletions(server: Server, listener: Client, command: str, events: list[str]) -> None:
    """XDELEX and XACKDEL publish a deletion once."""
    server.run(command)
    assert heard(server, listener) == events


@since("8.8")
@pytest.mark.parametrize("command", ["XNACK s g FAIL IDS 1 1-0", "XCFGSET s IDMP-MAXSIZE 5"])
def test_newer_commands_without_events(server: Server, listener: Client, command: str) -> None:
    """XNACK and XCFGSET publish nothing."""
    server.run(command)
    assert heard(server, listener) == []
