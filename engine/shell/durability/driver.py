"""Driver of durability in the event loop: threads, a timer, and the replies that wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.core.dispatch import Core
from engine.core.keyspace.changes import Effects
from engine.core.protocol.replies import CommandError
from engine.shell.durability.background import Threads
from engine.shell.durability.disk import DiskDurability, Replies

#: Seconds between two checks for work that is due.
_PERIOD = 0.1


class ReplyBatch(Replies, Protocol):
    """Replies of an event-loop iteration. ``settle`` is called before replies that wait for the disk are sent."""

    settle: Callable[[], bool] | None

    def end_iteration(self) -> None:
        """Send the waiting replies now."""


class Clients(Protocol):
    """The runner of client commands, as durability needs it."""

    @property
    def replies(self) -> ReplyBatch:
        """Batch through which all replies pass."""

    def hand_effects_to(self, take: Callable[[Effects], None]) -> None:
        """Set the function that is called with the effects of commands, before their replies are sent."""

    def settle(self) -> None:
        """Deliver the results of core work that was done outside a client's command."""


class Driver:
    """Durability of one server. ``start`` loads the data from disk before clients are accepted."""

    def __init__(self, core: Core, runner: Clients, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._runner = runner
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.disk = DiskDurability(core, Threads(loop))

    def start(self) -> None:
        """Load the data, and start storing changes. Raises ConfigError with the reason on failure."""
        disk, runner = self.disk, self._runner
        disk.start()
        runner.replies.settle = disk.settle_iteration
        disk.replies = runner.replies
        disk.waiters.on_wake = runner.settle
        runner.hand_effects_to(disk.append)
        runner.settle()
        self._tick()

    def _tick(self) -> None:
        # Schedule the next tick first, so that an error does not stop the timer.
        self._timer = self._loop.call_later(_PERIOD, self._tick)
        self.disk.tick()

    def end_by_signal(self, words: frozenset[bytes]) -> bool:
        """Save as SHUTDOWN with the options in ``words`` would; return whether the process may exit."""
        try:
            self.disk.prepare_shutdown(set(words))
        except CommandError:
            return False
        return True

    def stop(self) -> None:
        """Write the remaining effects and close the files. Call this after all clients have disconnected."""
        if self._timer is not None:
            self._timer.cancel()
        self._runner.replies.end_iteration()
        self.disk.close()
