"""Client of all measurements: one blocking socket, requests prepared beforehand, replies received but not parsed.

The measured time is therefore the server's: the client's own work is a `sendall` and `recv_into` of large buffers.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

PONG = b"+PONG\r\n"
PING = b"*1\r\n$4\r\nPING\r\n"


def command(*arguments: str | bytes | int) -> bytes:
    """Encode a command as the protocol's array of bulk strings."""
    parts = [argument if isinstance(argument, bytes) else str(argument).encode() for argument in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Connection:
    """A connection to a server on this machine."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self.url = f"redis://127.0.0.1:{port}"
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(1 << 20))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, request: bytes) -> None:
        """Send a request; receive its reply later, with `lines` and an empty request."""
        self._socket.sendall(request)

    def lines(self, request: bytes, count: int) -> None:
        """Send a request and receive this many line ends: a bulk string has two, an integer or a status one."""
        if request:
            self._socket.sendall(request)
        before = b"\n"
        while count > 0:
            received = self._socket.recv_into(self._buffer)
            if not received:
                raise ConnectionError("the server closed the connection")
            chunk = bytes(self._buffer[:received])
            if b"\n-" in before + chunk:
                raise RuntimeError(f"error reply: {chunk[:200]!r}")
            before = chunk[-1:]
            count -= chunk.count(b"\n")

    def whole(self, request: bytes) -> int:
        """Send a request, receive its whole reply, return its size in bytes. A PING after the request marks the end."""
        self._socket.sendall(request + PING)
        size = 0
        tail = b""
        while tail != PONG:
            received = self._socket.recv_into(self._buffer)
            if not received:
                raise ConnectionError("the server closed the connection")
            size += received
            tail = (tail + bytes(self._buffer[max(0, received - len(PONG)) : received]))[-len(PONG) :]
        return size - len(PONG)

    def reply(self, request: bytes) -> bytes:
        """Send a request and return its reply: for preparation and checks, not for measurements."""
        self._socket.sendall(request + PING)
        data = bytearray()
        while not data.endswith(PONG):
            received = self._socket.recv_into(self._buffer)
            if not received:
                raise ConnectionError("the server closed the connection")
            data += self._buffer[:received]
        return bytes(data[: -len(PONG)])
