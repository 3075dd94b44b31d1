"""Loading an append-only file restores the state; torn, damaged, missing and foreign files are reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.formats.damage import DamagedError
from engine.settings.kinds import ConfigError
from engine.shell.durability.log import HEAD_SIZE
from engine.shell.durability.position import LINE_SIZE, Position
from engine.shell.durability.recovery import Replay
from tests.engine.shell.durability.lives import encode
from tests.engine.shell.durability.workload import Driver, empty_core, loaded, small_segments
from tests.faults.disk import Disk
from tests.faults.engines import Engine
from tests.harness.replay import NOW_US, state
from tests.suite.long import FULL

INCREMENT = "appendonly.aof.1.incr.aof"


def filled(directory: Path, **settings: str) -> Engine:
    engine = Engine(directory, **settings)
    lines = "XADD s 1-1 a 1", "XADD s 2-1 a 2", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "SET k v"
    for line in lines:
        engine.run(line)
    return engine


def increment(directory: Path) -> tuple[Path, bytes]:
    """Return the path of the log's file and its content."""
    path = directory / "appendonlydir" / INCREMENT
    return path, path.read_bytes()


def with_another_entry(directory: Path) -> tuple[Path, bytes, int]:
    """Return the log's file and content after one more entry, and the size before that entry."""
    engine = filled(directory)
    size = engine.log.size
    engine.run("XADD s 3-1 a 3")
    engine.die()
    return *increment(directory), size


@settings(deadline=None, max_examples=25 if FULL else 8)
@given(seed=st.integers(0, 10**9))
def test_the_log_restores_the_data(seed, tmp_path_factory):
    """After any commands, with rewrites in between, a restart has the same data."""
    directory = tmp_path_factory.mktemp("log")
    with small_segments():
        engine = Engine(directory)
        driver = Driver(engine.core, seed)
        engine.session = driver.session
        for number, _ in enumerate(driver.steps(150)):
            engine.now_us = driver.now_us
            engine.end_iteration()
            if not number % 60 and driver.session.multi is None:
                engine.run("BGREWRITEAOF")
        engine.core.changes.set_time(engine.now_us)
        wanted = state(engine.core)
        engine.die()
        again = Engine(directory, Disk(), now_us=engine.now_us)
        assert state(again.core) == wanted
        again.die()


def test_a_flipped_bit_anywhere_in_an_increment_is_found(tmp_path):
    """With any bit of the increment changed, the engine does not start, and names the file and the byte."""
    filled(tmp_path).die()
    path, data = increment(tmp_path)
    for at in range(0, 8 * len(data), 3 if FULL else 27):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(ConfigError, match=rf"{INCREMENT}, byte \d+: "):
            Engine(tmp_path)
    path.write_bytes(data)
    assert Engine(tmp_path).run("XLEN s") == 2


def test_a_torn_end_is_cut_or_rejected(tmp_path, caplog):
    """aof-load-truncated yes truncates a torn file after its last complete block and logs a warning; no stops the
    start.
    """
    path, data, size = with_another_entry(tmp_path)
    for end in range(size + 1, len(data), 1 if FULL else 7):
        path.write_bytes(data[:end])
        with pytest.raises(ConfigError, match=f"byte {size}: the file ends in the middle"):
            Engine(tmp_path, aof_load_truncated="no")
        again = Engine(tmp_path)
        assert again.run("XLEN s") == 2
        assert path.stat().st_size == size
        again.die()
    assert "truncated to" in caplog.text


@pytest.mark.parametrize("is_block", [True, False], ids=["blocks", "commands without sums"])
def test_zeros_at_the_end_are_a_torn_end(tmp_path, is_block):
    """A file whose last bytes read as zeros, as after a power failure, is truncated or rejected like a torn end."""
    path, data, size = with_another_entry(tmp_path)
    if not is_block:
        data = data[:size] + encode([b"XADD", b"s", b"3-1", b"a", b"3"])
    for end in range(size, len(data), 1 if FULL else 7):
        for zeros in (len(data) - end, 70_000):
            path.write_bytes(data[:end] + bytes(zeros))
            with pytest.raises(ConfigError, match=f"byte {size}: the file ends in the middle"):
                Engine(tmp_path, aof_load_truncated="no")
            again = Engine(tmp_path)
            assert again.run("XLEN s") == 2
            assert path.stat().st_size == size
            again.die()


