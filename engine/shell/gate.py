"""Where replies wait until what they tell of is on the disk (``appendfsync always``).

The first effect of an event-loop turn shuts the gate. From then on nothing leaves: neither the caller's reply, nor
what woken clients and subscribers get, nor what a later client of the same turn has read. One fsync serves them all;
then the gate opens and each connection's bytes leave in the order in which they came. Where the disk refuses, the
connections are cut off: whether their commands will survive is not known, so they must hear neither yes nor no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.wire.encode import Out


class Held(Protocol):
    """A connection as the gate knows it."""

    transport: asyncio.Transport

    def send(self, parts: Out) -> None:
        """Send bytes."""


class Gate:
    """``settle`` is called at the end of a turn in which the gate was shut; it says whether all is on the disk."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settle: Callable[[], bool]) -> None:
        self._loop = loop
        self._settle = settle
        self._held: dict[Held, Out] = {}
        self._closing: set[Held] = set()
        self.is_shut = False

    def shut(self) -> None:
        """Hold everything back until the end of this turn."""
        if not self.is_shut:
            self.is_shut = True
            # What is called soon comes before anything that is received later.
            self._loop.call_soon(self.end_turn)

    def hold(self, connection: Held, parts: Out) -> None:
        """Keep bytes for a connection. The gate is shut."""
        self._held.setdefault(connection, []).extend(parts)

    def hold_close(self, connection: Held) -> None:
        """The connection is to be closed once its bytes have left. The gate is shut."""
        self._closing.add(connection)

    def end_turn(self) -> None:
        """Bring the turn to the disk, and let out what was held."""
        if not self.is_shut:
            return
        safe = self._settle()
        self.is_shut = False
        held, self._held = self._held, {}
        closing, self._closing = self._closing, set()
        for connection, parts in held.items():
            if safe:
                connection.send(parts)
            else:
                connection.transport.abort()
        for connection in closing:
            connection.transport.close()
