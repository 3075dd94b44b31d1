"""The master's data while it is loaded: separate databases, which replace the core's when they are complete, and never
before.
"""

from __future__ import annotations

from engine.core.dispatch import Core
from engine.core.formats.rdb import value_reader
from engine.core.formats.rdb.reader import Loading, State, Summary
from engine.core.keyspace.changes import Changes
from engine.core.keyspace.database import Database
from engine.shell.clock import now_us
from engine.shell.durability.formats import rdb_file, snapshot


class IncomingData:
    """One set of databases. All methods raise a DamagedError if the file is invalid."""

    def __init__(self, core: Core, *, skip_unknown: bool) -> None:
        self._core = core
        self.streams = core.streams
        #: In these databases no key is watched or waited for, and none expires.
        self._changes = changes = Changes(core.changes.pick)
        changes.replaying = True
        changes.set_time(now_us())
        self.databases = [Database(db.index, changes) for db in core.databases]
        makers = value_reader.makers(core.config, core.streams.new)
        self._libraries: list[bytes] = []
        self._loading = Loading(self.databases, makers, skip_unknown=skip_unknown)

    def load_own(self, data: memoryview) -> None:
        """Load a complete snapshot in the engine's own format; call this in a background thread."""
        self._loading.summary.keys = snapshot.load(data, self, rdb_file.periodic_pause())

    def add_library(self, code: bytes) -> None:
        """Add a library of functions."""
        self._libraries.append(code)

    def feed(self, piece: bytes) -> None:
        """Add the next bytes of the file."""
        self._loading.feed(piece)

    def end(self) -> None:
        """Mark the end of the file."""
        self._loading.end()

    def work(self, until: int) -> State:
        """Load until a time in microseconds, the end, or until more bytes are needed."""
        step = self._loading.step
        while (state := step()) is State.GOING:
            if now_us() >= until:
                break
        return state

    @property
    def summary(self) -> Summary:
        """Summary of the loaded data."""
        return self._loading.summary

    @property
    def offset(self) -> int:
        """Number of bytes of the file read so far."""
        return self._loading.offset

    def put_in_place(self) -> None:
        """Replace the core's data with this data, and free the old."""
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
