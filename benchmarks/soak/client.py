"""Client that parses its replies, because its next command depends on them."""

from __future__ import annotations

import socket
from typing import Any

import hiredis

Word = str | bytes | int


class Client:
    """A connection to a server on this machine."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader(notEnoughData=self)

    def close(self) -> None:
        """Close the socket, even if a command is in progress."""
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self._socket.sendall(data)

    def send(self, *words: Word) -> None:
        """Send a command without waiting for its reply."""
        self._socket.sendall(hiredis.pack_command(words))

    def receive(self) -> Any:
        """Return the next reply; raise RuntimeError if it is an error."""
        while (reply := self._reader.gets()) is self:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        if isinstance(reply, hiredis.ReplyError):
            raise RuntimeError(f"error reply: {reply}")
        return reply

    def run(self, *words: Word) -> Any:
        """Send a command and return its reply."""
        self.send(*words)
        return self.receive()

    def run_all(self, commands: list[tuple[Word, ...]]) -> list[Any]:
        """Send commands together and return their replies."""
        self._socket.sendall(b"".join(map(hiredis.pack_command, commands)))
        return [self.receive() for _ in commands]
