r"""Frames that are all alike: the same field names in the same order, as one producer's entries have.

The quickest way to prove a page. The names are read from the first frame. Then everything between an ID or a value and
the next one is the same text in every frame, except for the digits of a length::

    *2\r\n$15\r\n <ID> \r\n*4\r\n$9\r\nsensor-id\r\n$ 4\r\n <value> \r\n$11\r\ntemperature\r\n$ 4\r\n <value> \r\n

Frames are guessed to begin at every other `*`. From there all frames are followed at once, as a parser would: the text
that must come next, a length, that many bytes. If each frame ends exactly where the next was guessed to begin, and the
last one where the page ends, then by induction from the first byte the guesses are right and the tokens are those that
a parser finds. Everything else is declined, also a `*` in a value: `spark_streams.codec.decode` has the other ways,
which give the same columns. Numbers are read straight from the page (`spark_streams.codec.digits`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_streams.codec import decode_reference, digits
from spark_streams.codec.digits import Ints, Lengths, Words
from spark_streams.codec.reply import ReplyError, array_header, last_of

_STAR = 42
_BEFORE, _SLACK = 2, 16  # bytes before and after the page that may be read
_MAX_BYTES = 2**31 - 1
_FEWEST = 32  # entries; with fewer, the other ways are as fast
_WORD = 8
_MOST_LENGTH_DIGITS = 5
_U = np.uint64
_HEAD = int.from_bytes(b"\r\n*2\r\n$", "little")  # the tens of the ID's length follow; its ones lead the next word
_CRLF = int.from_bytes(b"\r\n", "little")
_ONE_DIGIT, _THREE_BYTES = _U(int.from_bytes(b"0\r\n", "little")), _U(0xFFFFFF)
_MS_DIGITS = 13
_PLACES = _U(0x0001020304050607)


def scan(buffer: bytes | bytearray, start: int, stop: int, count: int) -> AlikePage | None:
    """The page, if `buffer[start:stop]` is proven to be `count` frames that are alike; None to decline.

    The line of the array's head must stand before it, as it does in a reply.
    """
    size = stop - start
    if count < _FEWEST or size < _WORD or size > _MAX_BYTES or start < _BEFORE or len(buffer) < stop + _SLACK:
        return None
    texts = _texts(buffer, start, stop)
    if texts is None:
        return None
    try:
        return _proven(buffer, start, size, count, *texts)
    except IndexError:
        return None


@dataclass(frozen=True)
class _Column:
    """The tokens in one position of all frames: their offsets, their lengths, and the two words from the lengths on.

    `skipped`: how many bytes of these words come before the token; 0 if that differs among frames.
    """

    begins: Ints
    sizes: Lengths
    near: Words
    skipped: int


def _proven(
    buffer: bytes | bytearray, start: int, size: int, count: int, names: list[bytes], pieces: list[bytes]
) -> AlikePage | None:
    heads = _heads(np.frombuffer(buffer, np.uint8, size, start), count)
    if heads is None:
        return None
    look = _Look(buffer, start, size)
    # From the line end before each frame on, so that a frame's last line end is checked with the next frame's head.
    near = look.windows(heads, 2 * _WORD, back=2)
    head = int(near[0, 0])
    tens = (head >> 56) - 0x30
    if head & (1 << 56) - 1 != _HEAD or not 0 <= tens <= 9 or (near[:, 0] != near[0, 0]).any():
        return None
    ones = (near[:, 1] & _THREE_BYTES) - _ONE_DIGIT  # below zero wraps around
    if ones.max() > 9 or buffer[start + size - 2 : start + size] != b"\r\n":
        return None
    column = _Column(heads + 9, (ones + _U(10 * tens)).view(np.int64), near, 0)
    columns = [column]
    for piece in pieces:
        found = _next(look, column.begins + column.sizes, piece)
        if found is None:
            return None
        column = found
        columns.append(column)
    ends = column.begins + column.sizes
    ends += 2
    if heads[0] != 0 or ends[-1] != size or not np.array_equal(ends[:-1], heads[1:]):
        return None
    return AlikePage(buffer, start, size, names, columns, look)


def _heads(data: NDArray[np.uint8], count: int) -> Ints | None:
    """The offsets of every other `*`, if there are twice `count`: a guess at where frames begin.

    The search looks at eight bytes at a time, since a frame's own `*` are further apart. Two in eight bytes give a
    wrong guess, which the proof refuses.
    """
    mask = np.empty(data.size + -data.size % _WORD, bool)
    mask[data.size :] = False
    np.equal(data, _STAR, out=mask[: data.size])
    words = mask.view(np.dtype("<u8"))
    at = (words != 0).nonzero()[0]
    if at.size != 2 * count:
        return None
    at = at[0::2]
    # One byte of the word is 1: the multiplication moves its position to the top byte.
    heads: Ints = at * _WORD + (words.take(at) * _PLACES >> _U(56)).view(np.int64)
    return heads


def _next(look: _Look, at: Ints, piece: bytes) -> _Column | None:
    """The tokens after this text, which must be at all of these offsets; None if it is not, or no length follows.

    The text is right-aligned to words, so that the length begins a new word.
    """
    words = -(-len(piece) // _WORD)
    early = words * _WORD - len(piece)
    at = at - early
    near = look.windows(at, (words + 2) * _WORD)
    expected = np.frombuffer(bytes(early) + piece, np.dtype("<u8"))
    first = near[:, 0] if not early else near[:, 0] & _U((2**64 - 1) >> 8 * early << 8 * early)
    if (first != expected[0]).any():
        return None
    for i in range(1, words):
        if (near[:, i] != expected[i]).any():
            return None
    return _lengths(at, words * _WORD, near[:, words:])


def _lengths(at: Ints, skip: int, near: Words) -> _Column | None:
    """The tokens whose lengths are `skip` bytes after these offsets; None if one is not a short plain number."""
    words = near[:, 0]
    text = int(words[0]).to_bytes(_WORD, "little")
    width = text.find(b"\r\n")
    if not 1 <= width <= _MOST_LENGTH_DIGITS or not text[:width].isdigit():
        return None
    header = _U((1 << 8 * width + 16) - 1)
    if not ((words & header) != (words[0] & header)).any():
        return _Column(at + (skip + width + 2), int(text[:width]), near, width + 2)
    number = (words & _THREE_BYTES) - _ONE_DIGIT  # below zero wraps around
    if number.max() <= 9:
        return _Column(at + (skip + 3), number.view(np.int64), near, 3)
    number = words & _U(0xF)
    if ((words & _U(0xF0)) != _U(0x30)).any() or number.max() > 9:
        return None
    widths: Any = 1
    ended: Any = ((words >> _U(8)) & _U(0xFFFF)) == _CRLF
    for i in range(1, _MOST_LENGTH_DIGITS):
        digit = ((words >> _U(8 * i)) & _U(0xFF)) - _U(0x30)  # below zero wraps around
        if (~ended & (digit > 9)).any():
            return None
        number = np.where(ended, number, number * _U(10) + digit)
        widths = widths + ~ended
        ended = ended | (((words >> _U(8 * i + 8)) & _U(0xFFFF)) == _CRLF)
        if ended.all():
            return _Column(at + (skip + 2) + widths, number.view(np.int64), near, 0)
    return None


def _texts(buffer: bytes | bytearray, start: int, stop: int) -> tuple[list[bytes], list[bytes]] | None:
    """The first frame's field names, and the text before each value's length; None if it is no plain frame."""
    try:
        count, at = array_header(buffer, start)
        if count != 2:
            return None
        _, at = _bulk(buffer, at)
        width, at = array_header(buffer, at)
        if width < 2 or width % 2:
            return None
        names: list[bytes] = []
        for i in range(width):
            word, at = _bulk(buffer, at)
            if at > stop:
                return None
            if i % 2 == 0:
                names.append(word)
    except (ValueError, ReplyError):
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
    """Reads a page at many offsets at once; IndexError if one is beyond its end.

    At each offset one item is copied, whatever its size: that costs no more than copying a byte. The items are indexed,
    because `take` would first make an aligned copy of all of them.
    """

    def __init__(self, buffer: bytes | bytearray, start: int, size: int) -> None:
        # Offsets count from the page's first byte.
        self._whole = np.frombuffer(buffer, np.uint8, _BEFORE + size + _SLACK, start - _BEFORE)

    def windows(self, at: Ints, size: int, back: int = 0) -> Words:
        """The `size` bytes at each offset, or `back` (at most two) bytes before it, as words: a row for each."""
        count = self._whole.size - size - _BEFORE + back + 1
        starts = np.ndarray((count,), np.dtype((np.void, size)), self._whole, _BEFORE - back, (1,))
        return starts[at].view(np.dtype("<u8")).reshape(at.size, size // _WORD)

    def words(self, at: Ints) -> Words:
        return self.windows(at, _WORD)[:, 0]


class AlikePage:
    """A page of entries that have the same fields: tokens by column, the ID first, then the values."""

    def __init__(
        self,
        buffer: bytes | bytearray,
        start: int,
        size: int,
        names: list[bytes],
        columns: list[_Column],
        look: _Look,
    ) -> None:
        self.count = columns[0].begins.size
        self._buffer = buffer
        self._start = start
        self._size = size
        self._last = last_of(names)
        self._columns = columns
        self._look = look

    def _tokens(self, column: int) -> Any:
        """A column's tokens: every other element of an array that alternates tokens and gaps."""
        tokens = self._columns[column]
        offsets = np.empty(2 * self.count, np.int32)
        offsets[0::2] = tokens.begins
        np.add(tokens.begins, tokens.sizes, out=offsets[1::2], casting="unsafe")
        body = pa.py_buffer(self._buffer).slice(self._start, self._size)
        both = pa.BinaryArray.from_buffers(pa.binary(), 2 * self.count - 1, [None, pa.py_buffer(offsets), body])
        return both.take(pa.array(np.arange(0, 2 * self.count, 2, dtype=np.int32)))

    def _number(self, name: bytes) -> int | None:
        """The number of the column with the field's last value; None if there is no such field."""
        last = self._last.get(name)
        return None if last is None else last + 1

    def last_id(self) -> bytes:
        begin = self._start + int(self._columns[0].begins[-1])
        return bytes(self._buffer[begin : self._buffer.index(b"\r\n", begin)])

    def ids(self) -> Any:
        return self._tokens(0)

    def milliseconds(self) -> Any:
        tokens = self._columns[0]
        if np.min(tokens.sizes) > _MS_DIGITS + 1:
            near = self._look.windows(tokens.begins, 2 * _WORD)
            high, low = digits.plain(near[:, 0], _WORD), digits.plain(near[:, 1], _MS_DIGITS - _WORD)
            dashes = (near[:, 1] >> _U(40)) & _U(0xFF)
            if high is not None and low is not None and (dashes == ord("-")).all():
                return pa.array((high * _U(100_000) + low).view(np.int64))
        return decode_reference.milliseconds(self.ids().to_pylist())

    def column(self, name: bytes) -> Any:
        column = self._number(name)
        return pa.nulls(self.count, pa.binary()) if column is None else self._tokens(column)

    def integers(self, name: bytes) -> Any:
        """The field's values as an int32 array; None to decline."""
        column = self._number(name)
        found = None if column is None else digits.integers(*self._texts(self._columns[column]))
        return None if found is None else pa.array(found)

    def floats(self, name: bytes) -> Any:
        """The field's values as a float64 array; None to decline."""
        column = self._number(name)
        found = None if column is None else digits.floats(*self._texts(self._columns[column]))
        return None if found is None else pa.array(found)

    def _texts(self, column: _Column) -> tuple[Words, Lengths]:
        """The first eight bytes of each token, and its length; bytes after a short token are arbitrary."""
        if not column.skipped:
            return self._look.words(column.begins), column.sizes
        bits = 8 * column.skipped
        words = column.near[:, 0] >> _U(bits)
        if np.max(column.sizes) > _WORD - column.skipped:
            words |= column.near[:, 1] << _U(64 - bits)
        return words, column.sizes

    def fields(self) -> tuple[Any, Any, Any]:
        names, columns = list(self._last), [last + 1 for last in self._last.values()]
        width = len(columns)
        both = np.empty((self.count, width, 2), np.int32)
        for i, column in enumerate(columns):
            both[:, i, 0] = self._columns[column].begins
            both[:, i, 1] = self._columns[column].begins + self._columns[column].sizes
        body = pa.py_buffer(self._buffer).slice(self._start, self._size)
        size = self.count * width
        # In the order of the page, so that offsets grow: tokens and gaps alternate, as in `_tokens`.
        tokens = pa.BinaryArray.from_buffers(pa.binary(), 2 * size - 1, [None, pa.py_buffer(both), body])
        values = tokens.take(pa.array(np.arange(0, 2 * size, 2, dtype=np.int32)))
        keys = pa.array(names, pa.binary()).take(pa.array(np.tile(np.arange(width, dtype=np.int32), self.count)))
        return pa.array(np.arange(0, size + 1, width, dtype=np.int32)), keys, values
