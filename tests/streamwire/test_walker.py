"""The vectorised walker: lengths and mismatches. Tests of its users compare their results with a parser."""

from __future__ import annotations

import numpy as np
import pytest

from streamwire.walker import AFTER, BEFORE, Mismatch, Walker


def laid_out(items: list[bytes]) -> tuple[bytes, np.ndarray]:
    """Return the items back to back, with readable bytes around them, and their offsets."""
    offsets = np.cumsum([BEFORE, *map(len, items)])
    return bytes(BEFORE) + b"".join(items) + bytes(AFTER), offsets


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
