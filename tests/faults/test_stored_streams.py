"""Streams with cold segments on disk, under crashes and power failures at any step.

Random commands, stores, rewrites, saves and restarts give the same data as in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.core.streams import segment
from engine.wire.encode import encoded
from tests.engine.shell.durability.workload import Driver, small_segments
from tests.faults.disk import Disk
from tests.faults.engines import Engine
from tests.faults.test_crashes import commands, every_crash
from tests.harness.replay import new_core, state
from tests.harness.storing import store
from tests.suite.long import FULL

DISK = {"stream_storage": "disk", "stream_file_size": "1024", "enable_debug_command": "yes"}


#: Steps before which a crash is tested: testing all of them takes half a minute.
STEPS = slice(0, None, 1 if FULL else 8)


@pytest.fixture(autouse=True)
def _small_segments() -> Iterator[None]:
    with small_segments(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "SEGMENT_ENTRIES", 3)
        yield


def store_all(engine: Engine) -> int:
    """Store sealed segments and run the engine's periodic cleanup."""
    found = store(engine.core, engine.durability.keeping.segments)
    for _ in range(3):
        engine.tick()
    return found


def stored(engine: Engine) -> int:
    """Return the number of segments on disk."""
    return sum(
        segment.is_stored
        for db in engine.core.databases
        for _, value, _ in db.items()
        if hasattr(value, "segments")
        for segment in value.segments()
    )


def adds(first: int, count: int) -> list[str]:
    return [f"XADD s {number}-1 a {number}{'v' * 60}" for number in range(first, first + count)]


_BEFORE = [*adds(1, 10), "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 7 STREAMS s >"]
_BETWEEN = ["XDEL s 2-1 3-1 7-1", "XTRIM s MAXLEN 5", *adds(11, 3)]
_AFTER = ["XCLAIM s g d 0 8-1", "XTRIM s MINID 10", *adds(14, 1)]


@pytest.mark.parametrize("power", [False, True], ids=["process", "power"])
def test_a_crash_between_any_two_steps(tmp_path, power):
    """After a crash while segments are stored, moved, removed or referenced, every acknowledged command is restored."""

    def story(engine: Engine) -> Iterator[Any]:
        yield from commands(engine, _BEFORE)
        assert store_all(engine)
        engine.run("BGREWRITEAOF")
        yield from commands(engine, _BETWEEN)
        store_all(engine)
        engine.run("BGREWRITEAOF")
        engine.tick()
        yield from commands(engine, _AFTER)
        store_all(engine)

    steps = every_crash(tmp_path, story, _BEFORE + _BETWEEN + _AFTER, power, steps=STEPS, **DISK)
    assert steps > 100


class Twins:
    """An engine with streams on disk and a core with all data in memory, which run the same random commands."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = Random(seed)
        self.model = new_core()
        self.driver = Driver(self.model, seed)
        self.engine = Engine(directory, Disk(), **DISK)
        self.stored = 0

    def step(self) -> None:
        """Run one more command on both sides, which must give the same reply."""
        driver, engine = self.driver, self.engine
        driver.now_us += self.random.choice((0, 0, 1000, 7000))
        engine.now_us = max(engine.now_us, driver.now_us)
        argv = driver.draw()
        expected = encoded(self.model.execute(driver.session, argv, driver.now_us))
        found = encoded(engine.core.execute(engine.session, argv, driver.now_us))
        engine.end_iteration()
        # (XINFO reports when consumers were last seen, which is not in a log.)
        assert found == expected or argv[0].upper() == b"XINFO", argv
        self.model.changes.effects.clear()

    def happen(self) -> None:
        """Do something that no client should notice."""
        engine, kind = self.engine, self.random.randrange(7)
        if kind < 3:
            store_all(engine)
            self.stored += stored(engine)
            engine.core.streams.storage.cache.clear()
        elif kind == 3 and self.driver.session.multi is None:
            engine.run("BGREWRITEAOF")
        elif kind == 4 and self.driver.session.multi is None:
            engine.run("CONFIG SET save-format psb")
            assert engine.run("SAVE") == b"OK"
            assert engine.run("DEBUG RELOAD NOSAVE") == b"OK"
        elif kind > 4 and self.driver.session.multi is None:
            self.restart("memory" if self.random.random() < 0.2 else "disk")

    def restart(self, mode: str) -> None:
        """Start a new engine on the same directory."""
        if self.random.random() < 0.5:
            self.engine.close()
        self.engine.die()
        self.engine = Engine(self.directory, Disk(), now_us=self.driver.now_us, **{**DISK, "stream_storage": mode})
        # The client connects again on both sides.
        self.model.close_session(self.driver.session)
        self.driver.session = self.model.open_session(self.driver.now_us)
        self.compare()

    def compare(self) -> None:
        self.model.changes.set_time(self.driver.now_us)
        self.engine.core.changes.set_time(self.driver.now_us)
        assert state(self.engine.core) == state(self.model)


@pytest.mark.parametrize("seed", range(12 if FULL else 2))
def test_storage_on_disk_is_invisible(tmp_path, seed):
    """Random commands get the replies of storage in memory, with stores, rewrites, saves and restarts between them."""
    twins = Twins(tmp_path, seed)
    for number in range(1, 600):
        twins.step()
        if not number % 20:
            twins.happen()
    twins.restart("disk")
    assert twins.stored > 10
    twins.engine.close()
    twins.engine.die()
