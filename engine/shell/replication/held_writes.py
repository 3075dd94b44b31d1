"""Clients that write wait, and nothing expires, while replicas catch up: for a failover, or before the process ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.core.dispatch import Core
from engine.core.keyspace.changes import NEVER


class HeldWrites:
    """One reason for which writes wait. ``owner`` is its name among all that hold them."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, owner: str) -> None:
        self._core = core
        self._loop = loop
        self._owner = owner
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float, over: Callable[[], None]) -> None:
        """Hold them; after so many seconds ``over`` is called, if it is not forgotten before. 0: never."""
        self._core.pause.begin(self._core.changes.now, NEVER, holds_all=False, owner=self._owner)
        self._core.changes.hold_expiry(self._owner, NEVER)
        if seconds:
            self._timer = self._loop.call_later(seconds, over)

    def forget_time(self) -> None:
        """The time does not matter any more; writes wait on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Let the clients go on."""
        self.forget_time()
        self._core.pause.end(self._owner)
        self._core.changes.hold_expiry(self._owner, 0)
        self._core.host.follow_pause()
