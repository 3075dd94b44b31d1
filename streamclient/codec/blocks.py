"""Decoding of PS.COLUMNS replies: columns are used in place, frames are decoded like those of XRANGE.

The reply is a list of blocks. Neighbouring blocks of columns with the same fields make one page, a block of frames
makes another. The pages equal those of `streamclient.codec.decode` for the same entries; if an entry has a field twice,
the last one counts. The only proof needed for columns is that positions are within their values.

Does not depend on sockets, Spark, or the meaning of a column's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamclient.codec.decode import decode_page
from streamclient.codec.reply import Page, array_header, last_of
from streamwire import digits
from streamwire.digits import Lengths, Words

_SLACK = 8  # readable bytes after a column's values
_MAX_BYTES = 2**31 - 1
_MAX_MS = np.uint64(2**63 - 1)
_SMALL = 10_000  # numbers below this limit have precomputed texts
_RARE = 4  # number of entries per millisecond from which texts are made once per value
#: Start and end of something in the reply.
_Span = tuple[int, int]


@dataclass(frozen=True)
class Frames:
    """A block of `count` entries in the form of XRANGE."""

    count: int
    span: _Span

    names: None = None

    @property
    def frame_bytes(self) -> int:
        """Their size in bytes."""
        return self.span[1] - self.span[0]


@dataclass(frozen=True)
class Columns:
    """A block of `count` entries with the same fields. `fields`: positions and values of each; None: not sent."""

    count: int
    ms: _Span
    seq: _Span
    names: tuple[bytes, ...]
    fields: Sequence[tuple[_Span, _Span] | None]

    @property
    def is_whole(self) -> bool:
        """Whether all fields were sent."""
        return None not in self.fields

    @property
    def frame_bytes(self) -> int:
        """Approximate size of the entries as frames, in bytes."""
        names = sum(len(name) + 14 for name in self.names)
        return self.count * (names + 35) + sum(one[1][1] - one[1][0] for one in self.fields if one is not None)


Block = Frames | Columns


def blocks(buffer: bytes | bytearray) -> list[Block]:
    """Return the blocks of a reply. Raises `ReplyError` for an error reply, and ValueError for anything else.
    such reply.
    """
    number, at = array_header(buffer)
    found: list[Block] = []
    for _ in range(number):
        words, at = array_header(buffer, at)
        count, at = _integer(buffer, at)
        spans: list[_Span | None] = []
        for _ in range(words - 1):
            span, at = _bulk(buffer, at)
            spans.append(span)
        found.append(_block(buffer, count, spans))
    return found


def _block(buffer: bytes | bytearray, count: int, spans: Sequence[_Span | None]) -> Block:
    if count > 0 and len(spans) == 1 and spans[0] is not None:
        return Frames(count, spans[0])
    if count < 1 or len(spans) < 5 or len(spans) % 3 != 2:
        raise ValueError("a block of neither columns nor frames")
    names: list[bytes] = []
    fields: list[tuple[_Span, _Span] | None] = []
    for name, positions, values in zip(spans[2::3], spans[3::3], spans[4::3], strict=True):
        if name is None:
            raise ValueError("a column without a name")
        names.append(bytes(buffer[name[0] : name[1]]))
        if positions is None or values is None:
            fields.append(None)
        elif positions[1] - positions[0] != 4 * (count + 1):
            raise ValueError("a column with too many or too few positions")
        else:
            fields.append((positions, values))
    ms, seq = spans[:2]
    if ms is None or seq is None or {ms[1] - ms[0], seq[1] - seq[0]} != {8 * count}:
        raise ValueError("a block with too many or too few IDs")
    return Columns(count, ms, seq, tuple(names), fields)


def _line(buffer: bytes | bytearray, at: int, kind: bytes) -> tuple[int, int]:
    """Return the number in the line that begins here, and the start of the next line."""
    end = buffer.find(b"\r\n", at)
    if end < 0 or buffer[at : at + 1] != kind:
        raise ValueError(f"a line with {kind!r} was expected, not {bytes(buffer[at : at + 40])!r}")
    return int(buffer[at + 1 : end]), end + 2


def _integer(buffer: bytes | bytearray, at: int) -> tuple[int, int]:
    return _line(buffer, at, b":")


def _bulk(buffer: bytes | bytearray, at: int) -> tuple[_Span | None, int]:
    """Return the span of the bulk string's bytes (None: it is nil), and its end."""
    size, at = _line(buffer, at, b"$")
    if size < 0:
        return None, at
    if len(buffer) < at + size + 2:
        raise ValueError("a reply that ends within a value")
    return (at, at + size), at + size + 2


