"""Puts durability into a running shell: threads, timer and gate around :mod:`engine.shell.durability.persistence`."""

from __future__ import annotations

import asyncio
from typing import Any

from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError
from engine.shell.durability.persistence import Persistence
from engine.shell.durability.threads import Threads
from engine.shell.network.runner import Runner
from engine.shell.observation.reporting import LOG

_PERIOD = 0.1


class Durable:
    """One server's. ``start`` loads what is on the disk, before clients are accepted."""

    def __init__(self, core: Core, runner: Runner, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._runner = runner
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.persistence = Persistence(core, Threads(loop))

    def start(self) -> None:
        """Load, and keep what happens from now on. A ConfigError says why that is not possible."""
        persistence, runner = self.persistence, self._runner
        persistence.start()
        runner.gate.settle = persistence.settle_turn
        persistence.gate = runner.gate
        persistence.on_wake = runner.settle
        runner.on_effects = persistence.take
        runner.settle()
        self._tick()

    def _tick(self) -> None:
        self.persistence.tick()
        self._timer = self._loop.call_later(_PERIOD, self._tick)

    def obey(self, name: str, detail: Any) -> bool:
        """Do what the core asks for, if it is for durability."""
        if name != "durability":
            return False
        self.persistence.obey(detail)
        return True

    def end_by_signal(self, directive: str) -> bool:
        """Whether the process may end as ``shutdown-on-sigterm`` (or ``-sigint``) says."""
        word = self._core.config.text(directive).upper()
        try:
            self.persistence.end({word} - {b"DEFAULT"})
        except CommandError:
            return False
        return True

    def stop(self) -> None:
        """All clients have gone: write what there is, and let go."""
        if self._timer is not None:
            self._timer.cancel()
        self._runner.gate.end_turn()
        try:
            self.persistence.close()
        except OSError as error:
            LOG.error("at the end: %s", error)
