"""Streams in transactions: which changes WATCH detects, and errors in MULTI."""

from __future__ import annotations

import pytest

from tests.harness.kinds import Server
from tests.harness.marks import since
from tests.harness.replies import Error


@pytest.fixture
def stream(server: Server) -> Server:
    """Return a server with a stream s (1-0 and 2-0), and group g, whose consumer c has received 1-0."""
    server.given("XADD s 1-0 f 1", "XADD s 2-0 f 2", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    return server


TOUCHES = [
    "XADD s 3-0 f 3",
    "XADD s MAXLEN 1 3-0 f 3",
    "XDEL s 1-0",
    "XTRIM s MAXLEN 1",
]
LEAVES_ALONE = [
    "XACK s g 1-0",
    "XGROUP CREATE s h 0",
    "XGROUP SETID s g 0",
    "XGROUP CREATECONSUMER s g d",
    "XGROUP DELCONSUMER s g c",
    "XGROUP DESTROY s g",
    "XREADGROUP GROUP g c STREAMS s >",
    "XREADGROUP GROUP g c STREAMS s 0",
    "XCLAIM s g d 0 1-0",
    "XAUTOCLAIM s g d 0 0",
    "XSETID s 9-0",
    "XDEL s 9-9",
    "XTRIM s MAXLEN 5",
    "XLEN s",
    "XADD s 0-1 f v",
]


@pytest.mark.parametrize("command", TOUCHES)
def test_changes_that_fail_a_watching_transaction(stream: Server, command: str) -> None:
    """After a change of the entries or of the key, EXEC returns nil for the clients that watch it."""
    stream.given("WATCH s", "MULTI", "PING")
    other = stream.client()
    other.run(command)
    assert stream.wire("EXEC") == (b"_\r\n" if stream.proto == 3 else b"*-1\r\n")


@pytest.mark.parametrize("command", LEAVES_ALONE)
def test_changes_that_watch_ignores(stream: Server, command: str) -> None:
    """WATCH ignores groups, last IDs, and commands that change nothing."""
    stream.given("WATCH s", "MULTI", "PING")
    other = stream.client()
    other.run(command)
    stream.expect("EXEC", ["PONG"])


def test_creating_a_stream_is_a_change(server: Server) -> None:
    """XGROUP CREATE MKSTREAM creates a key, which is a change."""
    server.given("WATCH s", "MULTI", "PING")
    server.client().run("XGROUP CREATE s g $ MKSTREAM")
    server.expect("EXEC", None)


@pytest.mark.parametrize("queued", [True, False])
def test_exec_with_arguments(server: Server, queued: bool) -> None:
    """EXEC with arguments is an error that ends the transaction."""
    if queued:
        server.given("MULTI", "XADD s 1-0 f v")
    text = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
    server.expect("EXEC now", Error(text))
    server.expect("EXEC", Error("ERR EXEC without MULTI"))
    server.expect("EXISTS s", 0)


@since("7.2", valkey="7.2")
def test_one_time_for_a_transaction(server: Server) -> None:
    """Time does not advance in a transaction: automatic IDs increment their sequence number."""
    server.given("MULTI", "XADD s * f 1", "XADD s * f 2", "XADD s * f 3")
    first, second, third = (entry_id.decode().split("-") for entry_id in server.run("EXEC"))
    assert first[0] == second[0] == third[0]
    assert [first[1], second[1], third[1]] == ["0", "1", "2"]


@since("8.2")
@pytest.mark.parametrize("command", ["XDELEX s IDS 1 1-0", "XACKDEL s g IDS 1 1-0"])
def test_newer_deletions_are_changes(stream: Server, command: str) -> None:
    """XDELEX and XACKDEL that delete an entry are changes."""
    stream.given("WATCH s", "MULTI", "PING")
    stream.client().run(command)
    stream.expect("EXEC", None)


@since("8.8")
@pytest.mark.parametrize("command", ["XNACK s g FAIL IDS 1 1-0", "XCFGSET s IDMP-MAXSIZE 5"])
def test_xnack_and_xcfgset_are_no_changes(stream: Server, command: str) -> None:
    """XNACK and XCFGSET do not fail a watching transaction."""
    stream.given("WATCH s", "MULTI", "PING")
    stream.client().run(command)
    stream.expect("EXEC", ["PONG"])
