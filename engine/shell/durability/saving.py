"""Snapshots on their own: SAVE, BGSAVE, the ``save`` directive, loading at the start.

The states of a save in the background are in :mod:`engine.shell.durability.states.save`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.keyspace import image
from engine.settings.kinds import SavePoint
from engine.shell.durability.attempt import Attempt
from engine.shell.durability.files import Files
from engine.shell.durability.formats import snapshot
from engine.shell.durability.formats.blocks import DamagedError
from engine.shell.durability.replay import LoadError
from engine.shell.durability.states.save import Save, SaveEvent, save
from engine.shell.durability.threads import Background
from engine.shell.observation.reporting import LOG

#: Seconds between two attempts of the ``save`` directive after one has failed.
_RETRY = 5.0
#: The names of snapshots that are being written, or were when their process died.
TEMPORARY = re.compile(r"temp-[0-9]+-[0-9]+\.rdb")


class Snapshots:
    """The snapshot file of one engine. ``clock`` is monotonic, times of day are in milliseconds since the epoch.

    ``flush_effects`` brings what this event-loop iteration has done to the log: it belongs before
    an image of this moment.
    """

    def __init__(
        self,
        core: Core,
        files: Files,
        background: Background,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
        flush_effects: Callable[[], None],
    ) -> None:
        self._core = core
        self._files = files
        self._background = background
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
        """The snapshot file, as ``dir`` and ``dbfilename`` say now."""
        config = self._core.config
        return Path(os.fsdecode(config.text("dir"))).absolute() / os.fsdecode(config.text("dbfilename"))

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
        }

    def load(self) -> int:
        """Fill the empty core from the file; how many keys, -1 where there is no file."""
        path = self.path
        if self._files.size(path) < 0:
            return -1
        try:
            return snapshot.load(self._files.map(path), self._core)
        except DamagedError as error:
            raise LoadError(path, error.offset, error.what) from None

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a snapshot now. An OSError where that is not possible.

        One that is being written in the background is abandoned: its image is older.
        """
        if self.is_running:
            self.abandon()
        self._flush_effects()
        began, dirty, path = self._clock(), self._core.changes.dirty, self.path
        try:
            self._write(
                self._new_attempt(path),
                image.take(self._core.databases, self._core.config, self._core.changes.now),
                path,
            )
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
        path = self.path
        attempt, taken = (
            self._new_attempt(path),
            image.take(self._core.databases, self._core.config, self._core.changes.now),
        )
        dirty, began = self._core.changes.dirty, self._clock()
        self._machine.fire(SaveEvent.BEGUN)
        self._attempt, self._began = attempt, began

        def done(error: OSError | None) -> None:
            if attempt.abandoned:
                return
            self._machine.fire(SaveEvent.WRITTEN if error is None else SaveEvent.FAILED)
            self._end(began, error, dirty)
            self.on_ended()

        self._background(lambda: self._write(attempt, taken, path), done)

    def abandon(self) -> None:
        """Forget the one that is running in the background or wanted, if there is one."""
        if self._machine.state is Save.IDLE:
            return
        self._machine.fire(SaveEvent.ABANDONED)
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt = None

    def _new_attempt(self, path: Path) -> Attempt:
        return Attempt(self._files, path.parent, "temp-", ".rdb")

    def _write(self, attempt: Attempt, taken: image.Image, path: Path) -> None:
        try:
            snapshot.write(self._files, attempt.temporary, taken, attempt.check)
            attempt.put_in_place(path)
            self._files.sync_directory(path.parent)
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
        self._last_seconds = int(self._clock() - began)
        self.last_save_ms = self._now_ms()
        self._saves += 1
        self._core.changes.dirty -= dirty
