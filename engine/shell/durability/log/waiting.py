"""Clients that wait until the log is on the disk (WAITAOF)."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.shell.durability.background.threads import Workers
from engine.shell.durability.log.writer import Log


class LogWaiters:
    """Who waits for one log. ``now`` gives microseconds since the epoch."""

    def __init__(self, core: Core, log: Log, workers: Workers, now: Callable[[], int]) -> None:
        self._core = core
        self._log = log
        self._workers = workers
        self._now = now
        self._sessions: dict[Session, None] = {}
        #: Called after the core did something while no client's commands ran.
        self.on_wake: Callable[[], None] = lambda: None

    def log_offset(self) -> int:
        """Where in the log everything that has happened so far ends."""
        # What this iteration does is written as one block: a place within it stands for its end.
        return self._log.appended + bool(self._core.changes.effects)

    def add(self, session: Session) -> None:
        """Wake the blocked session when more is on the disk, or nothing more will be."""
        self._sessions[session] = None

    def wake(self) -> None:
        """More is on the disk, or there is no log any more."""
        if self._sessions:
            # Not within the command that is being run, if one is.
            self._workers.soon(self._wake)

    def _wake(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            self._core.wake(session, self._now())
        self.on_wake()
