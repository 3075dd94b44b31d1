"""Snapshots: SAVE, BGSAVE, the ``save`` directive, loading at startup.

``save-format`` selects the file's format. An RDB file (``dbfilename``, in the version ``rdb-version``) can also be
loaded by Redis. A snapshot in the engine's own format, next to it (``dump.psb``), is much quicker to read and write.
The first bytes of a file, not its name, determine its format. If there is a file for each format, startup loads the
file that contains the later timestamp.

States of a background save:

             ASKED
    IDLE ─────────────> SCHEDULED <─┐ ASKED
     │ ^ <───────────────  │    └───┘
     │ │     ABANDONED     │
     │ │                   │ BEGUN
     │ │                   v
     │ └─────────────── WRITING
     │   WRITTEN           ^
     │   FAILED            │
     │   ABANDONED         │
     └─────────────────────┘
               BEGUN

BGSAVE requests a save, which starts when the current command is done and nothing else is being written. The directive
starts a save immediately. The thread of an abandoned save stops soon, and removes its file. Another save may start
immediately.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError
from engine.core.formats.unsupported_types import UnsupportedTypes
from engine.core.keyspace import image
from engine.settings.kinds import SavePoint
from engine.shell.durability.background import Attempt, Background, Soon, run_when_complete
from engine.shell.durability.files import Files
from engine.shell.durability.formats import rdb_file, snapshot
from engine.shell.durability.formats.position import Position
from engine.shell.durability.formats.rdb_file import RdbFiles
from engine.shell.durability.log.replay import LoadError
from engine.shell.durability.originals import Originals
from engine.shell.durability.segments.store import SegmentFiles
from engine.shell.housekeeping.allocator import give_back
from engine.shell.observation.log_lines import LOG
from streamwire.machine import Machine


class Save(Enum):
    """State of a background save."""

    IDLE = auto()
    #: A save was requested, and starts as soon as possible.
    SCHEDULED = auto()
    #: A thread is writing the snapshot.
    WRITING = auto()


class SaveEvent(Enum):
    """Events of a background save."""

    ASKED = auto()
    BEGUN = auto()
    WRITTEN = auto()
    FAILED = auto()
    #: The save is no longer needed: the process exits, or a newer snapshot is written.
    ABANDONED = auto()


_S, _E = Save, SaveEvent
SAVE_TRANSITIONS = {
    (_S.IDLE, _E.ASKED): _S.SCHEDULED,
    (_S.IDLE, _E.BEGUN): _S.WRITING,
    (_S.SCHEDULED, _E.ASKED): _S.SCHEDULED,
    (_S.SCHEDULED, _E.BEGUN): _S.WRITING,
    (_S.SCHEDULED, _E.ABANDONED): _S.IDLE,
    (_S.WRITING, _E.WRITTEN): _S.IDLE,
    (_S.WRITING, _E.FAILED): _S.IDLE,
    (_S.WRITING, _E.ABANDONED): _S.IDLE,
}


#: Seconds until the ``save`` directive tries again after a failure.
_RETRY = 5.0
#: File name extension of each format.
_SUFFIXES = {b"rdb": ".rdb", b"psb": ".psb"}
#: Names of unfinished snapshots.
TEMPORARY = re.compile(r"temp-[0-9]+-[0-9]+\.(rdb|psb)")


class Snapshots:
    """Snapshot files of one engine. ``clock`` is monotonic, ``now_ms`` returns milliseconds since the epoch.

    ``flush_effects`` passes this iteration's effects to the log, before an image that contains them is taken.
    """

    def __init__(
        self,
        core: Core,
        files: Files,
        rdb: RdbFiles,
        segments: SegmentFiles,
        originals: Originals,
        background: Background,
        soon: Soon,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
        flush_effects: Callable[[], None],
    ) -> None:
        self._core = core
        self._files = files
        self._rdb = rdb
        self._segments = segments
        self._originals = originals
        self._background = background
        self._soon = soon
        self._clock = clock
        self._now_ms = now_ms
        self._flush_effects = flush_effects
        self._machine = Machine("the background save", SAVE_TRANSITIONS, Save.IDLE)
        self._attempt: Attempt | None = None
        self._began = 0.0
        self.last_ok = True
        self._last_seconds = -1
        self.last_save_ms = now_ms()
        #: Number of snapshots written since the start or CONFIG RESETSTAT.
        self.saves = 0
        #: Called at the end of a background save that was not abandoned.
        self.on_ended: Callable[[], None] = lambda: None
        self._retry_at = 0.0
        #: Returns the data's position in a replication history, to be stored in files.
        self.position: Callable[[], Position | None] = lambda: None
        #: Position stored in the file that was loaded or written last.
        self.saved_position: Position | None = None
        #: Position stored in the file that is being written.
        self._written: Position | None = None

    @property
    def is_running(self) -> bool:
        """Whether a background save is running."""
        return self._machine.state is Save.WRITING

    @property
    def is_scheduled(self) -> bool:
        """Whether a background save is to start as soon as possible."""
        return self._machine.state is Save.SCHEDULED

    @property
    def path(self) -> Path:
        """Path to save to, from the current ``dir``, ``dbfilename`` and ``save-format``."""
        return self._paths()[self._core.config.text("save-format")]

    def _paths(self) -> dict[bytes, Path]:
        """Return the path for each format."""
        config = self._core.config
        path = Path(os.fsdecode(config.text("dir"))).absolute() / os.fsdecode(config.text("dbfilename"))
        psb = path.with_suffix(".psb") if path.suffix == ".rdb" else path.with_name(path.name + ".psb")
        return {b"rdb": path, b"psb": psb}

    @property
    def points(self) -> tuple[SavePoint, ...]:
        """Save points of the ``save`` directive."""
        return self._core.config.value("save", tuple)

    def due(self) -> bool:
        """Return whether the ``save`` directive requires a snapshot now."""
        if not self.points or self._clock() < self._retry_at:
            return False
        since = (self._now_ms() - self.last_save_ms) / 1000
        return any(self._core.changes.dirty >= changes and since > seconds for seconds, changes in self.points)

    def postpone(self) -> None:
        """Retry the ``save`` directive later: a save is not possible now."""
        self._retry_at = self._clock() + _RETRY

    def facts(self) -> dict[str, Any]:
        """Return INFO's facts about snapshots, in seconds. A duration is -1 if no save has ended or is running."""
        return {
            "rdb_bgsave_in_progress": int(self.is_running),
            "rdb_last_save_time": self.last_save_ms // 1000,
            "rdb_last_bgsave_status": "ok" if self.last_ok else "err",
            "rdb_last_bgsave_time_sec": self._last_seconds,
            "rdb_current_bgsave_time_sec": int(self._clock() - self._began) if self.is_running else -1,
            "rdb_saves": self.saves,
            **self._rdb.facts(),
        }

    def load(self, *, merge: bool = False) -> Path | None:
        """Fill the core from the newest file; return its path, or None if there is no file. With ``merge``, the file's
        keys replace existing keys of the same name.

        Expired keys of an RDB file are skipped, unless the file belongs to a replication history: other servers keep
        them until they receive the deletion. If keys of unsupported types are left out, the original is kept.
        """
        path = self._newest()
        if path is None:
            return None
        data = self._files.map(path)
        found = UnsupportedTypes()
        with _naming(path):
            if rdb_file.is_rdb(data):
                self.saved_position = rdb_file.position_of(data)
                end = self._rdb.load(data, found, expire=self.saved_position is None, merge=merge)
                if end < len(data):
                    raise DamagedError(end, f"{len(data) - end} bytes follow the end of the file")
            else:
                skips = self._originals.skips
                snapshot.load(data, self._core, segments=self._segments, skip_unsupported=skips, left_out=found)
                self.saved_position = snapshot.position_of(data)
            self._originals.loaded(path, found)
        if found:
            self.keep_originals()
        return path

    def keep_originals(self) -> None:
        """Keep the file of each format, because data next to it or in it was loaded in part: later saves may replace
        any of them. Raises OSError on failure.
        """
        for path in self._paths().values():
            self._originals.keep(path)

    def _newest(self) -> Path | None:
        """Return the file with the later timestamp, None if no file exists. Raises LoadError if a file is damaged."""
        found = [path for path in self._paths().values() if self._files.size(path) >= 0]
        if len(found) < 2:
            return found[0] if found else None
        moments = {path: self._taken_at(path) for path in found}
        newest = max(found, key=lambda path: (moments[path], path == self.path))
        for path in found:
            if path != newest:
                ago = (moments[newest] - moments[path]) // 1000
                LOG.warning("%s is not loaded: %s was taken %d seconds later", path, newest, ago)
        return newest

    def _taken_at(self, path: Path) -> int:
        data = self._files.map(path)
        with _naming(path):
            return rdb_file.taken_at(data) if rdb_file.is_rdb(data) else snapshot.taken_at(data)

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a snapshot now. Raises OSError on failure.

        A running background save is abandoned: its image is older.
        """
        if self.is_running:
            self.abandon()
        self._flush_effects()
        began, dirty = self._clock(), self._core.changes.dirty
        try:
            taken = image.capture(self._core.databases, self._core.config, self._core.changes.now)
            self._prepare(lambda: None, taken, self.position())[1]()
        except OSError as error:
            self._end(began, error, dirty)
            raise
        self._end(began, None, dirty)

    def ask(self) -> None:
        """Request a background save as soon as possible."""
        self._machine.fire(SaveEvent.ASKED)

    def start(self) -> None:
        """Start writing a snapshot of this moment in a thread."""
        self._flush_effects()
        builder = image.ImageBuilder(self._core.databases, self._core.config, self._core.changes.now)
        attempt, write = self._prepare(rdb_file.periodic_pause(), builder.image, self.position())
        dirty, began = self._core.changes.dirty, self._clock()
        self._machine.fire(SaveEvent.BEGUN)
        self._attempt, self._began = attempt, began

        def done(error: OSError | None) -> None:
            if attempt.abandoned:
                return
            self._machine.fire(SaveEvent.WRITTEN if error is None else SaveEvent.FAILED)
            self._end(began, error, dirty)
            self.on_ended()

        run_when_complete(builder, attempt, self._soon, lambda: self._background(write, done))

    def abandon(self) -> None:
        """Cancel the background save that is running or requested, if any."""
        if self._machine.state is Save.IDLE:
            return
        self._machine.fire(SaveEvent.ABANDONED)
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt = None

    def _prepare(
        self, pause: Callable[[], None], taken: image.Image, position: Position | None
    ) -> tuple[Attempt, Callable[[], None]]:
        """Return an attempt, and a function that writes the image with the current settings, in any thread.

        ``pause`` is called at points where the writing thread may yield.
        """
        config, files, path = self._core.config, self._files, self.path
        attempt = Attempt(files, path.parent, "temp-", _SUFFIXES[config.text("save-format")])
        version, checksum = config.integer("rdb-version"), config.flag("rdbchecksum")
        about = position.about if position is not None else {}

        def write_rdb() -> None:
            rdb_file.write(
                files,
                attempt.temporary,
                taken,
                version,
                checksum=checksum,
                about=about,
                check=attempt.check,
                pause=pause,
            )

        def write_own() -> None:
            # A snapshot in another directory would not find the segment files, so it contains all entries.
            shares_segments = self._segments.is_in_use and self._segments.directory.parent == path.parent
            segments = self._segments if shares_segments else None
            attempt.named = snapshot.write(files, attempt.temporary, taken, attempt.check, pause, position, segments)

        write = write_own if config.text("save-format") == b"psb" else write_rdb
        self._written = position
        return attempt, lambda: self._put(attempt, write, path, taken)

    def _put(self, attempt: Attempt, write: Callable[[], None], path: Path, taken: image.Image) -> None:
        documents = self._segments.documents
        try:
            write()
            taken.free()
            give_back()
            # Keep the segment files of the old and the new file: until the directory is synced, either may be on disk.
            documents.note(path, attempt.named | documents.named_by(path))
            attempt.put_in_place(path)
            self._files.sync_directory(path.parent)
            documents.note(path, attempt.named)
        except OSError:
            attempt.remove()
            raise

    def _end(self, began: float, error: OSError | None, dirty: int) -> None:
        self._attempt = None
        self.last_ok = error is None
        if error is not None:
            self.postpone()
            LOG.error("the snapshot %s was not written: %s", self.path, error)
            return
        self._retry_at = 0.0
        self.saved_position = self._written
        self._last_seconds = int(self._clock() - began)
        self.last_save_ms = self._now_ms()
        self.saves += 1
        self._core.changes.dirty -= dirty


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Convert a DamagedError into a LoadError that names the file."""
    try:
        yield
    except DamagedError as error:
        raise LoadError(path, error.offset, error.reason) from None
