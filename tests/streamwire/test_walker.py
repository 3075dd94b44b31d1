"""The vectorised walker, against a reader of one item at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwire.frames import fields_of
from streamwire.walker import AFTER, BEFORE, Mismatch, Walker, marks

WORDS = st.one_of(
    st.sampled_from([b"", b"\r\n", b"$1\r\n", b"*2\r\n$3\r\n1-1\r\n", b"x" * 9, b"y" * 10, b"z" * 100, b"w" * 1234]),
    st.binary(max_size=12),
)
ROWS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=12)


def laid_out(items: list[bytes]) -> tuple[bytes, np.ndarray]:
    """Return the items back to back, with readable bytes around them, and their offsets."""
    offsets = np.cumsum([BEFORE, *map(len, items)])
    return bytes(BEFORE) + b"".join(items) + bytes(AFTER), offsets


def word_at(buffer: bytes, bulks, row: int) -> bytes:
    return buffer[int(bulks.begins[row]) : int(bulks.ends[row])]


@given(ROWS, st.data())
def test_partial_walkers_keep_the_items_before_the_first_mismatch(rows, data) -> None:
    """A partial walker stops before the first item of another form; a whole walker raises Mismatch."""
    items = [b"#$%d\r\n%b\r\n" % (len(word), word) for word, _ in rows]
    bad = data.draw(st.integers(0, len(items) - 1))
    items[bad] = data.draw(st.sampled_from([b"?", b"#$0", b"#$01\r\nx\r\n", b"#$-1\r\n", b"#$1234567\r\n"]))
    buffer, offsets = laid_out(items)
    walker = Walker(buffer, offsets[:-1], partial=True)
    found = walker.bulk(b"#$")
    walker.text(b"\r\n")
    assert walker.count <= bad
    assert [word_at(buffer, found, row) for row in range(walker.count)] == [word for word, _ in rows[: walker.count]]
    assert walker.count == bad
    with pytest.raises(Mismatch):
        Walker(buffer, offsets[:-1]).bulk(b"#$")


@pytest.mark.parametrize("length", [b"", b"03", b"+3", b"3 ", b"-1", b"0000003", b"9999999", b"3\n", b"\r\n"])
def test_lengths_that_no_writer_sends_are_mismatches(length) -> None:
    """Signs, leading zeros, blanks, seven digits and missing line ends are mismatches, alone and
    among valid lengths.
    """
    good = b"#$3\r\nabc\r\n"
    for items in ([b"#$%b\r\nabc\r\n" % length], [good, b"#$%b\r\nabc\r\n" % length, good]):
        buffer, offsets = laid_out(items)
        with pytest.raises(Mismatch):
            Walker(buffer, offsets[:-1]).bulk(b"#$")


@pytest.mark.parametrize("size", [0, 9, 10, 99, 100, 999, 1000, 99_999, 999_999])
def test_lengths_of_one_to_six_digits(size) -> None:
    """Every length below a million is read, among equal and among mixed sizes."""
    for sizes in ([size] * 2, [size, 1, 0], [1, size]):
        items = [b"#$%d\r\n%b\r\n" % (length, b"v" * length) for length in sizes]
        buffer, offsets = laid_out(items)
        found = Walker(buffer, offsets[:-1]).bulk(b"#$")
        assert (found.ends - found.begins).tolist() == sizes


def test_an_item_without_room_around_it_is_a_mismatch() -> None:
    """Offsets too close to the buffer's ends are rejected, and do not wrap around."""
    item = b"#$1\r\nx\r\n"
    for buffer, at in ((item + bytes(AFTER), 0), (bytes(BEFORE) + item, BEFORE)):
        with pytest.raises(Mismatch):
            Walker(buffer, np.array([at])).bulk(b"#$")


def test_marks_are_the_offsets_of_a_byte() -> None:
    """Marks are found even if they are fewer than eight bytes apart."""
    for offsets in ([0, 9, 31, 99], [0, 1, 9, 14, 98, 99], []):
        data = bytearray(100)
        for at in offsets:
            data[at] = 42
        assert marks(np.frombuffer(data, np.uint8), 42).tolist() == offsets


def test_a_frame_with_a_null_is_no_frame() -> None:
    """A negative length raises an error instead of moving backwards."""
    with pytest.raises(ValueError):
        fields_of(b"*2\r\n$3\r\n1-1\r\n*2\r\n$-1\r\n$1\r\nx\r\n")
