"""Files of one moment: SAVE, BGSAVE, the ``save`` directive, loading at the start.

``save-format`` says what is written: an RDB file (``dbfilename``), which any Redis loads, or a snapshot in our own
format beside it (``dump.psb``), which is read and written much quicker. What a file is its first bytes say, not its
name. Where both are there the start takes the one that was taken later, as they say themselves.

The states of a save in the background are in :mod:`engine.shell.durability.states.save`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError
from engine.core.keyspace import image
from engine.settings.special_kinds import SavePoint
from engine.shell.durability.background.attempt import Attempt
from engine.shell.durability.background.taking import Soon, when_complete
from engine.shell.durability.background.threads import Background
from engine.shell.durability.files import Files
from engine.shell.durability.formats import rdb_file, snapshot
from engine.shell.durability.formats.position import Position
from engine.shell.durability.formats.rdb_file import RdbFiles
from engine.shell.durability.log.replay import LoadError
from engine.shell.durability.segments.store import SegmentFiles
from engine.shell.durability.states.save import Save, SaveEvent, save
from engine.shell.housekeeping.allocator import give_back
from engine.shell.observation.reporting import LOG

#: Seconds between two attempts of the ``save`` directive after one has failed.
_RETRY = 5.0
#: What a file of each format is called at the end.
_SUFFIXES = {b"rdb": ".rdb", b"psb": ".psb"}
#: The names of snapshots that are being written, or were when their process died.
TEMPORARY = re.compile(r"temp-[0-9]+-[0-9]+\.(rdb|psb)")


class Snapshots:
    """The snapshot file of one engine. ``clock`` is monotonic, times of day are in milliseconds since the epoch.

    ``flush_effects`` brings what this event-loop iteration has done to the log: it belongs before
    an image of this moment.
    """

    def __init__(
        self,
        core: Core,
        files: Files,
        rdb: RdbFiles,
        segments: SegmentFiles,
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
        self._background = background
        self._soon = soon
        self._clock = clock
        self._now_ms = now_ms
        self._flush_effects = flush_effects
        self._machine = save()
        self._attempt: Attempt | None = None
        self._began = 0.0
        self.last_ok = True
        self._last_seconds = -1
        self.last_save_ms = now_ms()
        self._saves = 0
        #: Called at the end of a save in the background that was not abandoned.
        self.on_ended: Callable[[], None] = lambda: None
        self._retry_at = 0.0
        #: Where in a replication history the data are, for the files that are written.
        self.position: Callable[[], Position | None] = lambda: None
        #: What the file says of that which was loaded or written last.
        self.kept: Position | None = None
        #: The same of the file that is being written.
        self._written: Position | None = None

    @property
    def is_running(self) -> bool:
        """Whether one is being written in the background."""
        return self._machine.state is Save.WRITING

    @property
    def is_scheduled(self) -> bool:
        """Whether one is to begin as soon as it can."""
        return self._machine.state is Save.SCHEDULED

    @property
    def path(self) -> Path:
        """The file that is written, as ``dir``, ``dbfilename`` and ``save-format`` say now."""
        return self._paths()[self._core.config.text("save-format")]

    def _paths(self) -> dict[bytes, Path]:
        """The file of each format."""
        config = self._core.config
        path = Path(os.fsdecode(config.text("dir"))).absolute() / os.fsdecode(config.text("dbfilename"))
        own = path.with_suffix(".psb") if path.suffix == ".rdb" else path.with_name(path.name + ".psb")
        return {b"rdb": path, b"psb": own}

    @property
    def points(self) -> tuple[SavePoint, ...]:
        """The ``save`` directive."""
        return self._core.config.value("save", tuple)

    def due(self) -> bool:
        """Whether the ``save`` directive asks for a snapshot now."""
        if not self.points or self._clock() < self._retry_at:
            return False
        since = (self._now_ms() - self.last_save_ms) / 1000
        return any(self._core.changes.dirty >= changes and since > seconds for seconds, changes in self.points)

    def postpone(self) -> None:
        """The ``save`` directive asks again later: it is not possible now."""
        self._retry_at = self._clock() + _RETRY

    def facts(self) -> dict[str, Any]:
        """What INFO tells of snapshots. Times are in seconds, -1: there was none."""
        return {
            "rdb_bgsave_in_progress": int(self.is_running),
            "rdb_last_save_time": self.last_save_ms // 1000,
            "rdb_last_bgsave_status": "ok" if self.last_ok else "err",
            "rdb_last_bgsave_time_sec": self._last_seconds,
            "rdb_current_bgsave_time_sec": int(self._clock() - self._began) if self.is_running else -1,
            "rdb_saves": self._saves,
            **self._rdb.facts(),
        }

    def load(self, *, merge: bool = False) -> Path | None:
        """Fill the core from the newest file; which it was, None where there is none. With ``merge`` its keys take the
        place of those that are there.

        Keys whose time has come are not taken, except from a file that belongs to a replication history: others have
        them until they are told otherwise.
        """
        path = self._newest()
        if path is None:
            return None
        data = self._files.map(path)
        with _located(path):
            if not rdb_file.is_rdb(data):
                snapshot.load(data, self._core, segments=self._segments)
                self.kept = snapshot.position_of(data)
                return path
            self.kept = rdb_file.position_of(data)
            end = self._rdb.load(data, expire=self.kept is None, merge=merge)
            if end < len(data):
                raise DamagedError(end, f"{len(data) - end} bytes stand behind the end")
        return path

    def _newest(self) -> Path | None:
        """The file that was taken last. Where that cannot be told nothing is guessed: it is a LoadError."""
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
        with _located(path):
            return rdb_file.taken_at(data) if rdb_file.is_rdb(data) else snapshot.taken_at(data)

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a snapshot now. An OSError where that is not possible.

        One that is being written in the background is abandoned: its image is older.
        """
        if self.is_running:
            self.abandon()
        self._flush_effects()
        began, dirty = self._clock(), self._core.changes.dirty
        try:
            taken = image.take(
                self._core.databases, self._core.config, self._core.changes.now, self._core.functions.codes()
            )
            self._prepared(lambda: None, taken, self.position())[1]()
        except OSError as error:
            self._end(began, error, dirty)
            raise
        self._end(began, None, dirty)

    def ask(self) -> None:
        """Have one begun in the background as soon as that is possible."""
        self._machine.fire(SaveEvent.ASKED)

    def begin(self) -> None:
        """Begin to write a snapshot of this moment beside the loop."""
        self._flush_effects()
        taking = image.Taking(
            self._core.databases, self._core.config, self._core.changes.now, self._core.functions.codes()
        )
        attempt, write = self._prepared(rdb_file.give_way(), taking.image, self.position())
        dirty, began = self._core.changes.dirty, self._clock()
        self._machine.fire(SaveEvent.BEGUN)
        self._attempt, self._began = attempt, began

        def done(error: OSError | None) -> None:
            if attempt.abandoned:
                return
            self._machine.fire(SaveEvent.WRITTEN if error is None else SaveEvent.FAILED)
            self._end(began, error, dirty)
            self.on_ended()

        when_complete(taking, attempt, self._soon, lambda: self._background(write, done))

    def abandon(self) -> None:
        """Forget the one that is running in the background or wanted, if there is one."""
        if self._machine.state is Save.IDLE:
            return
        self._machine.fire(SaveEvent.ABANDONED)
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt = None

    def _prepared(
        self, pause: Callable[[], None], taken: image.Image, position: Position | None
    ) -> tuple[Attempt, Callable[[], None]]:
        """An attempt, and what writes an image as the settings say now, here or in another thread.

        ``pause`` is called where whoever writes may stop for a moment.
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
            # A snapshot in another directory would not find them.
            beside = self._segments.is_in_use and self._segments.directory.parent == path.parent
            segments = self._segments if beside else None
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
            # Until the directory is synced it may be the one or the other that is there.
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
        self.kept = self._written
        self._last_seconds = int(self._clock() - began)
        self.last_save_ms = self._now_ms()
        self._saves += 1
        self._core.changes.dirty -= dirty


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Damage that is found within is of this file: a LoadError names it."""
    try:
        yield
    except DamagedError as error:
        raise LoadError(path, error.offset, error.what) from None
