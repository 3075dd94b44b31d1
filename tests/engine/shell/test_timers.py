"""Repeating timers: they are armed again after an error in their work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.core.dispatch import Core
from engine.core.keyspace.changes import NEVER
from engine.settings.config import Config
from engine.shell.clock import Ticker
from engine.shell.network.timers import Timers
from engine.shell.observation.watchdog import Watchdog
from tests.harness.injection import MistakeError


class Loop:
    """An event loop that stores delayed calls."""

    def __init__(self) -> None:
        self.timers: list[asyncio.TimerHandle] = []
        self._work: list[Callable[[], None]] = []

    def call_later(self, _: float, work: Any, *words: Any) -> asyncio.TimerHandle:
        self._work.append(partial(work, *words))
        self.timers.append(asyncio.TimerHandle(0, work, words, self))  # type: ignore[arg-type]
        return self.timers[-1]

    def fire(self) -> None:
        """Run the oldest delayed call."""
        self.timers.pop(0)
        self._work.pop(0)()

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, _: Any) -> None:
        """Do nothing when a handle is cancelled."""


def fails(*_: Any, **__: Any) -> Any:
    raise MistakeError


def test_a_ticker_is_armed_again_after_an_error() -> None:
    """If the work of a ticker raises, the error reaches the event loop, and the work is called again later."""
    loop = Loop()
    ticker = Ticker(loop, 1.0, fails)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(MistakeError):
            loop.fire()
    ticker.stop()
    assert loop.timers[-1].cancelled()


def test_expiry_is_armed_again_after_an_error() -> None:
    """If the results of an expiry cannot be delivered, the timer is armed again."""
    core, loop = Core(Config()), Loop()
    core.databases[0].set(b"k", b"v")
    core.databases[0].set_deadline(b"k", 1 << 60)
    timers = Timers(core, loop, {}, fails, fails, Watchdog(core.telemetry, loop))  # type: ignore[arg-type]
    timers.follow_expiry()
    for _ in range(2):
        with pytest.raises(MistakeError):
            loop.fire()


def test_an_error_while_keys_expire_stops_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fatal error while keys expire calls the runner's failure handler."""
    core, loop, errors = Core(Config()), Loop(), list[BaseException]()
    core.changes.next_expiry = NEVER - 1
    monkeypatch.setattr(Core, "expire_due", fails)
    timers = Timers(core, loop, {}, fails, errors.append, Watchdog(core.telemetry, loop))  # type: ignore[arg-type]
    timers.follow_expiry()
    loop.fire()
    assert [type(error) for error in errors] == [MistakeError]
    assert not loop.timers
