"""Rewriting the log: an image of the keyspace becomes its new base, followed by later effects.

This module runs the rewrites, and reports whether one is due. `engine.shell.durability.disk` decides when a rewrite
starts, and `engine.shell.durability.log.appendonly` replaces the files.

States of a rewrite, for BGREWRITEAOF, a log that has grown or is broken, and the first base of a new log:

                ASKED
      IDLE ──────────────> SCHEDULED <─┐ ASKED
     │  ^ <───────────────  │     └────┘
     │  │ FAILED, ABANDONED │
     │  │                   │
     ├──┼───────────────────┤
     │  │ BEGUN_WITH_LOG    │ BEGUN_WITHOUT_LOG       (from both)
     │  │       v                   v
     │  │   WITH_LOG            WITHOUT_LOG
     │  │       │                   │
     │  └───────┴───────────────────┘
     │     WRITTEN, FAILED, ABANDONED
     └─> IDLE  FAILED: the rewrite could not start

WITH_LOG is the usual case: the log continues in a new increment, which the manifest names immediately, so the files are
complete even if the base is never written. WITHOUT_LOG is for a log that is broken or does not exist yet: effects are
kept in memory until the base is written, and then written to a new increment. If the log is off, only the base is
written. A synchronous rewrite is also WITHOUT_LOG, because no effects happen meanwhile.

The thread of an abandoned attempt stops soon, and its file is removed. Another attempt may start immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from engine.core.dispatch import Core
from engine.core.keyspace import image
from engine.shell.durability.background import Attempt, Background, Soon, run_when_complete
from engine.shell.durability.formats import rdb_file
from engine.shell.durability.log.appendonly import AppendOnly
from engine.shell.durability.log.replay import LoadError
from engine.shell.durability.log.writer import Log
from engine.shell.housekeeping.allocator import give_back
from engine.shell.observation.log_lines import LOG
from streamwire.machine import Machine


class Rewrite(Enum):
    """State of a rewrite."""

    IDLE = auto()
    #: A rewrite was requested, and starts as soon as possible.
    SCHEDULED = auto()
    #: A thread writes the base, and the log continues in a new increment.
    WITH_LOG = auto()
    #: The base is being written, and the log has no file to continue in meanwhile.
    WITHOUT_LOG = auto()


class RewriteEvent(Enum):
    """Events of a rewrite."""

    ASKED = auto()
    BEGUN_WITH_LOG = auto()
    BEGUN_WITHOUT_LOG = auto()
    #: The base is written, and the manifest names it.
    WRITTEN = auto()
    #: The rewrite could not start, or the base could not be written.
    FAILED = auto()
    #: The rewrite is no longer needed: the log is switched off or on, or rewritten synchronously, or the process exits.
    ABANDONED = auto()


_S, _E = Rewrite, RewriteEvent
REWRITE_TRANSITIONS = {
    (_S.IDLE, _E.ASKED): _S.SCHEDULED,
    (_S.IDLE, _E.BEGUN_WITH_LOG): _S.WITH_LOG,
    (_S.IDLE, _E.BEGUN_WITHOUT_LOG): _S.WITHOUT_LOG,
    (_S.IDLE, _E.FAILED): _S.IDLE,
    (_S.SCHEDULED, _E.ASKED): _S.SCHEDULED,
    (_S.SCHEDULED, _E.BEGUN_WITH_LOG): _S.WITH_LOG,
    (_S.SCHEDULED, _E.BEGUN_WITHOUT_LOG): _S.WITHOUT_LOG,
    (_S.SCHEDULED, _E.FAILED): _S.IDLE,
    (_S.SCHEDULED, _E.ABANDONED): _S.IDLE,
    (_S.WITH_LOG, _E.WRITTEN): _S.IDLE,
    (_S.WITH_LOG, _E.FAILED): _S.IDLE,
    (_S.WITH_LOG, _E.ABANDONED): _S.IDLE,
    (_S.WITHOUT_LOG, _E.WRITTEN): _S.IDLE,
    (_S.WITHOUT_LOG, _E.FAILED): _S.IDLE,
    (_S.WITHOUT_LOG, _E.ABANDONED): _S.IDLE,
}


#: Seconds before the first automatic attempt after a failure.
_FIRST_PAUSE = 1.0
#: Maximum number of seconds between automatic attempts after a failure.
_LONGEST_PAUSE = 60.0
#: Number of checks (ten per second) after which a rewrite starts even if the log is still being synced.
_MAX_CHECKS = 50


class Rewrites:
    """Rewrites of one log, one at a time. ``flush_effects`` passes this iteration's effects to the log, before an image
    that contains them is taken.
    """

    def __init__(
        self,
        core: Core,
        appendonly: AppendOnly,
        log: Log,
        background: Background,
        soon: Soon,
        clock: Callable[[], float],
        flush_effects: Callable[[], None],
    ) -> None:
        self._core = core
        self._appendonly = appendonly
        self._log = log
        self._background = background
        self._soon = soon
        self._clock = clock
        self._flush_effects = flush_effects
        self._machine = Machine("the rewrite of the log", REWRITE_TRANSITIONS, Rewrite.IDLE)
        #: Called at the end of a background rewrite that was not abandoned, with whether it succeeded.
        self.on_ended: Callable[[bool], None] = lambda good: None  # noqa: ARG005
        #: Start of the last rewrite, by ``clock``.
        self._began = 0.0
        #: Duration of the last rewrite in seconds; -1 before the first one ends.
        self._last_seconds = -1
        self._last_ok = True
        self._attempt: Attempt | None = None
        self._pause = _FIRST_PAUSE
        self._retry_at = 0.0
        #: Number of times in a row that `is_prepared` has returned False.
        self._checks = 0

    @property
    def is_running(self) -> bool:
        """Whether a base is being written."""
        return self._machine.state in (Rewrite.WITH_LOG, Rewrite.WITHOUT_LOG)

    @property
    def is_scheduled(self) -> bool:
        """Whether a rewrite is to start as soon as possible."""
        return self._machine.state is Rewrite.SCHEDULED

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
            "aof_current_rewrite_time_sec": int(self._clock() - self._began) if self.is_running else -1,
            "aof_last_bgrewrite_status": "ok" if self._last_ok else "err",
        }

    def ask(self) -> None:
        """Request a rewrite as soon as possible."""
        self._machine.fire(RewriteEvent.ASKED)

    def start(self, *, keeps_log: bool) -> None:
        """Start a rewrite. Raises OSError if it cannot start.

        ``keeps_log``: whether effects that happen while the base is written must be logged. If the log is off, only the
        base is needed.
        """
        log = self._log
        self._flush_effects()
        suffix = self._appendonly.base_suffix()
        self._began = self._clock()
        try:
            self._find_manifest()
            log_continues = log.is_open and log.flush_and_sync()
            first = self._appendonly.new_increment() if log_continues else 0
        except OSError as error:
            self._end(error)
            raise
        attempt = self._appendonly.attempt()
        builder = image.ImageBuilder(self._core.databases, self._core.config, self._core.changes.now)
        self._machine.fire(RewriteEvent.BEGUN_WITH_LOG if log_continues else RewriteEvent.BEGUN_WITHOUT_LOG)
        self._attempt = attempt
        if keeps_log and not log_continues:
            log.tee = []

        def write_base() -> None:
            self._appendonly.write_base(attempt, builder.image, suffix, rdb_file.periodic_pause())
            builder.image.free()
            give_back()

        def write() -> None:
            self._background(write_base, lambda error: self._finish(attempt, suffix, first, error))

        run_when_complete(builder, attempt, self._soon, write)

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

    def _finish(self, attempt: Attempt, suffix: str, first: int, error: Exception | None) -> None:
        if attempt.abandoned:
            attempt.remove()
            return
        if error is None:
            try:
                self._appendonly.commit(attempt, suffix, first=first, tail=self._log.tee)
            except Exception as problem:  # noqa: BLE001 - any error means that there is no new base
                error = problem
        self._end(error)
        self.on_ended(error is None)

    def write_now(self) -> None:
        """Rewrite the log synchronously. This also replaces a broken log file.

        Raises OSError on failure. The log's file is then abandoned if additions to it might be lost.
        """
        self.abandon()
        self._flush_effects()
        suffix = self._appendonly.base_suffix()
        self._began = self._clock()
        self._attempt = attempt = self._appendonly.attempt()
        self._machine.fire(RewriteEvent.BEGUN_WITHOUT_LOG)
        try:
            self._find_manifest()
            self._appendonly.write_base(
                attempt,
                image.capture(self._core.databases, self._core.config, self._core.changes.now),
                suffix,
            )
            self._appendonly.commit(attempt, suffix)
        except Exception as error:
            self._end(error)
            raise
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        attempt, self._attempt = self._attempt, None
        self._log.tee = None
        self._last_seconds = int(self._clock() - self._began)
        self._last_ok = error is None
        self._machine.fire(RewriteEvent.WRITTEN if error is None else RewriteEvent.FAILED)
        if error is None:
            self._pause, self._retry_at = _FIRST_PAUSE, 0.0
            return
        LOG.error("the append-only file was not rewritten: %s", error)
        if attempt is not None:
            attempt.remove()
        self._retry_at = self._clock() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def abandon(self) -> None:
        """Cancel the rewrite that is running or requested, if any."""
        if self._machine.state is Rewrite.IDLE:
            return
        self._machine.fire(RewriteEvent.ABANDONED)
        self._log.tee = None
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt = None
