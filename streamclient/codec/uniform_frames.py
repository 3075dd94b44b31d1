r"""Decoding of uniform frames, which all have the same field names in the same order, as one producer's entries do.

The fastest way to prove a page. The names are read from the first frame. Frames are assumed to begin at every other
`*`, and `streamwire.walker` follows all of them at once. If each frame ends exactly at the assumed start of the next
one, and the last one at the end of the page, the tokens are proven. Everything else is declined, including a `*` in a
value: `streamclient.codec.decode` has the other ways, which give the same columns. Numbers are read directly from the
page (`streamwire.digits`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamclient.codec import decode_reference
from streamclient.codec.reply import last_of
from streamwire import digits
from streamwire.digits import Lengths, Words
from streamwire.frames import fields_of, follow
from streamwire.walker import AFTER, Bulks, Mismatch, Walker, marks

_STAR = 42
_LINE_END = b"\r\n"
_MAX_BYTES = 2**31 - 1
_FEWEST = 32  # entries; with fewer, the other ways are as fast
_WORD = 8
_U = np.uint64
_MS_DIGITS = 13


def scan(buffer: bytes | bytearray, start: int, stop: int, count: int) -> AlikePage | None:
    """Return the page if `buffer[start:stop]` is proven to be `count` frames that are alike; None to decline.

    The line of the array's head must stand before it, as it does in a reply.
    """
    size = stop - start
    if count < _FEWEST or size < _WORD or stop > _MAX_BYTES or start < len(_LINE_END) or len(buffer) < stop + AFTER:
        return None
    stars = marks(np.frombuffer(buffer, np.uint8, size, start), _STAR)
    if stars.size != 2 * count or stars[0] or buffer[start - 2 : start] != _LINE_END:
        return None
    names = _names(buffer, start, start + int(stars[2]))
    if not names:
        return None
    # From the line end before each frame on, so that a frame's last line end is checked with the next frame's head.
    edges = np.append(stars[::2], size) + (start - len(_LINE_END))
    walker = Walker(buffer, edges[:-1])
    try:
        entry_ids, values = follow(walker, names, lead=_LINE_END)
    except Mismatch:
        return None
    if buffer[stop - 2 : stop] != _LINE_END or not np.array_equal(walker.at, edges[1:]):
        return None
    return AlikePage(buffer, names, [entry_ids, *values], walker)


def _names(buffer: bytes | bytearray, start: int, stop: int) -> list[bytes]:
    """Return the field names of the frame there; none if it is not a plain one."""
    try:
        words = fields_of(memoryview(buffer)[start:stop])
    except ValueError:
        return []
    return words[::2] if len(words) % 2 == 0 else []


class AlikePage:
    """A page of entries that have the same fields: tokens by column, the ID first, then the values."""

    def __init__(self, buffer: bytes | bytearray, names: list[bytes], columns: list[Bulks], walker: Walker) -> None:
        self.count = walker.count
        self._buffer = buffer
        self._last = last_of(names)
        self._columns = columns
        self._walker = walker

    def _tokens(self, column: int) -> Any:
        """Return a column's tokens: every other element of an array that alternates tokens and gaps."""
        tokens = self._columns[column]
        offsets = np.empty(2 * self.count, np.int32)
        offsets[0::2] = tokens.begins
        np.add(tokens.begins, tokens.sizes, out=offsets[1::2], casting="unsafe")
        body = pa.py_buffer(self._buffer)
        both = pa.BinaryArray.from_buffers(pa.binary(), 2 * self.count - 1, [None, pa.py_buffer(offsets), body])
        return both.take(pa.array(np.arange(0, 2 * self.count, 2, dtype=np.int32)))

    def _number(self, name: bytes) -> int | None:
        """Return the number of the column with the field's last value; None if there is no such field."""
        last = self._last.get(name)
        return None if last is None else last + 1

    def last_id(self) -> bytes:
        begin = int(self._columns[0].begins[-1])
        return bytes(self._buffer[begin : self._buffer.index(b"\r\n", begin)])

    def ids(self) -> Any:
        return self._tokens(0)

    def milliseconds(self) -> Any:
        tokens = self._columns[0]
        if np.min(tokens.sizes) > _MS_DIGITS + 1:
            near = self._walker.windows(tokens.begins, 2 * _WORD)
            high, low = digits.plain(near[:, 0], _WORD), digits.plain(near[:, 1], _MS_DIGITS - _WORD)
            dashes = (near[:, 1] >> _U(40)) & _U(0xFF)
            if high is not None and low is not None and (dashes == ord("-")).all():
                return pa.array((high * _U(100_000) + low).view(np.int64))
        return decode_reference.milliseconds(self.ids().to_pylist())

    def column(self, name: bytes) -> Any:
        column = self._number(name)
        return pa.nulls(self.count, pa.binary()) if column is None else self._tokens(column)

    def integers(self, name: bytes) -> Any:
        """Return the field's values as an int32 array; None to decline."""
        column = self._number(name)
        found = None if column is None else digits.integers(*self._texts(self._columns[column]))
        return None if found is None else pa.array(found)

    def floats(self, name: bytes) -> Any:
        """Return the field's values as a float64 array; None to decline."""
        column = self._number(name)
        found = None if column is None else digits.floats(*self._texts(self._columns[column]))
        return None if found is None else pa.array(found)

    def _texts(self, column: Bulks) -> tuple[Words, Lengths]:
        """Return the first eight bytes of each token, and its length; bytes after a short token are arbitrary."""
        if not column.skipped:
            return self._walker.words(column.begins), column.sizes
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
        body = pa.py_buffer(self._buffer)
        size = self.count * width
        # In the order of the page, so that offsets grow: tokens and gaps alternate, as in `_tokens`.
        tokens = pa.BinaryArray.from_buffers(pa.binary(), 2 * size - 1, [None, pa.py_buffer(both), body])
        values = tokens.take(pa.array(np.arange(0, 2 * size, 2, dtype=np.int32)))
        keys = pa.array(names, pa.binary()).take(pa.array(np.tile(np.arange(width, dtype=np.int32), self.count)))
        return pa.array(np.arange(0, size + 1, width, dtype=np.int32)), keys, values
