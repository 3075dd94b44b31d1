"""A connection to a server that returns replies as hiredis parses them, and its socket for irregular bytes.

The contract tests have their own clients (``tests.harness.clients``), which also work on a core without sockets.
"""

from __future__ import annotations

import socket
from typing import Any, Protocol

import hiredis

from tests.suite.waiting import wait_for


class Server(Protocol):
    """A server to connect to."""

    def connect(self) -> socket.socket:
        """Return a new connection."""


class Connection:
    """A connection. An error reply is a ``hiredis.ReplyError``, returned rather than raised."""

    def __init__(self, server: Server, proto: int = 2) -> None:
        self.socket = server.connect()
        self._reader = hiredis.Reader(notEnoughData=self)
        if proto == 3:
            self.run("HELLO", "3")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send(self, *words: str | bytes | float) -> None:
        """Send a command and do not wait for its reply."""
        self.socket.sendall(hiredis.pack_command(words))

    def receive(self) -> Any:
        """Return the next reply; raise ConnectionResetError if the server has closed the connection."""
        while (reply := self._reader.gets()) is self:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def run(self, *words: str | bytes | float) -> Any:
        """Send a command and receive its reply."""
        self.send(*words)
        return self.receive()

    def rest(self) -> bytes:
        """Return the bytes that arrive until the server closes the connection."""
        out = b""
        while True:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return out
            if not data:
                return out
            out += data


def wait_until_blocked(client: Connection, count: int) -> None:
    """Wait until the server reports to ``client`` that ``count`` clients are blocked."""
    line = b"\r\nblocked_clients:%d\r\n" % count
    wait_for(lambda: line in client.run("INFO", "clients"), f"{count} blocked clients")