@pytest.mark.parametrize("torn", [0, 4], ids=["it has no EXEC", "a command of it is torn"])
def test_an_unfinished_transaction_at_the_end_is_cut_off(tmp_path, torn):
    """A transaction of Redis without its EXEC is not replayed, and the next write replaces it."""
    filled(tmp_path).die()
    path = tmp_path / "appendonlydir" / INCREMENT
    with path.open("ab") as sink:
        sink.write(encode([b"SET", b"one", b"1"]))
        whole = sink.tell()
        written = encode([b"MULTI"]) + encode([b"SET", b"two", b"2"]) + encode([b"SET", b"three", b"3"])
        sink.write(written[: len(written) - torn])
    engine = Engine(tmp_path)
    assert path.stat().st_size == whole
    assert engine.run("GET one") == b"1"
    assert engine.run("GET two") is None
    engine.run("SET four 4")
    engine.die()
    assert Engine(tmp_path).run("GET four") == b"4"


def test_only_the_last_file_may_be_torn(tmp_path):
    """A torn end of a file that is followed by other files is damage."""
    engine = filled(tmp_path)
    engine.files.fail("write", 28, "rewriteaof")
    engine.run("BGREWRITEAOF")
    engine.files.heal()
    engine.run("XADD s 3-1 a 3")
    engine.die()
    path = tmp_path / "appendonlydir" / INCREMENT
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="ends in the middle"):
        Engine(tmp_path)


def test_a_missing_manifest_is_an_error(tmp_path):
    """Log files without a manifest stop the start."""
    filled(tmp_path).die()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").unlink()
    with pytest.raises(ConfigError, match="manifest is missing"):
        Engine(tmp_path)


def test_a_foreign_manifest_is_rejected(tmp_path):
    """A manifest that is invalid, belongs to another appendfilename, or names missing files is rejected."""
    filled(tmp_path).die()
    manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    with pytest.raises(ConfigError, match="not for 'appendfilename other"):
        Engine(tmp_path, appendfilename="other.aof")
    whole = manifest.read_bytes()
    manifest.write_bytes(b"something else\n")
    with pytest.raises(ConfigError, match="is not a line of a manifest"):
        Engine(tmp_path)
    manifest.write_bytes(b"file appendonly.aof.7.incr.aof seq 7 type i\n")
    with pytest.raises(ConfigError, match="names missing files"):
        Engine(tmp_path)
    manifest.write_bytes(whole)
    assert Engine(tmp_path).run("XLEN s") == 2


def test_a_damaged_base_that_redis_wrote_is_named(tmp_path):
    """A damaged RDB base is rejected with its name and the position."""
    filled(tmp_path).die()
    folder = tmp_path / "appendonlydir"
    (folder / "appendonly.aof.1.base.rdb").write_bytes(b"REDIS0010" + bytes(100))
    manifest = folder / "appendonly.aof.manifest"
    lines = b"file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    manifest.write_bytes(lines)
    with pytest.raises(ConfigError, match=r"base\.rdb, byte 12: .* the key occurs twice"):
        Engine(tmp_path)


def test_a_command_that_fails_stops_the_loading(tmp_path):
    """If a command fails on replay, the engine reports the offset and does not start."""
    filled(tmp_path).die()
    path = tmp_path / "appendonlydir" / INCREMENT
    size = path.stat().st_size
    with path.open("ab") as sink:
        sink.write(encode([b"XADD", b"s", b"1-1", b"a", b"b"]))
    with pytest.raises(ConfigError, match=rf"byte {size}: XADD s 1-1 ... failed: ERR"):
        Engine(tmp_path)


