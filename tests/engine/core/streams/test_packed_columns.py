"""Entries packed as columns, against the plain entries that they were packed from."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.protocol import ids
from engine.core.streams.compressed import packed
from engine.core.streams.compressed.disk_entries import opened, payload
from engine.core.streams.compressed.packed import SpanCache
from engine.core.streams.compressed.packed_columns import PackedColumns
from engine.core.streams.packer import pack
from engine.core.streams.segment import Plain
from streamwire.frames import frame
from tests.harness.columns import split_slowly, texts

NAMES = [b"sensor-id", b"", b"a\r\nb", b"temperature in degrees", b"\0" * 40]
TRICKS = [b"", b"\r\n", b"$1\r\n", b"*", b"\xff\0"]


def _plain(random: Random, count: int, names: list[bytes], first: int, step: int) -> Plain:
    """Return entries with these field names, short values of all kinds, and IDs that are mostly consecutive."""
    plain, entry_id = Plain(), first
    for _ in range(count):
        words = [
            word
            for name in names
            for word in (name, random.choice(TRICKS) if random.random() < 0.1 else b"%d" % random.randrange(100_000))
        ]
        plain.append(entry_id, frame(ids.text(entry_id), words))
        entry_id += random.choice([1, 1, 1, 1 << 64, step])
    plain.freeze()
    return plain


def _random_plain(seed: int = 1, count: int = 3000) -> Plain:
    return _plain(Random(seed), count, NAMES[:2], 1795163372693 << 64, 1 << 70)


@given(
    st.randoms(use_true_random=False),
    st.integers(1, 300),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
    st.sampled_from([0, 1, 9 << 64, (9998 << 64) + 3, 1795163372693 << 64, (999_999 << 64) + 10**18]),
    st.sampled_from([7, 10_000, 1 << 80, (1 << 64) + 12, 10**18]),
    st.sampled_from([300, 3000, 20_000]),
    st.booleans(),
)
def test_columns_give_the_plain_entries(random, count, names, first, step, chunk_bytes, is_stored):
    """For any IDs and values, entries packed as columns equal plain entries, read in any order."""
    plain = _plain(random, count, names, first, step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CHUNK_BYTES", chunk_bytes)
        cold = pack(plain, SpanCache(), as_columns=True)
    assert isinstance(cold, PackedColumns)
    if is_stored:
        cold = opened(b"".join(payload(cold)), plain.last_id, SpanCache())
    assert (len(cold), cold.last_id, cold.data_size) == (count, plain.last_id, plain.data_size)
    for _ in range(12):
        low = random.randrange(count)
        high = random.choice([low + 1, count, random.randrange(low, count) + 1])
        assert b"".join(cold.views(low, high)) == b"".join(plain.views(low, high))
        assert cold.frames(low, high) == plain.frames(low, high)
        assert cold.frame_at(low) == plain.frame_at(low)
        assert cold.id_at(low) == plain.id_at(low)
        assert cold.position(plain.id_at(low) + 1) == plain.position(plain.id_at(low) + 1)
        assert [list(half) for half in cold.id_columns(low, high)] == [
            list(half) for half in plain.id_columns(low, high)
        ]
        fields, expected = cold.columns(low, high), split_slowly(plain.frames(low, high))
        assert fields is not None
        assert expected is not None
        assert (fields.names, [texts(column) for column in fields.known]) == expected
        assert [column.gathered() for column in fields.known] == list(map(b"".join, expected[1]))
        if random.random() < 0.2:
            cold.cache.clear()
    assert cold.cache.size == sum(span.size for span in set(cold.cache.spans.values()))
    assert cold.copy(SpanCache()).frames(0, count) == plain.frames(0, count)


@pytest.mark.parametrize(
    "words",
    [
        [b"other", b"1"],
        [b"sensor-id", b"1", b"more", b"2"],
        [b"sensor-id", b"v" * 256],
    ],
)
def test_entries_that_do_not_fit_columns_stay_frames(words):
    """Entries stay frames if one of them has other fields or a long value, or if all have long values."""
    plain = Plain()
    for number in range(1000):
        fields = words if number == 700 else [b"sensor-id", b"%d" % number]
        plain.append(1 + number, frame(ids.text(1 + number), fields))
    plain.freeze()
    cold = pack(plain, SpanCache(), as_columns=True)
    assert type(cold) is packed.Packed
    assert cold.frames(0, 1000) == plain.frames(0, 1000)
    long = Plain()
    for number in range(100):
        long.append(1 + number, frame(ids.text(1 + number), [b"sensor-id", b"v" * 200]))
    long.freeze()
    assert type(pack(long, SpanCache(), as_columns=True)) is packed.Packed


@pytest.mark.parametrize("seed", range(30))
def test_damaged_chunks_are_errors(seed):
    """After a changed byte in compressed columns, reading fails, or gives frames of the right number and total size.

    On disk a checksum detects such changes as well.
    """
    random, plain = Random(seed), _random_plain()
    cold = pack(plain, SpanCache(), as_columns=True)
    blob = bytearray(cold.blob)
    at = random.randrange(cold.begins[0], len(blob))
    blob[at] ^= 1 << random.randrange(8)
    cold.blob = bytes(blob)
    cold.bind()
    try:
        found = cold.frames(0, len(plain))
    except OSError:
        return
    assert len(found) == len(plain)
    assert len(b"".join(found)) == plain.data_size
