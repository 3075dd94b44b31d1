"""Snapshots: SAVE, BGSAVE, the ``save`` directive, loading at startup.

``save-format`` selects the file's format. An RDB file (``dbfilename``, in the version ``rdb-version``) can also be
loaded by Redis. A snapshot in the engine's own format, next to it (``dump.psb``), is much quicker to read and write.
The first bytes of a file, not its name, determine its format. If there is a file for each format, startup loads the
file that contains the later timestamp.

A file with types that the engine does not store is refused, or loaded without these keys (``skip-unsupported-types``).
Later saves replace it by a file that lacks them. So when it is loaded, it gets a second name next to it,
``original-1-NAME`` or the next free number: a hard link, which needs no space, and a crash between two steps loses
neither name. A later process then needs not know how the data was loaded. The files of a log get second names in a
directory, and are replaced at the start.

BGSAVE requests a save, which starts when the current command is done and nothing else is being written. The directive
starts a save immediately.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError, UnsupportedTypes
from engine.core.formats.rdb.reader import Summary
from engine.core.keyspace.image import Image
from engine.settings.kinds import SavePoint
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.background import Attempt, Workers, Writing
from engine.shell.durability.files import Files
from engine.shell.durability.position import Position
from engine.shell.durability.recovery import LoadError, original_names, refusal
from engine.shell.durability.segments import SegmentFiles
from engine.shell.housekeeping.memory import give_back
from engine.shell.observation.log_lines import LOG

#: Seconds until the ``save`` directive tries again after a failure.
_RETRY = 5.0
#: File name extension of each format.
_SUFFIXES = {b"rdb": ".rdb", b"psb": ".psb"}
#: Names of unfinished snapshots.
TEMPORARY = re.compile(r"temp-[0-9]+-[0-9]+\.(rdb|psb)")


class Snapshots(Writing):
    """Snapshot files of one engine. ``clock`` is monotonic, ``now_ms`` returns milliseconds since the epoch."""

    def __init__(
        self,
        core: Core,
        files: Files,
        segments: SegmentFiles,
        workers: Workers,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
        on_ended: Callable[[], None],
    ) -> None:
        super().__init__(core, workers, clock, on_ended)
        self._files = files
        self._segments = segments
        self._now_ms = now_ms
        self.last_save_ms = now_ms()
        #: Summary of the RDB file that was loaded, and the number of items that it or a snapshot had and were left out.
        self._loaded = Summary()
        self.left_out = 0
        #: Number of snapshots written since the start or CONFIG RESETSTAT.
        self.saves = 0
        #: Returns the data's position in a replication history, to be stored in files.
        self.position: Callable[[], Position | None] = lambda: None
        #: Position stored in the file that was loaded or written last.
        self.saved_position: Position | None = None

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

    def facts(self) -> dict[str, Any]:
        """Return INFO's facts about snapshots, in seconds. A duration is -1 if no save has ended or is running."""
        return {
            "rdb_bgsave_in_progress": int(self.is_running),
            "rdb_last_save_time": self.last_save_ms // 1000,
            "rdb_last_bgsave_status": "ok" if self.last_ok else "err",
            "rdb_last_bgsave_time_sec": self._last_seconds,
            "rdb_current_bgsave_time_sec": self._seconds,
            "rdb_saves": self.saves,
            "rdb_last_load_keys_expired": self._loaded.expired,
            "rdb_last_load_keys_loaded": self._loaded.keys,
        }

    def load(self) -> Path | None:
        """Fill the core from the newest file; return its path, or None if there is no file.

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
                loading = rdb_file.load(data, self._core, found, expire=self.saved_position is None)
                end, self._loaded = loading.offset, loading.summary
                if end < len(data):
                    raise DamagedError(end, f"{len(data) - end} bytes follow the end of the file")
            else:
                psb.load(data, self._core, segments=self._segments, left_out=found)
                self.saved_position = psb.position_of(data)
            if found and not self._core.config.flag("skip-unsupported-types"):
                raise DamagedError(found.offset, refusal(found))
        self.left_out = found.total
        if found:
            LOG.warning("%s: left out %s (skip-unsupported-types)", path, found)
            self.keep_originals()
        return path

    def keep_originals(self) -> None:
        """Keep the file of each format, because one of them, or the log next to them, was loaded in part: later saves
        may replace either. Raises OSError on failure.
        """
        for path in self._paths().values():
            self._keep(path)

    def _keep(self, path: Path) -> None:
        """Give a file that exists a second name, unless an earlier start did. Raises OSError on failure."""
        files, documents = self._files, self._segments.documents
        if files.size(path) < 0:
            return
        kept = re.compile(rf"original-[0-9]+-{re.escape(path.name)}")
        others = [path.with_name(name) for name in files.names(path.parent) if kept.fullmatch(name)]
        if not any(files.is_same(path, other) for other in others):
            target = next(name for name in original_names(path) if name not in others)
            files.link(path, target)
            documents.note(target, documents.named_by(path))
            LOG.warning("kept the original of %s as %s", path, target)
        files.sync_directory(path.parent)

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
            return rdb_file.taken_at(data) if rdb_file.is_rdb(data) else psb.taken_at(data)

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a snapshot now. Raises OSError on failure.

        A running background save is abandoned: its image is older.
        """
        if self._attempt is not None:
            self._attempt.abandon()
        self._core.host.flush_effects()
        dirty, position = self._core.changes.dirty, self.position()
        attempt, write = self._prepare(lambda: None, position)
        try:
            self._write_now(attempt, write)
        except OSError as error:
            self._note_end(error, dirty, position)
            raise
        self._note_end(None, dirty, position)

    def start(self) -> None:
        """Start writing a snapshot of this moment in a thread."""
        self.is_scheduled = False
        self._core.host.flush_effects()
        dirty, position = self._core.changes.dirty, self.position()
        attempt, write = self._prepare(rdb_file.periodic_pause(), position)

        def done(error: Exception | None) -> None:
            if not attempt.abandoned:
                self._note_end(error, dirty, position)
                self._on_ended()

        self._write_in_background(attempt, write, done)

    def _prepare(self, pause: Callable[[], None], position: Position | None) -> tuple[Attempt, Callable[[Image], None]]:
        """Return an attempt, and a function that writes an image with the current settings, in any thread.

        ``pause`` is called at points where the writing thread may yield.
        """
        config, files, path = self._core.config, self._files, self.path
        attempt = Attempt(files, path.parent, "temp-", _SUFFIXES[config.text("save-format")])
        version = config.integer("rdb-version")
        is_own = config.text("save-format") == b"psb"
        about = position.about if position is not None else {}
        segments = self._segments if self._segments.is_in_use else None
        documents = self._segments.documents

        def write(taken: Image) -> None:
            named = frozenset[int]()
            if is_own:
                named = psb.write(files, attempt.temporary, taken, attempt.check, pause, position, segments)
            else:
                rdb_file.write(
                    files,
                    attempt.temporary,
                    taken,
                    version,
                    about=about,
                    check=attempt.check,
                    pause=pause,
                )
            taken.free()
            give_back()
            # Keep the segment files of the old and the new file: until the directory is synced, either may be on disk.
            documents.note(path, named | documents.named_by(path))
            attempt.put_in_place(path)
            files.sync_directory(path.parent)
            documents.note(path, named)

        return attempt, write

    def _note_end(self, error: Exception | None, dirty: int, position: Position | None) -> None:
        self._end(error, _RETRY)
        if error is not None:
            LOG.error("the snapshot %s was not written: %s", self.path, error)
            return
        self.saved_position = position
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
