"""One command of a first client, and the duration of a second client's PINGs during it.

Both clients are sockets of one thread, which sleeps in select. The second client sends a PING every millisecond without
waiting for replies: a server that is silent for one second owes a thousand replies, not one. The first client sends its
request, followed by a PING, and receives the reply without parsing it. The PING's reply marks the end.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from benchmarks.engine.client import PING, PONG

_EVERY_NS = 1_000_000
_PIECE = 1 << 20
_HEAD = 300
#: Seconds for which PINGs continue after the reply: work that the command has deferred counts as part of the command.
TAIL = 0.1
#: Timeout of a command in seconds.
DEADLINE = 600.0


class RefusedError(Exception):
    """The server replied with an error, which is the text."""


@dataclass(frozen=True)
class Pause:
    """Durations in milliseconds: the longest PING, the 99th percentile of PINGs, and the command itself."""

    worst: float
    p99: float
    own: float


def measure(port: int, request: bytes, after: float = 0.0) -> tuple[Pause, Pause | None]:
    """Return the pause caused by a request until `TAIL` seconds after its reply, and the pause in the ``after`` seconds
    after that.

    Raises RefusedError if the reply is an error.
    """
    with _connect(port) as first, _connect(port) as second, _no_collection():
        run = _Run(first, second, request)
        run.run_until_reply()
        answered = run.run_for(TAIL)
        later = run.run_for(after) if after else None
    if run.head.startswith(b"-"):
        raise RefusedError(run.head.split(b"\r\n")[0][1:].decode(errors="replace"))
    duration = (run.end - run.begin) / 1e6
    return _pause(answered, duration), _pause(later, duration) if later is not None else None


def _pause(taken: Sequence[float], duration: float) -> Pause:
    worst, p99 = np.percentile(taken, [100, 99])
    return Pause(float(worst), float(p99), duration)


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    return connection


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Run:
    """The two clients. Times are in nanoseconds of the monotonic clock."""

    def __init__(self, first: socket.socket, second: socket.socket, request: bytes) -> None:
        self._first = first
        self._second = second
        self._unsent = memoryview(request + PING)
        self._buffer = memoryview(bytearray(_PIECE))
        self._tail = b""
        self._owed: deque[int] = deque()
        self._taken: list[float] = []
        #: The first bytes of the reply.
        self.head = b""
        self.begin = self.end = 0
        self._next = self._deadline = 0

    def run_until_reply(self) -> None:
        """Send the request, and continue until its reply has arrived."""
        self.begin = self._next = time.monotonic_ns()
        self._deadline = self.begin + int(DEADLINE * 1e9)
        while not self.end:
            self._turn()

    def run_for(self, seconds: float) -> list[float]:
        """Continue for ``seconds``; return the durations in milliseconds of the PINGs sent since the last call."""
        stop = time.monotonic_ns() + int(seconds * 1e9)
        while time.monotonic_ns() < stop:
            self._turn()
        while self._owed:
            self._turn(send=False)
        taken, self._taken = self._taken, []
        return taken

    def _turn(self, *, send: bool = True) -> None:
        now = time.monotonic_ns()
        if now > self._deadline:
            raise TimeoutError(f"no reply within {DEADLINE:g} seconds; it starts with {self.head!r}")
        if send and now >= self._next:
            # PINGs that this client failed to send in time are skipped: they would measure the client, not the server.
            self._next = max(self._next + _EVERY_NS, now)
            self._second.send(PING)
            self._owed.append(time.monotonic_ns())
        wait = max(self._next - time.monotonic_ns(), 0) / 1e9 if send else 1.0
        readers = [self._first, self._second]
        readable, writable, _ = select.select(readers, [self._first] if self._unsent else [], [], wait)
        if self._second in readable:
            self._received()
        if writable:
            self._unsent = self._unsent[self._first.send(self._unsent[:_PIECE]) :]
        if self._first in readable:
            self._replied()

    def _received(self) -> None:
        size = self._second.recv_into(self._buffer)
        if not size:
            raise ConnectionError("the server closed the second client's connection")
        now = time.monotonic_ns()
        # A PONG received in pieces is counted with its last byte.
        for _ in range(bytes(self._buffer[:size]).count(b"\n")):
            self._taken.append((now - self._owed.popleft()) / 1e6)

    def _replied(self) -> None:
        size = self._first.recv_into(self._buffer)
        if not size:
            raise ConnectionError(f"the server closed the first client's connection after {self.head!r}")
        if len(self.head) < _HEAD:
            self.head += bytes(self._buffer[: min(size, _HEAD)])
        self._tail = (self._tail + bytes(self._buffer[max(0, size - len(PONG)) : size]))[-len(PONG) :]
        if not self._unsent and self._tail == PONG and not self.end:
            self.end = time.monotonic_ns()
