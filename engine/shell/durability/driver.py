"""Drives durability from the event loop: threads, a timer, and the replies that wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.core.dispatch import Core
from engine.core.keyspace.changes import Effects
from engine.core.protocol.replies import CommandError
from engine.shell.durability.background.threads import Threads
from engine.shell.durability.disk import DiskDurability, Replies

#: Seconds between two looks at what is due.
_PERIOD = 0.1


class ReplyBatch(Replies, Protocol):
    """The replies of an event-loop iteration. ``settle`` is called before those that wait for the disk leave."""

    settle: Callable[[], bool] | None

    def end_iteration(self) -> None:
        """Let out what waits, now."""


class Clients(Protocol):
    """Who runs the clients' commands, as durability knows him."""

    @property
    def replies(self) -> ReplyBatch:
        """Everything that is sent goes through it."""

    def hand_effects_to(self, take: Callable[[Effects], None]) -> None:
        """Have ``take`` called with the effects of commands, before their replies leave."""

    def settle(self) -> None:
        """Deliver what the core did while no client's commands ran."""


class Driver:
    """One server's. ``start`` loads what is on the disk, before clients are accepted."""

    def __init__(self, core: Core, runner: Clients, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._runner = runner
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.disk = DiskDurability(core, Threads(loop))

    def start(self) -> None:
        """Load, and keep what happens from now on. A ConfigError says why that is not possible."""
        disk, runner = self.disk, self._runner
        disk.start()
        runner.replies.settle = disk.settle_iteration
        disk.replies = runner.replies
        disk.waiters.on_wake = runner.settle
        runner.hand_effects_to(disk.append)
        runner.settle()
        self._tick()

    def _tick(self) -> None:
        # First, so that an error does not end the ticking.
        self._timer = self._loop.call_later(_PERIOD, self._tick)
        self.disk.tick()

    def end_by_signal(self, words: frozenset[bytes]) -> bool:
        """Whether the process may end as SHUTDOWN's ``words`` say."""
        try:
            self.disk.prepare_shutdown(set(words))
        except CommandError:
            return False
        return True

    def stop(self) -> None:
        """All clients have gone: write what there is, and let go."""
        if self._timer is not None:
            self._timer.cancel()
        self._runner.replies.end_iteration()
        self.disk.close()
