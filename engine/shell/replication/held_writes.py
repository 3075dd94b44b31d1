"""Holding writes and expiry while replicas catch up: for a failover, or before the process exits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.core.dispatch import Core
from engine.core.keyspace.changes import NEVER


class HeldWrites:
    """One reason to hold writes, and its wait for replicas. ``owner``: name of the reason; ``check``: called when a
    replica may have caught up.
    """

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, owner: str, check: Callable[[], None]) -> None:
        self._core = core
        self._loop = loop
        self._owner = owner
        self._check = check
        self._timer: asyncio.TimerHandle | None = None
        self._waits = self._is_due = False

    def start(self, seconds: float, over: Callable[[], None]) -> None:
        """Hold writes and wait for replicas. After ``seconds``, ``over`` is called, unless the wait has stopped before.

        If ``seconds`` is 0, there is no timeout.
        """
        self._core.divided.finish_all()
        self._core.pause.start(self._core.changes.now, NEVER, holds_all=False, owner=self._owner)
        self._core.changes.hold_expiry(self._owner, NEVER)
        self._waits = True
        if seconds:
            self._timer = self._loop.call_later(seconds, over)

    @property
    def left(self) -> float:
        """Seconds until the wait times out; 0 if there is no wait or no timeout."""
        return max(self._timer.when() - self._loop.time(), 0.0) if self._timer is not None else 0.0

    def check_soon(self) -> None:
        """While waiting, call ``check`` after the current command, when the command's effects are in the stream. Call
        this when a replica may have caught up.
        """
        if self._waits and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._check_now)

    def _check_now(self) -> None:
        self._is_due = False
        if self._waits:
            self._check()

    def stop_waiting(self) -> None:
        """Stop waiting for replicas; writes remain held."""
        self._waits = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Stop waiting, and release the writes."""
        self.stop_waiting()
        self._core.pause.end(self._owner)
        self._core.changes.hold_expiry(self._owner, 0)
        self._core.host.follow_pause()
