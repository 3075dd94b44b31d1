"""Segment files: written records can be read, damage is found, and unreferenced files are deleted.

A document is a file that refers to records in segment files: a snapshot or a base of the log.
"""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import pytest

from engine.core.formats.damage import DamagedError
from engine.core.streams.compressed.disk_entries import Stored, UnreadableError
from engine.core.streams.compressed.packed import SpanCache
from engine.core.streams.packer import pack
from engine.core.streams.segment import Plain
from engine.shell.durability import segments as store
from streamwire.frames import frame
from tests.faults.disk import Disk
from tests.harness.storing import segment_files


def packed(number: int, entries: int = 50, cache: SpanCache | None = None):
    """Return packed entries that depend on a number."""
    plain = Plain()
    for at in range(entries):
        plain.append((number << 64) + at, frame(b"%d-%d" % (number, at), [b"f", b"value %d of %d" % (at, number)]))
    plain.freeze()
    return pack(plain, cache or SpanCache())


def stored(files, number: int) -> Stored:
    """Return packed entries that are stored on disk."""
    body = packed(number)
    (place,) = files.write([body])
    return Stored(place, len(body), body.data_size, body.last_id, SpanCache())


def now(work, done) -> None:
    """Run background work at once."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "segments").iterdir())


def test_stored_entries_equal_packed_entries(tmp_path):
    """Stored entries give the same results as the packed entries, even after the files are opened again."""
    before, files = packed(7), segment_files(tmp_path)
    body = stored(files, 7)
    place = body.place
    (file, offset), size, total = place.location, place.size, place.total
    again = segment_files(tmp_path)
    found = again.place(file.number, offset, size, total)
    for here in (body, Stored(found, 50, body.data_size, body.last_id, SpanCache())):
        assert (len(here), here.last_id) == (len(before), before.last_id)
        entries = here.packed()
        assert entries.frames(0, 50) == before.frames(0, 50)
        assert [entries.id_at(at) for at in range(50)] == [before.id_at(at) for at in range(50)]
        assert entries.position(before.id_at(20)) == 20


def test_files_are_deleted_when_unreferenced(tmp_path):
    """A file is deleted when no segment is in it and no document refers to it; the newest file is kept."""
    files = segment_files(tmp_path, file_size=1)
    bodies = [stored(files, number) for number in range(4)]
    document = tmp_path / "dump.psb"
    document.write_bytes(b"")
    files.documents.note(document, frozenset({1}))
    bodies[0] = bodies[1] = None
    gc.collect()
    files.tidy(now)
    assert names(tmp_path) == ["segments-0000000001.pss", "segments-0000000003.pss", "segments-0000000004.pss"]
    assert files.facts()["engine_segment_files"] == 3
    assert files.held_by(tmp_path) == (tmp_path / "segments" / "segments-0000000001.pss").stat().st_size
    document.unlink()
    bodies[2] = bodies[3] = None
    gc.collect()
    files.tidy(now)
    assert names(tmp_path) == ["segments-0000000004.pss"]
    again = segment_files(tmp_path)
    again.tidy(now)
    assert names(tmp_path) == []
    (tmp_path / "segments" / "segments-1.pss").write_bytes(b"not ours")
    again = segment_files(tmp_path)
    again.tidy(now)
    assert names(tmp_path) == ["segments-1.pss"]


def test_dropped_records_are_processed_in_steps(tmp_path, monkeypatch):
    """Each check processes a limited number of dropped records; the file is deleted with the last one."""
    monkeypatch.setattr(store, "MOST_NOTICED", 4)
    files = segment_files(tmp_path, file_size=1 << 20)
    bodies = [stored(files, number) for number in range(10)]
    file = bodies[0].place.location[0]
    files.close()
    bodies.clear()
    gc.collect()
    left = []
    for _ in range(3):
        files.tidy(now)
        left.append(len(file.places))
    assert left == [6, 2, 0]
    assert names(tmp_path) == []


def test_a_file_with_mostly_dead_records_is_emptied(tmp_path):
    """Live records are rewritten and stay readable, and the file is deleted unless a document refers to it."""
    files = segment_files(tmp_path, file_size=4000)
    bodies = [stored(files, number) for number in range(30)]
    count = len(names(tmp_path))
    assert count > 2
    live = bodies[::5]
    frames = [body.packed().frames(0, 50) for body in live]
    document = tmp_path / "dump.psb"
    document.write_bytes(b"")
    files.documents.note(document, frozenset({1}))
    bodies.clear()
    gc.collect()
    dead = files.facts()["engine_segment_dead_bytes"]
    for _ in range(3 * count):
        files.tidy(now)
    facts = files.facts()
    assert facts["engine_segment_files"] < count
    assert facts["engine_segment_dead_bytes"] < dead / 2
    assert "segments-0000000001.pss" in names(tmp_path)
    assert all(body.place.location[0].number != 1 for body in live)
    for body in live:
        body.cache.clear()
    assert [body.packed().frames(0, 50) for body in live] == frames


@pytest.mark.parametrize(("dead_of_ten", "emptied"), [(2, False), (4, True)])
def test_partly_dead_files_are_emptied_by_their_share_of_all_bytes(tmp_path, dead_of_ten, emptied):
    """If over a quarter of all bytes is dead but no file is mostly dead, files are emptied until a quarter is left."""
    files = segment_files(tmp_path, file_size=4000)
    bodies = [stored(files, number) for number in range(60)]
    live = [body for number, body in enumerate(bodies) if number % 10 >= dead_of_ten]
    frames = [body.packed().frames(0, 50) for body in live]
    bodies.clear()
    gc.collect()
    before = files.facts()
    for _ in range(40):
        files.tidy(now, may_move=False)
    assert files.facts() == before, "records are not moved while moving is paused"
    for _ in range(40):
        files.tidy(now)
    after = files.facts()
    assert (after["engine_segment_dead_bytes"] < before["engine_segment_dead_bytes"]) == emptied
    assert after["engine_segment_dead_bytes"] <= max(after["engine_segment_bytes"] / 4, 4000)
    assert after["engine_segment_bytes"] <= before["engine_segment_bytes"]
    for body in live:
        body.cache.clear()
    assert [body.packed().frames(0, 50) for body in live] == frames
    files.close()


def test_a_truncated_file_is_not_referenced_by_documents(tmp_path, caplog):
    """The readable records of a truncated file are moved; syncing fails while streams refer to the other records."""
    files = segment_files(tmp_path)
    bodies = [stored(files, 1), stored(files, 2)]
    file, offset = bodies[1].place.location
    os.truncate(file.path, offset + 40)
    with pytest.raises(OSError, match="it is being rewritten"):
        files.sync()
    for _ in range(10):
        files.tidy(now)
    assert bodies[0].place.location[0].number == 2
    assert bodies[0].packed().frames(0, 50) == packed(1).frames(0, 50)
    assert len([record for record in caplog.records if "byte" in record.message]) == 2, "it is not retried indefinitely"
    with pytest.raises(OSError, match=r"segments-0000000001.pss is damaged, and streams refer to"):
        files.sync()
    bodies.pop()
    gc.collect()
    files.tidy(now)
    files.sync()
    files.close()


def test_a_full_disk_leaves_the_file_unchanged(tmp_path):
    """A failed write leaves the file unchanged; when there is room, the next record follows the last one."""
    disk = Disk()
    files = segment_files(tmp_path, disk)
    first = stored(files, 1)
    size = first.place.location[0].size
    disk.room = 100
    with pytest.raises(OSError, match="No space left"):
        files.write([packed(2)])
    assert files.facts()["engine_segment_last_write_status"] == "err"
    path = tmp_path / "segments" / "segments-0000000001.pss"
    assert path.stat().st_size == size
    # If the partial record cannot be cut off either, the file is abandoned.
    disk.fail("cut", errno.EIO)
    disk.room = 100
    with pytest.raises(OSError, match="No space left"):
        files.write([packed(2)])
    disk.heal()
    second, third = stored(files, 2), stored(files, 3)
    assert files.facts()["engine_segment_last_write_status"] == "ok"
    assert [body.place.location[0].number for body in (first, second, third)] == [1, 2, 2]
    for number, body in enumerate((first, second, third), 1):
        assert body.packed().frames(0, 50) == packed(number).frames(0, 50)
    files.sync()
    files.close()


def test_nothing_is_written_after_closing(tmp_path):
    """A write after closing fails and leaves the directory unchanged, because another engine may own it by then."""
    files = segment_files(tmp_path)
    stored(files, 1)
    files.close()
    before = {path: path.stat().st_size for path in (tmp_path / "segments").iterdir()}
    with pytest.raises(OSError, match="the engine is shutting down"):
        files.write([packed(2)])
    assert {path: path.stat().st_size for path in (tmp_path / "segments").iterdir()} == before


def test_records_with_a_failed_fsync_are_rewritten(tmp_path):
    """After a failed fsync no document may refer to the file, not even if a later fsync succeeds."""
    disk = Disk()
    files = segment_files(tmp_path, disk)
    body = stored(files, 1)
    disk.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        files.sync()
    disk.heal()
    with pytest.raises(OSError, match="being rewritten"):
        files.sync()
    files.tidy(now)
    files.sync()
    assert body.place.location[0].number == 2
    assert body.packed().frames(0, 50) == packed(1).frames(0, 50)
    files.close()


@pytest.mark.parametrize("where", ["beginning", "bytes", "end"])
def test_damage_is_an_error_with_file_and_offset(tmp_path, where, caplog):
    """A changed byte, or a shorter file, is an error with file and offset; other records are readable."""
    files = segment_files(tmp_path)
    first, second = stored(files, 1), stored(files, 2)
    file, offset = second.place.location
    data = bytearray(file.path.read_bytes())
    if where == "end":
        del data[offset + 50 :]
    else:
        data[offset + (5 if where == "beginning" else 90)] ^= 1
    file.path.write_bytes(data)
    with pytest.raises(UnreadableError, match=f"segments-0000000001.pss, byte {offset}: "):
        second.packed().frame_at(0)
    assert f"segments-0000000001.pss, byte {offset}: " in caplog.text
    assert first.packed().frames(0, 50) == packed(1).frames(0, 50)


def test_a_document_with_missing_records_is_rejected(tmp_path):
    """A document that refers to a missing or truncated file is reported as damaged."""
    files = segment_files(tmp_path)
    place = stored(files, 1).place
    _, offset = place.location
    with pytest.raises(DamagedError) as error:
        files.place(9, offset, place.size, place.total)
    assert "segments-0000000009.pss, which is missing" in error.value.reason
    with pytest.raises(DamagedError) as error:
        files.place(1, offset, place.size + 1000, place.total)
    assert "which ends at byte" in error.value.reason
