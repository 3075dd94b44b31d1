"""The engine over TCP: no input of a client affects other clients."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import hiredis
import pytest

from tests import servers
from tests.servers import Running
from tests.servers.connection import Connection
from tests.suite.waiting import DEADLINE, wait_for


@pytest.fixture(scope="module")
def engine() -> Iterator[Running]:
    with servers.engine() as running:
        yield running


@pytest.fixture
def client(engine: Running) -> Iterator[Connection]:
    with Connection(engine) as connection:
        connection.run("FLUSHALL")
        yield connection


# -- requests ---------------------------------------------------------------------------------------------------------


def test_commands_before_a_malformed_one_are_executed(engine: Running, client: Connection) -> None:
    """A protocol error is reported after the earlier replies, and closes only its own connection."""
    with Connection(engine) as bad:
        bad.socket.sendall(
            hiredis.pack_command(("SET", "k", "v")) + b"*1\r\n:1\r\n" + hiredis.pack_command(("DEL", "k"))
        )
        assert bad.rest() == b"+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    assert client.run("GET", "k") == b"v"


def test_http_requests_are_disconnected(engine: Running) -> None:
    """A browser's request gets no reply, and commands in the rest of the request do not run."""
    with Connection(engine) as browser:
        browser.socket.sendall(b"POST / HTTP/1.1\r\nHost: here\r\n\r\nSET k http\r\n")
        assert browser.rest() == b""
    with Connection(engine) as client:
        assert client.run("GET", "k") != b"http"


def test_a_client_that_dies_in_a_request_affects_no_other(client: Connection, engine: Running) -> None:
    """A client that resets its connection within a command leaves CLIENT LIST, and the command does not run."""
    with Connection(engine) as victim:
        number = victim.run("CLIENT", "ID")
        victim.socket.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nabc")
        victim.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(lambda: client.run("CLIENT", "LIST", "ID", number) == b"", "the dead client to be forgotten")
    assert client.run("EXISTS", "k") == 0


# -- many clients -----------------------------------------------------------------------------------------------------


def test_a_client_may_send_everything_before_it_reads(client: Connection) -> None:
    """A pipeline whose commands and replies exceed all buffers is answered, even if the client reads nothing before its
    end.
    """
    client.socket.settimeout(DEADLINE)
    for words in (("ECHO", b"y" * 1000), ("XADD", "s", "*", "f", b"y" * 500)):
        client.socket.sendall(hiredis.pack_command(words) * 15_000)
        replies = [client.receive() for _ in range(15_000)]
        assert all(isinstance(reply, bytes) for reply in replies)
        assert client.run("XLEN", "s") == (15_000 if words[0] == "XADD" else 0)


def test_input_behind_unread_replies_is_limited() -> None:
    """A client that reads nothing is disconnected when its waiting commands exceed client-query-buffer-limit."""
    with servers.engine("--client-query-buffer-limit", "2mb") as engine, Connection(engine) as client:
        client.socket.settimeout(DEADLINE)
        data = hiredis.pack_command(("ECHO", b"x" * 1000)) * 100_000
        with pytest.raises(ConnectionError):
            client.socket.sendall(data)


def test_a_subscriber_that_does_not_read_is_disconnected() -> None:
    """client-output-buffer-limit disconnects a subscriber with too many unread messages, and no other client."""
    with servers.engine("--client-output-buffer-limit", "pubsub 2mb 0 0") as engine, Connection(engine) as client:
        with Connection(engine) as deaf:
            deaf.run("SUBSCRIBE", "c")
            for _ in range(2000):
                if client.run("PUBLISH", "c", b"x" * 100_000) == 0:
                    break
            else:
                pytest.fail("the subscriber was never dropped")
        assert client.run("PING") == b"PONG"
        assert b"client_output_buffer_limit_disconnections:1" in client.run("INFO", "stats")  # type: ignore[operator]


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_client_must_log_in_if_there_is_a_password() -> None:
    """Before AUTH commands get NOAUTH and requests must be small; RESET logs the client out again."""
    with servers.engine("--requirepass", "secret") as engine:
        with Connection(engine) as client:
            client.socket.sendall(b"PING\r\nAUTH wrong\r\nHELLO 3\r\nAUTH secret\r\nPING\r\n")
            replies = [client.receive() for _ in range(5)]
            assert [str(reply).partition(" ")[0] for reply in replies[:3]] == ["NOAUTH", "WRONGPASS", "NOAUTH"]
            assert replies[3:] == [b"OK", b"PONG"]
            assert client.run("ECHO", b"x" * 100_000) == b"x" * 100_000
            assert client.run("RESET") == b"RESET"
            assert isinstance(client.run("PING"), hiredis.ReplyError)
        with Connection(engine) as client:
            client.send("AUTH", b"x" * 20_000)
            assert client.rest() == b"-ERR Protocol error: unauthenticated bulk length\r\n"
        with Connection(engine) as client:
            client.send("AUTH", "secret")
            client.send("ECHO", b"x" * 20_000)
            assert client.receive() == b"OK"
            assert client.receive() == b"x" * 20_000


def test_a_client_without_login_that_does_not_read_is_disconnected() -> None:
    """A client that sends commands before AUTH and reads no replies is disconnected."""
    with servers.engine("--requirepass", "secret") as engine, Connection(engine) as client:
        client.socket.settimeout(60)

        def ask_for_ever() -> None:
            while True:
                client.socket.sendall(b"PING\r\n" * 1000)

        with pytest.raises(ConnectionError):
            ask_for_ever()


def test_a_request_above_its_limit_is_rejected() -> None:
    """A request longer than client-query-buffer-limit disconnects its client, and other clients are served."""
    with servers.engine("--client-query-buffer-limit", "1mb") as engine, Connection(engine) as client:
        with Connection(engine) as greedy:
            greedy.socket.sendall(b"*1000000\r\n")
            words = b"$1000\r\n%b\r\n" % (b"x" * 1000) * 1000
            with pytest.raises(ConnectionError):
                greedy.socket.sendall(words * 100)
        assert client.run("PING") == b"PONG"
