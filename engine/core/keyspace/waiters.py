"""Clients blocked on keys of a database: queues by key, in the order in which clients blocked.

This module only stores the queues. ``engine.core.dispatch`` decides which clients are woken and what their
commands return; the timers for deadlines belong to the shell.
"""

from __future__ import annotations

from typing import Protocol, TypeVar


class Waiting(Protocol):
    """An object that waits for keys."""

    keys: list[bytes]


W = TypeVar("W", bound=Waiting)


class WaitingRoom(dict[bytes, dict[W, None]]):
    """Key -> its waiters in one database, in order. Change it only with the methods here.

    It is a dict because most writing commands look up their key here, which must be fast. The waiters of a key are also
    a dict, used as an ordered set, from which a waiter is removed in constant time.
    """

    __slots__ = ()

    def add(self, waiter: W) -> None:
        """Add a waiter at the end of the queues of its keys."""
        for key in waiter.keys:
            self.setdefault(key, {})[waiter] = None

    def remove(self, waiter: W) -> None:
        """Remove a waiter from all its queues."""
        for key in waiter.keys:
            queue = self.get(key)
            if queue is not None:
                queue.pop(waiter, None)
                if not queue:
                    del self[key]

    def waiting_for(self, key: bytes) -> list[W]:
        """Return the waiters of ``key``, in order of arrival."""
        return list(self.get(key, ()))
