"""The keyspace as it is at one moment, for whoever writes it down while commands go on.

What can change is copied, what cannot is shared: a sealed segment's frames and index, and every plain string, cost a
reference. So taking an image takes time for each key that is no plain string, for each block of pending entries and for
each open segment, not for each entry; the plain strings cost what copying a table costs. Where there are many values to
be copied, they are copied some at a time, and those that somebody asks for at once. Another thread may read the
complete image for as long as it likes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.keyspace.database import Database
from engine.core.keyspace.hash import Hash
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream
from engine.settings.config import Config

#: About how many microseconds of copying are done at once, and what looking at a key counts for.
_AT_ONCE, _LOOK = 2000, 0.1


@dataclass(frozen=True, slots=True)
class DatabaseImage:
    """One database. ``deadlines`` are in milliseconds since the epoch, only of the keys that have one."""

    index: int
    values: dict[bytes, Any]
    deadlines: dict[bytes, int]


@dataclass(frozen=True, slots=True)
class Image:
    """All databases that have keys. ``now`` is the moment, in milliseconds since the epoch."""

    now: int
    databases: list[DatabaseImage]
    #: stream-idmp-duration and stream-idmp-maxsize, what streams have that were told nothing else.
    idmp_defaults: tuple[int, int]

    @property
    def keys(self) -> int:
        """How many keys it has."""
        return sum(len(one.values) for one in self.databases)


def take(databases: Sequence[Database], config: Config, now: int) -> Image:
    """The state of all databases at the present time ``now``, in milliseconds since the epoch.

    Keys whose time has come are left out.
    """
    taking = Taking(databases, config, now)
    taking.finish()
    return taking.image


class Taking:
    """An image of the moment at which this was made, until it is complete: values are copied some at a time.

    Until then the databases are guarded: before anybody gets a value that was not copied yet, it is. The image may be
    used when :meth:`step` has said so.
    """

    def __init__(self, databases: Sequence[Database], config: Config, now: int) -> None:
        self._databases = databases
        self._storage = Storage()
        self._copied: set[tuple[int, bytes]] = set()
        taken = [DatabaseImage(db.index, *db.tables()) for db in databases if len(db)]
        defaults = config.integer("stream-idmp-duration"), config.integer("stream-idmp-maxsize")
        self.image = Image(now, taken, defaults)
        self._values = {one.index: one.values for one in taken}
        self._left = ((one, key) for one in taken for key in one.values)
        self._guards = False

    def finish(self) -> None:
        """Copy all values that are left."""
        while not self._copy():
            pass
        self.cancel()

    def step(self) -> bool:
        """Copy some more values; whether the image is complete, and nothing is guarded any more."""
        if self._copy():
            self.cancel()
            return True
        if not self._guards:
            self._guard()
        return False

    def _copy(self) -> bool:
        work = 0.0
        for database, key in self._left:
            work += _LOOK
            value = database.values[key]
            if type(value) is not bytes and (database.index, key) not in self._copied:
                database.values[key] = _frozen(value, self._storage)
                work += _work(value)
            if work >= _AT_ONCE:
                return False
        return True

    def _guard(self) -> None:
        self._guards = True
        for db in self._databases:
            if isinstance(db.guard, Taking):
                db.guard.finish()
            db.__class__ = _Guarded  # (so, lookups in a database that nobody guards cost nothing)
            db.guard = self

    def cancel(self) -> None:
        """Guard the databases no more."""
        for db in self._databases:
            if isinstance(db, _Guarded) and db.guard is self:
                db.guard = None
                db.__class__ = Database  # type: ignore[assignment]

    def keep(self, index: int, key: bytes, value: Any) -> None:
        """To be called before somebody gets a value: it is copied for the image, if it was not copied yet."""
        values = self._values.get(index)
        if values is not None and type(value) is not bytes and values.get(key) is value:
            values[key] = _frozen(value, self._storage)
            self._copied.add((index, key))


class _Guarded(Database):
    """A database while an image of it is not complete."""

    def _keep(self, key: bytes) -> None:
        value = self._values.get(key)
        if value is not None and isinstance(self.guard, Taking):
            self.guard.keep(self.index, key, value)

    def get(self, key: bytes) -> Any:
        self._keep(key)
        return super().get(key)

    def peek(self, key: bytes) -> Any:
        self._keep(key)
        return super().peek(key)

    def read_typed(self, key: bytes, kind: type) -> Any:
        self._keep(key)
        return super().read_typed(key, kind)

    def pop(self, key: bytes) -> tuple[Any, int | None]:
        self._keep(key)
        return super().pop(key)

    def swap(self, other: Database) -> None:
        # The values of one are in the other from now on.
        if isinstance(self.guard, Taking):
            self.guard.finish()
        Database.swap(self, other)


def _work(value: Any) -> int:
    """About how many microseconds it takes to copy a value."""
    if isinstance(value, Stream):
        return 7 + 2 * len(value.segments()) + sum(4 * len(group.pending) // 1024 for group in value.groups.values())
    return 1 + len(value) // 50


def _frozen(value: Any, storage: Storage) -> Any:
    if isinstance(value, Stream):
        return value.copy(storage)
    if isinstance(value, Hash):
        return value.copy()
    if isinstance(value, deque):
        return deque(value)
    return bytearray(value)
