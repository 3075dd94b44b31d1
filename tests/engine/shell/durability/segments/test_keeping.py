"""``stream-storage disk`` as a whole: errors for clients, the check tool, and rejected starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.keyspace import image
from engine.core.protocol.ids import MAX_ID
from engine.core.streams import segment
from engine.settings.kinds import ConfigError
from engine.shell.durability import check, psb, stream_storage
from engine.shell.durability import recovery as replay
from engine.shell.durability.files import Files
from tests.engine.shell.durability.workload import small_segments
from tests.faults.disk import Disk
from tests.faults.engines import Engine
from tests.harness.storing import store

DISK = {"stream_storage": "disk", "enable_debug_command": "yes"}


@pytest.fixture(autouse=True)
def _small_segments() -> Iterator[None]:
    with small_segments():
        yield


def filled(directory: Path, **settings: str) -> Engine:
    """Return an engine with 30 pending entries: 25 on disk in five segments, and 5 in memory."""
    engine = Engine(directory, Disk(), **{**DISK, **settings})
    for number in range(1, 31):
        engine.run(f"XADD s {number}-1 a {number} b {'v' * 40}")
    engine.run("XGROUP CREATE s g 0")
    engine.run("XREADGROUP GROUP g c STREAMS s >")
    assert store(engine.core, engine.durability.keeping.segments) == 5
    return engine


def places(engine: Engine) -> list[Any]:
    stream = engine.core.databases[0].read_stream(b"s")
    return [segment.body.place for segment in stream.segments() if segment.is_stored]


def damage(engine: Engine, number: int) -> tuple[Path, int]:
    """Change a byte of a stored segment on disk; return its file and offset."""
    file, offset = places(engine)[number].location
    data = bytearray(file.path.read_bytes())
    data[offset + 100] ^= 1
    file.path.write_bytes(data)
    engine.core.streams.storage.cache.clear()
    return file.path, offset


READING = [
    "XRANGE s - +",
    "XREVRANGE s + - COUNT 28",
    "XREAD STREAMS s 0",
    "XREADGROUP GROUP g c STREAMS s 0",
    "XCLAIM s g d 0 1-1 2-1 12-1 13-1",
    "XAUTOCLAIM s g d 0 0 COUNT 50",
    "XDEL s 1-1 2-1 12-1",
    "XDELEX s IDS 2 1-1 12-1",
    "XACKDEL s g IDS 2 1-1 12-1",
    "XTRIM s MINID 13",
]


@pytest.mark.parametrize("line", READING)
def test_damage_is_an_error_of_the_command_that_reads_it(tmp_path, line):
    """A command that reads a damaged segment gets an error with file, offset and stream.

    Other data can be read and changed, and the log has all changes.
    """
    engine = filled(tmp_path)
    path, offset = damage(engine, 2)
    reply = engine.run(line)
    if hasattr(reply, "pages"):
        pytest.fail("short replies are made at once")
    assert reply.startswith(
        f"IOERR a part of a stream cannot be read: {path}, byte {offset}: checksum mismatch in the segment's"
    )
    assert reply.endswith("(while reading 's')")
    assert engine.run("XLEN s") == 30
    assert engine.run("XRANGE s 1-1 10-1").count == 10
    assert engine.run("XRANGE s 16-1 +").count == 15
    assert isinstance(engine.run("XADD s MINID 13 * a 31"), bytes), "an entry is added, nothing is trimmed"
    # Trimming reads nothing of a segment that is removed completely, also on replay.
    before = engine.run("XPENDING s g - + 100")
    assert engine.run("XTRIM s MAXLEN 16") == 15
    after = engine.run("XRANGE s - +").count
    engine.die()
    again = Engine(tmp_path, Disk(), **DISK)
    assert again.run("XRANGE s - +").count == after == 16
    found = again.run("XPENDING s g - + 100")
    assert [[row[0], row[1], row[3]] for row in found] == [[row[0], row[1], row[3]] for row in before]
    again.die()


def test_check_finds_damage_that_does_not_prevent_a_start(tmp_path):
    """check names file, offset, stream and number of entries; the engine starts with the undamaged data."""
    engine = filled(tmp_path)
    engine.run("BGREWRITEAOF")
    lines: list[str] = []
    assert check.main([str(tmp_path)], lines.append) == check.WHOLE
    assert any("5 segments in segment files: intact" in line for line in lines)
    path, offset = damage(engine, 1)
    engine.close()
    engine.die()
    lines.clear()
    assert check.main([str(tmp_path)], lines.append) == check.DAMAGED
    assert any("5 entries of 's' in database 0 cannot be read: " in line and str(path) in line for line in lines)
    assert any(f"{path}, byte {offset}: " in line for line in lines)
    again = Engine(tmp_path, Disk(), **DISK)
    assert again.run("XLEN s") == 30
    assert again.run("XRANGE s 11-1 +").count == 20
    assert again.run("XRANGE s - +").startswith("IOERR")
    again.die()
    # With storage in memory, startup reads everything.
    with pytest.raises(ConfigError, match=f"appendonly.aof.1.base.psb, byte .*{path}, byte {offset}"):
        Engine(tmp_path, Disk())


def test_images_share_unchanged_segments(tmp_path):
    """An image shares the segments on disk, and keeps its content if entries are deleted afterwards."""
    engine = filled(tmp_path)
    core = engine.core
    stream = core.databases[0].read_stream(b"s")
    taken = image.capture(core.databases, 0)
    (_, found, _), *_ = taken.databases[0].items()
    shared = [piece is copied for piece, copied in zip(stream.pieces(), found.pieces(), strict=True)]
    assert shared == [True] * 5 + [False]
    frames = b"".join(stream.range(0, MAX_ID, 0).parts)
    assert engine.run("XDEL s 2-1 12-1") == 2
    assert engine.run("XTRIM s MAXLEN 26") == 2
    core.streams.storage.cache.clear()
    assert engine.run("XRANGE s - +").count == 26
    assert stream.count(4 << 64, 17 << 64) == 12
    assert stream.nth_after(0, 9) >> 64 == 13
    assert b"".join(found.range(0, MAX_ID, 0).parts) == frames
    again = image.capture(core.databases, 0)
    (_, found, _), *_ = again.databases[0].items()
    shared = [piece is copied for piece, copied in zip(stream.pieces(), found.pieces(), strict=True)]
    assert shared == [True] * 5 + [False]
    assert found.length == 26
    engine.die()


def test_a_long_log_is_stored_while_it_is_loaded(tmp_path, monkeypatch):
    """Segments are stored while the log is replayed, so that few sealed segments are in memory after the replay.

    With a full disk all of them stay in memory.
    """
    monkeypatch.setattr(stream_storage, "MOST_WAITING", 5)
    monkeypatch.setattr(replay, "_TOGETHER", 2000)
    engine = Engine(tmp_path, Disk(), **DISK)
    for number in range(1, 401):
        engine.run(f"XADD s {number}-1 a {number} b {'v' * 40}")
    frames = b"".join(engine.core.databases[0].read_stream(b"s").range(0, MAX_ID, 0).parts)
    engine.die()
    for room, most in ((None, 60), (100, 400)):
        disk = Disk()
        disk.room = room
        again = Engine(tmp_path, disk, **DISK)
        stream = again.core.databases[0].read_stream(b"s")
        assert sum(len(segment) for segment in stream.segments() if not segment.is_stored) <= most
        assert (len(places(again)) > 50) == (room is None)
        assert b"".join(stream.range(0, MAX_ID, 0).parts) == frames
        again.die()


#: Command after the base in the log, and whether it is replayed without reading a damaged segment.
BEHIND_THE_BASE = {
    "XREADGROUP GROUP new c COUNT 14 STREAMS s >": True,
    "XCLAIM s g d 0 12-1": True,
    "XAUTOCLAIM s g d 0 0 COUNT 50": True,
    "XACK s g 12-1": True,
    "XTRIM s MAXLEN 17": True,
    "COPY s t": True,
    "XDEL s 12-1": False,
}


def pending(engine: Engine) -> list[Any]:
    """Return the IDs, consumers and delivery counts of two groups."""
    found = [record for name in ("g", "new") for record in engine.run(f"XPENDING s {name} - + 100")]
    return [[row[0], row[1], row[3]] for row in found]


@pytest.mark.parametrize("line", BEHIND_THE_BASE)
def test_a_log_is_replayed_next_to_a_damaged_segment(tmp_path, line):
    """Deliveries and trimming are replayed without the damaged segment.

    A deletion in the segment stops the start, with an error that names the segment's file.
    """
    engine = filled(tmp_path)
    engine.run("XGROUP CREATE s new 0")
    engine.run("BGREWRITEAOF")
    engine.tick()
    engine.run(line)
    before = pending(engine)
    path, offset = damage(engine, 2 if len(places(engine)) == 5 else 0)
    length = engine.run("XLEN s")
    engine.die()
    if not BEHIND_THE_BASE[line]:
        with pytest.raises(ConfigError, match=f"aof.2.incr.aof, byte .* failed: IOERR .*{path}, byte {offset}"):
            Engine(tmp_path, Disk(), **DISK)
        return
    again = Engine(tmp_path, Disk(), **DISK)
    assert again.run("XLEN s") == length
    assert pending(again) == before
    again.die()


def test_a_missing_segment_file_stops_the_start(tmp_path):
    """An engine does not start without a file that its base refers to, and names the file."""
    engine = filled(tmp_path)
    engine.run("BGREWRITEAOF")
    path = places(engine)[0].location[0].path
    engine.close()
    engine.die()
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=f"the file refers to {path}, which is missing"):
        Engine(tmp_path, Disk(), **DISK)
    (tmp_path / "elsewhere").rename(path)
    again = Engine(tmp_path, Disk(), **DISK)
    assert again.run("XRANGE s - +").count == 30
    again.die()


def test_the_first_id_is_known_without_reading_the_disk(tmp_path):
    """XADD with MINID reads no segment if it removes no entries."""
    engine = filled(tmp_path)
    damage(engine, 0)
    assert engine.run("XADD s MINID 1 * a 31") is not None
    assert engine.core.streams.storage.cache.size == 0
    engine.die()


def test_storage_in_memory_ignores_unused_snapshots(tmp_path, caplog):
    """With stream-storage memory and no segment files, a damaged unused snapshot is not reported."""
    (tmp_path / "old.psb").write_bytes(b"PYSTREAMS-BASE and rubbish")
    engine = Engine(tmp_path, Disk())
    assert "old.psb" not in caplog.text
    assert "engine_segment_files" not in engine.info()
    engine.die()
    again = Engine(tmp_path, Disk(), **DISK)
    assert "no segment file is removed" in caplog.text
    again.die()


def test_exported_files_contain_the_entries(tmp_path):
    """An RDB file, and a snapshot for a replica, are complete without the segment files."""
    engine = filled(tmp_path)
    assert engine.run("SAVE") == b"OK"
    (tmp_path / "other").mkdir()
    (tmp_path / "dump.rdb").rename(tmp_path / "other" / "dump.rdb")
    (tmp_path / "replica").mkdir()
    psb.write(Files(), tmp_path / "replica" / "dump.psb", image.capture(engine.core.databases, 0))
    engine.die()
    for folder in ("other", "replica"):
        again = Engine(tmp_path / folder, Disk(), appendonly="no")
        assert again.run("XRANGE s - +").count == 30
        again.die()


def test_a_rewrite_frees_trimmed_segments(tmp_path):
    """Trimming a stream whose base is on disk starts a rewrite automatically, and the segment files are deleted."""
    engine = filled(tmp_path, stream_file_size="1024")
    engine.run("BGREWRITEAOF")
    engine.tick()
    files = list((tmp_path / "segments").iterdir())
    assert len(files) > 1
    assert engine.run("XTRIM s MAXLEN 2") == 28
    for _ in range(3):
        engine.tick(11)
    assert len(list((tmp_path / "segments").iterdir())) == 1
    assert engine.run("XRANGE s - +").count == 2
    engine.close()
    engine.die()
    again = Engine(tmp_path, Disk(), **DISK)
    assert again.run("XRANGE s - +").count == 2
    again.tick()
    assert list((tmp_path / "segments").iterdir()) == []
    again.die()


def test_compaction_pauses_while_the_disk_is_full(tmp_path, monkeypatch):
    """While the disk is full, moving records is retried once per second, not at each check."""
    engine = filled(tmp_path)
    files = engine.durability.keeping.segments
    asked: list[float] = []

    def tidy(background: Any, *, may_move: bool) -> None:
        if may_move:
            asked.append(engine.seconds)
            background(refuse, lambda error: None)

    def refuse() -> None:
        raise OSError("no room")

    monkeypatch.setattr(files, "tidy", tidy)
    for _ in range(30):
        engine.tick(0.1)
    assert 2 <= len(asked) <= 4
    engine.die()


def test_a_full_disk_is_reported(tmp_path):
    """INFO reports the number and bytes of segment files, and a failed write until the next successful write."""
    engine = filled(tmp_path)
    info = engine.info()
    assert info["engine_segment_files"] == 1
    size = next((tmp_path / "segments").iterdir()).stat().st_size
    assert (info["engine_segment_bytes"], info["engine_segment_dead_bytes"]) == (size, 0)
    assert info["engine_segment_last_write_status"] == "ok"
    engine.run("XDEL s " + " ".join(f"{number}-1" for number in range(1, 11)))
    assert engine.info()["engine_segment_dead_bytes"] > size // 4
    for number in range(31, 41):
        engine.run(f"XADD s {number}-1 a {number} b {'v' * 40}")
    engine.files.room = 0
    with pytest.raises(OSError, match="No space left"):
        store(engine.core, engine.durability.keeping.segments)
    assert engine.info()["engine_segment_last_write_status"] == "err"
    engine.files.heal()
    assert store(engine.core, engine.durability.keeping.segments) == 2
    assert engine.info()["engine_segment_last_write_status"] == "ok"
    assert engine.run("XRANGE s - +").count == 30
    engine.die()
    assert segment.SEGMENT_ENTRIES == 5
