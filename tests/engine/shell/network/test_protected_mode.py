"""Protected mode: without a password, clients on other machines are rejected."""

from __future__ import annotations

import socket

import pytest

from engine.shell.users_file import is_local
from tests import servers
from tests.servers.connection import Connection


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        (("127.0.0.1", 1), True),
        (("127.1.2.3", 1), True),
        (("::1", 1, 0, 0), True),
        (("::ffff:127.0.0.1", 1), True),
        ("", True),
        ("/run/socket", True),
        (None, True),
        (("192.0.2.2", 1), False),
        (("fd00::2", 1, 0, 0), False),
        (("::ffff:10.0.0.1", 1), False),
        (("12.7.0.0", 1), False),
    ],
)
def test_local_addresses(peer: object, local: bool) -> None:
    """Loopback addresses and Unix sockets count as local."""
    assert is_local(peer) is local


def other_address() -> str | None:
    """Return an address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return None if address.startswith("127.") else address


def test_a_remote_client_is_rejected_with_the_reason() -> None:
    """A remote client gets DENIED and is disconnected; with a password, or without protected mode, it is accepted."""
    address = other_address()
    if address is None:
        pytest.skip("this machine has no address but loopback; the rule is tested without one")
    with servers.engine("--bind", "0.0.0.0") as engine:
        with socket.create_connection((address, engine.port), 20) as client:
            data = b""
            while piece := client.recv(4096):
                data += piece
            assert data.startswith(b"-DENIED Redis is running in protected mode")
        with Connection(engine) as local:
            assert local.run("PING") == b"PONG"
            local.run("CONFIG", "SET", "requirepass", "pw")
            with socket.create_connection((address, engine.port), 20) as client:
                client.sendall(b"PING\r\nAUTH pw\r\nPING\r\n")
                replies = b""
                while replies.count(b"\r\n") < 3:
                    replies += client.recv(4096)
                assert replies == b"-NOAUTH Authentication required.\r\n+OK\r\n+PONG\r\n"
            local.run("CONFIG", "SET", "requirepass", "", "protected-mode", "no")
            with socket.create_connection((address, engine.port), 20) as client:
                client.sendall(b"PING\r\n")
                assert client.recv(100) == b"+PONG\r\n"
