"""Snapshots on their own: SAVE, BGSAVE, the ``save`` directive, loading at the start."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.keyspace import image
from engine.settings.kinds import SavePoint
from engine.shell.durability import snapshot
from engine.shell.durability.blocks import DamagedError
from engine.shell.durability.files import Files
from engine.shell.durability.log import Beside
from engine.shell.durability.replay import LoadError
from engine.shell.observation.reporting import LOG

#: Seconds between two attempts of the ``save`` directive after one has failed.
_RETRY = 5.0


class Snapshots:
    """The snapshot file of one engine. ``clock`` is monotonic, times of day are in milliseconds since the epoch."""

    def __init__(
        self, core: Core, files: Files, beside: Beside, clock: Callable[[], float], now_ms: Callable[[], int]
    ) -> None:
        self._core = core
        self._files = files
        self._beside = beside
        self._clock = clock
        self._now_ms = now_ms
        self.saving = False
        self.began = 0.0
        self.last_ok = True
        self.last_seconds = -1
        self.last_save_ms = now_ms()
        self.saves = 0
        self.last_keys = 0
        #: Called at the end of a save in the background.
        self.on_saved: Callable[[], None] = lambda: None
        self._failed_at = 0.0
        self._abandoned = False

    @property
    def path(self) -> Path:
        """The snapshot file, as ``dir`` and ``dbfilename`` say now."""
        config = self._core.config
        return Path(os.fsdecode(config.text("dir"))).absolute() / os.fsdecode(config.text("dbfilename"))

    @property
    def points(self) -> tuple[SavePoint, ...]:
        """The ``save`` directive."""
        return self._core.config.value("save", tuple)

    def load(self) -> int:
        """Fill the empty core from the file; how many keys, -1 where there is no file."""
        path = self.path
        if self._files.size(path) < 0:
            return -1
        try:
            return snapshot.load(self._files.map(path), self._core)
        except DamagedError as error:
            raise LoadError(path, error.offset, error.what) from None

    def save(self) -> None:
        """Write a snapshot now. An OSError where that is not possible."""
        began = self._clock()
        dirty = self._core.changes.dirty
        try:
            self._write(image.take(self._core.databases, self._core.config, self._core.changes.now), self.path)
        except OSError as error:
            self._ended(began, error, dirty)
            raise
        self._ended(began, None, dirty)

    def begin(self) -> None:
        """Write a snapshot of this moment beside the loop."""
        assert not self.saving
        taken, path = image.take(self._core.databases, self._core.config, self._core.changes.now), self.path
        dirty, began = self._core.changes.dirty, self._clock()
        self.saving, self._abandoned, self.began = True, False, began

        def done(error: OSError | None) -> None:
            self.saving = False
            if not self._abandoned:
                self._ended(began, error, dirty)
            self.on_saved()

        self._beside(lambda: self._write(taken, path), done)

    def abandon(self) -> None:
        """What is being written in the background will not become the snapshot."""
        self._abandoned = self.saving

    def _write(self, taken: image.Image, path: Path) -> None:
        temporary = path.with_name(f"temp-{os.getpid()}.rdb")
        try:
            snapshot.write(self._files, temporary, taken)
            if self._abandoned:
                raise OSError("abandoned")
            self._files.rename(temporary, path)
            self._files.sync_directory(path.parent)
        except OSError:
            with suppress(OSError):
                self._files.remove(temporary)
            raise
        self.last_keys = taken.keys

    def _ended(self, began: float, error: OSError | None, dirty: int) -> None:
        self.last_ok = error is None
        if error is not None:
            self._failed_at = self._clock()
            LOG.error("the snapshot %s was not written: %s", self.path, error)
            return
        self.last_seconds = int(self._clock() - began)
        self.last_save_ms = self._now_ms()
        self.saves += 1
        self._core.changes.dirty -= dirty

    def facts(self) -> dict[str, Any]:
        """What INFO tells of snapshots. Times are in seconds, -1: there was none."""
        return {
            "rdb_bgsave_in_progress": int(self.saving),
            "rdb_last_save_time": self.last_save_ms // 1000,
            "rdb_last_bgsave_status": "ok" if self.last_ok else "err",
            "rdb_last_bgsave_time_sec": self.last_seconds,
            "rdb_current_bgsave_time_sec": int(self._clock() - self.began) if self.saving else -1,
            "rdb_saves": self.saves,
        }

    def due(self) -> bool:
        """Whether the ``save`` directive asks for a snapshot now."""
        if not self.last_ok and self._clock() - self._failed_at < _RETRY:
            return False
        since = (self._now_ms() - self.last_save_ms) / 1000
        return any(self._core.changes.dirty >= changes and since > seconds for seconds, changes in self.points)
