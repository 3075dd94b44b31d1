"""A database: keys, their values, their expiry, and who must hear of a change.

Owns the places where a key comes, changes and goes, so that WATCH, blocked clients, key iteration and expiry stay true
whichever command it was. Values are plain: ``bytes`` (string), ``dict`` (hash) and
:class:`engine.core.stream.Stream`; a string that is a number is kept as text.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine import messages
from engine.core.replies import CommandError
from engine.core.stream import Stream
from engine.core.waiters import WaitingRoom

if TYPE_CHECKING:
    from engine.core.dispatch import Core

Value = Any

TYPE_NAMES: dict[type, bytes] = {bytes: b"string", dict: b"hash", Stream: b"stream"}


def type_name(value: Value) -> bytes:
    """The type as TYPE names it."""
    return TYPE_NAMES[type(value)]


class Database:
    """The keys of one database. Every lookup drops what has expired at the core's present time."""

    def __init__(self, index: int, core: Core) -> None:
        self.index = index
        self.core = core
        self.waiting = WaitingRoom()
        self._values: dict[bytes, Value] = {}
        self._expires: dict[bytes, int] = {}
        self._deadlines: list[tuple[int, bytes]] = []
        # Key iteration (SCAN): a key keeps its slot for as long as it lives, so a cursor that walks the slots meets every
        # key that was there from the beginning to the end of the walk.
        self._slots: list[bytes | None] = []
        self._slot_of: dict[bytes, int] = {}
        self._free: list[int] = []

    # -- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> Value | None:
        """The value, None where there is none or it has expired."""
        if key in self._expires and self._expires[key] <= self.core.now:
            self.expire(key)
            return None
        return self._values.get(key)

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def typed(self, key: bytes, kind: type) -> Value | None:
        """The value if it is of ``kind``, None if there is none; WRONGTYPE otherwise."""
        value = self.get(key)
        if value is not None and type(value) is not kind:
            raise CommandError(messages.WRONG_TYPE)
        return value

    def stream(self, key: bytes) -> Stream | None:
        """The stream at ``key``, or None."""
        stream: Stream | None = self.typed(key, Stream)
        return stream

    def keys(self) -> list[bytes]:
        """All live keys, in no particular order."""
        now = self.core.now
        expires = self._expires
        return [key for key in self._values if expires.get(key, now + 1) > now]

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end) and the live keys of about ``count`` slots from ``cursor`` on."""
        end = min(cursor + count, len(self._slots))
        keys = [key for key in self._slots[cursor:end] if key is not None and key in self]
        return (end if end < len(self._slots) else 0), keys

    def random_key(self) -> bytes | None:
        """A key drawn by the core's source of chance, None in an empty database."""
        while self._values:
            key = self._slots[self.core.pick(len(self._slots))]
            if key is not None and key in self:
                return key
        return None

    # -- writing ----------------------------------------------------------------------------------------------------

    def add(self, key: bytes, value: Value) -> None:
        """A key that was not there comes into being; whoever waits for it is signalled."""
        self._values[key] = value
        if self._free:
            slot = self._free.pop()
            self._slots[slot] = key
        else:
            slot = len(self._slots)
            self._slots.append(key)
        self._slot_of[key] = slot
        self.touch(key)
        self.signal(key)

    def set(self, key: bytes, value: Value, keep_ttl: bool = False) -> None:
        """The key holds ``value`` from now on, whatever it held; its expiry goes unless ``keep_ttl``."""
        if key not in self._values:
            self.add(key, value)
            return
        changes_type = type(self._values[key]) is not type(value)
        self._values[key] = value
        if not keep_ttl:
            self._expires.pop(key, None)
        self.touch(key)
        if changes_type or isinstance(value, Stream):
            self.signal(key)

    def delete(self, key: bytes) -> bool:
        """The key goes; whether it was there. Clients that wait on a group there are signalled."""
        if self.get(key) is None:
            return False
        self._drop(key)
        return True

    def _drop(self, key: bytes) -> None:
        del self._values[key]
        self._expires.pop(key, None)
        slot = self._slot_of.pop(key)
        self._slots[slot] = None
        self._free.append(slot)
        if len(self._free) == len(self._slots):
            self._slots.clear()
            self._free.clear()
        self.touch(key)
        self.signal(key)

    def take(self, key: bytes) -> tuple[Value, int | None]:
        """Remove a key that is there; its value and its expiry."""
        value, deadline = self._values[key], self._expires.get(key)
        self._drop(key)
        return value, deadline

    def clear(self) -> int:
        """All keys go; how many there were."""
        keys = list(self._values)
        for key in keys:
            self._drop(key)
        self._deadlines.clear()
        return len(keys)

    # -- expiry -----------------------------------------------------------------------------------------------------

    def deadline(self, key: bytes) -> int | None:
        """When the key expires, in milliseconds since the epoch; None: never."""
        return self._expires.get(key)

    def expiring(self) -> int:
        """How many keys have an expiry."""
        return len(self._expires)

    def set_deadline(self, key: bytes, deadline: int | None) -> None:
        """Let an existing key expire at ``deadline`` (milliseconds since the epoch), or never."""
        if deadline is None:
            self._expires.pop(key, None)
            return
        self._expires[key] = deadline
        heapq.heappush(self._deadlines, (deadline, key))
        if len(self._deadlines) > 64 + 2 * len(self._expires):
            self._deadlines = [(when, name) for name, when in self._expires.items()]
            heapq.heapify(self._deadlines)

    def expire(self, key: bytes) -> None:
        """The key's time has come: it goes, and the log hears of it as of a deletion."""
        self._drop(key)
        self.core.expired_keys += 1
        self.core.record(self.index, [b"DEL", key])
        self.core.notify("x", b"expired", key, self.index)

    def expire_due(self, now: int, limit: int) -> int:
        """Drop at most ``limit`` keys that have expired at ``now``; how many."""
        dropped = 0
        while self._deadlines and self._deadlines[0][0] <= now and dropped < limit:
            when, key = heapq.heappop(self._deadlines)
            if self._expires.get(key) == when:
                self.expire(key)
                dropped += 1
        return dropped

    def next_deadline(self) -> int | None:
        """The earliest moment at which a key may expire."""
        return self._deadlines[0][0] if self._deadlines else None

    # -- who must hear of it ----------------------------------------------------------------------------------------

    def touch(self, key: bytes) -> None:
        """The key's value changed: transactions that watch it will not run."""
        core = self.core
        core.dirty += 1
        if core.watchers:
            for session in core.watchers.get((self.index, key), ()):
                session.dirty_exec = True

    def signal(self, key: bytes) -> None:
        """Somebody who waits for ``key`` may find something now (or learn that it is gone)."""
        if key in self.waiting:
            self.core.ready[self.index, key] = None

    def items(self) -> Iterator[tuple[bytes, Value, int | None]]:
        """Every live key with its value and its expiry."""
        for key in self.keys():
            yield key, self._values[key], self._expires.get(key)
