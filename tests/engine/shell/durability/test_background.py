"""What durability does in the background, and what can come between: saving, rewriting, the log switched on and off,
the end of the process. Threads, clocks and the disk are moved by hand.

Together these tests make every move of every state machine, which the last one proves: that is why they
are one file of more than 400 lines.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hiredis
import pytest

from engine.core.keyspace import image
from engine.core.keyspace.database import Database
from engine.core.protocol.replies import BLOCKED
from engine.shell.durability.log import writer
from engine.shell.durability.states import life, log_file, rewrite, save, switch
from engine.shell.durability.states.machine import Machine
from engine.wire.encode import Out, encode
from tests.faults.disk import Crash, Disk
from tests.faults.engines import Engine
from tests.harness.replay import state

Test = Callable[..., None]
WALKS: list[tuple[Test, dict[str, Any]]] = []


def walks(**arguments: Any) -> Callable[[Test], Test]:
    """Marks a test whose moves, with these of its parameters, count for the proof at the end."""

    def mark(test: Test) -> Test:
        WALKS.append((test, arguments))
        return test

    return mark


def life_of(directory: Path, *, at_once: bool = False, **settings: str) -> Engine:
    """An engine whose threads work when the test says so."""
    return Engine(directory, Disk(), at_once=at_once, enable_debug_command="yes", **settings)


def without_log(directory: Path, *, at_once: bool = False, **settings: str) -> Engine:
    """The same without a log."""
    return life_of(directory, at_once=at_once, appendonly="no", **settings)


def restarted(engine: Engine, **settings: str) -> Engine:
    """Another life in the same directory, after a kill unless the first one has been closed."""
    engine.die()
    return life_of(engine.directory, **settings)


def ended(engine: Engine, line: str = "SHUTDOWN") -> Engine:
    """The engine when it has been told to end, and has."""
    engine.run(line)
    assert engine.host.ends
    engine.close()
    return engine


def entries(engine: Engine) -> list[bytes]:
    """The IDs in the stream ``s``."""
    out: Out = []
    encode(engine.run("XRANGE s - +"), 2, out)
    reader = hiredis.Reader()
    reader.feed(b"".join(out))
    return [entry[0] for entry in reader.gets()]


def names(engine: Engine) -> list[str]:
    """What is in the engine's directory."""
    return sorted(path.name for path in engine.directory.iterdir())


# -- the end of the process -------------------------------------------------------------------------------------------


