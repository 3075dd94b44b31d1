"""The batch of replies that waits for the end of an event-loop iteration.

Replies wait for two reasons. Where many clients ask at the same time, those who are served in one iteration get their
replies together: a reply that leaves by itself wakes whoever waits for it, which may take the kernel longer than all
else about it, while of those that leave together only the first one has to. A few clients are better off with each
reply at once: they make the next request while the others are served.

And with ``appendfsync always`` nothing leaves before the disk has what it tells of. The first effect of an iteration
holds the batch: then neither the caller's reply leaves, nor what woken clients and subscribers get, nor what a later
client of the same iteration has read. One fsync serves them all. Where the disk refuses, the connections are cut off:
whether their commands will survive is not known, so they must hear neither yes nor no. With the other policies one
write to the log serves many clients in the same way, and nobody is cut off.

Each connection's bytes leave in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.wire.encode import Out

#: Longer replies take longer to send than to wake somebody, and do not wait unless they must.
_MOST_BYTES = 64 * 1024
#: So many clients are a few. Measured with XADDs one by one: waiting makes 2 clients a third slower, 4 a tenth, 6 a
#: sixth faster, 50 two thirds.
_FEW = 5
#: After so many replies it is counted how many clients had them.
_ROUND = 32


class Held(Protocol):
    """A connection as the batch knows it: ``held`` are its bytes that wait, ``held_size`` of them."""

    transport: asyncio.Transport
    held: Out
    held_size: int

    def write(self, parts: Out, size: int) -> None:
        """Hand bytes to the transport, ``size`` of them."""


class ReplyBatch:
    """One server's. ``settle`` is called at the end of an iteration in which the batch was held: may replies leave?"""

    def __init__(self, loop: asyncio.AbstractEventLoop, settle: Callable[[], bool] | None = None) -> None:
        self.settle = settle
        self._loop = loop
        #: In order. A dictionary, because thousands of connections may close in one iteration.
        self._held: dict[Held, None] = {}
        self._closing: set[Held] = set()
        #: Who has had replies lately, and how many there were; whether that is more than a few clients.
        self._served: set[Held] = set()
        self._replies = 0
        self._crowded = False
        #: :meth:`end_iteration` will be called.
        self._end_due = False
        #: Nothing leaves before the end of this iteration.
        self.is_held = False

    def hold(self) -> None:
        """Hold everything back until the end of this iteration."""
        self.is_held = True
        self._await_end()

    def hold_if_crowded(self) -> bool:
        """As :meth:`hold`, where most replies wait for the end of the iteration anyway; whether it is held."""
        if self._crowded:
            self.hold()
        return self.is_held

    def _await_end(self) -> None:
        if not self._end_due:
            self._end_due = True
            # What is called soon comes before anything that is received later.
            self._loop.call_soon(self.end_iteration)

    def send(self, connection: Held, parts: Out, size: int) -> None:
        """Let bytes out, now or at the end of the iteration."""
        self._served.add(connection)
        self._replies += 1
        if self._replies == _ROUND:
            self._crowded = len(self._served) > _FEW
            self._served.clear()
            self._replies = 0
        if not connection.held:
            if not self.is_held and (not self._crowded or size > _MOST_BYTES):
                connection.write(parts, size)
                return
            self._held[connection] = None
        connection.held += parts
        connection.held_size += size
        if connection.held_size > _MOST_BYTES and not self.is_held:
            self._release(connection)
        elif not self._end_due:
            self._await_end()

    def close(self, connection: Held) -> None:
        """Close a connection, once its bytes have left."""
        if self.is_held:
            self._closing.add(connection)
        else:
            self._release(connection)
            connection.transport.close()

    def forget(self, connection: Held) -> None:
        """The connection is closed."""
        self._served.discard(connection)
        self._closing.discard(connection)
        self._held.pop(connection, None)

    @staticmethod
    def _release(connection: Held) -> None:
        parts, size = connection.held, connection.held_size
        connection.held, connection.held_size = [], 0
        if parts and not connection.transport.is_closing():
            connection.write(parts, size)

    def end_iteration(self) -> None:
        """Bring what the iteration did to the disk, where that is due, and let out what was held."""
        self._end_due = False
        safe = not self.is_held or self.settle is None or self.settle()
        self.is_held = False
        held, self._held = self._held, {}
        closing, self._closing = self._closing, set()
        for connection in held:
            if safe:
                self._release(connection)
            else:
                connection.transport.abort()
        for connection in closing:
            connection.transport.close()
