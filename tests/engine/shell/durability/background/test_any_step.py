"""An error at any step of a longer scenario: nothing is lost once the disk has recovered."""

from __future__ import annotations

import pytest

from tests.engine.shell.durability.background.by_hand import (
    life_of,
    replace_all,
    restarted,
)
from tests.faults.engines import Engine
from tests.harness.replay import state
from tests.suite.long import short_and_long


def rewriting(engine: Engine) -> None:
    """Rewrite the log, with commands before, during and after the rewrite."""
    engine.run("BGREWRITEAOF")
    engine.run("XADD s 2-0 f v")
    engine.workers.run()


def switching(engine: Engine) -> None:
    """Switch the log off and on."""
    engine.run("CONFIG SET appendonly no")
    engine.run("XADD s 2-0 f v")
    engine.run("CONFIG SET appendonly yes")
    engine.run("XADD s 3-0 f v")
    engine.workers.run()


def saving(engine: Engine) -> None:
    """Save snapshots, in the background and in the foreground."""
    engine.run("BGSAVE")
    engine.run("XADD s 2-0 f v")
    engine.run("BGREWRITEAOF")
    engine.workers.run()
    engine.run("SAVE")


def ending(engine: Engine) -> None:
    """Shut down during different kinds of background work."""
    engine.run("BGSAVE")
    engine.run("BGREWRITEAOF")
    engine.run("XADD s 2-0 f v")
    engine.workers.run(1)
    engine.run("SHUTDOWN")


def reloading(engine: Engine) -> None:
    """Reload the data from a snapshot and from the log."""
    engine.run("DEBUG RELOAD")
    engine.run("XADD s 2-0 f v")
    engine.run("DEBUG LOADAOF")
    engine.workers.run()


def replacing(engine: Engine) -> None:
    """Replace all data while a file is being written, and run a command before the new base is complete."""
    engine.run("BGSAVE")
    replace_all(engine)
    engine.core.durability.data_replaced()
    engine.run("APPEND key value")
    engine.workers.run()


STORIES = (rewriting, switching, saving, ending, reloading, replacing)
#: The log's policy, and whether errors last.
POLICIES = [("always", False), ("everysec", True), ("always", True), ("everysec", False)]


@pytest.mark.parametrize(
    ("story", "policy", "lasting"),
    short_and_long(
        [(story, *POLICIES[number % 2]) for number, story in enumerate(STORIES)],
        [(story, *POLICIES[at]) for number, story in enumerate(STORIES) for at in range(4) if at != number % 2],
    ),
)
def test_an_error_at_any_step(tmp_path, story, policy, lasting):
    """If a call to the disk fails, and possibly all later calls, the engine works again when the disk has recovered.

    It accepts writes and exits on SHUTDOWN, and after a restart all data is there.
    """
    step = 0
    while True:
        directory = tmp_path / str(step)
        directory.mkdir()
        engine = life_of(directory, appendfsync=policy, save="3600 1", stop_writes_on_bgsave_error="no")
        engine.run("XADD s 1-0 f v")
        first = len(engine.files.calls)
        if lasting:
            engine.files.fail_from = first + step
        else:
            engine.files.fail_at = first + step
        story(engine)
        reached = len(engine.files.calls) - first > step
        engine.files.heal()
        if engine.host.ends:
            assert story is ending
        else:
            for _ in range(3):
                engine.tick(70)
                engine.workers.run()
            assert engine.run("XADD s 9-0 f v") == b"9-0", f"after an error at step {step}"
            assert engine.info()["aof_enabled"] == 1
            engine.run("SHUTDOWN")
        assert engine.host.ends, f"after an error at step {step}"
        wanted = state(engine.core)
        engine.close()
        left = [path.name for path in directory.rglob("temp-*")]
        assert left == [], f"after an error at step {step}"
        again = restarted(engine)
        assert state(again.core) == wanted, f"after an error at step {step}"
        again.close()
        if not reached:
            break
        step += 1
    assert step > 5
