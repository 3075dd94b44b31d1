"""Rewrites of the log, and the log's file on a full disk or after a failed fsync."""

from __future__ import annotations

import errno

import pytest

from tests.engine.shell.durability.background.by_hand import (
    ended,
    entries,
    life_of,
    restarted,
)


def test_a_rewrite_that_cannot_start(tmp_path):
    """An error at the start of BGREWRITEAOF or an automatic rewrite is reported, and the log continues in its file."""
    engine = life_of(tmp_path, auto_aof_rewrite_min_size="100")
    engine.run("XADD s 1-0 f v")
    engine.files.fail("create", errno.EMFILE, "incr")
    engine.run("BGREWRITEAOF")
    assert engine.info()["aof_last_bgrewrite_status"] == "err"
    engine.run(f"XADD s 2-0 f {'v' * 200}")
    engine.tick(2)
    assert engine.info()["aof_rewrite_in_progress"] == 0
    engine.files.heal()
    engine.tick(5)
    assert engine.info()["aof_rewrite_in_progress"] == 1
    engine.workers.run()
    assert engine.info()["aof_last_bgrewrite_status"] == "ok"
    assert entries(restarted(engine)) == [b"1-0", b"2-0"]


def test_a_rewrite_fails_in_its_thread(tmp_path):
    """After a failed rewrite the log continues in its new increment, and the next rewrite puts all data into a base."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("BGREWRITEAOF")
    engine.files.fail("write", errno.ENOSPC, "rewriteaof")
    engine.run("XADD s 2-0 f v")
    engine.workers.run()
    engine.files.heal()
    engine.run("XADD s 3-0 f v")
    engine.run("BGREWRITEAOF")
    engine.workers.run()
    assert len(list(engine.folder.iterdir())) == 3
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0"]


def test_a_full_disk_delays_the_log(tmp_path):
    """The log is complete once a full disk accepts writes again, even if a rewrite has failed in between."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.files.room = 20
    engine.run("XADD s 2-0 f v")
    engine.tick()
    engine.tick()
    engine.run("BGREWRITEAOF")
    engine.files.room = 0
    engine.workers.run()
    assert engine.info()["aof_last_bgrewrite_status"] == "err"
    assert engine.run("SET k v").startswith("MISCONF")
    engine.files.heal()
    engine.tick()
    assert engine.run("XADD s 3-0 f v") == b"3-0"
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0"]


def test_a_full_disk_and_an_fsync_that_fails(tmp_path):
    """If the fsync fails after a full disk has recovered, the log's file is abandoned and rewritten."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.files.room = 20
    engine.run("XADD s 2-0 f v")
    engine.files.heal()
    engine.files.fail("sync", errno.EIO, "incr")
    engine.tick()
    assert engine.log.is_broken
    engine.files.heal()
    engine.workers.run()
    assert engine.run("XADD s 3-0 f v") == b"3-0"
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0"]


def test_a_full_disk_and_the_log_switched_off(tmp_path):
    """CONFIG SET appendonly no on a full disk accepts writes at once, and a log that starts later is complete."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.files.room = 20
    engine.run("XADD s 2-0 f v")
    assert engine.run("CONFIG SET appendonly no") == b"OK"
    assert engine.run("XADD s 3-0 f v") == b"3-0"
    engine.files.heal()
    engine.run("CONFIG SET appendonly yes")
    engine.workers.run()
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0"]


def test_a_file_breaks_while_its_fsync_runs(tmp_path):
    """A partial block that cannot be removed and a later failed fsync make one broken file, which is rewritten."""
    engine = life_of(tmp_path, appendfsync="everysec")
    engine.run("XADD s 1-0 f v")
    engine.tick(2)
    engine.files.fail("write", errno.EIO)
    engine.files.fail("cut", errno.EIO)
    engine.files.fail("sync", errno.EIO)
    engine.run("XADD s 2-0 f v")
    engine.tick(3)
    assert engine.log.is_broken
    engine.workers.run()
    engine.files.heal()
    engine.tick(70)
    engine.workers.run()
    assert engine.run("XADD s 3-0 f v") == b"3-0"
    engine.tick(2)
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0"]


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_nothing_is_appended_to_a_partial_block(tmp_path, policy):
    """SHUTDOWN FORCE keeps a file that ends in a partial block; the next start removes that block."""
    engine = life_of(tmp_path, appendfsync=policy)
    engine.run("XADD s 1-0 f v")
    engine.files.room = 20
    engine.files.fail("cut", errno.EIO)
    engine.run("XADD s 2-0 f v")
    assert engine.run("SHUTDOWN") == "ERR Errors trying to SHUTDOWN. Check logs."
    engine.run("SHUTDOWN FORCE")
    assert engine.host.ends
    engine.files.heal()
    engine.close()
    assert entries(restarted(engine)) == [b"1-0"]


def test_a_broken_log_is_rewritten_before_the_process_exits(tmp_path):
    """SHUTDOWN rewrites a broken log without waiting for the next attempt: if the disk works again, the log is
    complete.
    """
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.files.fail("sync", errno.EIO)
    engine.run("XADD s 2-0 f v")
    engine.tick(2)
    engine.workers.run()
    assert engine.log.is_broken
    engine.files.heal()
    ended(engine)
    assert entries(restarted(engine)) == [b"1-0", b"2-0"]
