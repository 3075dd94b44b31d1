r"""Vectorised RESP walker: parses many items of the same form in parallel, each from its own offset.

A form is a sequence of constants and bulk strings, as in frames and commands of one producer. In this frame, a space is
inserted between a constant and the length or content of a bulk string::

    *2\r\n$ 15\r\n<ID> \r\n*4\r\n$9\r\nsensor-id\r\n$ 4\r\n<value> \r\n$11\r\ntemperature\r\n$ 4\r\n<value> \r\n

`Walker.bulk` matches the constant up to and including a bulk string's `$`, reads the length and skips that many bytes,
in all items at once. It never searches for line ends, so a value cannot be mistaken for structure. If the first offset
is right and every item ends at the assumed start of the next one, then by induction a parser would find the same
tokens. The caller compares the ends and starts. A length with leading zeros, which no writer produces, counts as a
mismatch, and so does a length of more than six digits, which is rare.

At each offset a window of a few words is copied, since that costs no more than copying a byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamwire import digits
from streamwire.digits import Ints, Lengths, Words

#: Number of bytes that must be readable before the first item. Their content is ignored.
BEFORE = 8
#: Number of bytes that must be readable after the last item. Their content is ignored.
AFTER = 16

Bools = NDArray[np.bool_]

_WORD = 8
_MOST_DIGITS = 6
_U = np.uint64
_EIGHT = _U(8)
_CRLF = _U(0x0A0D)
_CR_BYTES, _LOW_BITS, _HIGH_BITS = (_U(byte * 0x0101010101010101) for byte in (0x0D, 0x01, 0x80))
_BYTE_NUMBERS = _U(0x0001020304050607)


def _short_lengths() -> Words:
    """Return a table of the lengths below 100.

    The index is the two bytes after the `$` as a little-endian number: two digits, or one digit and CR. The lowest
    eight bits of an element are the length. The bits above are the offset of the line end after the `$`, in bits.
    """
    found = np.full(1 << 16, _WORD * 7 << 8, np.uint64)  # a shift after which no line end can be found
    for length in range(100):
        text = b"%d\r" % length
        found[int.from_bytes(text[:2], "little")] = length | 8 * (len(text) - 1) << 8
    return found


_SHORT_LENGTHS = _short_lengths()


class Mismatch(Exception):  # noqa: N818 - an answer, not a failure
    """An item does not have the form."""


@dataclass(frozen=True, slots=True)
class Bulks:
    """One bulk string of each item: the start of its content, and its length (an int if all are equal).

    `near`: the two words that start at the length's first digit. `skipped`: number of bytes in them before the content;
    0 if it differs among items.
    """

    begins: Ints
    sizes: Lengths
    near: Words
    skipped: int

    @property
    def ends(self) -> Ints:
        return self.begins + self.sizes


class Walker:
    """Parses items from the ascending offsets `at` in `buffer`. Raises `Mismatch` if an item does not have the form."""

    __slots__ = ("_buffer", "at")

    def __init__(self, buffer: bytes | bytearray, at: Ints) -> None:
        self._buffer = buffer
        self.at = at

    def bulk(self, piece: bytes) -> Bulks:
        """Match `piece`, skip the bulk string whose length follows it, and return the bulk strings.

        The window is right-aligned: the piece's last byte ends a word and the length begins the next one.
        """
        words = -(-len(piece) // _WORD)
        early = words * _WORD - len(piece)
        self._require(len(piece) + AFTER, early)
        if not self.at.size:
            return Bulks(self.at, 0, np.empty((0, 2), np.uint64), 0)
        near = self.windows(self.at - early, (words + 2) * _WORD)
        expected = np.frombuffer(bytes(early) + piece, np.dtype("<u8"))
        for i in range(words):
            found = near[:, i] & _U((2**64 - 1) >> 8 * early << 8 * early) if early and not i else near[:, i]
            _refuse(found != expected[i])
        return self._lengths(near[:, words:], len(piece))

    def have(self, piece: bytes) -> Bools:
        """Return a boolean array of the items that continue with `piece`, of one to eight bytes."""
        self._require(_WORD)
        mask = _U((1 << 8 * len(piece)) - 1)
        return np.asarray(self.words(self.at) & mask == _U(int.from_bytes(piece, "little")))

    def windows(self, at: Ints, size: int) -> Words:
        """Return the `size` bytes (a multiple of eight) at each offset as words, one row per offset."""
        starts = overlapping(np.frombuffer(self._buffer, np.uint8), size)
        return starts[at].view(np.dtype("<u8")).reshape(at.size, size // _WORD)

    def words(self, at: Ints) -> Words:
        """Return the eight bytes at each offset as a word."""
        return self.windows(at, _WORD)[:, 0]

    def _lengths(self, near: Words, skip: int) -> Bulks:
        """Read the length at the start of each row of `near`, which begins `skip` bytes after `at`."""
        words = near[:, 0]
        width = int(words[0]).to_bytes(_WORD, "little").find(b"\r\n")
        header = _U((1 << 8 * (max(width, 0) + 2)) - 1)
        sizes: Lengths
        alike = 1 <= width <= _MOST_DIGITS and not (int(words[0]) ^ int(words[-1])) & int(header)
        if alike and ((words & header) == (words[0] & header)).all():
            text = int(words[0]).to_bytes(_WORD, "little")[:width]
            if not text.isdigit() or (text[:1] == b"0" != text):
                raise Mismatch
            sizes = int(text)
            begins = self.at + (skip + width + 2)
            self.at = begins + sizes
            return Bulks(begins, sizes, near, width + 2)
        short = _SHORT_LENGTHS[(words & _U(0xFFFF)).view(np.int64)]
        shifts = short >> _EIGHT
        if ((words >> shifts) & _U(0xFFFF) == _CRLF).all():
            sizes = (short & _U(0xFF)).view(np.int64)
            begins = (shifts >> _U(3)).view(np.int64)
            begins += self.at
            begins += skip + 2
            self.at = begins + sizes
            return Bulks(begins, sizes, near, int(shifts[0]) // 8 + 2 if not (shifts != shifts[0]).any() else 0)
        other = words ^ _CR_BYTES
        ends = (other - _LOW_BITS) & ~other & _HIGH_BITS
        ends &= ~ends + _U(1)  # keep the first CR: above it a borrow can set wrong bits
        widths = _byte_number(ends >> _U(7))
        _refuse((ends == 0) | (widths < 1) | (widths > _MOST_DIGITS))
        found = digits.plain(words, widths)
        if found is None:
            raise Mismatch
        _refuse((words >> (widths.view(np.uint64) * _EIGHT)) & _U(0xFFFF) != _CRLF)
        _refuse(((words & _U(0xFF)) == _U(ord("0"))) & (widths > 1))
        skipped = int(widths[0]) + 2 if (widths == widths[0]).all() else 0
        sizes = found.view(np.int64)
        begins = self.at + widths + (skip + 2)
        self.at = begins + sizes
        return Bulks(begins, sizes, near, skipped)

    def _require(self, after: int, before: int = 0) -> None:
        """Raise `Mismatch` if less than `after` bytes from an item's offset on, or `before` before it, are readable."""
        if self.at.size and (int(self.at.max()) > len(self._buffer) - after or int(self.at[0]) < before):
            raise Mismatch


def _refuse(bad: Bools) -> None:
    """Raise `Mismatch` if any item is bad."""
    if bad.any():
        raise Mismatch


def _byte_number(words: Words) -> Ints:
    """Return the index of the 1 in each word. One byte of every word must be 1, and the other seven bytes 0."""
    return (words * _BYTE_NUMBERS >> _U(56)).view(np.int64)


def overlapping(data: NDArray[np.uint8], size: int) -> NDArray[Any]:
    """Return a view with an item of `size` bytes at each byte of `data`.

    Indexing it copies texts of one length from any offsets, and assigning to it copies to any offsets. (`take` would
    first make an aligned copy of all items.)
    """
    return np.ndarray((data.size - size + 1,), np.dtype((np.void, size)), data, 0, (1,))
