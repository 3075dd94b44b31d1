"""A full or broken disk: writes are rejected, reads work, nothing is lost, and everything works after recovery."""

from __future__ import annotations

import errno

import pytest

from engine.settings.kinds import ConfigError
from tests.faults.disk import Disk
from tests.faults.engines import Engine

NO_SPACE = "MISCONF Errors writing to the AOF file: No space left on device"
IO_ERROR = "MISCONF Errors writing to the AOF file: Input/output error"


def restarted(engine: Engine, **settings: str) -> Engine:
    """Return a new engine in the same directory."""
    engine.die()
    return Engine(engine.directory, Disk(), **settings)


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_no_space_for_the_log(tmp_path, policy, rewritten):
    """After ENOSPC in a block the log keeps its last complete block, and writes get MISCONF until there is space.

    The next block directly follows the last complete one.
    """
    engine = Engine(tmp_path, appendfsync=policy)
    if rewritten:
        engine.run("BGREWRITEAOF")
    assert engine.run("XADD s 1-1 a 1") == b"1-1"
    size = engine.log.size
    engine.files.room = 20
    engine.run("XADD s 2-1 a 2")
    if policy == "always":
        assert engine.log.synced < engine.log.appended, "the reply must not have been sent"
    assert engine.log.path.stat().st_size == size
    assert engine.run("XADD s 3-1 a 3") == NO_SPACE
    assert engine.run("SET k v") == NO_SPACE
    assert engine.run("XREADGROUP GROUP g c STREAMS s >") == NO_SPACE
    assert engine.run("XLEN s") == 2
    assert engine.info()["aof_last_write_status"] == "err"
    engine.files.heal()
    engine.tick()
    assert engine.info()["aof_last_write_status"] == "ok"
    assert engine.run("XADD s 3-1 a 3") == b"3-1"
    assert b"\0" not in engine.log.path.read_bytes()
    assert restarted(engine).run("XLEN s") == 3


def test_a_transaction_is_rejected_as_a_whole(tmp_path):
    """If the disk becomes full while a transaction is queued, EXEC is rejected and none of its writes runs."""
    engine = Engine(tmp_path)
    engine.run("MULTI")
    engine.run("XADD s 1-1 a 1")
    engine.files.fail("write", errno.ENOSPC)
    other, engine.session = engine.session, engine.core.open_session(engine.now_us)
    engine.run("SET k v")
    engine.session = other
    assert "MISCONF" in engine.run("EXEC")
    assert engine.run("XLEN s") == 0


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_file_with_a_failed_fsync_is_rewritten(tmp_path, policy):
    """After EIO on fsync the file's content is unknown, so it is rewritten from memory before writes work again."""
    engine = Engine(tmp_path, appendfsync=policy)
    engine.run("XADD s 1-1 a 1")
    engine.tick(2)
    engine.files.fail("sync", errno.EIO)
    engine.run("XADD s 2-1 a 2")
    engine.tick(2)
    assert engine.run("XADD s 3-1 a 3") == IO_ERROR
    assert engine.run("XLEN s") == 2
    old = engine.log.path
    engine.tick(2)
    assert engine.run("XADD s 3-1 a 3") == IO_ERROR
    engine.files.heal()
    engine.tick(70)
    engine.tick()
    assert engine.log.path != old
    assert engine.run("XADD s 3-1 a 3") == b"3-1"
    assert engine.info()["aof_last_bgrewrite_status"] == "ok"
    assert restarted(engine).run("XLEN s") == 3


@pytest.mark.parametrize(("policy", "event"), [("always", b"aof-fsync-always"), ("no", b"aof-write")])
def test_a_slow_write_is_an_event_of_latency(tmp_path, policy, event):
    """LATENCY reports a write of the log of half a second, and none below the threshold."""
    engine = Engine(tmp_path, appendfsync=policy)
    engine.run("CONFIG SET latency-monitor-threshold 250")
    write, times = engine.files.write, list[float]()

    def slow(*words):
        engine.seconds += times.pop() if times else 0
        return write(*words)

    engine.files.write = slow
    for seconds in (0.125, 0.5):
        times.append(seconds)
        engine.run("XADD s * f v")
        assert not times
    assert [(name, worst) for name, *_, worst in engine.run("LATENCY LATEST")] == [(event, 500)]


@pytest.mark.parametrize("form", ["rdb", "psb"])
def test_a_snapshot_that_fails(tmp_path, form):
    """After BGSAVE on a full disk the old snapshot stays, and with save points writes are rejected until a save
    succeeds.
    """
    engine = Engine(tmp_path, appendonly="no", save="3600 1", save_format=form)
    engine.run("XADD s 1-1 a 1")
    assert engine.run("SAVE") == b"OK"
    engine.run("XADD s 2-1 a 2")
    engine.files.fail("write", errno.ENOSPC)
    assert "No space left" in engine.run("SAVE")
    engine.run("BGSAVE")
    assert engine.info()["rdb_last_bgsave_status"] == "err"
    engine.tick()
    assert engine.run("XADD s 3-1 a 3").startswith("MISCONF")
    assert engine.run("PING").startswith("MISCONF")
    assert engine.run("XLEN s") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"dump.{form}"]
    engine.files.heal()
    engine.run("BGSAVE")
    engine.tick()
    assert engine.run("XADD s 3-1 a 3") == b"3-1"
    assert restarted(engine, appendonly="no").run("XLEN s") == 2