def pages(buffer: bytes | bytearray, found: Sequence[Block]) -> Iterator[Page]:
    """Yield the pages of these blocks of a reply, in order. Sixteen bytes after the last one must be readable."""
    for names, some in groupby(found, lambda block: block.names):
        for block in (parts := list(some)):
            if isinstance(block, Frames):
                yield decode_page(buffer, *block.span, block.count)
        if names is not None:
            yield ColumnPage(buffer, [block for block in parts if isinstance(block, Columns)])


@dataclass(frozen=True)
class _Column:
    """The values of a field: `offsets` (int32, one more than there are values), and bytes with some spare ones."""

    offsets: NDArray[np.int32]
    data: NDArray[np.uint8]

    @property
    def array(self) -> Any:
        body = pa.py_buffer(self.data[: int(self.offsets[-1])])
        return pa.BinaryArray.from_buffers(pa.binary(), self.offsets.size - 1, [None, pa.py_buffer(self.offsets), body])

    @cached_property
    def texts(self) -> tuple[Words, Lengths]:
        """The first eight bytes of each value, and its length; bytes after a short value are arbitrary."""
        lengths = np.diff(self.offsets)
        first = int(lengths[0])
        if first and (lengths == first).all():
            return np.ndarray((lengths.size,), np.dtype("<u8"), self.data, 0, (first,)).copy(), first
        everywhere = np.ndarray((self.data.size - _SLACK + 1,), np.dtype((np.void, _SLACK)), self.data, 0, (1,))
        return everywhere[self.offsets[:-1]].view(np.dtype("<u8")), lengths.astype(np.int64)


