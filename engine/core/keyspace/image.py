"""The keyspace as it is at one moment, for whoever writes it down while commands go on.

What can change is copied, what cannot is shared: a sealed segment's frames and index, and every plain string, cost a
reference. So taking an image takes time for each key that is no plain string, for each block of pending entries and for
each open segment, not for each entry; the plain strings cost what copying a table costs. Another thread may read the
image for as long as it likes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.core.keyspace.database import Database
from engine.core.keyspace.hash import Hash
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream
from engine.settings.config import Config


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


def take(databases: Iterable[Database], config: Config, now: int) -> Image:
    """The state of all databases at the present time ``now``, in milliseconds since the epoch.

    Keys whose time has come are left out.
    """
    storage = Storage()
    taken = []
    for db in databases:
        if not len(db):
            continue
        values, deadlines = db.tables()
        for key in [key for key, value in values.items() if type(value) is not bytes]:
            values[key] = _frozen(values[key], storage)
        taken.append(DatabaseImage(db.index, values, deadlines))
    defaults = config.integer("stream-idmp-duration"), config.integer("stream-idmp-maxsize")
    return Image(now, taken, defaults)


def _frozen(value: Any, storage: Storage) -> Any:
    if isinstance(value, Stream):
        return value.copy(storage)
    if isinstance(value, Hash):
        return value.copy()
    if isinstance(value, deque):
        return deque(value)
    return bytearray(value)
