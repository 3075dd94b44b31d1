"""Background snapshots, during rewrites of the log and after failures."""

from __future__ import annotations

import errno

from tests.engine.shell.durability.background.by_hand import (
    life_of,
    without_log,
)


def test_a_save_waits_for_a_rewrite_that_waits_for_an_fsync(tmp_path):
    """While a rewrite is scheduled, BGSAVE is rejected or scheduled, and does not report that it has started."""
    engine = life_of(tmp_path, appendfsync="everysec")
    engine.run("XADD s 1-0 f", bytes(2 << 20))
    engine.run("BGREWRITEAOF")
    assert engine.info()["aof_rewrite_scheduled"] == 1
    assert str(engine.run("BGSAVE")).startswith("ERR Another child process is active")
    assert engine.run("BGSAVE SCHEDULE") == b"Background saving scheduled"
    for _ in range(20):
        engine.workers.run()
        engine.tick()
    facts = engine.info()
    assert (facts["rdb_saves"], facts["aof_rewrite_scheduled"], facts["aof_rewrite_in_progress"]) == (1, 0, 0)


def test_saves_and_rewrites_of_a_transaction_begin_after_it(tmp_path):
    """BGSAVE and BGREWRITEAOF in MULTI are scheduled, in either order, and both run after EXEC."""
    engine = life_of(tmp_path)
    for first, second in (("BGREWRITEAOF", "BGSAVE"), ("BGSAVE", "BGREWRITEAOF")):
        saves = engine.info()["rdb_saves"]
        for command in ("MULTI", first, "XADD s * f v", second):
            engine.run(command)
        first_reply, _, second_reply = engine.run("EXEC")
        assert first_reply.endswith(b" scheduled")
        assert second_reply.endswith(b" scheduled")
        engine.workers.run()
        facts = engine.info()
        assert (facts["rdb_saves"], facts["aof_rewrite_scheduled"]) == (saves + 1, 0)
        assert (facts["rdb_bgsave_in_progress"], facts["aof_rewrite_in_progress"]) == (0, 0)


def test_a_save_that_is_reported_as_started_is_running(tmp_path):
    """A BGSAVE that replies that it has started is in progress, even if an automatic rewrite is due.

    Clients that poll rdb_bgsave_in_progress would take 0 for the end of the save.
    """
    engine = life_of(tmp_path, auto_aof_rewrite_min_size="1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("BGSAVE") == b"Background saving started"
    assert engine.info()["rdb_bgsave_in_progress"] == 1


def test_a_failed_save_is_retried_after_five_seconds(tmp_path):
    """After a background save has failed, the save directive waits five seconds before it saves again."""
    engine = without_log(tmp_path, save="10 1")
    engine.run("XADD s 1-0 f v")
    engine.tick(11)
    engine.files.fail("rename", errno.EIO)
    engine.workers.run()
    assert engine.info()["rdb_last_bgsave_status"] == "err"
    engine.files.heal()
    engine.tick(4)
    assert engine.info()["rdb_bgsave_in_progress"] == 0
    engine.tick(2)
    assert engine.info()["rdb_bgsave_in_progress"] == 1
    engine.workers.run()
    assert engine.info()["rdb_last_bgsave_status"] == "ok"
    assert engine.run("XADD s 2-0 f v") == b"2-0"


def test_a_broken_log_does_not_prevent_snapshots(tmp_path):
    """The save directive works while the log is broken and its rewrite fails. RESETSTAT resets the number of saves."""
    engine = life_of(tmp_path, save="10 1", stop_writes_on_bgsave_error="no")
    engine.run("XADD s 1-0 f v")
    engine.files.fail("sync", errno.EIO, "appendonly")
    engine.run("XADD s 2-0 f v")
    engine.files.fail("create", errno.EIO, "rewriteaof")
    for _ in range(20):
        engine.tick(1)
        engine.workers.run()
    assert engine.log.is_broken
    assert engine.info()["rdb_saves"] == 1
    engine.run("CONFIG RESETSTAT")
    assert engine.info()["rdb_saves"] == 0
