"""The vectorised proof of many frames, against frames made one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwire import frames
from streamwire.digits import Ints
from streamwire.entry_batch import Values
from streamwire.frames import fields_of, frame
from streamwire.walker import AFTER
from tests.streamwire.test_walker import WORDS

BEFORE = b"*9\r\n"
#: Words that do not look like the beginning of a frame.
PLAIN = st.sampled_from([b"", b"*", b"**", b"*4", b"a", b"$3", b"x" * 9, b"12"])
NAMES = [b"a", b"a longer name"]


def laid_out(made: list[bytes]) -> tuple[bytes, Ints]:
    """Return the frames back to back, after a line end and before readable bytes, and their offsets."""
    return BEFORE + b"".join(made) + bytes(AFTER), np.cumsum([len(BEFORE), *map(len, made)])


def texts(values: Values) -> list[bytes]:
    """Return the values as separate byte strings."""
    return [bytes(values.data[begin:end]) for begin, end in zip(values.starts, values.ends, strict=True)]


def framed(rows: list[list[bytes]]) -> list[bytes]:
    """Return frames of entries with these fields."""
    return [frame(b"%d-0" % number, row) for number, row in enumerate(rows)]


def rows_of(words: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[list[bytes]]]:
    """Return the fields of some entries: one to three fields each."""
    fields = st.lists(st.tuples(words, words), min_size=1, max_size=3)
    return st.lists(fields.map(lambda pairs: [word for pair in pairs for word in pair]), min_size=1, max_size=12)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=12))
def test_uniform_frames_are_a_batch(rows: list[tuple[bytes, bytes]]) -> None:
    """The batch has the IDs and values from which the frames were made."""
    buffer, edges = laid_out(framed([[NAMES[0], first, NAMES[1], second] for first, second in rows]))
    batch = frames.uniform(buffer, edges, NAMES)
    assert batch is not None
    assert isinstance(batch.ids, Values)
    assert (batch.count, batch.names) == (len(rows), tuple(NAMES))
    assert texts(batch.ids) == [b"%d-0" % number for number in range(len(rows))]
    assert list(zip(*map(texts, batch.known), strict=True)) == rows
    assert [values.gathered() for values in batch.known] == [b"".join(column) for column in zip(*rows, strict=True)]
    assert frames.uniform(buffer, edges, NAMES[:1]) is None


@pytest.fixture(autouse=True, scope="module")
def however_few():
    """Let the proof accept even a few frames."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "FEWEST", 0)
        yield


@given(rows_of(WORDS))
def test_tokens_are_the_words_of_all_frames(rows: list[list[bytes]]) -> None:
    """For frames with any fields, the tokens are the IDs and words in order."""
    buffer, edges = laid_out(framed(rows))
    found = frames.tokens(buffer, edges)
    assert found is not None
    starts, ends, first = found
    words = [buffer[begin:end] for begin, end in zip(starts, ends, strict=True)]
    assert [words[begin:end] for begin, end in pairwise(first)] == [
        [b"%d-0" % number, *row] for number, row in enumerate(rows)
    ]


@given(rows_of(WORDS), st.data())
def test_no_other_bytes_are_taken_for_frames(rows: list[list[bytes]], data: st.DataObject) -> None:
    """After a change of any byte, the tokens show the change, or the frames are declined."""
    buffer, edges = laid_out(framed(rows))
    damaged = bytearray(buffer)
    damaged[data.draw(st.integers(len(BEFORE), len(buffer) - AFTER - 1))] = data.draw(st.integers(0, 255))
    found = frames.tokens(bytes(damaged), edges)
    if found is not None:
        words = [bytes(damaged[begin:end]) for begin, end in zip(*found[:2], strict=True)]
        made = [frame(words[begin], words[begin + 1 : end]) for begin, end in pairwise(found[2])]
        assert b"".join(made) == damaged[len(BEFORE) : -AFTER]


@given(rows_of(PLAIN))
def test_beginnings_of_plain_frames_are_guessed(rows: list[list[bytes]]) -> None:
    """The starts of frames are found although values contain stars, and an entry's number of words
    looks like a frame.
    """
    buffer, edges = laid_out(framed(rows))
    found = frames.find_starts(buffer, int(edges[0]), int(edges[-1]), len(rows))
    assert found is not None
    assert found.tolist() == edges[:-1].tolist()


def test_a_frame_with_a_null_is_no_frame() -> None:
    """A negative length raises an error instead of moving backwards."""
    with pytest.raises(ValueError):
        fields_of(b"*2\r\n$3\r\n1-1\r\n*2\r\n$-1\r\n$1\r\nx\r\n")
