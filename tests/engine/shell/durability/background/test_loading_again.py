"""Data that DEBUG RELOAD or a master replaces: the log contains the new data, even if a file was being written."""

from __future__ import annotations

import pytest

from tests.engine.shell.durability.background.by_hand import (
    ended,
    entries,
    life_of,
    replace_all,
    restarted,
    without_log,
)
from tests.harness.replay import state


@pytest.mark.parametrize("busy", ["", "BGREWRITEAOF", "BGSAVE"])
def test_the_log_contains_reloaded_data(tmp_path, busy):
    """If DEBUG RELOAD loads other data, the log contains this data before the reply, even during a rewrite."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    assert engine.run("SAVE") == b"OK"
    engine.run("XADD s 2-0 f v")
    if busy:
        engine.run(busy)
    assert engine.run("DEBUG RELOAD NOSAVE") == b"OK"
    engine.run("XADD s 3-0 f v")
    wanted = state(engine.core)
    again = restarted(engine)
    assert state(again.core) == wanted
    again.close()


def test_a_reload_while_the_first_base_is_written(tmp_path):
    """If the data is reloaded while the first base is written, the base contains the loaded data."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("SAVE")
    engine.run("XADD s 2-0 f v")
    engine.run("CONFIG SET appendonly yes")
    assert engine.run("DEBUG RELOAD NOSAVE") == b"OK"
    engine.run("XADD s 3-0 f v")
    engine.workers.run()
    assert entries(restarted(engine)) == [b"1-0", b"3-0"]


@pytest.mark.parametrize("how", ["crash", "fault", "shutdown", ""])
def test_the_log_restarts_with_replaced_data(tmp_path, how):
    """Until the first base of a master's data is complete, a crash or a fault keeps the old data; afterwards, and after
    a shutdown, the log contains the new data.
    """
    engine = life_of(tmp_path)
    engine.run("SET old value")
    before = state(engine.core)
    replace_all(engine)
    engine.core.durability.data_replaced()
    if how in ("crash", "fault"):
        if how == "fault":
            engine.durability.give_up_data()
            engine.close()
        assert state(restarted(engine).core) == before
        return
    engine.run("APPEND key value")
    if not how:
        engine.workers.run()
        assert engine.info()["aof_enabled"] == 1
    wanted = state(engine.core)
    assert state(restarted(ended(engine)).core) == wanted
