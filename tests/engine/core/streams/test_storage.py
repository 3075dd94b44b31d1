"""Segments and streams against plain lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.protocol import ids
from engine.core.streams import segment
from engine.core.streams import stream as stream_module
from engine.core.streams.compressed import packed
from engine.core.streams.compressed.packed import SpanCache
from engine.core.streams.packer import pack
from engine.core.streams.runs import equal_ranges, frames_of, id_columns
from engine.core.streams.segment import Plain, Storage
from engine.core.streams.stream import Stream
from streamwire.frames import frame


def pack_cold(stream: Stream, most: int, as_columns: bool = False) -> None:
    """Pack this number of the stream's sealed segments, oldest first."""
    waiting = len(stream.storage.sealed)
    for cold in stream.storage.sealed.pop(waiting, most)[0]:
        cold.body = pack(cold.plain, stream.storage.cache, as_columns)


@contextmanager
def small_sizes() -> Iterator[None]:
    """Use segments of a few entries, chunks of a few bytes, and a cache of a few spans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "SEGMENT_BYTES", 400)
        patch.setattr(segment, "SEGMENT_ENTRIES", 12)
        patch.setattr(packed, "CHUNK_BYTES", 80)
        patch.setattr(packed, "CACHE_BYTES", 300)
        patch.setattr(stream_module, "DELETED_TOGETHER", 2)
        yield


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 4)),
            st.tuples(st.just("add"), st.integers(1, 1 << 65)),
            st.tuples(st.just("delete"), st.integers(0, 60)),
            st.tuples(st.just("delete many"), st.integers(0, 60)),
            st.tuples(st.just("trim"), st.integers(0, 6)),
            st.tuples(st.just("pack"), st.integers(0, 2)),
        ),
        max_size=60,
    ),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(0, 8),
    st.booleans(),
)
def test_equals_a_list(steps, low, high, count, near):
    """After additions, deletions and trims a stream returns the ranges, counts and look-ups of a list of entries."""
    with small_sizes():
        stream, model, top = Stream(Storage()), {}, 0
        for kind, number in steps:
            if kind == "add":
                top += number
                entry = frame(ids.text(top), [b"f", b"%d" % top])
                stream.append(top, entry)
                model[top] = entry
            elif kind == "delete":
                entry_id = sorted(model)[number % len(model)] if model else number
                assert stream.delete(entry_id) == (model.pop(entry_id, None) is not None)
            elif kind == "delete many":
                several = [*sorted(model)[number % 3 :: 3][: number % 7], number]
                removed = [model.pop(entry_id) for entry_id in several if entry_id in model]
                assert stream.delete_many(several[::-1]) == len(removed)
            elif kind == "pack":
                pack_cold(stream, 1, number % 2 == 1)
            else:
                assert stream.trim_head(number) == min(number, len(model))
                for entry_id in sorted(model)[:number]:
                    del model[entry_id]
            live = sorted(model)
            assert stream.length == len(live)
            assert stream.first_id == (live[0] if live else 0)
            assert stream.last_entry_id == (live[-1] if live else 0)
        live = sorted(model)
        if live and near:
            low, high = (live[end % len(live)] + end % 3 - 1 for end in (low, high))
        within = [entry_id for entry_id in live if low <= entry_id <= high]
        assert stream.ids(low, high) == within
        for pieces in {1, 2, 5, len(within)}:
            if not 0 < pieces <= len(within):
                continue
            parts = list(equal_ranges(stream.frozen_ranges(low, high), len(within), pieces))
            cuts = [len(within) * number // pieces for number in range(pieces)]
            assert parts == [(within[end - 1], end - begin) for begin, end in pairwise(cuts)]
        assert stream.first_ids(count) == (live[:count] if count else live)
        assert stream.count(low, high) == len(within)
        taken = within[:count] if count else within
        assert b"".join(stream.range(low, high, count).parts) == b"".join(model[entry_id] for entry_id in taken)
        taken = within[::-1][:count] if count else within[::-1]
        assert b"".join(stream.range_backward(low, high, count).parts) == b"".join(
            model[entry_id] for entry_id in taken
        )
        behind = [entry_id for entry_id in live if entry_id > low]
        for n in range(1, len(behind) + 1):
            assert stream.nth_after(low, n) == behind[n - 1]
        assert stream.nth_after(low, len(behind) + 1) == 0
        assert [stream.frame(entry_id) for entry_id in live] == [model[entry_id] for entry_id in live]
        twin = stream.copy(Storage())
        assert twin.ids(0, ids.MAX_ID) == live


@given(
    st.sets(st.integers(0, ids.MAX_ID) | st.integers(0, 400) | st.integers(1 << 127, (1 << 127) + 40), min_size=1),
    st.integers(0, 3000),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_packed_entries_equal_plain_entries(numbers, most, as_columns, random):
    """For any IDs and sizes of frames, packed entries equal the original ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CHUNK_BYTES", 1000)
        plain = Plain()
        for entry_id in sorted(numbers):
            plain.append(entry_id, frame(ids.text(entry_id), [b"f", random.randbytes(random.randrange(most + 1))]))
        plain.freeze()
        cold = pack(plain, SpanCache(), as_columns)
    size = len(plain)
    assert (len(cold), cold.last_id, cold.data_size) == (size, plain.last_id, plain.data_size)
    ordered = sorted(numbers)
    for index, entry_id in enumerate(ordered):
        assert cold.id_at(index) == entry_id
        assert cold.frame_at(index) == plain.frame_at(index)
        for near in (entry_id - 1, entry_id, entry_id + 1, entry_id >> 64 << 64):
            if 0 <= near <= ids.MAX_ID:
                assert cold.position(near) == plain.position(near)
    low, high = sorted(random.choices(range(size), k=2))
    high += 1
    ms, seq = cold.id_columns(low, high)
    assert [milliseconds << 64 | sequence for milliseconds, sequence in zip(ms, seq, strict=True)] == ordered[low:high]
    assert cold.frames(low, high) == plain.frames(low, high)
    assert b"".join(cold.views(low, high)) == b"".join(plain.views(low, high))


