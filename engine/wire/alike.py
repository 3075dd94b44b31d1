r"""Frames that are all alike: the same field names in the same order, as one producer's entries are.

The quickest way to prove a page. The names come from the first frame; everything between an ID or a value and the next
one is then the same text in every frame, up to the digits of a length::

    *2\r\n$15\r\n <ID> \r\n*4\r\n$9\r\nsensor-id\r\n$ 4\r\n <value> \r\n$11\r\ntemperature\r\n$ 4\r\n <value> \r\n

Where frames begin is guessed: at every other `*`. From there each frame is followed as a parser would, all frames at
once: the text that must stand there, a length, that many bytes. If each frame ends exactly where the next was guessed
to begin, and the last one where the page ends, then by induction from the first byte the guesses are right and
the tokens are what a parser finds. Everything else is declined, `*` in a value included: `engine.wire.arrow` has the
other ways, which give the same columns. Numbers are read straight from the page (`engine.wire.digits`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.wire import arrow_scalar, digits
from engine.wire.digits import Ints, Words

_STAR = 42
_SLACK = 8  # bytes behind the page that may be looked at
_MAX_BYTES = 2**31 - 1
_FEWEST = 32  # entries; for fewer the other ways are as good
_MOST_LENGTH_DIGITS = 5
_U = np.uint64
_HEAD = int.from_bytes(b"*2\r\n$\0\0\r", "little")
_HEAD_MASK = 0xFF0000FFFFFFFFFF
_TWO_DIGITS, _TWO_HIGH = _U(0x3030), _U(0xF0F0)
_CRLF = int.from_bytes(b"\r\n", "little")
_MS_DIGITS = 13


def scan(buffer: bytes | bytearray, start: int, stop: int, count: int) -> AlikePage | None:
    """The page, if `buffer[start:stop]` is proven to be `count` frames that are alike; None to decline."""
    size = stop - start
    if count < _FEWEST or size < 8 or size > _MAX_BYTES or len(buffer) < stop + _SLACK:
        return None
    texts = _texts(buffer, start, stop)
    if texts is None:
        return None
    try:
        return _proven(buffer, start, size, count, *texts)
    except IndexError:
        return None


def _proven(
    buffer: bytes | bytearray, start: int, size: int, count: int, names: list[bytes], pieces: list[bytes]
) -> AlikePage | None:
    data = np.frombuffer(buffer, np.uint8, size, start)
    stars = np.flatnonzero(data == _STAR)
    if stars.size != 2 * count:
        return None
    heads = stars[0::2]
    look = _Look(buffer, start, size)
    first = look.words(heads)
    if not np.all((first & _U(_HEAD_MASK)) == _U(_HEAD)):
        return None
    tens, ones = (first >> _U(40)) & _U(0xF), (first >> _U(48)) & _U(0xF)
    if not np.all((first >> _U(40)) & _TWO_HIGH == _TWO_DIGITS) or tens.max() > 9 or ones.max() > 9:
        return None
    begins, sizes = [heads + 9], [(tens * _U(10) + ones).astype(np.int64)]
    if not look.crlf(heads + 7):
        return None
    at = begins[0] + sizes[0]
    for piece in pieces:
        if not look.reads(at, piece):
            return None
        found = look.lengths(at + len(piece))
        if found is None:
            return None
        begin, length = found
        begins.append(begin)
        sizes.append(length)
        at = begin + length
    if not look.crlf(at):
        return None
    at += 2
    if heads[0] != 0 or at[-1] != size or not np.array_equal(at[:-1], heads[1:]):
        return None
    return AlikePage(buffer, start, size, names, begins, sizes, look)


def _texts(buffer: bytes | bytearray, start: int, stop: int) -> tuple[list[bytes], list[bytes]] | None:
    """The first frame's field names, and what stands before each value's length; None if it is no plain frame."""
    try:
        count, at = arrow_scalar.array_header(buffer, start)
        if count != 2:
            return None
        _, at = _bulk(buffer, at)
        width, at = arrow_scalar.array_header(buffer, at)
        if width < 2 or width % 2:
            return None
        names: list[bytes] = []
        for i in range(width):
            word, at = _bulk(buffer, at)
            if at > stop:
                return None
            if i % 2 == 0:
                names.append(word)
    except (ValueError, arrow_scalar.ReplyError):
        return None
    pieces = [b"\r\n$%d\r\n%b\r\n$" % (len(name), name) for name in names]
    pieces[0] = b"\r\n*%d" % width + pieces[0]
    return names, pieces


def _bulk(buffer: bytes | bytearray, at: int) -> tuple[bytes, int]:
    end = buffer.find(b"\r\n", at, at + 16)
    if end < 0 or buffer[at : at + 1] != b"$":
        raise ValueError("no bulk string")
    length = int(buffer[at + 1 : end])
    if length < 0:
        raise ValueError("null")
    return bytes(buffer[end + 2 : end + 2 + length]), end + 4 + length


class _Look:
    """Reads many places of a page at once; an IndexError where one lies beyond its end.

    Indexed rather than taken from: `take` would first make an aligned copy of all words.
    """

    def __init__(self, buffer: bytes | bytearray, start: int, size: int) -> None:
        whole = np.frombuffer(buffer, np.uint8, size + _SLACK, start)
        # One word at every byte, whatever its alignment.
        self._eight: Words = np.ndarray((size + 1,), np.dtype("<u8"), whole, 0, (1,))
        self._two = np.ndarray((size + 1,), np.dtype("<u2"), whole, 0, (1,))

    def words(self, at: Ints) -> Words:
        return self._eight[at]

    def crlf(self, at: Ints) -> bool:
        return bool(np.all(self._two[at] == _CRLF))

    def reads(self, at: Ints, text: bytes) -> bool:
        """Whether `text`, of eight bytes or more, stands at all of these places."""
        for i in {*range(0, len(text) - 7, 8), len(text) - 8}:
            if not np.all(self.words(at + i) == _U(int.from_bytes(text[i : i + 8], "little"))):
                return False
        return True

    def lengths(self, at: Ints) -> tuple[Ints, Ints] | None:
        """Where the contents behind these lengths begin, and the lengths; None if one is not a short plain number."""
        words = self.words(at)
        number = words & _U(0xF)
        if not np.all((words & _U(0xF0)) == _U(0x30)) or number.max() > 9:
            return None
        width: Any = 1
        ended: Any = ((words >> _U(8)) & _U(0xFFFF)) == _CRLF
        if ended.all():
            return at + 3, number.astype(np.int64)
        for i in range(1, _MOST_LENGTH_DIGITS):
            byte = (words >> _U(8 * i)) & _U(0xFF)
            digit = byte - _U(0x30)  # below zero wraps around
            if np.any(~ended & (digit > 9)):
                return None
            number = np.where(ended, number, number * _U(10) + digit)
            width = width + ~ended
            ended = ended | (((words >> _U(8 * i + 8)) & _U(0xFFFF)) == _CRLF)
            if ended.all():
                return at + 2 + width, number.astype(np.int64)
        return None


class AlikePage:
    """A page of entries that have the same fields: tokens by column, the ID first, then the values."""

    def __init__(
        self,
        buffer: bytes | bytearray,
        start: int,
        size: int,
        names: list[bytes],
        begins: list[Ints],
        sizes: list[Ints],
        look: _Look,
    ) -> None:
        self.count = begins[0].size
        self._buffer = buffer
        self._start = start
        self._size = size
        self._names = names
        self._begins = begins
        self._sizes = sizes
        self._look = look

    def _tokens(self, column: int) -> Any:
        """A column's tokens: every other element of an array whose elements are, in turn, a token and a gap."""
        begins = self._begins[column]
        offsets = np.empty(2 * self.count, np.int32)
        offsets[0::2] = begins
        np.add(begins, self._sizes[column], out=offsets[1::2], casting="unsafe")
        body = pa.py_buffer(self._buffer).slice(self._start, self._size)
        both = pa.BinaryArray.from_buffers(pa.binary(), 2 * self.count - 1, [None, pa.py_buffer(offsets), body])
        return both.take(pa.array(np.arange(0, 2 * self.count, 2, dtype=np.int32)))

    def _number(self, name: bytes) -> int | None:
        """The column of a field's last value."""
        if name not in self._names:
            return None
        return len(self._names) - self._names[::-1].index(name)

    def last_id(self) -> bytes:
        begin = self._start + int(self._begins[0][-1])
        return bytes(self._buffer[begin : begin + int(self._sizes[0][-1])])

    def ids(self) -> Any:
        return self._tokens(0)

    def milliseconds(self) -> Any:
        begins = self._begins[0]
        if self._sizes[0].min() > _MS_DIGITS + 1:
            high, low = self._look.words(begins), self._look.words(begins + 8)
            dashes = (low >> _U(40)) & _U(0xFF)
            low = digits.right(low, np.full(self.count, _MS_DIGITS - 8))
            if np.all(dashes == ord("-")) and digits.are_digits(high) and digits.are_digits(low):
                return pa.array((digits.value(high) * _U(100_000) + digits.value(low)).astype(np.int64))
        return arrow_scalar.milliseconds(self.ids().to_pylist())

    def column(self, name: bytes) -> Any:
        column = self._number(name)
        return pa.nulls(self.count, pa.binary()) if column is None else self._tokens(column)

    def integers(self, name: bytes) -> Any:
        """The field's values as an int64 array; None to decline."""
        column = self._number(name)
        if column is None:
            return None
        found = digits.integers(self._look.words(self._begins[column]), self._sizes[column])
        return None if found is None else pa.array(found)

    def floats(self, name: bytes) -> Any:
        """The field's values as a float64 array; None to decline."""
        column = self._number(name)
        if column is None:
            return None
        found: NDArray[np.float64] | None = digits.floats(self._look.words(self._begins[column]), self._sizes[column])
        return None if found is None else pa.array(found)

    def fields(self) -> tuple[Any, Any, Any]:
        names = [name for i, name in enumerate(self._names) if name not in self._names[i + 1 :]]
        columns = [self._number(name) or 0 for name in names]
        width = len(columns)
        both = np.empty((self.count, width, 2), np.int32)
        for i, column in enumerate(columns):
            both[:, i, 0] = self._begins[column]
            both[:, i, 1] = self._begins[column] + self._sizes[column]
        body = pa.py_buffer(self._buffer).slice(self._start, self._size)
        size = self.count * width
        # In the order of the page, so that offsets grow: a token and a gap in turn, as in `_tokens`.
        tokens = pa.BinaryArray.from_buffers(pa.binary(), 2 * size - 1, [None, pa.py_buffer(both), body])
        values = tokens.take(pa.array(np.arange(0, 2 * size, 2, dtype=np.int32)))
        keys = pa.array(names, pa.binary()).take(pa.array(np.tile(np.arange(width, dtype=np.int32), self.count)))
        return pa.array(np.arange(0, size + 1, width, dtype=np.int32)), keys, values
