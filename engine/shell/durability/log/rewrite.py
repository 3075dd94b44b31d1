"""Rewriting the log: an image of the keyspace becomes its new base, followed by later effects.

This module runs the rewrites, and reports whether one is due. `engine.shell.durability.disk` decides when a rewrite
starts, and `engine.shell.durability.log.appendonly` replaces the files.

In the usual case, the log continues in a new increment, which the manifest names immediately. So the files are complete
even if the base is never written. A log that is broken or does not exist yet cannot continue: effects are kept in
memory (`Log.tee`) until the base is written, and then written to a new increment. If the log is off, only the base is
written. During a synchronous rewrite no effects happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.dispatch import Core
from engine.core.keyspace.image import Image
from engine.shell.durability.background import Workers, Writing
from engine.shell.durability.formats import rdb_file
from engine.shell.durability.log.appendonly import AppendOnly
from engine.shell.durability.log.replay import LoadError
from engine.shell.durability.log.writer import Log
from engine.shell.housekeeping.allocator import give_back
from engine.shell.observation.log_lines import LOG

#: Seconds before the first automatic attempt after a failure.
_FIRST_PAUSE = 1.0
#: Maximum number of seconds between automatic attempts after a failure.
_LONGEST_PAUSE = 60.0
#: Number of checks (ten per second) after which a rewrite starts even if the log is still being synced.
_MAX_CHECKS = 50


class Rewrites(Writing):
    """Rewrites of one log, one at a time."""

    def __init__(
        self,
        core: Core,
        appendonly: AppendOnly,
        log: Log,
        workers: Workers,
        clock: Callable[[], float],
        on_ended: Callable[[], None],
    ) -> None:
        super().__init__(core, workers, clock, on_ended)
        self._appendonly = appendonly
        self._log = log
        self._pause = _FIRST_PAUSE
        #: Number of times in a row that `is_prepared` has returned False.
        self._checks = 0

    @property
    def is_due(self) -> bool:
        """Whether an automatic rewrite may start; false for a while after a failure."""
        return self._clock() >= self._retry_at

    def is_prepared(self) -> bool:
        """Return whether a rewrite may start: its first fsync will be short, or this was called `_MAX_CHECKS` times
        before. Call this repeatedly until it returns True.
        """
        if not self._log.is_nearly_synced() and self._checks < _MAX_CHECKS:
            self._checks += 1
            return False
        self._checks = 0
        return True

    def has_grown(self) -> bool:
        """Return whether auto-aof-rewrite-percentage requires a rewrite, because the log has outgrown its base."""
        config = self._core.config
        percentage, size = config.integer("auto-aof-rewrite-percentage"), self._appendonly.size
        if not percentage or size < config.integer("auto-aof-rewrite-min-size"):
            return False
        growth = size - self._appendonly.base_size
        return growth * 100 >= percentage * max(self._appendonly.base_weight, 1)

    def facts(self) -> dict[str, Any]:
        """Return INFO's facts about rewriting. Durations are in seconds; -1 if no rewrite has ended or is running."""
        return {
            "aof_rewrite_in_progress": int(self.is_running),
            "aof_rewrite_scheduled": int(self.is_scheduled),
            "aof_last_rewrite_time_sec": self._last_seconds,
            "aof_current_rewrite_time_sec": self._seconds,
            "aof_last_bgrewrite_status": "ok" if self.last_ok else "err",
        }

    def start(self, *, keeps_log: bool) -> None:
        """Start a rewrite. Raises OSError if it cannot start.

        ``keeps_log``: whether effects that happen while the base is written must be logged. If the log is off, only the
        base is needed.
        """
        log = self._log
        self.is_scheduled = False
        self._core.host.flush_effects()
        suffix = self._appendonly.base_suffix()
        self._began = self._clock()
        try:
            self._find_manifest()
            log_continues = log.is_open and log.flush_and_sync()
            first = self._appendonly.new_increment() if log_continues else 0
        except OSError as error:
            self._note_end(error)
            raise
        if keeps_log and not log_continues:
            log.tee = []
        attempt = self._appendonly.attempt()

        def write(image: Image) -> None:
            self._appendonly.write_base(attempt, image, suffix, rdb_file.periodic_pause())
            image.free()
            give_back()

        def done(error: Exception | None) -> None:
            if attempt.abandoned:
                attempt.remove()
                return
            if error is None:
                try:
                    self._appendonly.commit(attempt, suffix, first=first, tail=log.tee)
                    if not keeps_log:
                        # Keep the new files, but do not continue them.
                        log.close()
                except Exception as problem:  # noqa: BLE001 - any error means that there is no new base
                    error = problem
            self._note_end(error)
            self._on_ended()

        self._write_in_background(attempt, write, done)

    def _find_manifest(self) -> None:
        """Find the manifest of an earlier use of the directory, to continue its file numbers; the content of its files
        is ignored. Raises OSError if the manifest is unreadable.
        """
        self._appendonly.make_directory()
        if not self._log.is_open:
            try:
                self._appendonly.find()
            except LoadError as error:
                raise OSError(str(error)) from None

    def write_now(self) -> None:
        """Rewrite the log synchronously. This also replaces a broken log file.

        Raises OSError on failure. The log's file is then abandoned if additions to it might be lost.
        """
        self.abandon()
        self._core.host.flush_effects()
        suffix = self._appendonly.base_suffix()
        attempt = self._appendonly.attempt()
        try:
            self._find_manifest()
            self._write_now(attempt, lambda image: self._appendonly.write_base(attempt, image, suffix))
            self._appendonly.commit(attempt, suffix)
        except Exception as error:
            self._note_end(error)
            raise
        self._note_end(None)

    def _note_end(self, error: Exception | None) -> None:
        self._log.tee = None
        self._end(error, self._pause)
        self._pause = _FIRST_PAUSE if error is None else min(self._pause * 2, _LONGEST_PAUSE)
        if error is not None:
            LOG.error("the append-only file was not rewritten: %s", error)

    def abandon(self) -> None:
        super().abandon()
        self._log.tee = None
