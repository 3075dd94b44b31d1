"""Uniform frames as columns, against reading frame by frame."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.core.protocol import ids
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
