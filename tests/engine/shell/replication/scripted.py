"""A scripted master that accepts any replica and replies to PSYNC as the test specifies."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

#: Handler of a connection that has received PSYNC, with the arguments of PSYNC.
Script = Callable[[socket.socket, list[bytes]], None]
HISTORY = b"a" * 40


def full(file: bytes, offset: int = 0) -> bytes:
    """Return the reply to PSYNC for a full synchronisation."""
    return b"+FULLRESYNC %b %d\r\n$%d\r\n%b" % (HISTORY, offset, len(file), file)


class Master:
    """A master on ``port``; ``asked`` has the arguments of each PSYNC, in order. Without a script, the test
    talks to the `next` replica.
    """

    def __init__(self, script: Script | None = None) -> None:
        self._accepted: queue.Queue[socket.socket] = queue.Queue()
        self.script = script or (lambda connection, _: self._accepted.put(connection))
        self.asked: list[tuple[bytes, int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def next(self) -> socket.socket:
        """Return the next connection that has received PSYNC."""
        return self._accepted.get(timeout=20)

    def close(self) -> None:
        """Close all connections."""
        for connection in (self._listener, *self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection.makefile("rb") as lines:
            while line := lines.readline():
                if not line.startswith(b"*"):
                    continue
                words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                if words[0] == b"PSYNC":
                    self.asked.append((words[1], int(words[2])))
                    self.script(connection, words)
                elif words[1:2] != [b"ACK"]:
                    connection.sendall(b"+OK\r\n")


def hang_up(connection: socket.socket) -> None:
    """Close a connection as an exiting master does."""
    connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def master(script: Script | None = None) -> Iterator[Master]:
    """Yield a master that follows the script."""
    made = Master(script)
    try:
        yield made
    finally:
        made.close()
