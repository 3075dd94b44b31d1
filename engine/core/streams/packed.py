"""Packed entries: their frames compressed in pieces, the index over them as small as it can be read where it lies.

A piece is some :data:`PIECE_BYTES` of frames. A read lays out the pieces that it touches, neighbours together: where an
entry is, and what its ID is, follows from the index alone.

The index is a directory of the pieces (which entry each begins with, that entry's ID, where its frame begins, and where
the piece lies), and three rows of small numbers, one number an entry:

    sizes   the size of its frame, less that of its piece's smallest
    ms      its milliseconds, less those of its piece's first entry
    seq     its sequence number: where the milliseconds are those of the entry before it, less that one's successor's

A row's numbers are as wide as its greatest needs. Where all of a piece's are 0, which is the rule for ``seq`` and often
so for the others, it shares zeros with others. What is asked of one entry takes a sum over a part of a row at the most.
Rows and pieces lie in one buffer: many small ones would cost each a part of a page.

How they are made is :mod:`engine.core.streams.packing`'s.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, count, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from engine.core.protocol.ids import U64_MAX, position
from engine.core.streams.entries import Columns, Plain

if TYPE_CHECKING:
    from engine.core.streams.laid_out import Storage

#: Bytes of frames in a piece, about: one ends with the entry that reaches a multiple of it. Smaller pieces make a read
#: of a few entries cheaper, larger ones whole reads: of two-field entries with random values 8 KiB takes 57 ns each to
#: lay out, 16 KiB 42, 24 KiB 37, 32 KiB 35; but a hundred of them at a cold place cost 27, 32, 33 and 36 to 41 % more
#: than at a warm one. Memory is least from 16 to 24 KiB: 8 KiB takes 5 % more, 32 KiB 3 %.
PIECE_BYTES = 24 * 1024

#: So many entries are few, and after so many reads of few more are to be expected.
_FEW, _READS = 256, 3
#: What the index of an open span takes for each entry.
_INDEX_BYTES = 20
#: Numbers of so many bytes have this type in a row.
TYPES: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
#: A row of which all numbers are 0, in each piece; there are never so many entries in one.
_ZEROS = bytes(PIECE_BYTES)
_Row = bytes | memoryview
#: So many numbers are there for the pieces of one segment.
_NUMBERS = 1 << 32
_segments = count()


class Packed:
    """A segment's entries. ``storage`` lays out and keeps for a while what is read."""

    __slots__ = (
        "begins",
        "blob",
        "codec",
        "firsts_ms",
        "firsts_seq",
        "last_id",
        "least",
        "ms",
        "ms_at",
        "number",
        "offsets",
        "rows",
        "seq",
        "seq_at",
        "sizes",
        "sizes_at",
        "starts",
        "storage",
    )

    def __init__(self, codec: str, last_id: int, storage: Storage) -> None:
        self.codec = codec
        self.last_id = last_id
        self.storage = storage
        #: The number of its first piece, unlike all others'.
        self.number = next(_segments) * _NUMBERS
        # The directory. Of each piece: the index of its first entry, where that one's frame begins, and where the piece
        # begins in ``blob``; behind the last one each of them has where it ends.
        self.starts = array("I")
        self.offsets = array("I")
        self.begins = array("I")
        # The size of the smallest frame, and where its numbers begin in each row; for all pieces, and one more.
        self.least = array("I")
        self.sizes_at = array("I")
        self.ms_at = array("I")
        self.seq_at = array("I")
        # The ID of its first entry.
        self.firsts_ms = array("Q")
        self.firsts_seq = array("Q")
        #: Of each row: the width of its numbers (0: all zeros), and where in ``blob`` it begins and ends.
        self.rows = array("I", [0] * 9)
        #: The rows, and behind them the compressed pieces.
        self.blob: _Row = b""
        self.bind()

    def bind(self) -> None:
        """Find the rows in ``blob``."""
        self.sizes: _Row
        self.ms: _Row
        self.seq: _Row
        self.sizes, self.ms, self.seq = (self._row(*self.rows[at : at + 3]) for at in (0, 3, 6))

    def _row(self, width: int, begin: int, end: int) -> _Row:
        if width > 1:
            return memoryview(self.blob)[begin:end].cast(TYPES[width])
        # Bytes are found in ``blob`` itself.
        return self.blob if width else _ZEROS

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def data_size(self) -> int:
        """Bytes of frames, laid out."""
        return self.offsets[-1]

    @property
    def columns_kept(self) -> tuple[array[int], ...]:
        """All that it keeps beside ``blob``: for each piece and one more, for each piece, and of the rows."""
        return (
            self.starts,
            self.offsets,
            self.begins,
            self.least,
            self.sizes_at,
            self.ms_at,
            self.seq_at,
            self.firsts_ms,
            self.firsts_seq,
            self.rows,
        )

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.blob) + sum(len(column) * column.itemsize for column in self.columns_kept)

    @property
    def laid_out(self) -> int:
        """Bytes taken at the moment by what is laid out of it."""
        numbers = range(self.number, self.number + len(self.firsts_ms))
        return sum(span.size for span in {self.storage.laid_out.get(number) for number in numbers} if span)

    # -- the index --------------------------------------------------------------------------------------------------

    def _opened(self, number: int) -> tuple[Plain, int] | None:
        """The entries of a piece where they lie as if they had never been packed, and the index of the first there."""
        span = self.storage.laid_out.get(self.number + number)
        return None if span is None or span.plain is None else (span.plain, span.first)

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        number = bisect_right(self.starts, index) - 1
        opened = self._opened(number)
        if opened is not None:
            plain, first = opened
            return plain.id_at(index - first)
        inside, ms_at, seq_at = index - self.starts[number], self.ms_at[number], self.seq_at[number]
        behind = self.ms[ms_at + inside]
        # Where its milliseconds begin: the sequence number follows from the one there.
        same = bisect_left(self.ms, behind, ms_at, ms_at + inside) - ms_at
        seq = self.seq[seq_at + same] if same else self.firsts_seq[number]
        seq += inside - same + sum(self.seq[seq_at + same + 1 : seq_at + inside + 1])
        return self.firsts_ms[number] + behind << 64 | seq

    def position(self, entry_id: int) -> int:
        """The index of the first entry whose ID is not below ``entry_id``."""
        number = position(self.firsts_ms, self.firsts_seq, entry_id) - 1
        if number < 0:
            return 0
        opened = self._opened(number)
        if opened is not None:
            plain, begin = opened
            return begin + plain.position(entry_id)
        # The first entry of the piece is below, so the one that is looked for lies behind it.
        first, ms_at, seq_at = self.starts[number], self.ms_at[number], self.seq_at[number]
        behind, rest = (entry_id >> 64) - self.firsts_ms[number], entry_id & U64_MAX
        end = ms_at + self.starts[number + 1] - first
        place = bisect_left(self.ms, behind, ms_at, end)
        low = place - ms_at
        if not rest or place == end or self.ms[place] != behind:
            return first + low
        high = bisect_right(self.ms, behind, place, end) - ms_at
        seq = self.seq[seq_at + low] if low else self.firsts_seq[number]
        if self.seq is _ZEROS:
            return first + min(low + max(rest - seq, 0), high)
        sums = list(accumulate(self.seq[seq_at + low + 1 : seq_at + high], initial=seq))
        return first + low + bisect_left(range(len(sums)), rest, key=lambda at: at + sums[at])

    def columns(self, low: int, high: int) -> Columns:
        """The IDs of the entries [low, high)."""
        near = self._near(low, high)
        if near is not None:
            plain, first = near
            return plain.columns(low - first, high - first)
        return self._columns(low, high)

    def _columns(self, low: int, high: int) -> tuple[memoryview[int], memoryview[int]]:
        number, behind = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)
        first = self.starts[number]
        counts = [end - begin for begin, end in pairwise([*self.starts[number:behind], high])]
        ms = _wide(self.ms, self.ms_at[number:behind], counts)
        ms += np.repeat(np.frombuffer(self.firsts_ms, np.uint64, behind - number, 8 * number), counts)
        rests = _wide(self.seq, self.seq_at[number:behind], counts)
        rests[0] = self.firsts_seq[number]
        # Behind an entry with other milliseconds than the one before it sequence numbers follow from its own.
        same = np.zeros(len(ms), np.int64)
        changed = np.flatnonzero(ms[1:] != ms[:-1]) + 1
        same[changed] = changed
        same = np.maximum.accumulate(same)
        sums = np.cumsum(rests + np.uint64(1))
        seq = sums - sums[same] + rests[same]
        return ms[low - first :].data, seq[low - first :].data

    def _offset(self, index: int) -> int:
        """Where the frame at ``index`` begins among all frames; of the index behind the last, where that one ends."""
        number = bisect_right(self.starts, index) - 1
        inside, at = index - self.starts[number], self.sizes_at[number]
        return self.offsets[number] + inside * self.least[number] + sum(self.sizes[at : at + inside])

    def _lengths(self, low: int, high: int) -> Iterator[int]:
        """The sizes of the frames [low, high)."""
        number = bisect_right(self.starts, low) - 1
        while low < high:
            first, end, least = self.starts[number], min(self.starts[number + 1], high), self.least[number]
            at = self.sizes_at[number] - first
            for size in self.sizes[at + low : at + end]:
                yield least + size
            low, number = end, number + 1

    # -- frames -----------------------------------------------------------------------------------------------------

    def _near(self, low: int, high: int) -> tuple[Plain, int] | None:
        """A few entries where they lie as if they had never been packed, and the index of the first one there.

        There is that of a span which is read again and again, by somebody who goes through it in small steps.
        """
        if high - low > _FEW:
            return None
        span = self.storage.laid_out.get(self.number + bisect_right(self.starts, low) - 1)
        if span is None or high > self.starts[span.behind]:
            return None
        if span.plain is None:
            span.reads += 1
            if span.reads <= _READS:
                return None
            span.plain = self._open(span)
        return span.plain, span.first

    def _open(self, span: Span) -> Plain:
        number, behind = bisect_right(self.offsets, span.begin) - 1, span.behind
        span.first = self.starts[number]
        counts = [end - begin for begin, end in pairwise(self.starts[number : behind + 1])]
        sizes = _wide(self.sizes, self.sizes_at[number:behind], counts)
        sizes += np.repeat(np.frombuffer(self.least, np.uint32, behind - number, 4 * number), counts)
        offsets = np.cumsum(sizes) - sizes
        plain = Plain()
        plain.data = span.data
        plain.offsets = array("I", offsets.astype(np.uint32).tobytes())
        ms, seq = self._columns(span.first, self.starts[behind])
        plain.ms, plain.seq = array("Q", ms.tobytes()), array("Q", seq.tobytes())
        self.storage.note_grown(span, len(plain) * _INDEX_BYTES)
        return plain

    def _spans(self, low: int, high: int) -> Iterator[memoryview]:
        """The frames [low, high) as they lie in what is laid out of them, which is done where it has not been."""
        storage, begin, end = self.storage, self._offset(low), self._offset(high)
        number, behind = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)
        while number < behind:
            span = storage.laid_out.get(self.number + number)
            if span is None:
                span = self._lay_out(number, behind)
            yield span.data[max(begin - span.begin, 0) : end - span.begin]
            number = span.behind

    def _lay_out(self, number: int, behind: int) -> Span:
        """Lay out a piece and those after it, up to one that is laid out already, but not that at ``behind``.

        Who has read the piece before it is going through the segment: then all that follow are laid out with it, which
        takes less for each, and makes few large views.
        """
        laid_out, end = self.storage.laid_out, number + 1
        if self.number + number - 1 in laid_out:
            behind = len(self.firsts_ms)
        while end < behind and self.number + end not in laid_out:
            end += 1
        offsets = self.offsets[number : end + 1]
        sizes = [behind - begin for begin, behind in pairwise(offsets)]
        data = self.storage.decompress(self.codec, self.blob, self.begins[number : end + 1], sizes)
        span = Span(memoryview(data), self.offsets[number], end)
        self.storage.keep_laid_out(self.number + number, self.number + end, span)
        return span

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """The frames [low, high) in as many buffers as they lie in."""
        near = self._near(low, high)
        if near is not None:
            plain, first = near
            return plain.views(low - first, high - first)
        return list(self._spans(low, high))

    def frame_at(self, index: int) -> bytes:
        """One frame."""
        return b"".join(self._spans(index, index + 1))

    def frames(self, low: int, high: int) -> list[bytes]:
        """The frames [low, high) one by one."""
        data = b"".join(self._spans(low, high))
        return [data[begin:end] for begin, end in pairwise(accumulate(self._lengths(low, high), initial=0))]

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """(ID, frame) of the entries [low, high); no more pieces are looked at than are needed."""
        while low < high:
            end = min(self.starts[bisect_right(self.starts, low)], high)
            for ms, seq, frame in zip(*self.columns(low, end), self.frames(low, end), strict=True):
                yield ms << 64 | seq, frame
            low = end

    def copy(self, storage: Storage) -> Packed:
        """The same entries, laid out by another storage."""
        other = Packed(self.codec, self.last_id, storage)
        for name in self.__slots__:
            if name not in ("number", "storage"):
                setattr(other, name, getattr(self, name))
        return other


class Span:
    """Neighbouring pieces, laid out together."""

    __slots__ = ("begin", "behind", "data", "first", "plain", "reads", "size")

    def __init__(self, data: memoryview, begin: int, behind: int) -> None:
        self.data = data
        #: Bytes that it takes.
        self.size = len(data)
        #: Where ``data`` begins among all frames of the segment.
        self.begin = begin
        #: The piece behind them.
        self.behind = behind
        #: How often a few of its entries were asked for, until that was often enough: ...
        self.reads = 0
        #: ... then its entries are there as they were before they were packed, ``first`` the index of the first one.
        self.plain: Plain | None = None
        self.first = 0


def _wide(row: _Row, ats: array[int], counts: list[int]) -> npt.NDArray[np.uint64]:
    """The first numbers of some pieces, so many of each, one by one as wide as they may be."""
    if row is _ZEROS:
        return np.zeros(sum(counts), np.uint64)
    numbers = b"".join([row[at : at + size] for at, size in zip(ats, counts, strict=True)])
    return np.frombuffer(numbers, f"u{len(numbers) // sum(counts)}").astype(np.uint64)
