"""Clients blocked on keys of a database: queues by key, in the order in which clients blocked.

This module only stores the queues. ``engine.core.blocked_clients`` decides which clients are woken and what their
commands return; the timers for deadlines belong to the shell.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """An object that waits for keys."""

    keys: list[bytes]


W = TypeVar("W", bound=Waiting)


class WaitingRoom(Generic[W]):
    """The waiters of one database, by key, in order."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        # Key -> its waiters, in a dict as an ordered set, from which a waiter is removed in constant time.
        self._by_key: dict[bytes, dict[W, None]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __len__(self) -> int:
        """Return the number of keys with waiters."""
        return len(self._by_key)

    def awaited(self) -> list[bytes]:
        """Return the keys with waiters."""
        return list(self._by_key)

    def add(self, waiter: W) -> None:
        """Add a waiter at the end of the queues of its keys."""
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[waiter] = None

    def remove(self, waiter: W) -> None:
        """Remove a waiter from all its queues."""
        for key in waiter.keys:
            queue = self._by_key.get(key)
            if queue is not None:
                queue.pop(waiter, None)
                if not queue:
                    del self._by_key[key]

    def waiting_for(self, key: bytes) -> list[W]:
        """Return the waiters of ``key``, in order of arrival."""
        return list(self._by_key.get(key, ()))