class ColumnPage:
    """A page of entries that have the same fields, from one or more blocks of columns."""

    def __init__(self, buffer: bytes | bytearray, parts: Sequence[Columns]) -> None:
        self.count = sum(part.count for part in parts)
        self._buffer = buffer
        self._parts = parts
        self._last = last_of(parts[0].names)
        self._columns: dict[int, _Column | None] = {}

    def _column(self, number: int) -> _Column | None:
        if number not in self._columns:
            self._columns[number] = self._found(number)
        return self._columns[number]

    def _found(self, number: int) -> _Column | None:
        """Return a field's values in all blocks; None if a block does not have them."""
        found = [part.fields[number] for part in self._parts]
        spans = [one for one in found if one is not None]
        if len(spans) < len(found):
            return None
        offsets = np.zeros(self.count + 1, np.int32)
        at = size = 0
        for part, (positions, values) in zip(self._parts, spans, strict=True):
            own = np.frombuffer(self._buffer, "<i4", part.count + 1, positions[0])
            if own[0] != 0 or own[-1] != values[1] - values[0] or (own[1:] < own[:-1]).any():
                raise ValueError("positions that are not within their values")
            if size + int(own[-1]) > _MAX_BYTES:
                raise ValueError("a page of more than two gigabytes")
            np.add(own[1:], np.int32(size), out=offsets[at + 1 : at + 1 + part.count])
            at, size = at + part.count, size + int(own[-1])
        if len(spans) == 1 and len(self._buffer) >= spans[0][1][1] + _SLACK:
            return _Column(offsets, np.frombuffer(self._buffer, np.uint8, size + _SLACK, spans[0][1][0]))
        texts = [np.frombuffer(self._buffer, np.uint8, end - begin, begin) for _, (begin, end) in spans]
        return _Column(offsets, np.concatenate([*texts, np.zeros(_SLACK, np.uint8)]))

    @cached_property
    def _halves(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The IDs: milliseconds and sequence numbers."""
        ms, seq = (
            np.concatenate([np.frombuffer(self._buffer, "<u8", part.count, begin) for part, begin in halves])
            for halves in (
                [(part, part.ms[0]) for part in self._parts],
                [(part, part.seq[0]) for part in self._parts],
            )
        )
        return ms, seq

    def _number(self, name: bytes) -> int | None:
        """Return the number of the column with the field's last value; None if there is no such field."""
        return self._last.get(name)

    def last_id(self) -> bytes:
        last = self._parts[-1]
        ms, seq = (int(np.frombuffer(self._buffer, "<u8", 1, end - 8)[0]) for end in (last.ms[1], last.seq[1]))
        return b"%d-%d" % (ms, seq)

    @cached_property
    def _ids(self) -> Any:
        ms, seq = self._halves
        return pc.binary_join_element_wise(_ms_texts(ms), _seq_texts(seq), pa.scalar(b"-", pa.binary()))

    def ids(self) -> Any:
        return self._ids

    def milliseconds(self) -> Any:
        ms = self._halves[0]
        large = ms > _MAX_MS
        return pa.array(ms.view(np.int64), mask=large if large.any() else None)

    def column(self, name: bytes) -> Any:
        number = self._number(name)
        return pa.nulls(self.count, pa.binary()) if number is None else self._array(number)

    def _array(self, number: int) -> Any:
        column = self._column(number)
        return pa.nulls(self.count, pa.binary()) if column is None else column.array

    def _texts(self, name: bytes) -> tuple[Words, Lengths] | None:
        number = self._number(name)
        column = None if number is None else self._column(number)
        return None if column is None else column.texts

    def integers(self, name: bytes) -> Any:
        """Return the field's values as an int32 array; None to decline."""
        texts = self._texts(name)
        found = None if texts is None else digits.integers(*texts)
        return None if found is None else pa.array(found)

    def floats(self, name: bytes) -> Any:
        """Return the field's values as a float64 array; None to decline."""
        texts = self._texts(name)
        found = None if texts is None else digits.floats(*texts)
        return None if found is None else pa.array(found)

    def fields(self) -> tuple[Any, Any, Any]:
        """Return all fields, with null values for those that were not sent."""
        names = list(self._last)
        width = len(names)
        # Column behind column, then in the order of the entries.
        values = pa.concat_arrays([self.column(name) for name in names])
        order = (np.arange(self.count)[:, None] + self.count * np.arange(width)).ravel()
        keys = pa.array(names, pa.binary()).take(pa.array(np.tile(np.arange(width, dtype=np.int32), self.count)))
        offsets = pa.array(np.arange(0, self.count * width + 1, width, dtype=np.int32))
        return offsets, keys, values.take(pa.array(order))


def _decimals(numbers: NDArray[np.uint64]) -> Any:
    """Return the numbers as texts."""
    return pc.cast(pc.cast(pa.array(numbers), pa.string()), pa.binary())


def _ms_texts(ms: NDArray[np.uint64]) -> Any:
    """Like `_decimals`, for numbers that are often the same as the previous one."""
    first = np.flatnonzero(np.concatenate(([True], ms[1:] != ms[:-1])))
    if first.size * _RARE > ms.size:
        return _decimals(ms)
    return _decimals(ms[first]).take(pa.array(np.repeat(np.arange(first.size), np.diff(first, append=ms.size))))


@cache
def _small() -> Any:
    return _decimals(np.arange(_SMALL, dtype=np.uint64))


def _seq_texts(seq: NDArray[np.uint64]) -> Any:
    """Like `_decimals`, for numbers that are mostly small."""
    return _small().take(pa.array(seq)) if int(seq.max()) < _SMALL else _decimals(seq)
