"""Crashes and power failures between any two steps of a rewrite, of a save, and of switching the log on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.core.dispatch import Core
from engine.settings.config import Config
from tests.faults.disk import Crash, Disk
from tests.faults.engines import Engine
from tests.harness.replay import NOW_US, state
from tests.suite.long import short_and_long

_BEFORE = [
    "XADD s 1-1 a 1",
    "XADD s 2-1 a 2",
    "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
    "SET k v",
    "HSET h f 1",
]
_AFTER = ["XADD s 3-1 a 3", "XACK s g 1-1", "XDEL s 2-1", "XADD s 4-1 a 4"]

Story = Callable[[Engine], Iterator[Any]]


def states_of(lines: Iterable[str]) -> list[Any]:
    """Return the data after none, one, two ... of the commands."""
    core = Core(Config())
    core.changes.set_time(NOW_US)
    session = core.open_session(NOW_US)
    found = [state(core)]
    for line in lines:
        core.execute(session, line.encode().split(), NOW_US)
        found.append(state(core))
    return found


@dataclass
class Life:
    """An engine's life until a crash before ``step`` or to its end, and the engine that starts afterwards."""

    step: int
    #: Number of acknowledged commands.
    done: int
    #: The first engine, or None if its start crashed.
    engine: Engine | None
    disk: Disk
    found: Engine


def lives(
    tmp_path: Path,
    story: Story,
    power: bool,
    *,
    prepare: Callable[[Path], object] = lambda directory: None,
    again: dict[str, str] | None = None,
    steps: slice = slice(0, None, 1),
    **settings: str,
) -> Iterator[Life]:
    """Crash before every step in turn, and at last not at all; then start an engine on the same directory.

    ``steps`` has the first step and the increment, and ``again`` the settings of the second engine if they differ.
    """
    step = steps.start
    while True:
        directory = tmp_path / str(step)
        directory.mkdir()
        prepare(directory)
        disk = Disk()
        disk.crash_at = step
        done, engine = 0, None
        try:
            engine = Engine(directory, disk, **settings)
            for _ in story(engine):
                done += 1
        except Crash:
            pass
        disk.end()
        if power:
            disk.lose()
        found = Engine(directory, Disk(), **(settings if again is None else again))
        yield Life(step, done, engine, disk, found)
        found.die()
        if not disk.crashed:
            assert step > 8
            return
        step += steps.step


def every_crash(
    tmp_path: Path, story: Story, lines: list[str], power: bool, steps: slice = slice(0, None, 1), **settings: str
) -> int:
    """Check that all acknowledged commands are restored after each crash; return the number of steps.

    The command in progress may be restored as well.
    """
    states = states_of(lines)
    last = 0
    for life in lives(tmp_path, story, power, steps=steps, **settings):
        found, last = life.found, life.step
        now = state(found.core)
        assert now in states[life.done : life.done + 2], f"after a crash before step {last} ({life.disk.calls[-1]})"
        # The engine continues with the restored data.
        assert found.run("XADD last 1-1 a 1") == b"1-1"
        found.die()
        if not last % 5:
            once_more = Engine(found.directory, Disk(), **settings)
            assert once_more.run("XLEN last") == 1
            once_more.die()
    return last


def commands(engine: Engine, lines: list[str]) -> Iterator[Any]:
    for line in lines:
        reply = engine.run(line)
        assert not isinstance(reply, str), reply
        assert engine.log.synced == engine.log.appended
        yield reply


@pytest.mark.parametrize("power", short_and_long([(True,)], [(False,)]))
def test_a_crash_between_any_two_steps_of_a_rewrite(tmp_path, power):
    """After a crash at any step, the directory loads and has every acknowledged command and nothing that
    was not sent.
    """

    def story(engine: Engine) -> Iterator[Any]:
        yield from commands(engine, _BEFORE)
        engine.run("BGREWRITEAOF")
        yield from commands(engine, _AFTER[:2])
        engine.run("BGREWRITEAOF")
        yield from commands(engine, _AFTER[2:])

    steps = every_crash(tmp_path, story, _BEFORE + _AFTER, power)
    assert steps > 50


@pytest.mark.parametrize("power", [False, True], ids=["process", "power"])
def test_a_crash_while_a_rewrite_waits_for_its_thread(tmp_path, power):
    """Commands between the start and the end of a rewrite survive a crash."""

    def story(engine: Engine) -> Iterator[Any]:
        yield from commands(engine, _BEFORE)
        engine.workers.run()
        engine.run("BGREWRITEAOF")
        yield from commands(engine, _AFTER[:3])
        engine.workers.run()
        yield from commands(engine, _AFTER[3:])

    assert every_crash(tmp_path, story, _BEFORE + _AFTER, power, at_once="") > 30


