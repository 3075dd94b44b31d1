"""Shutdown while a file is being written, or while the data is incomplete."""

from __future__ import annotations

import errno

import pytest

from tests.engine.shell.durability.background.by_hand import (
    ended,
    entries,
    life_of,
    names,
    restarted,
    without_log,
)


@pytest.mark.parametrize("line", ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOW FORCE"])
def test_the_final_snapshot_replaces_one_in_progress(tmp_path, line):
    """SHUTDOWN during BGSAVE discards the snapshot in progress and writes a final one with all data."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("BGSAVE") == b"Background saving started"
    engine.run("XADD s 2-0 f v")
    ended(engine, line)
    assert names(engine) == ["dump.rdb"]
    assert entries(restarted(engine, appendonly="no")) == [b"1-0", b"2-0"]


@pytest.mark.parametrize("call", ["create", "write", "sync", "sync_directory"])
@pytest.mark.parametrize("line", ["SHUTDOWN SAVE", "DEBUG RELOAD"])
def test_two_saves_do_not_share_a_file(tmp_path, call, line):
    """A save during any step of a background save gives the latest file, and leaves no temporary file."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("BGSAVE")

    def meanwhile() -> None:
        engine.run("XADD s 2-0 f v")
        engine.run(line)

    engine.files.interrupt(call, "" if call == "sync_directory" else "temp-", meanwhile)
    engine.workers.run()
    assert entries(engine) == [b"1-0", b"2-0"]
    assert names(engine) == ["dump.rdb"]
    assert engine.info()["rdb_last_bgsave_status"] == "ok"
    assert engine.info()["rdb_changes_since_last_save"] == 0
    assert entries(restarted(engine, appendonly="no")) == [b"1-0", b"2-0"]


def test_a_failed_shutdown_keeps_the_engine_running(tmp_path):
    """If SHUTDOWN cannot write the final snapshot, the engine continues and saves, and a later SHUTDOWN succeeds."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    engine.files.fail("write", errno.ENOSPC)
    assert engine.run("SHUTDOWN") == "ERR Errors trying to SHUTDOWN. Check logs."
    assert not engine.host.ends
    engine.files.heal()
    engine.run("BGSAVE")
    engine.workers.run()
    assert engine.run("XADD s 2-0 f v") == b"2-0"
    engine.run("SHUTDOWN")
    for line in ("XADD s 3-0 f v", "SAVE", "BGSAVE", "BGREWRITEAOF", "DEBUG RELOAD", "CONFIG SET appendonly yes"):
        assert "shutting down" in engine.run(line)
    engine.tick(10)
    ended(engine)
    assert entries(restarted(engine, appendonly="no")) == [b"1-0", b"2-0"]


def test_scheduled_work_ends_with_the_process(tmp_path):
    """SHUTDOWN discards a file that is being written and another one that is scheduled."""
    for directory, first, second in (
        (tmp_path, "BGREWRITEAOF", "BGSAVE SCHEDULE"),
        (tmp_path, "BGSAVE", "BGREWRITEAOF"),
    ):
        engine = life_of(directory)
        engine.run("XADD s 1-0 f v")
        before = names(engine), sorted(path.name for path in engine.folder.iterdir())
        engine.run(first)
        assert engine.run(second).endswith(b"scheduled")
        assert engine.run(second).endswith(b"scheduled")
        ended(engine)
        assert names(engine) == before[0]
        again = restarted(engine)
        assert again.run("XLEN s") == 1
        again.run("FLUSHALL")
        again.close()


def test_incomplete_data_is_never_saved(tmp_path):
    """After a failed DEBUG RELOAD no request replaces the snapshot, and the process exits."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("SAVE") == b"OK"
    path = tmp_path / "dump.rdb"
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    engine.run("XADD s 2-0 f v")
    assert engine.run("DEBUG RELOAD NOSAVE").startswith("ERR")
    assert engine.host.ends
    for line in ("SAVE", "BGSAVE", "XADD s 3-0 f v", "DEBUG RELOAD"):
        assert "shutting down" in engine.run(line)
    ended(engine, "SHUTDOWN SAVE")
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("where", ["running", "ending", "closed"])
def test_partly_changed_data_is_never_saved(tmp_path, where):
    """After an unexpected error, the data in memory is no longer written to disk."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("SAVE") == b"OK"
    saved = (tmp_path / "dump.rdb").read_bytes()

    if where == "ending":
        engine.run("SHUTDOWN NOSAVE")
    elif where == "closed":
        engine.close()
    engine.durability.give_up_data()
    if where != "closed":
        for line in ("SAVE", "BGSAVE", "XADD s 3-0 f v"):
            assert "shutting down" in engine.run(line)
        engine.close()
    assert (tmp_path / "dump.rdb").read_bytes() == saved