def _packed_stream(entries: int) -> Stream:
    """Return a stream of equal entries whose sealed segments are packed."""
    stream = Stream(Storage())
    for number in range(1, entries + 1):
        stream.append(number, frame(ids.text(number), [b"field", b"value"]))
    pack_cold(stream, entries)
    return stream


def test_the_queue_returns_no_younger_segments_instead_of_freed_ones():
    """The queue returns the oldest segments that still exist, and no younger ones instead of freed segments."""
    with small_sizes():
        shared = Storage()
        streams = [Stream(shared) for _ in range(3)]
        for stream in streams:
            for number in range(1, 38):
                stream.append(number, frame(ids.text(number), [b"f", b"v"]))
        old, young = list(streams[1].segments()), list(streams[2].segments())
        each = len(old) - 1
        assert each > 1
        assert len(shared.sealed) == 3 * each
        del streams[0], stream
        assert shared.sealed.pop(each + 1, 5) == (old[:1], each + 1)
        assert shared.sealed.pop(2 * each - 1, 2) == (old[1:3], 2)
        assert shared.sealed.pop(len(shared.sealed), 100) == (old[3:-1] + young[:-1], 2 * each - 3)
        assert shared.sealed.pop(0, 1) == ([], 0)


def test_a_copy_of_a_stream_packs_nothing():
    """A copy shares its segments and queues none of them; its next full one packs one if too many wait."""
    stream, packed_at_once = _packed_stream(60_000), []
    queue = stream.storage.sealed
    queue.most, queue.relieve = 0, lambda: packed_at_once.append(len(queue))
    before = len(stream.segments())
    twin = stream.copy()
    assert not len(queue)
    assert packed_at_once == []
    while len(twin.segments()) == before:
        twin.append(twin.last_id + 1, frame(ids.text(twin.last_id + 1), [b"field", b"value"]))
    assert packed_at_once == [1]


def test_a_copy_in_the_same_storage_shares_packed_entries():
    """A copy shares the packed entries and their cached spans; a copy with another storage has its own cache."""
    stream = _packed_stream(60_000)
    whole = b"".join(stream.range(0, ids.MAX_ID, 0).parts)
    bodies = [segment.body for segment in stream.segments()[:-1]]
    assert [segment.body for segment in stream.copy().segments()[:-1]] == bodies
    once = Storage.for_reading_once()
    other = stream.copy(once)
    assert not once.cache.size
    assert b"".join(other.range(0, ids.MAX_ID, 0).parts) == whole
    assert 0 < once.cache.size <= 1 << 20


def test_a_read_decompresses_few_chunks():
    """A hundred entries of a packed segment decompress at most three chunks; counts, look-ups and IDs
    decompress none.
    """
    stream = _packed_stream(60_000)
    spans = stream.storage.cache.spans
    assert stream.count(0, ids.MAX_ID) == 60_000
    assert stream.nth_after(0, 1) == stream.first_id == 1
    assert 50_000 in stream
    assert stream.ids(30_000, 40_000) == list(range(30_000, 40_001))
    assert not spans
    assert stream.range(20_000, ids.MAX_ID, 100).count == 100
    assert 0 < len(spans) <= 3
    first, before = 20_100, len(spans)
    while len(spans) == before:
        assert stream.range(first, ids.MAX_ID, 100).count == 100
        first += 100
    assert len(spans) > before + 2, "a sequential reader gets the rest of the segment at once"


@pytest.mark.parametrize("step", [1, 7, 100])
def test_packed_entries_are_read_in_short_steps(monkeypatch, step):
    """Entries that are read in short steps are unchanged, with a cache that is smaller than the stream."""
    monkeypatch.setattr(packed, "CACHE_BYTES", 600_000)
    random, stream, expected, entry_id = Random(step), Stream(Storage()), [], 0
    for number in range(20_000):
        entry_id += random.choice([1, 1, 2, 1 << 64, 5 << 64])
        expected.append((entry_id, frame(ids.text(entry_id), [b"field", b"%d" % number * random.randrange(1, 4)])))
        stream.append(*expected[-1])
    pack_cold(stream, len(expected))
    after = 0
    for at in range(0, len(expected), step):
        runs = stream.first_runs(after + 1, ids.MAX_ID, step)
        found = [ms << 64 | seq for ms, seq in zip(*id_columns(runs), strict=True)]
        assert found == [entry_id for entry_id, _ in expected[at : at + step]]
        assert b"".join(frames_of(runs).parts) == b"".join(entry for _, entry in expected[at : at + step])
        after = found[-1]
        spans = set(stream.storage.cache.spans.values())
        assert len(spans) == 1 or sum(span.size for span in spans) <= 600_000