def test_save_points(tmp_path):
    """The save directive writes a snapshot after its number of seconds and of changes, and not before."""
    engine = Engine(tmp_path, appendonly="no", save="60 2")
    engine.run("XADD s 1-1 a 1")
    engine.tick(100)
    assert engine.info()["rdb_saves"] == 0
    engine.run("XADD s 2-1 a 1")
    engine.tick()
    assert engine.info()["rdb_saves"] == 1
    assert engine.info()["rdb_changes_since_last_save"] == 0
    engine.run("XADD s 3-1 a 1")
    engine.run("XADD s 4-1 a 1")
    engine.tick(30)
    assert engine.info()["rdb_saves"] == 1


def test_the_log_is_rewritten_when_it_has_grown(tmp_path):
    """auto-aof-rewrite-percentage and -min-size start a rewrite automatically."""
    engine = Engine(tmp_path, auto_aof_rewrite_min_size="2000", auto_aof_rewrite_percentage="100")
    for number in range(1, 40):
        engine.run(f"XADD s MAXLEN 1 {number}-1 a 1")
        engine.tick()
    base = engine.info()["aof_base_size"]
    assert engine.info()["aof_last_bgrewrite_status"] == "ok"
    assert base > 0
    engine.run("CONFIG SET auto-aof-rewrite-percentage 0")
    for number in range(40, 140):
        engine.run(f"XADD s MAXLEN 1 {number}-1 a 1")
        engine.tick()
    assert engine.info()["aof_base_size"] == base


def test_everysec_waits_for_a_slow_disk_for_two_seconds(tmp_path):
    """While an fsync hangs, new blocks wait; after two seconds they are written anyway, and that is counted."""
    engine = Engine(tmp_path, appendfsync="everysec", at_once="")
    engine.run("XADD s 1-1 a 1")
    engine.tick(2)
    assert engine.info()["aof_pending_bio_fsync"] == 1
    engine.run("XADD s 2-1 a 2")
    assert engine.info()["aof_buffer_length"] > 0
    engine.tick(1)
    assert engine.info()["aof_buffer_length"] > 0
    engine.tick(1.5)
    assert engine.info()["aof_buffer_length"] == 0
    assert engine.info()["aof_delayed_fsync"] == 1
    engine.run("XADD s 3-1 a 3")
    engine.workers.run(1)
    assert engine.info()["aof_buffer_length"] == 0, "waiting blocks are written after the fsync"


def test_everysec_loses_at_most_a_second_in_a_power_failure(tmp_path):
    """Commands acknowledged more than a second (and a tick) before a power failure are restored."""
    engine = Engine(tmp_path, appendfsync="everysec")
    for number in range(1, 41):
        engine.run(f"XADD s {number}-1 a 1")
        engine.tick(0.1)
    engine.die()
    engine.files.lose()
    left = Engine(tmp_path, Disk()).run("XLEN s")
    assert 40 - 11 <= left <= 40


def test_a_directory_has_one_owner(tmp_path):
    """A second engine with appendonly on the same directory does not start until the first one has ended."""
    engine = Engine(tmp_path)
    with pytest.raises(ConfigError, match="belongs to another engine"):
        Engine(tmp_path)
    other = Engine(tmp_path, appendonly="no")
    assert "belongs to another engine" in other.run("SAVE")
    assert "belongs to another engine" in other.run("CONFIG SET appendonly yes")
    assert "belongs to another engine" in other.run("CONFIG SET save", b"60 1")
    engine.run("XADD s 1-1 a 1")
    assert restarted(engine).run("XLEN s") == 1


def test_shutdown_fails_if_it_cannot_save(tmp_path):
    """SHUTDOWN returns an error if the log or the snapshot cannot be written."""
    engine = Engine(tmp_path)
    engine.run("XADD s 1-1 a 1")
    engine.files.fail("sync", errno.EIO)
    assert engine.run("SHUTDOWN") == "ERR Errors trying to SHUTDOWN. Check logs."
    engine.files.heal()
    engine.die()
    snapshots = Engine(tmp_path, Disk(), appendonly="no", save="1 1")
    snapshots.run("SET k v")
    snapshots.files.fail("rename", errno.EIO)
    assert snapshots.run("SHUTDOWN") == "ERR Errors trying to SHUTDOWN. Check logs."
    assert snapshots.run("SHUTDOWN SAVE") == "ERR Errors trying to SHUTDOWN. Check logs."
