"""The data of a master while they are read: databases of their own, which take the place of the core's when they are
whole, and never before.
"""

from __future__ import annotations

from engine.core.dispatch import Core
from engine.core.formats.rdb import value_reader
from engine.core.formats.rdb.reader import Loading, State, Summary
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.database import Database
from engine.shell.clock import now_us
from engine.shell.durability.formats import rdb_file, snapshot


class Fresh:
    """One set of databases. An RdbFileError of any method says that the file cannot be taken."""

    def __init__(self, core: Core, *, skip_unknown: bool) -> None:
        self._core = core
        self.streams = core.streams
        #: Nobody watches these data, or waits for them, and none of their keys expire.
        self._changes = changes = Changes(core.changes.pick)
        changes.replaying = True
        changes.set_time(now_us())
        self.databases = [Database(db.index, changes) for db in core.databases]
        makers = value_reader.makers(core.config, core.streams.new)
        self._libraries: list[bytes] = []
        self._loading = Loading(self.databases, makers, skip_unknown=skip_unknown)

    def load_own(self, data: memoryview) -> None:
        """Load a whole snapshot in the engine's own format; to be called in a thread, beside the event loop."""
        self._loading.summary.keys = snapshot.load(data, self, rdb_file.give_way())

    def add_library(self, code: bytes) -> None:
        """Take a library of functions."""
        self._libraries.append(code)

    def feed(self, piece: bytes) -> None:
        """The next bytes of the file."""
        self._loading.feed(piece)

    def end(self) -> None:
        """There are no more bytes."""
        self._loading.end()

    def work(self, until: int) -> State:
        """Read on until a time in microseconds, or to the end, or to where more bytes are needed."""
        step = self._loading.step
        while (state := step()) is State.GOING:
            if now_us() >= until:
                break
        return state

    @property
    def summary(self) -> Summary:
        """What was read."""
        return self._loading.summary

    @property
    def offset(self) -> int:
        """How many bytes of the file have been read."""
        return self._loading.offset

    def put_in_place(self) -> None:
        """The core has these data from now on. What it had before is freed."""
        core, changes = self._core, self._changes
        core.changes.set_time(now_us())
        changes.replaying = False
        changes.set_time(core.changes.now_us)
        for db, fresh in zip(core.databases, self.databases, strict=True):
            db.swap(fresh)
            fresh.clear()
        core.functions.flush()
        core.functions.restore_later([*self._libraries, *self._loading.libraries])
        core.changes.discarded += changes.discarded
        core.changes.dirty += changes.dirty
