"""Clients that wait until the log is on disk (WAITAOF)."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.shell.durability.background import Workers
from engine.shell.durability.log.writer import Log


class LogWaiters:
    """Clients that wait for one log. ``now`` returns microseconds since the epoch."""

    def __init__(self, core: Core, log: Log, workers: Workers, now: Callable[[], int]) -> None:
        self._core = core
        self._log = log
        self._workers = workers
        self._now = now
        self._sessions: dict[Session, None] = {}
        #: Called after the core has done work outside a client's command.
        self.on_wake: Callable[[], None] = lambda: None

    def log_offset(self) -> int:
        """Return an offset of the log that is on disk when all effects so far are on disk."""
        # The effects of this iteration are not encoded yet, so the offset of their end is unknown. They will be written
        # and synced together, so the offset of their first byte can be used instead.
        return self._log.appended + bool(self._core.changes.effects)

    def add(self, session: Session) -> None:
        """Wake the blocked session once: when more of the log is on disk, or when the log is closed."""
        self._sessions[session] = None

    def wake(self) -> None:
        """Wake the waiting sessions soon: more of the log is on disk, or the log is closed."""
        if self._sessions:
            # Not immediately: a command may be running.
            self._workers.soon(self._wake)

    def _wake(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            self._core.wake(session, self._now())
        self.on_wake()