def test_the_log_takes_precedence_over_the_snapshot(tmp_path):
    """With appendonly the log is loaded, without it the snapshot; a new log starts with the snapshot's data."""
    engine = Engine(tmp_path, appendonly="no")
    engine.run("SET from snapshot")
    engine.run("SAVE")
    engine.die()
    engine = Engine(tmp_path)
    assert engine.run("GET from") == b"snapshot"
    engine.run("SET from log")
    engine.die()
    assert Engine(tmp_path).run("GET from") == b"log"


def test_keys_expire_after_a_restart(tmp_path):
    """A key that expires while the server is down is deleted at the next start, and the log has the deletion."""
    engine = Engine(tmp_path)
    engine.run("SET k v PX 1000")
    engine.run("XADD s 1-1 a 1")
    engine.die()
    again = Engine(tmp_path, Disk())
    again.now_us = NOW_US + 5_000_000
    assert again.run("GET k") is None
    again.die()
    assert b"DEL" in (tmp_path / "appendonlydir" / INCREMENT).read_bytes()


@pytest.mark.parametrize("proven", [True, False])
def test_a_value_that_looks_like_a_position_is_ignored(tmp_path, proven):
    """A value at the end of the log that looks like a line with a replication position is not read as a position.

    A real line is. Both hold in a log of blocks, and in a log of single commands as Redis writes it.
    """
    file = tmp_path / "appendonlydir" / INCREMENT
    engine = Engine(tmp_path)
    dummy = bytes(LINE_SIZE - 2)
    for _ in range(2):
        begin = file.stat().st_size
        engine.run("SET k", dummy)
    end = file.stat().st_size
    offset = end + file.read_bytes().rindex(dummy) - begin
    position = Position(b"a" * 40, 5, 0)
    engine.run("SET k", position.line(offset)[:-2])
    engine.die()
    data = file.read_bytes()
    assert data[offset:] == position.line(offset)
    if not proven:
        size = end + HEAD_SIZE
        data = data[size:]
        data = data[: offset - size] + position.line(offset - size)
        file.write_bytes(data)
    again = Engine(tmp_path)
    assert again.durability.loaded is None
    again.die()
    file.write_bytes(data + position.line(len(data)))
    last = Engine(tmp_path)
    assert last.durability.loaded == position
    last.die()


def test_a_long_run_of_entries_loads_as_its_commands_one_by_one():
    """A run of XADDs is replayed with the result of single XADDs: in new and existing streams, in each database."""
    entries = [[b"XADD", b"s", b"7-%d" % number, b"f", b"%d" % number**3] for number in range(1, 401)]
    others = [[b"XTRIM", b"s", b"MAXLEN", b"50"], [b"XDEL", b"s", b"7-99"]]
    commands = [*entries[:300], *others, *entries[300:], [b"SELECT", b"3"], *entries]
    core, one_by_one = empty_core(), empty_core()
    replay = Replay(core, NOW_US)
    replay.run(memoryview(b"".join(map(encode, commands))))
    assert replay.commands == len(commands)
    with pytest.raises(DamagedError, match=r"equal or smaller") as refused:
        replay.run(memoryview(b"".join(map(encode, entries))))
    assert refused.value.offset == 0
    replay.close()
    session = one_by_one.open_session(NOW_US)
    for argv in commands:
        one_by_one.execute(session, argv, NOW_US)
    assert state(loaded(core, NOW_US)) == state(loaded(one_by_one, NOW_US))


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "next to a log"])
def test_a_log_of_redis_6_is_refused(tmp_path, beside):
    """The single file of Redis 6 is refused if there is no other log, and ignored otherwise; it is never changed."""
    if beside:
        filled(tmp_path).die()
    old = tmp_path / "appendonly.aof"
    old.write_bytes(encode([b"SET", b"k", b"v"]))
    if beside:
        assert Engine(tmp_path).run("XLEN s") == 2
    else:
        with pytest.raises(ConfigError, match="a log of Redis 6 or earlier: start Redis 7"):
            Engine(tmp_path)
    assert old.read_bytes() == encode([b"SET", b"k", b"v"])
