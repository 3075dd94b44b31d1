"""Loading from disk into the core: at startup, and for DEBUG RELOAD and LOADAOF."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.dispatch import Core
from engine.core.keyspace.waiters import WaitingRoom
from engine.shell.durability.formats.position import Position
from engine.shell.durability.log.appendonly import AppendOnly
from engine.shell.durability.snapshots import Snapshots
from engine.shell.observation.log_lines import LOG


class Loader:
    """Loader of one core from its log or its snapshot. Its methods raise LoadError or OSError on failure."""

    def __init__(self, core: Core, appendonly: AppendOnly, snapshots: Snapshots, now_us: Callable[[], int]) -> None:
        self._core = core
        self._appendonly = appendonly
        self._snapshots = snapshots
        self._now_us = now_us

    def load(self, *, from_log: bool) -> Position | None:
        """Load the data at startup: from the log if it is enabled and present, otherwise from the snapshot.

        Return the data's position in a replication history; None if the file does not contain it.
        """
        position: Position | None = None
        core = self._core
        core.changes.set_time(self._now_us())
        core.changes.replaying = True
        try:
            has_log = from_log and self._appendonly.find()
            if from_log and not has_log:
                self._appendonly.refuse_old_file()
            if has_log:
                self._appendonly.load(self._now_us(), cut=core.config.flag("aof-load-truncated"))
                position = self._appendonly.position
                self._report("the append-only file")
            elif path := self._snapshots.load():
                position = self._snapshots.saved_position
                self._report(path.name)
        finally:
            core.changes.replaying = False
        core.changes.dirty = 0
        return position

    def _report(self, source: str) -> None:
        keys = sum(len(db) for db in self._core.databases)
        LOG.info("loaded %d keys from %s in %s", keys, source, self._snapshots.path.parent)

    def load_again(self, *, from_log: bool, flush: bool) -> None:
        """Load the data again, without recording effects. With ``flush``, the current data is removed first; otherwise
        the loaded data is merged into it.
        """
        core = self._core
        dirty = core.changes.dirty
        core.changes.hold_recording(True)
        core.changes.replaying = True
        # Clients that wait for a key must not be served from half-loaded data.
        rooms = [db.waiting for db in core.databases]
        for db in core.databases:
            db.waiting = WaitingRoom()
        try:
            if flush:
                for db in core.databases:
                    db.clear()
            if from_log:
                self._appendonly.load(self._now_us(), cut=False)
            else:
                self._snapshots.load(merge=not flush)
        finally:
            core.changes.replaying = False
            core.changes.hold_recording(False)
            core.changes.dirty = dirty
            for db, room in zip(core.databases, rooms, strict=True):
                db.waiting = room
                for key in room:
                    db.signal(key, replaced=True)