@pytest.mark.parametrize("power", [False, True], ids=["process", "power"])
def test_a_crash_while_the_first_base_is_made_from_a_snapshot(tmp_path, power):
    """A new log starts with a base made from the snapshot, and a crash at any step loses nothing."""
    source = tmp_path / "source"
    source.mkdir()
    engine = Engine(source, appendonly="no")
    for line in _BEFORE:
        engine.run(line)
    assert engine.run("SAVE") == b"OK"
    engine.die()
    snapshot = (source / "dump.rdb").read_bytes()
    wanted = states_of(_BEFORE)[-1]

    def prepare(directory: Path) -> None:
        (directory / "dump.rdb").write_bytes(snapshot)

    for life in lives(tmp_path, lambda engine: iter(()), power, prepare=prepare):
        assert state(life.found.core) == wanted, f"after a crash before step {life.step} ({life.disk.calls[-1]})"


@pytest.mark.parametrize(
    ("formats", "power"),
    short_and_long(
        [(("psb", "rdb"), True), (("rdb", "psb"), False)], [(("psb", "rdb"), False), (("rdb", "psb"), True)]
    ),
)
def test_a_crash_while_a_snapshot_is_written(tmp_path, power, formats):
    """After a crash the snapshot is either the old or the new one, even if their formats differ."""

    def story(engine: Engine) -> Iterator[Any]:
        for line in _BEFORE:
            engine.run(line)
        engine.run(f"CONFIG SET save-format {formats[0]}")
        assert engine.run("SAVE") == b"OK"
        yield None
        for line in _AFTER:
            engine.run(line)
        engine.now_us += 1000
        engine.run(f"CONFIG SET save-format {formats[1]}")
        engine.run("BGSAVE")
        yield None

    states = states_of(_BEFORE + _AFTER)
    allowed = [states[0], states[len(_BEFORE)], states[-1]]
    for life in lives(tmp_path, story, power, appendonly="no"):
        assert state(life.found.core) in allowed[life.done : life.done + 2]


@pytest.mark.parametrize("power", [False, True], ids=["process", "power"])
def test_a_crash_while_the_log_is_switched_on(tmp_path, power):
    """If CONFIG SET appendonly yes has put a log into use before a crash, the log has all acknowledged commands.

    Otherwise the log has either no data, or the data of all commands that ran before it was in use.
    """

    def story(engine: Engine) -> Iterator[Any]:
        for line in _BEFORE:
            engine.run(line)
        assert engine.run("CONFIG SET appendonly yes") == b"OK"
        engine.run(_AFTER[0])
        engine.workers.run()
        assert engine.info()["aof_enabled"] == 1
        yield from commands(engine, _AFTER[1:])

    states = states_of(_BEFORE + _AFTER)
    first = len(_BEFORE) + 1
    for life in lives(tmp_path, story, power, again={}, appendonly="no", at_once=""):
        assert life.engine is not None
        is_in_use = life.engine.info()["aof_enabled"]
        allowed = states[first + life.done : first + life.done + 2] if is_in_use else [states[0], states[first]]
        where = f"after a crash before step {life.step} ({life.disk.calls[-1]})"
        assert state(life.found.core) in allowed, where


@pytest.mark.parametrize(
    ("rewritten", "line", "power"),
    short_and_long(
        [(False, "BGREWRITEAOF", True), (True, "CONFIG SET appendonly yes", False), (True, "BGREWRITEAOF", True)],
        [
            (False, "BGREWRITEAOF", False),
            (False, "CONFIG SET appendonly yes", False),
            (False, "CONFIG SET appendonly yes", True),
            (True, "CONFIG SET appendonly yes", True),
            (True, "BGREWRITEAOF", False),
        ],
    ),
)
def test_a_crash_while_an_earlier_log_is_replaced(tmp_path, line, power, rewritten):
    """After a crash while a new log replaces an earlier one, either the earlier or the new data is complete."""
    new = ["SET new 1", "XADD t 1-1 a 1"]

    def story(engine: Engine) -> Iterator[Any]:
        for words in new:
            engine.run(words)
        engine.run(line)
        engine.workers.run()
        yield None

    def prepare(directory: Path) -> None:
        first = Engine(directory)
        for words in _BEFORE[:3]:
            first.run(words)
        if rewritten:
            first.run("BGREWRITEAOF")
        for words in _BEFORE[3:]:
            first.run(words)
        first.close()
        first.die()

    earlier, later = states_of(_BEFORE)[-1], states_of(new)[-1]
    for life in lives(tmp_path, story, power, prepare=prepare, again={}, appendonly="no", at_once=""):
        allowed = [later] if life.done else [earlier, later]
        assert state(life.found.core) in allowed, f"after a crash before step {life.step}"
