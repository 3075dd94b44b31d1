"""Uniform frames as columns, against reading frame by frame."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.protocol import ids
from engine.core.streams.packer import MOST_FIELDS
from streamwire.frames import frame
from tests.harness.columns import split

#: Bytes that look like parts of a frame.
TRICKS = [b"", b"\r\n", b"\n", b"\r\n$1\r\n", b"$0\r\n\r\n", b"*2\r\n$3\r\n1-1\r\n", b"x" * 9, b"y" * 10, b"0", b"\0"]
WORDS = st.one_of(st.sampled_from(TRICKS), st.binary(max_size=12), st.binary(min_size=95, max_size=105))
IDS = st.one_of(st.integers(0, ids.MAX_ID), st.integers(0, 300), st.integers(ids.MAX_ID - 300, ids.MAX_ID))


def _offsets(frames: list[bytes]) -> list[int]:
    return list(accumulate(map(len, frames), initial=0))


@st.composite
def entries(draw: st.DrawFn) -> list[bytes]:
    """Return entries whose field names are mostly the same."""
    names = draw(st.lists(WORDS, min_size=1, max_size=4))
    frames = []
    for entry_id in sorted(draw(st.sets(IDS, min_size=1, max_size=12))):
        fields = names if draw(st.integers(0, 20)) else draw(st.lists(WORDS, min_size=1, max_size=4))
        frames.append(frame(ids.text(entry_id), [word for name in fields for word in (name, draw(WORDS))]))
    return frames


@given(entries(), st.data())
def test_changed_frames_give_their_own_bytes_or_nothing(frames, data):
    """If a byte after the first frame is changed, columns and IDs have the changed byte, or there are no columns."""
    edges = _offsets(frames)
    whole = bytearray(b"".join(frames) + b"*")
    at = data.draw(st.integers(edges[1], edges[-1]))
    whole[at] = data.draw(st.integers(0, 255))
    found = split(bytes(whole), edges)
    if found is None:
        return
    for row, (begin, end) in enumerate(pairwise(edges)):
        changed = bytes(whole[begin:end])
        size = int(changed[5 : changed.index(b"\r\n", 5)])
        id_text = changed[changed.index(b"\r\n", 5) + 2 :][:size]
        words = [word for name, values in zip(*found, strict=True) for word in (name, values[row])]
        assert changed == frame(id_text, words)


def _of_sizes(sizes: list[int]) -> list[bytes]:
    rows = [[b"a", b"v" * size, b"", b"w\r\n" * (size % 7), b"a", b"\r\n"] for size in sizes]
    return [frame(ids.text((number << 64) + 1), row) for number, row in enumerate(rows)]


def test_very_long_values_have_no_columns():
    """Entries with a value of a megabyte or more have no columns."""
    for sizes in ([8 << 20] * 2, [1, 1_000_000]):
        frames = _of_sizes(sizes)
        assert split(b"".join(frames), _offsets(frames)) is None


@pytest.mark.parametrize("length", [b"03", b"+3", b"3 ", b"-1", b"", b"00000000003", b"99999999999"])
def test_an_unusual_length_is_no_uniform_frame(length):
    """Frames have no columns if a length is not written as the engine writes it."""
    good, odd = frame(b"1-1", [b"n", b"abc"]), b"*2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nn\r\n$%b\r\nabc\r\n" % length
    assert split(good + odd, _offsets([good, odd])) is None


def test_very_many_fields_have_no_columns():
    """Entries with more than MOST_FIELDS fields have no columns."""
    for count, is_split in ((MOST_FIELDS, True), (MOST_FIELDS + 1, False)):
        frames = [frame(b"1-%d" % number, [b"n", b"v"] * count) for number in range(3)]
        assert (split(b"".join(frames), _offsets(frames)) is not None) == is_split
