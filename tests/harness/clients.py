"""Connections of a test to a server: their interface, and the implementation for sockets.

A client sends commands and receives replies in order; ``run`` does both. ``expect_blocked`` checks that the client
waits: the server reports it, and no bytes have arrived.
"""

from __future__ import annotations

import abc
import socket
import time
from collections.abc import Iterable
from typing import Any

import hiredis

from tests.harness.replies import Decoder, Error, Reply, as_sent, words
from tests.servers.releases import NEWEST, Release
from tests.suite.waiting import DEADLINE, wait_for


class Client(abc.ABC):
    """A connection; ``proto`` is 2 or 3."""

    proto: int
    #: Release of the client's server.
    release: Release = NEWEST
    #: Bytes of the last received reply.
    last_bytes: bytes

    @abc.abstractmethod
    def send(self, *command: Any) -> None:
        """Send a command and do not wait for its reply. A single string is divided at its blanks."""

    @abc.abstractmethod
    def receive(self, deadline: float = DEADLINE) -> Reply:
        """Return the next reply or push message; raise TimeoutError if none arrives within ``deadline`` seconds."""

    @abc.abstractmethod
    def expect_nothing(self) -> None:
        """Fail if a reply has arrived that was not received yet."""

    @abc.abstractmethod
    def poll(self) -> tuple[bool, Reply]:
        """Return whether a reply has arrived, and the reply, without waiting."""

    @abc.abstractmethod
    def blocked(self) -> bool:
        """Return whether the server reports that this client waits."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def run(self, *command: Any) -> Reply:
        """Send a command and receive its reply."""
        self.send(*command)
        return self.receive()

    def wire(self, *command: Any) -> bytes:
        """Run a command and return the bytes of its reply."""
        self.run(*command)
        return self.last_bytes

    def expect(self, command: Any, reply: Any) -> None:
        """Run a command (text or a tuple of words) and compare its reply."""
        came = self.run(*(command if isinstance(command, tuple) else (command,)))
        assert came == as_sent(reply, self.proto, self.release), f"{command}"

    def expect_reply(self, reply: Any, deadline: float = DEADLINE) -> None:
        """Receive the next reply and compare it."""
        assert self.receive(deadline) == as_sent(reply, self.proto, self.release)

    def expect_error(self, command: Any, text: str) -> None:
        """Run a command that must fail with this text."""
        self.expect(command, Error(text))

    def expect_blocked(self) -> None:
        """Assert that the server reports this client as waiting, and that no bytes have arrived."""
        wait_for(self.blocked, "the client to block")
        self.expect_nothing()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SocketClient(Client):
    """A connection over a socket; ``control`` is another connection, which reports whether this one waits."""

    def __init__(self, connection: socket.socket, proto: int, control: SocketClient | None) -> None:
        self._socket = connection
        self._decoder = Decoder()
        self._control = control
        self._received = bytearray()
        self.last_bytes = b""
        self.proto = 2
        self.id = 0
        if proto == 3:
            reply = self.run("HELLO", "3")
            assert isinstance(reply, dict), f"HELLO 3: {reply!r}"
            self.proto = 3
        if control is not None:
            self.id = self.run("CLIENT", "ID")

    def send(self, *command: Any) -> None:
        self._socket.sendall(hiredis.pack_command(tuple(words(command))))

    def send_all(self, commands: Iterable[tuple[str, ...]]) -> None:
        """Send several commands at once."""
        self._socket.sendall(b"".join(hiredis.pack_command(command) for command in commands))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self._socket.sendall(data)

    def _take(self) -> tuple[bool, Reply]:
        complete, value = self._decoder.next()
        if complete:
            self.last_bytes = bytes(self._received)
            self._received.clear()
        return complete, value

    def receive(self, deadline: float = DEADLINE) -> Reply:
        end = time.monotonic() + deadline
        while True:
            complete, value = self._take()
            if complete:
                return value
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data = self._socket.recv(1 << 20)
            except TimeoutError:
                raise TimeoutError(f"no reply within {deadline:g} s; so far {bytes(self._received)!r}") from None
            if not data:
                raise ConnectionError("the server closed the connection")
            self._received += data
            self._decoder.feed(data)

    def expect_nothing(self) -> None:
        self._socket.setblocking(False)
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            data = None
        finally:
            self._socket.setblocking(True)
        assert data is None, f"unexpected: {data!r}"

    def poll(self) -> tuple[bool, Reply]:
        self._socket.setblocking(False)
        try:
            while data := self._socket.recv(1 << 20):
                self._received += data
                self._decoder.feed(data)
        except BlockingIOError:
            pass
        finally:
            self._socket.setblocking(True)
        return self._take()

    def expect_closed(self, deadline: float = DEADLINE) -> None:
        """Check that the server closes the connection and sends nothing more."""
        self._socket.settimeout(deadline)
        assert self._socket.recv(1 << 16) == b""

    def blocked(self) -> bool:
        assert self._control is not None
        line = next((row for row in self._control.client_list() if f"id={self.id} " in row + " "), "")
        flags = next((word[6:] for word in line.split() if word.startswith("flags=")), "")
        return "b" in flags

    def client_list(self) -> list[str]:
        """Return the lines of CLIENT LIST."""
        text: bytes = self.run("CLIENT", "LIST")
        return text.decode(errors="replace").splitlines()

    def close(self) -> None:
        self._socket.close()