@walks(line="SHUTDOWN")
@pytest.mark.parametrize("line", ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOW FORCE"])
def test_the_last_snapshot_is_written_while_another_one_is(tmp_path, line):
    """SHUTDOWN during BGSAVE: the background's older image becomes nothing, the last one becomes the snapshot."""
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
    """A save that comes at any moment of the background's has the last word, and no temporary file is left."""
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


@walks()
def test_an_end_that_fails_is_no_end(tmp_path):
    """Where the last snapshot cannot be written the engine goes on, saves in the background, and ends when it can."""
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


@walks()
def test_what_is_scheduled_does_not_outlive_the_process(tmp_path):
    """SHUTDOWN while one thing is being written and another is scheduled: neither becomes anything."""
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


@walks()
def test_data_that_are_not_whole_are_never_saved(tmp_path):
    """Once DEBUG RELOAD has failed nothing takes the snapshot's place, whatever asks for it, and the process ends."""
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


@walks(where="RUNNING")
@walks(where="ENDING")
@walks(where="CLOSED")
@pytest.mark.parametrize("where", ["RUNNING", "ENDING", "CLOSED"])
def test_half_changed_data_are_never_saved(tmp_path, where):
    """After an unforeseen error, wherever it comes, nothing of the data in memory reaches the disk any more."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("SAVE") == b"OK"
    saved = (tmp_path / "dump.rdb").read_bytes()

    if where == "ENDING":
        engine.run("SHUTDOWN NOSAVE")
    elif where == "CLOSED":
        engine.close()
    assert engine.durability._life.state.name == where
    engine.durability.give_up_data()
    if where != "CLOSED":
        for line in ("SAVE", "BGSAVE", "XADD s 3-0 f v"):
            assert "shutting down" in engine.run(line)
        engine.close()
    assert (tmp_path / "dump.rdb").read_bytes() == saved


# -- saving -----------------------------------------------------------------------------------------------------------


@walks()
def test_saves_wait_for_a_rewrite_and_rewrites_for_a_save(tmp_path):
    """What was scheduled begins when the other thing has been written; asking twice changes nothing."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("BGREWRITEAOF")
    assert engine.run("BGSAVE").startswith("ERR Another child process is active")
    assert engine.run("BGSAVE SCHEDULE") == engine.run("BGSAVE SCHEDULE") == b"Background saving scheduled"
    assert engine.run("BGREWRITEAOF").startswith("ERR Background append only file rewriting already")
    assert engine.info()["rdb_bgsave_in_progress"] == 0
    while engine.info()["aof_rewrite_in_progress"]:
        engine.workers.run(1)
    assert engine.info()["rdb_bgsave_in_progress"] == 1
    assert engine.run("BGSAVE").startswith("ERR Background save already")
    assert engine.run("BGSAVE SCHEDULE").startswith("ERR Background save already")
    assert engine.run("SAVE").startswith("ERR Background save already")
    scheduled = b"Background append only file rewriting scheduled"
    assert engine.run("BGREWRITEAOF") == engine.run("BGREWRITEAOF") == scheduled
    assert engine.info()["aof_rewrite_scheduled"] == 1
    engine.workers.run()
    facts = engine.info()
    assert (facts["rdb_saves"], facts["aof_rewrite_scheduled"], facts["aof_rewrite_in_progress"]) == (1, 0, 0)
    assert facts["aof_last_rewrite_time_sec"] == 0
    assert len(list(engine.folder.iterdir())) == 3


def test_a_save_waits_for_a_rewrite_that_waits_for_an_fsync(tmp_path):
    """While a rewrite is wanted and has not begun, BGSAVE does not say that it has: it is refused, or scheduled."""
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


def test_a_save_that_is_said_to_have_started_has(tmp_path):
    """BGSAVE goes before a rewrite that is due by itself: who polls rdb_bgsave_in_progress takes 0 for its end."""
    engine = life_of(tmp_path, auto_aof_rewrite_min_size="1")
    engine.run("XADD s 1-0 f v")
    assert engine.run("BGSAVE") == b"Background saving started"
    assert engine.info()["rdb_bgsave_in_progress"] == 1


@walks()
def test_saving_fails_and_succeeds(tmp_path):
    """After a save in the background has failed the directive waits five seconds, then saves."""
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


def test_a_log_that_cannot_be_written_does_not_keep_snapshots_back(tmp_path):
    """The save directive is obeyed while the log is broken and its rewrite fails."""
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


def test_what_a_killed_process_left_is_removed(tmp_path):
    """A snapshot that was being written when the process died goes when the directory has an owner again."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("SAVE")
    engine.files.interrupt("sync", "temp-", lambda: setattr(engine.files, "crash_at", len(engine.files.calls)))
    engine.run("BGSAVE")
    with pytest.raises(Crash):
        engine.workers.run()
    engine.die()
    assert len(names(engine)) == 2
    again = without_log(tmp_path)
    again.run("SAVE")
    assert names(again) == ["dump.rdb"]


# -- the log switched on and off --------------------------------------------------------------------------------------


@walks(appendonly="no", first="CONFIG SET appendonly yes")
@pytest.mark.parametrize("first", ["CONFIG SET appendonly yes", "BGREWRITEAOF"])
@pytest.mark.parametrize("appendonly", ["no", "yes"])
def test_switched_off_and_on_while_a_base_is_written(tmp_path, appendonly, first):
    """What was written after the last OK is in the log, whatever was being written when it was switched."""
    engine = life_of(tmp_path, appendonly=appendonly)
    engine.run("XADD s 1-0 f v")
    engine.run(first)
    engine.run("XADD s 2-0 f v")
    assert engine.run("CONFIG SET appendonly no") == b"OK"
    engine.run("XADD s 3-0 f v")
    assert engine.run("CONFIG SET appendonly yes") == b"OK"
    engine.run("XADD s 4-0 f v")
    engine.workers.run()
    assert engine.info()["aof_enabled"] == 1
    engine.run("XADD s 5-0 f v")
    assert not [name for name in engine.folder.iterdir() if name.name.startswith("temp-")]
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0", b"4-0", b"5-0"]


@walks(call="write", where="rewriteaof")
@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("create", "rewriteaof"),
        ("write", "rewriteaof"),
        ("sync", "rewriteaof"),
        ("write", "manifest"),
        ("create", "incr"),
        ("write", "incr"),
        ("sync", "incr"),
        ("rename", "base"),
        ("rename", "manifest"),
        ("sync_directory", "appendonlydir"),
    ],
)
def test_a_first_base_that_fails_is_tried_again(tmp_path, call, where):
    """CONFIG SET appendonly yes answered OK: once the disk takes it, the log is in use with all there is by then."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    assert engine.run("CONFIG SET appendonly yes") == b"OK"
    engine.run("XADD s 2-0 f v")
    engine.files.fail(call, errno.ENOSPC, where)
    engine.workers.run()
    assert engine.info()["aof_last_bgrewrite_status"] == "err"
    assert engine.run("XADD s 3-0 f v") == b"3-0"
    engine.tick(2)
    engine.workers.run()
    engine.files.heal()
    engine.tick(5)
    engine.run("XADD s 4-0 f v")
    engine.workers.run()
    assert engine.info()["aof_enabled"] == 1
    engine.run("XADD s 5-0 f v")
    assert entries(restarted(engine)) == [b"1-0", b"2-0", b"3-0", b"4-0", b"5-0"]


@walks(tried=True)
@pytest.mark.parametrize("tried", [False, True])
def test_the_first_base_is_written_before_the_process_ends(tmp_path, tried):
    """SHUTDOWN before the log is in use: its base is written then; where that fails the process stays."""
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


@pytest.mark.parametrize(
    ("call", "where"), [("create", "rewriteaof"), ("write", "incr"), ("rename", "base"), ("rename", "manifest")]
)
def test_a_first_base_that_never_was_does_not_keep_the_engine_from_starting(tmp_path, call, where):
    """SHUTDOWN FORCE ends all the same, and what was begun is no reason to refuse to load."""
    engine = without_log(tmp_path, save="3600 1")
    engine.run("XADD s 1-0 f v")
    engine.run("CONFIG SET appendonly yes")
    engine.run("XADD s 2-0 f v")
    engine.files.fail(call, errno.ENOSPC, where)
    engine.workers.run()
    ended(engine, "SHUTDOWN FORCE")
    assert entries(restarted(engine)) == [b"1-0", b"2-0"]


@walks()
def test_switched_off_while_the_first_base_is_to_be_tried_again(tmp_path):
    """CONFIG SET appendonly no ends the attempts, and a rewrite that was scheduled is forgotten with the log."""
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


@walks()
def test_a_log_that_cannot_begin_stays_off(tmp_path):
    """CONFIG SET appendonly yes answers an error where the folder cannot be made, and OK when it can."""
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


def test_files_whose_manifest_is_lost_are_not_written_over(tmp_path):
    """CONFIG SET appendonly yes refuses a folder that the engine would not start with."""
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


def test_an_fsync_that_ends_after_its_file_was_left(tmp_path):
    """The log is switched off and on while an fsync runs: it concerns no file but its own, and fails nobody else's."""
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


def test_a_rewrite_begins_when_the_log_has_been_synced_beside_the_loop(tmp_path, monkeypatch):
    """Where much of the log waits for its fsync, that comes first, in its thread: the loop's own one is short.

    A disk that is never done does not keep the rewrite from beginning for ever.
    """
    monkeypatch.setattr(writer, "_SHORT_SYNC", 10)
    engine = life_of(tmp_path, appendfsync="no")
    log = engine.durability.log
    for number in range(1, 50):
        engine.run(f"XADD s {number}-0 f v")
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
    engine.run("XADD s 50-0 f v")
    engine.run("BGREWRITEAOF")
    for _ in range(50):
        assert engine.info()["aof_rewrite_scheduled"] == 1
        engine.tick()
    assert engine.info()["aof_rewrite_in_progress"] == 1
    engine.workers.run()
    ended(engine)
    assert len(entries(restarted(engine))) == 50


@pytest.mark.parametrize("line", ["BGSAVE", "BGREWRITEAOF"])
def test_what_changes_while_the_image_is_taken_is_not_in_it(tmp_path, monkeypatch, line):
    """Values are copied in several iterations: the file has those of the moment at which the command came, the log has
    what changed since.
    """
    monkeypatch.setattr(image, "_AT_ONCE", 15)
    settings = {"appendonly": "yes" if line == "BGREWRITEAOF" else "no", "save": ""}
    engine = life_of(tmp_path, **settings)
    for number in range(20):
        engine.run(f"XADD s{number} 1-0 f v")
    expected = state(engine.core)
    engine.run(line)
    engine.workers.run()
    assert engine.info()["rdb_bgsave_in_progress"] or engine.info()["aof_rewrite_in_progress"]
    for number in range(20):
        engine.run(f"XADD s{19 - number} * f v")
    engine.workers.run()
    assert engine.info()["rdb_last_bgsave_status"] == engine.info()["aof_last_bgrewrite_status"] == "ok"
    if line == "BGREWRITEAOF":
        expected = state(engine.core)
    assert state(restarted(engine, **settings).core) == expected


def test_an_image_that_nobody_wants_any_more_is_not_taken_to_its_end(tmp_path, monkeypatch):
    """An end of the process while values are copied: nothing is written, and the databases are what they were."""
    monkeypatch.setattr(image, "_AT_ONCE", 15)
    engine = without_log(tmp_path, save="")
    for number in range(20):
        engine.run(f"XADD s{number} 1-0 f v")
    engine.run("BGSAVE")
    assert type(engine.core.databases[0]) is not Database
    engine.run("SHUTDOWN NOSAVE")
    engine.workers.turn()
    assert type(engine.core.databases[0]) is Database
    engine.close()
    assert names(engine) == []


def test_who_waits_for_the_log_hears_that_it_is_off(tmp_path):
    """WAITAOF that waits for the disk is answered when there is no log any more, not left waiting."""
    engine = life_of(tmp_path, appendfsync="no")
    engine.run("XADD s 1-0 f v")
    waiting = engine.session
    assert engine.run("WAITAOF 1 0 0") is BLOCKED
    engine.session = engine.core.open_session(engine.now_us)
    engine.core.outbox.clear()
    engine.run("CONFIG SET appendonly no")
    [(session, reply)] = engine.core.outbox
    assert session is waiting
    assert reply.text.endswith(b"appendonly is disabled.")


@walks()
def test_a_rewrite_without_a_log(tmp_path):
    """BGREWRITEAOF with appendonly no writes the files once; nothing is added to them, and nothing is recorded."""
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


# -- rewriting and the log's file -------------------------------------------------------------------------------------


@walks()
def test_a_rewrite_that_cannot_begin(tmp_path):
    """BGREWRITEAOF, or a log that has grown: an error at the begin is reported, and the log goes on where it is."""
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


@walks()
def test_a_rewrite_fails_in_its_thread(tmp_path):
    """The log goes on in its new increment, and the next rewrite makes one base of all."""
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


@walks()
def test_a_full_disk_holds_the_log_up(tmp_path):
    """Refused again and again, then taken: nothing is lost, whether or not a rewrite from memory comes between."""
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


@walks()
def test_a_full_disk_and_an_fsync_that_fails(tmp_path):
    """What waited is written when there is room, but the fsync fails: the file is given up, and written anew."""
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


@walks()
def test_a_full_disk_and_the_log_switched_off(tmp_path):
    """CONFIG SET appendonly no while the disk is full: writes go on at once, and a log that is begun later is whole."""
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


@walks()
def test_a_file_breaks_while_its_fsync_runs(tmp_path):
    """A block that cannot be taken back and an fsync that fails later are one broken file, which is written anew."""
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
def test_nothing_is_added_behind_half_a_block(tmp_path, policy):
    """SHUTDOWN FORCE with a file that ends in half a block leaves it as it is: the next start cuts the half off."""
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


def test_a_broken_log_is_written_anew_before_the_process_ends(tmp_path):
    """SHUTDOWN does not wait for the next attempt: where the disk takes the log again, all is in it."""
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


# -- loading again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", ["", "BGREWRITEAOF", "BGSAVE"])
@pytest.mark.parametrize("how", ["NOSAVE", "NOFLUSH"])
def test_the_log_tells_what_was_loaded(tmp_path, how, busy):
    """DEBUG RELOAD that brings other data: they are in the log when it answers, also while the log is rewritten."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    assert engine.run("SAVE") == b"OK"
    engine.run("XADD s 2-0 f v")
    if busy:
        engine.run(busy)
    assert engine.run(f"DEBUG RELOAD {how}") == b"OK"
    engine.run("XADD s 3-0 f v")
    wanted = state(engine.core)
    again = restarted(engine)
    assert state(again.core) == wanted
    again.close()


@walks()
def test_a_reload_while_the_first_base_is_written(tmp_path):
    """The first base holds what was loaded, not what was there before."""
    engine = without_log(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("SAVE")
    engine.run("XADD s 2-0 f v")
    engine.run("CONFIG SET appendonly yes")
    assert engine.run("DEBUG RELOAD NOSAVE") == b"OK"
    engine.run("XADD s 3-0 f v")
    engine.workers.run()
    assert entries(restarted(engine)) == [b"1-0", b"3-0"]


def test_data_that_the_log_could_not_be_told_of(tmp_path):
    """DEBUG RELOAD with other data on a full disk: commands that write are refused until the log has them."""
    engine = life_of(tmp_path)
    engine.run("XADD s 1-0 f v")
    engine.run("SAVE")
    engine.run("XADD s 2-0 f v")
    engine.files.fail("write", errno.ENOSPC)
    assert engine.run("DEBUG RELOAD NOSAVE") == b"OK"
    assert engine.run("XADD s 3-0 f v").startswith("MISCONF")
    engine.files.heal()
    engine.tick(5)
    engine.workers.run()
    assert engine.run("XADD s 3-0 f v") == b"3-0"
    assert entries(restarted(engine)) == [b"1-0", b"3-0"]


# -- an error at any step ---------------------------------------------------------------------------------------------


def rewriting(engine: Engine) -> None:
    """A rewrite, with commands before, meanwhile and after."""
    engine.run("BGREWRITEAOF")
    engine.run("XADD s 2-0 f v")
    engine.workers.run()


def switching(engine: Engine) -> None:
    """The log switched off and on."""
    engine.run("CONFIG SET appendonly no")
    engine.run("XADD s 2-0 f v")
    engine.run("CONFIG SET appendonly yes")
    engine.run("XADD s 3-0 f v")
    engine.workers.run()


def saving(engine: Engine) -> None:
    """Snapshots, in the background and not."""
    engine.run("BGSAVE")
    engine.run("XADD s 2-0 f v")
    engine.run("BGREWRITEAOF")
    engine.workers.run()
    engine.run("SAVE")


def ending(engine: Engine) -> None:
    """The end while all kinds of things are going on."""
    engine.run("BGSAVE")
    engine.run("BGREWRITEAOF")
    engine.run("XADD s 2-0 f v")
    engine.workers.run(1)
    engine.run("SHUTDOWN")


def reloading(engine: Engine) -> None:
    """The data read again, from both kinds of files."""
    engine.run("DEBUG RELOAD")
    engine.run("XADD s 2-0 f v")
    engine.run("DEBUG LOADAOF")
    engine.run("DEBUG RELOAD NOFLUSH")
    engine.workers.run()


def replace_all(engine: Engine) -> None:
    """All data are replaced by those of a master, as at the end of a full synchronisation."""
    engine.core.databases[0].clear()
    engine.core.databases[0].add(b"of the master", b"value")


def replacing(engine: Engine) -> None:
    """All data are replaced while something is being written, and a command runs before the new base is there."""
    engine.run("BGSAVE")
    engine.core.durability.begin_replacing()
    replace_all(engine)
    engine.core.durability.end_replacing()
    engine.run("APPEND key value")
    engine.workers.run()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("story", [rewriting, switching, saving, ending, reloading, replacing])
def test_an_error_at_any_step(tmp_path, story, policy, lasting):
    """Whatever step fails, once or from then on: when the disk has healed the engine takes writes, and ends, and all
    that was in memory is there after a restart.
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


# -- other data -------------------------------------------------------------------------------------------------------


@walks(how="crash")
@walks(how="shutdown")
@walks(how="close")
@walks(how="fault")
@walks(how="")
@pytest.mark.parametrize("how", ["crash", "shutdown", "close", "fault", ""])
def test_the_log_begins_anew_with_other_data(tmp_path, how):
    """Until a master's data are whole, an end of any kind leaves what was there; then the log is of the new data."""
    engine = life_of(tmp_path)
    engine.run("SET old value")
    before = state(engine.core)
    engine.core.durability.begin_replacing()
    replace_all(engine)
    for word in ("no", "yes"):
        assert engine.run(f"CONFIG SET appendonly {word}") == b"OK"
    if how:
        if how == "shutdown":
            ended(engine)
        elif how == "fault":
            engine.durability.give_up_data()
        if how in ("close", "fault"):
            engine.close()
        assert state(restarted(engine).core) == before
        return
    engine.core.durability.end_replacing()
    engine.run("APPEND key value")
    engine.workers.run()
    wanted = state(engine.core)
    assert engine.info()["aof_enabled"] == 1
    assert state(restarted(ended(engine)).core) == wanted


# -- the proof --------------------------------------------------------------------------------------------------------


def test_every_move_is_made(tmp_path, monkeypatch):
    """The tests above make each move of each machine's table."""
    tables: dict[str, Any] = {
        "life": life.TABLE,
        "log_file": log_file.TABLE,
        "rewrite": rewrite.TABLE,
        "save": save.TABLE,
        "switch": switch.TABLE,
    }
    made: dict[str, set[Any]] = {name: set() for name in tables}
    fire = Machine.fire

    def watched(self: Machine[Any, Any], event: Any) -> Any:
        [name] = [name for name, table in tables.items() if table is self.table]
        move = self.state, event
        new = fire(self, event)
        made[name].add(move)
        return new

    monkeypatch.setattr(Machine, "fire", watched)
    for number, (test, arguments) in enumerate(WALKS):
        directory = tmp_path / str(number)
        directory.mkdir()
        test(directory, **arguments)
    assert {name: set(table) - made[name] for name, table in tables.items()} == {name: set() for name in tables}
