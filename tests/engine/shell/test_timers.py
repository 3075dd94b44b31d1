"""Repeating timers: they are armed again after an error in their work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.core.dispatch import Core
from engine.core.keyspace.changes import NEVER
from engine.settings.config import Config
from engine.shell.durability.driver import Driver
from engine.shell.housekeeping.cold_packer import ColdPacker
from engine.shell.network.runner import Runner
from engine.shell.network.server import Server
from engine.shell.network.timers import Timers
from engine.shell.observation.watchdog import Watchdog
from tests.harness.injection import MistakeError


class Loop:
    """An event loop that stores delayed calls."""

    def __init__(self) -> None:
        self.later: list[Any] = []

    def call_later(self, _: float, work: Any, *words: Any) -> Any:
        self.later.append(work)
        return asyncio.TimerHandle(0, work, words, self)  # type: ignore[arg-type]

    call_soon = call_later

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, _: Any) -> None:
        """Do nothing when a handle is cancelled."""


def fails(*_: Any, **__: Any) -> Any:
    raise MistakeError


def server_tick(loop: Any, core: Core, monkeypatch: Any) -> Any:
    monkeypatch.setattr(Runner, "tick", fails)
    server = Server(Config(), lambda _: None)
    server._loop, server.runner = loop, Runner(core, loop)
    return server._tick


def durability_tick(loop: Any, core: Core, monkeypatch: Any) -> Any:
    driver = Driver(core, Runner(core, loop), loop)
    monkeypatch.setattr(type(driver.disk), "tick", fails)
    return driver._tick


def look_for_cold_segments(loop: Any, core: Core, monkeypatch: Any) -> Any:
    packer = ColdPacker(core.config, core.streams.storage, loop)
    packer.start()
    loop.later.clear()
    monkeypatch.setattr(packer, "_pack", fails)
    packer._queued.extend([1] * 1000)
    return packer._search


def expiry(loop: Any, core: Core, monkeypatch: Any) -> Any:
    del monkeypatch
    core.changes.next_expiry = NEVER - 1
    timers = Timers(core, loop, {}, fails, fails, Watchdog(core.telemetry, loop))
    return timers._expire


@pytest.mark.parametrize("timer", [server_tick, durability_tick, look_for_cold_segments, expiry])
def test_a_timer_is_armed_again_after_an_error(timer, monkeypatch):
    """If the work of a timer raises, the error reaches the event loop, and the timer is armed again."""
    loop = Loop()
    core = Core(Config(), lambda n: 0)
    core.databases[0].set(b"k", b"v")
    core.databases[0].set_deadline(b"k", 1 << 60)
    work = timer(loop, core, monkeypatch)
    with pytest.raises(MistakeError):
        work()
    assert loop.later


def test_an_error_while_keys_expire_stops_the_engine(monkeypatch):
    """A fatal error while keys expire calls the runner's failure handler."""
    core, loop, errors = Core(Config(), lambda n: 0), Loop(), []
    monkeypatch.setattr(Core, "expire_due", fails)
    timers = Timers(core, loop, {}, fails, errors.append, Watchdog(core.telemetry, loop))  # type: ignore[arg-type]
    timers._expire()
    assert [type(error) for error in errors] == [MistakeError]
    assert not loop.later
