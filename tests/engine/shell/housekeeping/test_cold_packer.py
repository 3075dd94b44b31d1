"""Sealed segments are packed in a thread, without a visible difference for readers."""

from __future__ import annotations

import asyncio

import pytest

from engine.core.dispatch import Core
from engine.core.keyspace import footprint
from engine.core.protocol import ids, pace
from engine.core.streams.compressed.disk_entries import payload
from engine.core.streams.compressed.packed import Packed
from engine.core.streams.compressed.packed_columns import PackedColumns
from engine.core.streams.segment import Plain
from engine.settings.config import Config
from engine.shell.housekeeping import cold_packer
from engine.shell.housekeeping.cold_packer import ColdPacker
from engine.wire.encode import encoded
from tests.suite.waiting import DEADLINE

NOW = 1_700_000_000_000_000
ENTRIES = 30_000


def filled() -> tuple[Core, object]:
    core = Core(Config())
    session = core.open_session(NOW)
    for number in range(ENTRIES):
        core.execute(session, [b"XADD", b"s", b"*", b"f", b"value %d" % number], NOW + 1000 * (number // 3))
    return core, core.databases[0].stream(b"s")


async def until(condition) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0)


@pytest.mark.parametrize("as_columns", [False, True])
def test_cold_segments_are_packed_and_stay_readable(as_columns):
    """After stream-cold-age every sealed segment is packed to a quarter or less; reads and deletions still work."""
    core, stream = filled()
    core.config.change([(b"stream-cold-age", b"0")])
    if as_columns:
        for segment in stream.segments():
            segment.want_columns()
    before = b"".join(bytes(part) for part in stream.range(0, ids.MAX_ID, 0).parts)

    async def run() -> None:
        packer = ColdPacker(core.config, core.streams.storage, asyncio.get_running_loop())
        packer.start()
        await until(lambda: all(not isinstance(segment.body, Plain) for segment in list(stream.segments())[:-1]))
        packer.stop()

    asyncio.run(run())
    segments = list(stream.segments())[:-1]
    assert len(segments) >= 3
    assert sum(map(footprint.of_segment, segments)) * 4 < sum(segment.body.data_size for segment in segments)
    assert b"".join(bytes(part) for part in stream.range(0, ids.MAX_ID, 0).parts) == before
    middle = stream.nth_after(0, ENTRIES // 2)
    assert b"value %d\r\n" % (ENTRIES // 2 - 1) in stream.frame(middle)
    assert stream.delete(middle)
    assert stream.frame(middle) is None
    assert stream.count(0, ids.MAX_ID) == ENTRIES - 1
    assert stream.trim_head(ENTRIES - 10) == ENTRIES - 10
    assert stream.length == 9


def test_segments_read_as_columns_are_packed_as_columns(monkeypatch):
    """Entries that only XRANGE reads are packed as frames.

    After PS.COLUMNS, the segments that it read are packed again as columns, and later segments are packed as columns.
    XRANGE has the same reply before and after.
    """
    monkeypatch.setattr(pace, "MANY_ENTRIES", 2 * ENTRIES)
    core, stream = filled()
    core.config.change([(b"stream-cold-age", b"0")])
    session = core.open_session(NOW)
    packer = ColdPacker(core.config, core.streams.storage, Hand())
    packer.start()

    def run(*argv: bytes):
        return core.execute(session, list(argv), NOW + 1000 * ENTRIES)

    def kinds() -> list[type]:
        for _ in range(10):
            packer.search()
        return [type(segment.body) for segment in list(stream.segments())[:-1]]

    run(b"XRANGE", b"s", b"-", b"+", b"COUNT", b"10")
    assert set(kinds()) == {Packed}
    middle = b"%d-0" % ((list(stream.segments())[1].entries.id_at(0) >> 64) + 1)
    before = encoded(run(b"XRANGE", b"s", b"-", b"+"))
    frames = run(b"PS.COLUMNS", b"s", middle, b"+")
    assert sum(block[0] for block in frames) > 10_000
    found = kinds()
    assert found == [Packed] + [PackedColumns] * (len(found) - 1)
    assert encoded(run(b"XRANGE", b"s", b"-", b"+")) == before
    for number in range(ENTRIES):
        run(b"XADD", b"s", b"*", b"f", b"later %d" % number)
    found = kinds()
    assert len(found) > 6
    assert found == [Packed] + [PackedColumns] * (len(found) - 1)
    packer.stop()


def test_any_number_of_segments_is_packed_again_as_columns(monkeypatch):
    """If one PS.COLUMNS reads more segments than may stay unpacked, each of them is packed as columns."""
    core, stream = filled()
    core.config.change([(b"stream-cold-age", b"0")])
    session = core.open_session(NOW)
    packer = ColdPacker(core.config, core.streams.storage, Hand(), most_waiting=1, most_unpacked=1)
    packer.start()
    for _ in range(10):
        packer.search()
    assert [type(segment.body) for segment in stream.segments()][:-1] == [Packed] * (len(stream.segments()) - 1)
    monkeypatch.setattr(pace, "MANY_ENTRIES", 2 * ENTRIES)
    encoded(core.execute(session, [b"PS.COLUMNS", b"s", b"-", b"+"], NOW))
    for _ in range(10):
        packer.search()
    kinds = [type(segment.body) for segment in stream.segments()][:-1]
    assert len(kinds) > 3
    assert kinds == [PackedColumns] * len(kinds)
    packer.stop()


def test_different_entries_stay_frames_when_read_as_columns():
    """A segment whose entries have different fields is tried as columns once, and stays packed as frames."""
    core = Core(Config())
    core.config.change([(b"stream-cold-age", b"0")])
    session = core.open_session(NOW)
    for number in range(ENTRIES):
        core.execute(session, [b"XADD", b"s", b"*", b"f%d" % (number % 7), b"%d" % number], NOW)
    stream = core.databases[0].stream(b"s")
    packer = ColdPacker(core.config, core.streams.storage, Hand())
    packer.start()
    for _ in range(3):
        core.execute(session, [b"PS.COLUMNS", b"s", b"-", b"+"], NOW)
        for _ in range(10):
            packer.search()
        assert {type(segment.body) for segment in list(stream.segments())[:-1]} == {Packed}
        assert len(core.streams.storage.sealed) == 0
    packer.stop()


class Hand:
    """An event loop driven by the test: its thread works at once or on request, and its timers never fire."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.at_once = at_once

    def call_later(self, _seconds, _function):
        return self

    def cancel(self) -> None:
        pass

    def run_in_executor(self, _thread, function, *args):
        self.found = function(*args)
        return self

    def add_done_callback(self, callback) -> None:
        self.callback = callback
        if self.at_once:
            self.finish()

    def finish(self) -> None:
        """Let the thread finish."""
        self.callback(self)

    def cancelled(self) -> bool:
        return False

    def result(self):
        return self.found


@pytest.mark.parametrize("works", [False, True])
def test_a_load_at_full_speed_leaves_few_segments_unpacked(works):
    """If too many segments are unpacked, they are packed before they reach stream-cold-age.

    If the thread does not finish, XADD packs them itself.
    """
    core, stream = filled()
    core.config.change([(b"stream-cold-age", b"3600")])
    session = core.open_session(NOW)
    hand = Hand(at_once=works)
    packer = ColdPacker(core.config, core.streams.storage, hand, batch=2, most_waiting=4, most_unpacked=8)
    packer.start()
    for _ in range(10):
        packer.search()
        for number in range(1000):
            core.execute(session, [b"XADD", b"s", b"*", b"f", b"x" * 900, b"n", b"%d" % number], NOW + 10**9)
        unpacked = [segment for segment in stream.segments() if isinstance(segment.body, Plain)]
        # Segments taken by the thread are not waiting, and the last segment is open.
        assert len(unpacked) <= 8 + 1 + (0 if works else 2)
    assert stream.length == 10_000 + ENTRIES
    assert sum(1 for _ in stream.range(0, ids.MAX_ID, 0).parts) > 0
    packer.stop()


def test_only_segments_above_the_age_are_packed():
    """While few segments wait, each is packed when it reaches stream-cold-age, neither earlier nor later."""
    core, stream = filled()
    core.config.change([(b"stream-cold-age", b"1")])
    session, sealed_ever = core.open_session(NOW), []
    packer = ColdPacker(core.config, core.streams.storage, Hand(), most_waiting=1000, most_unpacked=1000)
    packer.start()
    for look in range(20):
        segments = list(stream.segments())
        sealed_ever.append(sum(segment.sealed for segment in segments))
        packer.search()
        # Ten searches take a second.
        assert sum((not isinstance(segment.body, Plain)) for segment in segments) == (
            sealed_ever[look - 9] if look >= 9 else 0
        )
        for number in range(6000 if look < 5 else 0):
            core.execute(session, [b"XADD", b"s", b"*", b"f", b"x" * 900, b"n", b"%d" % number], NOW + 10**9)
    assert sealed_ever[-1] > 80
    packer.stop()


class Shelf:
    """A store that keeps segments in a list; a write of more than ``room`` segments fails as on a full disk."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.places = []

    def write(self, bodies):
        if len(bodies) > self.room:
            raise OSError(28, "No space left on device")
        places = [Place(b"".join(payload(body))) for body in bodies]
        self.places += places
        return places


class Place:
    """The stored bytes of a segment."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self) -> bytes:
        return self.data


def test_segments_rejected_by_the_disk_are_stored_later():
    """While the disk is full, segments are packed and readable; when there is room, all are stored in order and stay
    readable.
    """
    core, stream = filled()
    core.config.change([(b"stream-cold-age", b"0")])
    before = b"".join(bytes(part) for part in stream.range(0, ids.MAX_ID, 0).parts)
    shelf = Shelf(room=0)
    packer = ColdPacker(core.config, core.streams.storage, Hand(), shelf.write)
    packer.start()
    for _ in range(5):
        packer.search()
    cold = list(stream.segments())[:-1]
    assert len(cold) >= 3
    assert all((not isinstance(segment.body, Plain)) and not segment.is_stored for segment in cold)
    shelf.room = 1000
    for _ in range(20):
        packer.search()
    packer.stop()
    assert [segment.body.place for segment in cold] == shelf.places
    assert b"".join(bytes(part) for part in stream.range(0, ids.MAX_ID, 0).parts) == before
    assert sum(map(footprint.of_segment, cold)) < 1000 * len(cold)


@pytest.mark.parametrize("finished", [0, 1])
def test_stopping_discards_the_work_in_progress(finished):
    """If the packer stops while its thread packs or stores segments, the result is dropped."""
    core, stream = filled()
    core.config.change([(b"stream-cold-age", b"0")])
    hand = Hand(at_once=False)
    packer = ColdPacker(core.config, core.streams.storage, hand, Shelf().write, batch=100)
    packer.start()
    packer.search()
    for _ in range(finished):
        hand.finish()
    assert packer.is_working
    packer.stop()
    before = [segment.body for segment in stream.segments()]
    hand.finish()
    assert not packer.is_working
    assert [segment.body for segment in stream.segments()] == before
    assert any(isinstance(body, Packed) for body in before) == bool(finished)


def test_freed_memory_is_returned_when_everything_is_packed(monkeypatch):
    """A second after the last segment was packed, the thread returns the freed memory to the system."""
    returned: list[int] = []
    monkeypatch.setattr(cold_packer, "malloc_trim", returned.append)
    core, _ = filled()
    core.config.change([(b"stream-cold-age", b"0")])
    packer = ColdPacker(core.config, core.streams.storage, Hand())
    packer.start()
    for _ in range(20):
        packer.search()
    packer.stop()
    assert returned == [0]
