"""An image of the keyspace at one moment, to be written to a file while commands continue.

Mutable data is copied. Immutable data is shared: a sealed segment's frames and index, a block of pending entries, and a
string cost one reference each. Keys are captured in steps, by walking each database's table of keys from its end to its
start. Until the walk is complete, the databases are guarded: a key that the walk has not reached is captured before it
changes. So starting an image takes almost no time, regardless of the number of keys. When the image is complete,
another thread can read it at any time.

When a key is removed, the last key of the table moves to its slot (``engine.core.keyspace.key_table``), where the walk
may find that key. It must not be captured twice. If it was added after the start of the image, it must not be captured
at all. So it is recorded as done, like every key that was captured out of order.

Keys that are due but not deleted are captured, too: on a replica, only the master decides when they are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.keyspace.database import Database
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.key_table import KeyTable
from engine.core.protocol import pace
from engine.core.streams.segment import Storage
from engine.core.streams.stream import Stream

#: Approximate microseconds to copy a key, without its value.
_KEY_US = 0.2
#: Approximate microseconds to copy the deadline of a key.
_DEADLINE_US = 0.4
#: Number of fields that can be copied in about a microsecond.
_FIELDS_PER_US = 25

#: Keys, their values, and deadlines by key in milliseconds since the epoch.
Part = tuple[list[bytes], list[Any], dict[bytes, int]]


class DatabaseImage:
    """One database in parts of a few hundred keys.

    ``keys`` is the number of keys, and ``expiring`` the number of keys with a deadline.
    """

    __slots__ = ("expiring", "index", "keys", "parts")

    def __init__(self, index: int) -> None:
        self.index = index
        #: The parts in the order in which they were captured: the last keys first.
        self.parts: list[Part] = []
        self.keys = 0
        self.expiring = 0

    def add(self, keys: list[bytes], values: list[Any], deadlines: dict[bytes, int]) -> None:
        """Add a part with these keys, their values and their deadlines."""
        self.parts.append((keys, values, deadlines))
        self.keys += len(keys)
        self.expiring += len(deadlines)

    def items(self) -> Iterator[tuple[bytes, Any, int | None]]:
        """Yield every key with its value and its deadline."""
        for keys, values, deadlines in reversed(self.parts):
            for key, value in zip(keys, values, strict=True):
                yield key, value, deadlines.get(key)


@dataclass(frozen=True, slots=True)
class Image:
    """All databases that have keys. ``now`` is the moment of the image, in milliseconds since the epoch."""

    now: int
    databases: list[DatabaseImage]

    @property
    def keys(self) -> int:
        """Total number of keys."""
        return sum(database.keys for database in self.databases)

    def free(self) -> None:
        """Free the image a few hundred keys at a time. Freeing all keys at once would hold the GIL for too long."""
        for database in self.databases:
            while database.parts:
                for value in database.parts.pop()[1]:
                    while isinstance(value, Hash) and value:
                        value.popitem()


def capture(databases: Sequence[Database], now: int) -> Image:
    """Return the state of all databases at the current time ``now``, in milliseconds since the epoch."""
    builder = ImageBuilder(databases, now)
    builder.finish()
    return builder.image


class ImageBuilder:
    """An image in progress, captured in steps. It contains the keys that exist when this object is created.

    The first ``step`` must run before any key changes. The image may be used after a step has returned True.
    """

    def __init__(self, databases: Sequence[Database], now: int) -> None:
        self._databases = databases
        storage = Storage.for_reading_once()
        self._walks = [_Walk(db, storage) for db in databases if len(db)]
        #: Walks in progress by the number of their database.
        self._guarded: dict[int, _Walk] = {}
        self._guards = False
        self.image = Image(now, [walk.image for walk in self._walks])

    def finish(self) -> None:
        """Capture all remaining keys."""
        for walk in self._walks:
            while not walk.is_complete:
                walk.advance(pace.IMAGE_US)
        self.cancel()

    def step(self) -> bool:
        """Capture more keys; return whether the image is complete. The databases are then no longer guarded."""
        left: float = pace.IMAGE_US
        for walk in self._walks:
            while left > 0 and not walk.is_complete:
                left -= walk.advance(left)
        if all(walk.is_complete for walk in self._walks):
            self.cancel()
            return True
        if not self._guards:
            self._guard()
        return False

    def _guard(self) -> None:
        self._guards = True
        self._guarded = {walk.image.index: walk for walk in self._walks}
        for db in self._databases:
            if isinstance(db.guard, ImageBuilder):
                db.guard.finish()
            db.__class__ = _Guarded  # (Changing the class keeps unguarded databases free of overhead.)
            db.guard = self

    def cancel(self) -> None:
        """Stop guarding the databases, and capture no more keys."""
        for db in self._databases:
            if isinstance(db, _Guarded) and db.guard is self:
                db.guard = None
                db.__class__ = Database  # type: ignore[assignment]
        for walk in self._walks:
            self._databases[0].changes.discard(*walk.discarded)
            walk.end()
        self._guarded = {}

    def walk(self, index: int) -> _Walk | None:
        """Return the walk through a database's keys; None if the database had no keys or has been cleared."""
        return self._guarded.get(index)

    def detach(self, index: int) -> None:
        """Stop guarding a database whose tables have been replaced: the former tables no longer change."""
        self._guarded.pop(index, None)

    def swap(self, index: int, other: int) -> None:
        """Exchange the walks of two databases that have exchanged their keys."""
        walks = {other: self._guarded.pop(index, None), index: self._guarded.pop(other, None)}
        self._guarded |= {index: walk for index, walk in walks.items() if walk is not None}


