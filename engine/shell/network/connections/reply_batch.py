"""Batch of replies that waits for the end of an event-loop iteration.

Replies wait for two reasons. First, if many clients send requests at the same time, those served in one iteration get
their replies together. A reply sent alone wakes the process that waits for it, which may take the kernel longer than
the rest of the request. If replies are sent together, only the first one wakes a process. With few clients it is better
to send each reply immediately, because each client makes its next request while the others are served.

Second, with ``appendfsync always``, no reply is sent before its effects are on disk. After the first effect of an
iteration, the batch holds everything: the caller's reply, messages to woken clients and subscribers, and replies to
later reads in the same iteration. One fsync serves them all. If it fails, the connections with held replies are closed:
it is unknown whether their commands will survive, so the clients must get neither a success nor an error. With the
other policies, one write to the log serves many clients in the same way, and no connection is closed.

Each connection's bytes are sent in their original order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.wire.encode import Out

#: Maximum size of a reply that is held to save a wake-up: sending a longer one costs more than waking a process.
_MOST_BYTES = 64 * 1024
#: Maximum number of clients that count as few. Measured with single XADDs: waiting makes 2 clients a third slower, 4 a
#: tenth slower, 6 a sixth faster, 50 two thirds faster.
_FEW = 5
#: Number of replies after which to count the clients that received them. Replies sent together count as one for
#: each client.
_ROUND = 32


class Held(Protocol):
    """A connection, as the batch needs it. ``held``: its waiting bytes; ``held_size``: their number."""

    transport: asyncio.Transport
    held: Out
    held_size: int

    def release(self) -> None:
        """Write the waiting bytes to the transport."""


class ReplyBatch:
    """Batch of one server. ``settle`` is called at the end of an iteration with a held batch; it returns whether
    replies may be sent.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, settle: Callable[[], bool]) -> None:
        self._settle = settle
        self._loop = loop
        #: Connections with waiting bytes, in order. A dictionary, because thousands may close in one iteration.
        self._held: dict[Held, None] = {}
        self._closing: set[Held] = set()
        #: Connections that have received replies since the last count.
        self._served: set[Held] = set()
        #: Number of replies since the last count.
        self._replies = 0
        #: Whether the last count found more than `_FEW` connections.
        self._crowded = False
        #: Whether a call of `end_iteration` is scheduled.
        self._end_due = False
        #: Whether all replies are held until the end of this iteration.
        self.is_held = False

    def hold(self) -> None:
        """Hold all replies until the end of this iteration."""
        self.is_held = True
        self._await_end()

    def hold_if_crowded(self) -> bool:
        """Hold replies if most of them wait for the end of the iteration anyway; return whether replies are held."""
        if self._crowded:
            self.hold()
        return self.is_held

    def _await_end(self) -> None:
        if not self._end_due:
            self._end_due = True
            # This callback runs before any input that is received later.
            self._loop.call_soon(self.end_iteration)

    def send(self, connection: Held, parts: Out, size: int) -> None:
        """Send bytes now or at the end of the iteration."""
        connection.held += parts
        connection.held_size += size
        if self.is_held or (self._crowded and connection.held_size <= _MOST_BYTES):
            self._held[connection] = None
            if not self._end_due:
                self._await_end()
            return
        self._served.add(connection)
        self._replies += 1
        if self._replies >= _ROUND:
            self._count_clients()
        connection.release()

    def _count_clients(self) -> None:
        self._crowded = len(self._served) > _FEW
        self._served.clear()
        self._replies = 0

    def close(self, connection: Held) -> None:
        """Close a connection after sending its bytes."""
        if self.is_held:
            self._closing.add(connection)
        else:
            connection.release()
            connection.transport.close()

    def drop(self, connection: Held) -> None:
        """Drop a closed connection."""
        self._served.discard(connection)
        self._closing.discard(connection)
        self._held.pop(connection, None)

    def end_iteration(self) -> None:
        """If the batch is held, write the iteration's effects to the log first. Then send the held replies, or close
        their connections if `settle` forbids sending.
        """
        self._end_due = False
        safe = not self.is_held or self._settle()
        self.is_held = False
        held, self._held = self._held, {}
        closing, self._closing = self._closing, set()
        self._served.update(held)
        self._replies += len(held)
        if self._replies >= _ROUND:
            self._count_clients()
        for connection in held:
            if safe:
                connection.release()
            else:
                connection.transport.abort()
        for connection in closing:
            connection.transport.close()
