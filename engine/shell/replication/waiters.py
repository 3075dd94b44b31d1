"""Clients that wait for acknowledgements of replicas (WAIT, WAITAOF)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.shell.clock import now_us

#: Seconds after which replicas that were behind are asked for their offsets again.
_AGAIN = 0.1


class AckWaiters:
    """Waiting clients. ``settle`` delivers the results of core work outside a client's command, ``ask`` requests the
    replicas' offsets.
    """

    def __init__(
        self,
        core: Core,
        loop: asyncio.AbstractEventLoop,
        settle: Callable[[], None],
        ask: Callable[[], None],
    ) -> None:
        self._core = core
        self._loop = loop
        self._settle = settle
        self._sessions: dict[Session, None] = {}
        self._ask = ask
        self._is_due = self._is_asked_later = False

    def add(self, session: Session, *, again: bool) -> None:
        """Wake the blocked session once, when a replica acknowledges something or disconnects. ``again``: whether the
        session was woken before and still has to wait.
        """
        self._sessions[session] = None
        if not again:
            self._ask()
        elif not self._is_asked_later:
            # Each reply wakes all waiting clients, so asking again immediately would never end.
            self._is_asked_later = True
            self._loop.call_later(_AGAIN, self._ask_again)

    def _ask_again(self) -> None:
        self._is_asked_later = False
        if self._sessions:
            self._ask()

    def wake(self) -> None:
        """Wake the waiting sessions soon: a replica has acknowledged something, or has disconnected."""
        if self._sessions and not self._is_due:
            # Not immediately: a command may be running.
            self._is_due = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_due = False
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            self._core.wake(session, now_us())
        self._settle()