class _Walk:
    """The walk through one database's tables, from the last key to the first."""

    def __init__(self, db: Database, storage: Storage) -> None:
        self.image = DatabaseImage(db.index)
        self._table, self._expires = db.tables()
        self._storage = storage
        #: Number of leading keys that are still to be captured, except keys in ``_done``.
        self._left = len(self._table)
        self._done: set[bytes] = set()
        #: Tables that the database no longer uses, to be freed at the end of the walk.
        self.discarded: list[Any] = []

    def end(self) -> None:
        """Release the tables, so that references to this walk do not keep removed data alive."""
        self.discarded = []
        self._table, self._expires = KeyTable(), {}
        self._left = 0

    @property
    def is_complete(self) -> bool:
        """Whether all keys have been captured."""
        return not self._left

    def advance(self, most: float) -> float:
        """Capture keys for about ``most`` microseconds; return an estimate of the microseconds that were needed."""
        begin = max(self._left - pace.IMAGE_NAMES, 0)
        names, values = self._table.names[begin : self._left], self._table.values[begin : self._left]
        work = _KEY_US * len(names)
        if {*map(type, values)} != {bytes}:
            work, at = 0.0, len(names)
            while at and work < most:
                at -= 1
                work += _KEY_US
                if type(values[at]) is not bytes and names[at] not in self._done:
                    work += _work(values[at])
                    values[at] = _copy(values[at], self._storage)
            del names[:at], values[:at]
            begin += at
        self._left = begin
        expiring = self.image.expiring
        self._add(names, values)
        return work + _DEADLINE_US * (self.image.expiring - expiring)

    def _add(self, names: list[bytes], values: list[Any]) -> None:
        expires, done = self._expires, self._done
        if done:
            chosen = [pair for pair in zip(names, values, strict=True) if pair[0] not in done]
            names, values = [name for name, _ in chosen], [value for _, value in chosen]
        if names:
            deadlines = {name: expires[name] for name in names if name in expires} if expires else {}
            self.image.add(names, values, deadlines)

    def keep(self, key: bytes) -> None:
        """Capture a key that is about to change, unless it is already captured."""
        slot = self._table.slot_of(key)
        if key in self._done or slot is None or slot >= self._left:
            return
        value = self._table.values[slot]
        self._add([key], [_copy(value, self._storage)])
        self._done.add(key)

    def remove(self, key: bytes) -> None:
        """Capture a key that is about to be removed, and record the key that moves to its slot."""
        slot = self._table.slot_of(key)
        if slot is not None and slot < self._left:
            self.keep(key)
            if len(self._table) > self._left:
                self._done.add(self._table.names[-1])
            else:
                self._left -= 1


class _Guarded(Database):
    """A database whose image is in progress."""

    def _walk(self) -> _Walk | None:
        return self.guard.walk(self.index) if isinstance(self.guard, ImageBuilder) else None

    def _keep(self, key: bytes) -> None:
        walk = self._walk()
        if walk is not None:
            walk.keep(key)

    def _keep_value(self, key: bytes) -> None:
        value = self._table.value(key)
        if value is not None and type(value) is not bytes:
            self._keep(key)

    def get(self, key: bytes) -> Any:
        self._keep_value(key)
        return super().get(key)

    def set(self, key: bytes, value: Any, keep_ttl: bool = False, changes: int = 1) -> Any:
        self._keep(key)
        return super().set(key, value, keep_ttl, changes)

    def set_deadline(self, key: bytes, deadline: int | None) -> None:
        self._keep(key)
        super().set_deadline(key, deadline)

    def _drop(self, key: bytes, changes: int) -> None:
        walk = self._walk()
        if walk is not None:
            walk.remove(key)
        super()._drop(key, changes)

    def clear(self) -> int:
        walk, discarded = self._walk(), self.changes.discarded
        before = len(discarded)
        count = super().clear()
        if walk is not None and isinstance(self.guard, ImageBuilder):
            self.guard.detach(self.index)
            walk.discarded = discarded[before:]
            del discarded[before:]
        return count

    def swap(self, other: Database) -> None:
        super().swap(other)
        if isinstance(self.guard, ImageBuilder):
            self.guard.swap(self.index, other.index)


def _work(value: Any) -> int:
    """Return the approximate time in microseconds to copy a value."""
    if isinstance(value, Stream):
        return 9 + len(value.pieces()) // 50 + len(value.groups) // 50
    return 1 + len(value) // _FIELDS_PER_US


def _copy(value: Any, storage: Storage) -> Any:
    """Return the image's copy of a value."""
    if isinstance(value, Stream):
        return value.copy(storage)
    return value.copy() if isinstance(value, Hash) else value
