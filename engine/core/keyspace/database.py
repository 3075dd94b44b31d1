"""A database: keys, their values, their expiry, and notifications of changes.

Every key is added, replaced and removed here, so that WATCH, blocked clients, key iteration and expiry are consistent
regardless of the command. A value is ``bytes`` (a string, also if it is a number), a ``Hash`` or a ``Stream``. A
command that changes a value in place calls ``Database.touch`` or ``changed`` afterwards.

Every change counts towards the next snapshot. One call is one change, unless ``changes`` gives another number, such as
the number of added entries. A command that counts its changes itself passes 0.

Values, deadlines and the order of names must change together, so this module contains all three, despite its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.core.keyspace.changes import Changes
from engine.core.keyspace.deadlines import Deadlines
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.key_table import MASK, SHIFT, KeyTable
from engine.core.keyspace.waiters import WaitingRoom
from engine.core.protocol.replies import CommandError
from engine.core.streams.stream import Stream
from engine.text import messages

Value = Any

TYPE_NAMES: dict[type, bytes] = {
    bytes: b"string",
    Hash: b"hash",
    Stream: b"stream",
}


def type_name(value: Value) -> bytes:
    """Return the type's name as reported by TYPE."""
    return TYPE_NAMES[type(value)]


class Database:
    """The keys of one database. The lookup of a due key removes the key, or hides it while expiry is held."""

    def __init__(self, index: int, changes: Changes) -> None:
        self.index = index
        self.changes = changes
        #: Blocked commands.
        self.waiting: WaitingRoom[Any] = WaitingRoom()
        #: The image in progress, if any; see ``engine.core.keyspace.image``.
        self.guard: object = None
        #: Number of lookups by read-only commands that found their key (hits) or did not find it (misses).
        self.hits = 0
        self.misses = 0
        self._table = KeyTable()
        self._expires: dict[bytes, int] = {}
        self._deadlines = Deadlines(self._expires)

    # -- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._table)

    def get(self, key: bytes) -> Value | None:
        """Return the value; None if the key does not exist or has expired."""
        table = self._table
        slot = table.slots[hash(key) >> SHIFT & MASK].get(key)
        if slot is None or (key in self._expires and self.drop_if_due(key)):
            return None
        return table.values[slot]

    def read(self, key: bytes) -> Value | None:
        """Return the value as ``get`` does, for read-only commands.

        Hits and misses are counted, and a miss raises a keyspace event.
        """
        value = self.get(key)
        if value is None:
            self.misses += 1
            self.changes.notify("m", b"keymiss", key, self.index)
        else:
            self.hits += 1
        return value

    def holds(self, key: bytes) -> bool:
        """Return whether the key exists, even if it is due."""
        return self._table.slot_of(key) is not None

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def typed(self, key: bytes, kind: type) -> Value | None:
        """Return the value if it is of ``kind``, None if the key does not exist. Raises WRONGTYPE for other types."""
        value = self.get(key)
        if value is not None and type(value) is not kind:
            raise CommandError(messages.WRONG_TYPE)
        return value

    def read_typed(self, key: bytes, kind: type) -> Value | None:
        """Return the value as ``typed`` does, for read-only commands."""
        value = self.read(key)
        if value is not None and type(value) is not kind:
            raise CommandError(messages.WRONG_TYPE)
        return value

    def stream(self, key: bytes) -> Stream | None:
        """Return the stream at ``key``, or None."""
        stream: Stream | None = self.typed(key, Stream)
        return stream

    def read_stream(self, key: bytes) -> Stream | None:
        """Return the stream as ``stream`` does, for read-only commands."""
        stream: Stream | None = self.read_typed(key, Stream)
        return stream

    def keys(self) -> list[bytes]:
        """Return all live keys, in no particular order."""
        due = self._deadlines.due(self.changes.now) if self._expires and not self.changes.replaying else None
        names = self._table.names
        return [key for key in names if key not in due] if due else names[:]

    def tables(self) -> tuple[KeyTable, dict[bytes, int]]:
        """Return the internal tables: the keys, and deadlines by key."""
        return self._table, self._expires

    def items(self) -> Iterator[tuple[bytes, Value, int | None]]:
        """Yield every live key with its value and its deadline."""
        for key in self.keys():
            yield key, self._table.value(key), self._expires.get(key)

    def streams(self) -> list[Stream]:
        """Return all streams, including those of due keys."""
        return [value for value in self._table.values if type(value) is Stream]

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor (0 at the end), and the live keys among the next ``count`` keys.

        An iteration starts with cursor 0.
        """
        following, keys = self._table.walk(cursor, count)
        if self._expires:
            keys = [key for key in keys if key in self]
        return following, keys

    # -- writing ----------------------------------------------------------------------------------------------------

    def add(self, key: bytes, value: Value, changes: int = 1) -> None:
        """Add a new key and signal clients that wait for it."""
        if key in self._expires:
            # The key is due, but was only hidden because expiry is held.
            self.expire(key)
        self._table.add(key, value)
        self.changed(key, "n", b"new", changes)
        if self.waiting:
            self.signal(key, replaced=True)

    def set(self, key: bytes, value: Value, keep_ttl: bool = False, changes: int = 1) -> Value | None:
        """Set the key to ``value``, replacing any other value. The expiry is removed unless ``keep_ttl``.

        Returns the replaced value, None if the key is new.
        """
        if key in self._expires:
            if self.is_due(key):
                self.expire(key)
            elif not keep_ttl:
                del self._expires[key]
        table = self._table
        slot = table.slot_of(key)
        if slot is None:
            self.add(key, value, changes)
            return None
        former = table.values[slot]
        table.values[slot] = value
        self.touch(key, changes)
        if type(former) is not bytes or type(value) is not bytes:
            if former is not value:
                self.changes.discard_value(former)
            if type(former) is Stream or type(value) is Stream:
                # Clients that wait for another type are not woken, as in Redis.
                self.signal(key, replaced=True)
        return former

    def report_overwritten(self, key: bytes, former: Value | None, value: Value) -> None:
        """Notify subscribers that ``value`` has replaced the value of a key; ``former`` is None if there was none."""
        if former is not None:
            self.changes.notify("o", b"overwritten", key, self.index)
            if type_name(former) != type_name(value):
                self.changes.notify("c", b"type_changed", key, self.index)

    def delete(self, key: bytes, changes: int = 1) -> bool:
        """Remove the key; return whether it existed. Signals clients blocked on the key."""
        value = self.get(key)
        if value is None:
            return False
        self._drop(key, changes)
        if type(value) is not bytes:
            self.changes.discard_value(value)
        return True

    def _drop(self, key: bytes, changes: int) -> None:
        self._table.remove(key)
        if self._expires:
            self._expires.pop(key, None)
        self.touch(key, changes)
        if self.waiting:
            self.signal(key)

    def pop(self, key: bytes) -> tuple[Value, int | None]:
        """Remove an existing key; return its value and deadline.

        The change is counted when the value is added again.
        """
        value, deadline = self._table.value(key), self._expires.get(key)
        self._drop(key, 0)
        return value, deadline

    def clear(self) -> int:
        """Remove all keys; return how many there were."""
        count = len(self._table)
        self._notify_replaced(None)
        if not self.changes.discard(*self._table.columns(), self._expires, *self._deadlines.tables()):
            for value in self._table.values:
                self.changes.discard_value(value)
        self._table, self._expires = KeyTable(), {}
        self._deadlines = Deadlines(self._expires)
        self.changes.dirty += count
        return count

    def swap(self, other: Database) -> None:
        """Swap all keys with ``other``. Blocked and watching clients stay with their database number."""
        for database, successor in ((self, other), (other, self)):
            database._notify_replaced(successor)
        for name in ("_table", "_expires", "_deadlines"):
            table, other_table = getattr(self, name), getattr(other, name)
            setattr(self, name, other_table)
            setattr(other, name, table)

    def _notify_replaced(self, successor: Database | None) -> None:
        """Notify watchers and blocked clients that the keys of ``successor``, if any, replace the keys here."""
        watched = [pair for pair in self.changes.watchers if pair[0] == self.index]
        for _, key in watched:
            if key in self or (successor is not None and key in successor):
                self._fail_watchers(key)
        for key in self.waiting:
            if self.holds(key) or (successor is not None and successor.holds(key)):
                self.signal(key, replaced=True)

    # -- expiry -----------------------------------------------------------------------------------------------------

    def deadline(self, key: bytes) -> int | None:
        """Return the key's deadline in milliseconds since the epoch; None if it does not expire."""
        return self._expires.get(key)

    def expiring(self) -> int:
        """Return the number of keys with a deadline."""
        return len(self._expires)

    def set_deadline(self, key: bytes, deadline: int | None) -> None:
        """Set or remove the deadline of an existing key (milliseconds since the epoch)."""
        if deadline is None:
            self._expires.pop(key, None)
            return
        self._deadlines.put(key, deadline)
        self.changes.next_expiry = min(self.changes.next_expiry, deadline)

    def is_due(self, key: bytes) -> bool:
        """Return whether the key is due but not yet removed. No key is due while effects are replayed."""
        deadline = self._expires.get(key)
        return deadline is not None and deadline <= self.changes.now and not self.changes.replaying

    def drop_if_due(self, key: bytes) -> bool:
        """Remove the key if it is due; return whether it was due. While expiry or the key is held, hide it instead."""
        if not self.is_due(key):
            return False
        if self.changes.expiry_held_until <= self.changes.now and not self.changes.is_held(key):
            self.expire(key)
        return True

    def expire(self, key: bytes) -> None:
        """Remove a due key, and record its deletion for the log. Does not count as a change."""
        value = self._table.value(key)
        self._drop(key, 0)
        if type(value) is not bytes:
            self.changes.discard_value(value)
        self.changes.expired_keys += 1
        self.changes.record(self.index, [b"DEL", key])
        self.changes.notify("x", b"expired", key, self.index)

    def expire_due(self, now: int, limit: int) -> int:
        """Remove keys that are due at ``now``, up to ``limit`` deadlines; return their number. Held keys remain."""
        dropped, held = 0, set[bytes]()
        for key in self._deadlines.pop_due(now, limit):
            # The heap can contain a key twice.
            if key not in self._expires:
                continue
            if self.changes.is_held(key):
                held.add(key)
            else:
                self.expire(key)
                dropped += 1
        for key in held:
            self._deadlines.put_back(key, self._expires[key])
        return dropped

    def next_deadline(self) -> int | None:
        """Return the earliest time at which a key may expire."""
        return self._deadlines.next()

    # -- notifications --------------------------------------------------------------------------------------------

    def touch(self, key: bytes, changes: int = 1) -> None:
        """Count ``changes`` to the key's value, and make transactions that watch the key fail."""
        shared = self.changes
        shared.dirty += changes
        if shared.watchers:
            self._fail_watchers(key)

    def changed(self, key: bytes, kind: str, event: bytes, changes: int = 1) -> None:
        """Count ``changes`` as `touch` does, and notify subscribers of the event (as `Changes.notify` does)."""
        # Inlines both methods, because most writing commands call this.
        shared = self.changes
        shared.dirty += changes
        if shared.watchers:
            self._fail_watchers(key)
        if shared.on_event is not None:
            shared.on_event(kind, event, key, self.index)

    def _fail_watchers(self, key: bytes) -> None:
        """Make transactions that watch the key fail."""
        for watcher in self.changes.watchers.get((self.index, key), ()):
            watcher.dirty_exec = True

    def signal(self, key: bytes, *, replaced: bool = False) -> None:
        """Note that clients waiting for ``key`` must be woken: it may have data for them, or may have been deleted.

        ``replaced``: whether the value was replaced since the clients blocked, so that all of them must check it.
        """
        if key in self.waiting:
            pair = self.index, key
            self.changes.ready[pair] = replaced or self.changes.ready.get(pair, False)
