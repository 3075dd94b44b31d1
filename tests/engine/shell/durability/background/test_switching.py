"""Switching the log on and off at any time."""

from __future__ import annotations

import errno

import pytest

from engine.core.keyspace.database import Database
from tests.engine.shell.durability.background.by_hand import (
    ended,
    entries,
    life_of,
    names,
    restarted,
    without_log,
)


@pytest.mark.parametrize("tried", [False, True])
def test_the_first_base_is_written_before_the_process_exits(tmp_path, tried):
    """SHUTDOWN before the log is in use writes the base first; if that fails the process continues."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("CONFIG SET appendonly yes")
    engine.run("XADD s 2-0 f v")
    engine.files.fail("write", errno.ENOSPC)
    if tried:
        engine.workers.run()
    assert engine.run("SHUTDOWN") == "ERR Errors trying to SHUTDOWN. Check logs."
    engine.files.heal()
    engine.run("XADD s 3-0 f v")
    ended(engine)
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0"]


def test_switching_off_cancels_the_first_base(tmp_path):
    """CONFIG SET appendonly no cancels running attempts and a scheduled rewrite."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("CONFIG SET appendonly yes")
    engine.files.fail("create", errno.EIO, "rewriteaof")
    engine.workers.run()
    engine.run("BGSAVE")
    engine.run("BGREWRITEAOF")
    engine.run("CONFIG SET appendonly no")
    engine.files.heal()
    engine.workers.run()
    engine.tick(100)
    engine.workers.run()
    assert not list(engine.folder.iterdir())
    assert not engine.core.changes.recording


def test_a_log_that_cannot_start_stays_off(tmp_path):
    """CONFIG SET appendonly yes returns an error if the folder cannot be created, and OK when it can."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.files.fail("make_directory", errno.EACCES)
    assert "the append-only file cannot be written" in engine.run("CONFIG SET appendonly yes")
    assert engine.run("CONFIG GET appendonly") == [b"appendonly", b"no"]
    assert engine.info()["aof_rewrite_in_progress"] == 0
    engine.files.heal()
    assert engine.run("BGSAVE") == b"Background saving started"
    engine.workers.run()
    assert engine.run("CONFIG SET appendonly yes") == b"OK"
    engine.workers.run()
    engine.run("XADD s 2-0 f v")
    assert entries(restarted(engine)) == [b"1-0", b"2-0"]


def test_files_without_a_manifest_are_not_overwritten(tmp_path):
    """CONFIG SET appendonly yes rejects a folder that would prevent the engine from starting."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    ended(engine)
    (engine.folder / "appendonly.aof.manifest").unlink()
    other = restarted(engine, appendonly="no")
    before = sorted(other.folder.iterdir())
    assert "the manifest is missing" in other.run("CONFIG SET appendonly yes")
    other.workers.run()
    assert sorted(other.folder.iterdir()) == before
    assert other.run("CONFIG GET appendonly") == [b"appendonly", b"no"]


def test_a_late_fsync_applies_to_the_old_file(tmp_path):
    """If the log is switched off and on during an fsync, the result of the fsync applies only to the old file."""
    engine = life_of(tmp_path, appendfsync="everysec")
    engine.run("XADD s 1-0 f v")
    engine.tick(2)
    assert engine.info()["aof_pending_bio_fsync"] == 1
    engine.run("CONFIG SET appendonly no")
    engine.run("CONFIG SET appendonly yes")
    engine.workers.run()
    engine.tick()
    assert engine.info()["aof_last_write_status"] == "ok"
    assert engine.run("XADD s 2-0 f v") == b"2-0"
    ended(engine)
    assert entries(restarted(engine)) == [b"1-0", b"2-0"]


def test_a_rewrite_starts_after_a_thread_has_synced_the_log(tmp_path):
    """If much of the log is unsynced, a thread syncs it before a rewrite starts, so that the sync in the loop is short.

    If this sync does not end, the rewrite starts anyway.
    """
    engine = life_of(tmp_path, appendfsync="no")
    log = engine.durability.log
    for number in range(1, 50):
        engine.run(f"XADD s {number}-0 f", bytes(30_000))
    assert engine.run("BGREWRITEAOF") == b"Background append only file rewriting started"
    engine.tick()
    assert log.synced < log.written
    assert engine.info()["aof_rewrite_scheduled"] == 1
    engine.workers.run()
    assert log.synced == log.written
    engine.tick()
    assert engine.info()["aof_rewrite_in_progress"] == 1
    engine.workers.run()
    assert engine.info()["aof_last_bgrewrite_status"] == "ok"
    engine.run("XADD s 50-0 f", bytes(2 << 20))
    engine.run("BGREWRITEAOF")
    for _ in range(50):
        assert engine.info()["aof_rewrite_scheduled"] == 1
        engine.tick()
    assert engine.info()["aof_rewrite_in_progress"] == 1
    engine.workers.run()
    ended(engine)
    assert len(entries(restarted(engine))) == 50


def test_an_unneeded_image_is_abandoned(tmp_path):
    """If the process exits while values are copied, nothing is written and the databases are unchanged."""
    engine = without_log(tmp_path, save="")
    for number in range(450):
        engine.run(f"XADD s{number} 1-0 f v")
    engine.run("BGSAVE")
    assert type(engine.core.databases[0]) is not Database
    engine.run("SHUTDOWN NOSAVE")
    engine.workers.turn()
    assert type(engine.core.databases[0]) is Database
    engine.close()
    assert names(engine) == []


def test_a_rewrite_without_a_log(tmp_path):
    """BGREWRITEAOF with appendonly no writes the files once; later effects are neither added to them nor recorded."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    assert engine.run("BGREWRITEAOF") == b"Background append only file rewriting started"
    engine.run("XADD s 2-0 f v")
    assert not engine.core.changes.recording
    engine.workers.run()
    assert engine.info()["aof_last_bgrewrite_status"] == "ok"
    assert not engine.core.changes.recording
    assert not engine.log.is_open
    assert entries(restarted(engine)) == [b"1-0"]
