"""A database: keys, their values, their expiry, and who is told of a change.

Every key is added, changed and removed here, so that WATCH, blocked clients, key iteration and expiry stay true
whichever command it was. Values are plain: ``bytes`` (string), ``bytearray`` (a string that APPEND or SETRANGE made,
which Redis calls raw), ``deque`` (list), :class:`~engine.core.keyspace.hash.Hash`,
:class:`~engine.core.keyspace.members.Members` (set), :class:`~engine.core.keyspace.sorted_set.SortedSet` and
:class:`~engine.core.streams.stream.Stream`; a string that is a number is kept as text. A command
that changes a value in place calls :meth:`Database.touch` afterwards.

Every change counts towards the next snapshot. One call is one change, unless ``changes`` says how many it stands for:
the elements that a list got, or 0 where the command counts what it did elsewhere.

It is one file of some four hundred lines: values, deadlines and the order of names change together, or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from engine.core.keyspace.changes import NEVER, Changes
from engine.core.keyspace.deadlines import Deadlines
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.members import Members
from engine.core.keyspace.slots import Slots
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.keyspace.waiters import WaitingRoom
from engine.core.protocol.replies import CommandError
from engine.core.streams.stream import Stream
from engine.text.messages import general

Value = Any

TYPE_NAMES: dict[type, bytes] = {
    bytes: b"string",
    bytearray: b"string",
    Hash: b"hash",
    Members: b"set",
    SortedSet: b"zset",
    deque: b"list",
    Stream: b"stream",
}


def type_name(value: Value) -> bytes:
    """The type as TYPE names it."""
    return TYPE_NAMES[type(value)]


class Database:
    """The keys of one database. Every lookup removes the key first if its time has come."""

    def __init__(self, index: int, changes: Changes) -> None:
        self.index = index
        self.changes = changes
        #: Blocked commands.
        self.waiting: WaitingRoom[Any] = WaitingRoom()
        #: Whoever is taking an image of it; see :mod:`engine.core.keyspace.image`.
        self.guard: object = None
        #: Lookups for reading that found their key, and that did not.
        self.hits = 0
        self.misses = 0
        self._values: dict[bytes, Value] = {}
        self._expires: dict[bytes, int] = {}
        self._deadlines = Deadlines(self._expires)
        #: Keys of hashes with fields that expire: each with a moment before which none of them does.
        self._hashes: dict[bytes, int] = {}
        self._field_deadlines = Deadlines(self._hashes)
        self._slots = Slots()
        #: When a key was last looked up or written, in milliseconds.
        self._used: dict[bytes, int] = {}

    # -- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> Value | None:
        """The value, None where there is none or it has expired."""
        value = self._values.get(key)
        if value is not None:
            if key in self._expires and self.drop_if_due(key):
                return None
            self._used[key] = self.changes.now
        return value

    def read(self, key: bytes, *, use: bool = True) -> Value | None:
        """As :meth:`get`, for commands that only read: hits and misses are counted, a miss is an event.

        Without ``use`` the key does not count as used.
        """
        value = self.get(key) if use else self.peek(key)
        if value is None:
            self.misses += 1
            self.changes.notify("m", b"keymiss", key, self.index)
        else:
            self.hits += 1
        return value

    def peek(self, key: bytes) -> Value | None:
        """As :meth:`get`, but the key does not count as used."""
        return None if self.drop_if_due(key) else self._values.get(key)

    def idle(self, key: bytes) -> int:
        """For how many milliseconds an existing key has not been used."""
        return max(self.changes.now - self._used[key], 0)

    def set_idle(self, key: bytes, milliseconds: int) -> None:
        """Let an existing key have been idle for so long."""
        self._used[key] = self.changes.now - milliseconds

    def holds(self, key: bytes) -> bool:
        """Whether the key is there, its time come or not."""
        return key in self._values

    def __contains__(self, key: bytes) -> bool:
        return self.peek(key) is not None

    def typed(self, key: bytes, kind: type) -> Value | None:
        """The value if it is of ``kind``, None if there is none; WRONGTYPE otherwise."""
        value = self.get(key)
        if value is not None and type(value) is not kind:
            raise CommandError(general.WRONG_TYPE)
        return value

    def read_typed(self, key: bytes, kind: type) -> Value | None:
        """As :meth:`typed`, for commands that only read."""
        value = self._values.get(key)
        if value is None or key in self._expires:
            value = self.read(key)
        else:
            # As read() does, without the calls.
            self._used[key] = self.changes.now
            self.hits += 1
        if value is not None and type(value) is not kind:
            raise CommandError(general.WRONG_TYPE)
        return value

    def stream(self, key: bytes) -> Stream | None:
        """The stream at ``key``, or None."""
        stream: Stream | None = self.typed(key, Stream)
        return stream

    def read_stream(self, key: bytes) -> Stream | None:
        """As :meth:`stream`, for commands that only read."""
        stream: Stream | None = self.read_typed(key, Stream)
        return stream

    def keys(self) -> list[bytes]:
        """All live keys, in no particular order."""
        due = self._deadlines.due(self.changes.now) if self._expires and not self.changes.replaying else None
        return [key for key in self._values if key not in due] if due else list(self._values)

    def tables(self) -> tuple[dict[bytes, Value], dict[bytes, int], Slots]:
        """Its tables themselves: the values by key, the deadlines of the keys that have one, and the keys' names."""
        return self._values, self._expires, self._slots

    def items(self) -> Iterator[tuple[bytes, Value, int | None]]:
        """Every live key with its value and its expiry."""
        for key in self.keys():
            yield key, self._values[key], self._expires.get(key)

    def streams(self) -> list[Stream]:
        """All streams."""
        return [value for value in self._values.values() if type(value) is Stream]

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end) and the live ones of the next ``count`` keys. A walk begins with cursor 0."""
        following, keys = self._slots.walk(cursor, count)
        if self._expires:
            keys = [key for key in keys if key in self]
        return following, keys

    def random_key(self) -> bytes | None:
        """A key drawn by the core's source of chance, None in an empty database."""
        if self.changes.expiry_held_until > self.changes.now:
            live = self.keys()
            return live[self.changes.pick(len(live))] if live else None
        while self._slots:
            key = self._slots[self.changes.pick(len(self._slots))]
            if key in self:
                return key
        return None

    # -- writing ----------------------------------------------------------------------------------------------------

    def add(self, key: bytes, value: Value, changes: int = 1) -> None:
        """Add a key that was not there; whoever waits for it is signalled."""
        if key in self._expires:
            # It had expired, and a pause has kept it.
            self.expire(key)
        self._values[key] = value
        if type(value) is Hash and value.deadlines:
            self.note_fields(key, value)
        self._slots.add(key)
        self._used[key] = self.changes.now
        self.touch(key, changes)
        self.signal(key, anew=True)
        self.changes.notify("n", b"new", key, self.index)

    def set(self, key: bytes, value: Value, keep_ttl: bool = False, changes: int = 1) -> None:
        """The key holds ``value`` from now on, whatever it held; its expiry goes unless ``keep_ttl``."""
        if key in self._expires and self.is_due(key):
            self.expire(key)
        if key not in self._values:
            self.add(key, value, changes)
            return
        former = self._values[key]
        changes_type = type(former) is not type(value)
        if type(former) is not bytes and former is not value:
            self.changes.discard_value(former)
        self._values[key] = value
        if self._hashes:
            self._hashes.pop(key, None)
        self._used[key] = self.changes.now
        if not keep_ttl:
            self._expires.pop(key, None)
        self.touch(key, changes)
        if changes_type or isinstance(value, Stream):
            self.signal(key, anew=True)

    def delete(self, key: bytes, changes: int = 1) -> bool:
        """Remove the key; whether it was there. Clients that wait on a group there are signalled."""
        if self.drop_if_due(key) or key not in self._values:
            return False
        value = self._values[key]
        self._drop(key, changes)
        if type(value) is not bytes:
            self.changes.discard_value(value)
        return True

    def _drop(self, key: bytes, changes: int) -> None:
        del self._values[key]
        del self._used[key]
        self._expires.pop(key, None)
        if self._hashes:
            self._hashes.pop(key, None)
        self._slots.remove(key)
        self.touch(key, changes)
        self.signal(key)

    def pop(self, key: bytes) -> tuple[Value, int | None]:
        """Remove a key that is there; its value and its expiry. It counts when it comes back elsewhere."""
        value, deadline = self._values[key], self._expires.get(key)
        self._drop(key, 0)
        return value, deadline

    def clear(self) -> int:
        """Remove all keys; how many there were."""
        count = len(self._values)
        self._tell(None)
        tables = (self._values, self._expires, self._used, self._hashes, *self._slots.tables())
        if not self.changes.discard(*tables, *self._deadlines.tables(), *self._field_deadlines.tables()):
            for value in self._values.values():
                self.changes.discard_value(value)
        self._values, self._expires, self._used, self._hashes, self._slots = {}, {}, {}, {}, Slots()
        self._deadlines, self._field_deadlines = Deadlines(self._expires), Deadlines(self._hashes)
        self.changes.dirty += count
        return count

    def swap(self, other: Database) -> None:
        """Swap all keys with ``other``; the clients that wait and watch stay where they are."""
        for one, two in ((self, other), (other, self)):
            one._tell(two)
        for name in ("_values", "_expires", "_deadlines", "_hashes", "_field_deadlines", "_slots", "_used"):
            mine, its = getattr(self, name), getattr(other, name)
            setattr(self, name, its)
            setattr(other, name, mine)

    def _tell(self, successor: Database | None) -> None:
        """Tell whoever watches or waits for a key of this database, or of ``successor``, whose keys take their place.

        A key that had expired when it was watched has not changed as long as there is none that lives.
        """
        watched = [pair for pair in self.changes.watchers if pair[0] == self.index]
        for pair in watched:
            key = pair[1]
            comes = successor is not None and key in successor._values
            due = comes and successor is not None and successor.is_due(key)
            for watcher in self.changes.watchers[pair]:
                if (comes and not due) or (key in self._values and not watcher.watching[pair]):
                    watcher.dirty_exec = True
                else:
                    watcher.watching[pair] = due
        for key in self.waiting.awaited():
            if key in self._values or (successor is not None and key in successor._values):
                self.signal(key, anew=True)

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
        self._deadlines.put(key, deadline)
        self.changes.next_expiry = min(self.changes.next_expiry, deadline)

    def is_due(self, key: bytes) -> bool:
        """Whether the key is still there though its time has come."""
        deadline = self._expires.get(key)
        return deadline is not None and deadline <= self.changes.now and not self.changes.replaying

    def drop_if_due(self, key: bytes) -> bool:
        """Remove the key if its time has come; whether that was so. While a pause holds expiry it stays, unseen."""
        if not self.is_due(key):
            return False
        if self.changes.expiry_held_until <= self.changes.now:
            self.expire(key)
        return True

    def expire(self, key: bytes) -> None:
        """Remove a key whose time has come; the log records a deletion. It does not count as a change."""
        value = self._values[key]
        self._drop(key, 0)
        if type(value) is not bytes:
            self.changes.discard_value(value)
        self.changes.expired_keys += 1
        self.changes.record(self.index, [b"DEL", key])
        self.changes.notify("x", b"expired", key, self.index)

    def expire_due(self, now: int, limit: int) -> int:
        """Drop keys and fields of hashes that have expired at ``now``, and look at about ``limit`` deadlines at most.

        How many keys went, and how many deadlines of fields were looked at.
        """
        dropped = 0
        for key in self._deadlines.take_due(now, limit):
            # (What stands in the list twice is dropped once.)
            if key in self._expires:
                self.expire(key)
                dropped += 1
        while dropped < limit and self._hashes and (self._field_deadlines.next() or NEVER) <= now:
            for key in self._field_deadlines.take_due(now, 1):
                dropped += self._expire_fields(key, now, limit - dropped)
        return dropped

    def next_deadline(self) -> int | None:
        """The earliest moment at which a key, or a field of a hash, may expire."""
        keys, fields = self._deadlines.next(), self._field_deadlines.next() if self._hashes else None
        return keys if fields is None or (keys is not None and keys < fields) else fields

    # -- fields of hashes that expire -------------------------------------------------------------------------------

    def with_expiring_fields(self) -> int:
        """How many hashes have fields that expire."""
        return len(self._hashes)

    def note_fields(self, key: bytes, fields: Hash) -> None:
        """Deadlines of fields of the hash at ``key`` were set, or it has come here with some."""
        deadline = fields.next_deadline()
        if fields.deadlines and deadline < self._hashes.get(key, NEVER):
            self._field_deadlines.put(key, deadline)
            self.changes.next_expiry = min(self.changes.next_expiry, deadline)

    def _expire_fields(self, key: bytes, now: int, most: int) -> int:
        """Remove fields of a hash whose time has come, out of the ``most`` earliest deadlines; of how many. The hash is
        noted anew for those that are left.
        """
        fields = self.peek(key)
        self._hashes.pop(key, None)
        if type(fields) is not Hash:
            return 0
        due, looked = fields.take_due(now, most)
        if due:
            self.drop_fields(key, fields, due)
        if fields:
            self.note_fields(key, fields)
        return max(looked, 1)

    def drop_fields(self, key: bytes, fields: Hash, due: list[bytes]) -> None:
        """Remove fields whose time has come, and the hash where none is left; the log records a deletion. It does not
        count as a change.
        """
        for name in due:
            fields.remove(name)
        self.changes.expired_fields += len(due)
        self.changes.record(self.index, [b"HDEL", key, *due])
        self.touch(key, 0)
        self.changes.notify("h", b"hexpired", key, self.index)
        if not fields:
            self._drop(key, 0)
            # (What is left of its deadlines can be large.)
            self.changes.discard_value(fields)
            self.changes.notify("g", b"del", key, self.index)

    # -- who is told of it ----------------------------------------------------------------------------------------

    def touch(self, key: bytes, changes: int = 1) -> None:
        """The key's value changed: transactions that watch it will not run. ``changes`` are counted."""
        shared = self.changes
        shared.dirty += changes
        if shared.watchers:
            pair = self.index, key
            for watcher in shared.watchers.get(pair, ()):
                if watcher.watching[pair] and key not in self._values:
                    # It had expired when it was watched; that it now goes is no change.
                    watcher.watching[pair] = False
                else:
                    watcher.dirty_exec = True

    def signal(self, key: bytes, *, anew: bool = False) -> None:
        """Somebody who waits for ``key`` may find something now (or learn that it is gone).

        ``anew``: what is there is not what they saw when they began to wait, so all of them are to look.
        """
        if key in self.waiting:
            pair = self.index, key
            self.changes.ready[pair] = anew or self.changes.ready.get(pair, False)
