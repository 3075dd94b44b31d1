"""Clients that wait for replicas to acknowledge what was written (WAIT, WAITAOF)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.shell.clock import now_us


class AckWaiters:
    """Who waits. ``settle`` delivers what the core did while no client's commands ran."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, settle: Callable[[], None]) -> None:
        self._core = core
        self._loop = loop
        self._settle = settle
        self._sessions: dict[Session, None] = {}
        self._is_due = False

    def add(self, session: Session) -> None:
        """Wake the blocked session when a replica acknowledges something."""
        self._sessions[session] = None

    def wake(self) -> None:
        """A replica has acknowledged something, or has gone."""
        if self._sessions and not self._is_due:
            # Not within the command that is being run.
            self._is_due = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_due = False
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            self._core.wake(session, now_us())
        self._settle()
