"""Packed entries: their frames compressed in pieces, the index over them as small as it can be read where it lies.

A piece is some :data:`PIECE_BYTES` of frames. A read lays out the pieces that it touches, neighbours together: where an
entry is, and what its ID is, follows from the index alone.

The index is a directory of the pieces (which entry each begins with, that entry's ID, where its frame begins, and where
the piece lies), and three rows of small numbers, one number an entry:

    sizes   the size of its frame, less that of the segment's smallest
    ms      its milliseconds, less those of its piece's first entry
    seq     its sequence number: where the milliseconds are those of the entry before it, less that one's successor's

Each row has numbers as wide as its greatest needs, and for a row of zeros, which most rows of ``seq`` are, all segments
share one. What is asked of one entry takes a sum over a part of a row, from the piece's first entry on, at the most.

Packing is pure work on bytes that do not change, so another thread may do it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, count, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.core.entries import Columns, Plain
from engine.core.ids import U64_MAX, position

if TYPE_CHECKING:
    from engine.core.storage import Storage

#: Bytes of frames in a piece, about: one ends with the entry that reaches a multiple of it. Smaller pieces make a read
#: of a few entries cheaper, larger ones the compression better.
PIECE_BYTES = 8192

#: Numbers of so many bytes have this type in a row.
ROW_TYPES = {1: "B", 2: "H", 4: "I", 8: "Q"}
#: The row of zeros, longer than almost any segment.
ZEROS = array("B", bytes(1 << 14))
#: So many numbers are there for the pieces of one segment.
_NUMBERS = 1 << 32
_segments = count()


class Packed:
    """A segment's entries. ``storage`` lays out and keeps for a while what is read."""

    __slots__ = (
        "begins", "blob", "codec", "firsts_ms", "firsts_seq", "last_id", "least", "ms", "number", "offsets", "seq",
        "sizes", "starts", "storage",
    )  # fmt: skip

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
        # The ID of each piece's first entry.
        self.firsts_ms = array("Q")
        self.firsts_seq = array("Q")
        # The rows.
        self.least = 0
        self.sizes = ZEROS
        self.ms = ZEROS
        self.seq = ZEROS
        #: The compressed pieces, back to back.
        self.blob: bytes | memoryview = b""

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def data_size(self) -> int:
        """Bytes of frames, laid out."""
        return self.offsets[-1]

    @property
    def columns_kept(self) -> list[array[int]]:
        """All that it keeps beside ``blob``, but for rows of zeros."""
        columns = [self.starts, self.offsets, self.begins, self.firsts_ms, self.firsts_seq]
        return columns + [row for row in (self.sizes, self.ms, self.seq) if row is not ZEROS]

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.blob) + sum(len(column) * column.itemsize for column in self.columns_kept)

    @property
    def laid_out(self) -> int:
        """Bytes of frames that are laid out at the moment."""
        numbers = range(self.number, self.number + len(self.firsts_ms))
        return sum(len(span.data) for span in {self.storage.laid_out.get(number) for number in numbers} if span)

    # -- the index --------------------------------------------------------------------------------------------------

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        number = bisect_right(self.starts, index) - 1
        first, behind = self.starts[number], self.ms[index]
        # Where its milliseconds begin: the sequence number follows from the one there.
        same = bisect_left(self.ms, behind, first, index)
        seq = self.seq[same] if same > first else self.firsts_seq[number]
        return self.firsts_ms[number] + behind << 64 | seq + index - same + sum(self.seq[same + 1 : index + 1])

    def position(self, entry_id: int) -> int:
        """The index of the first entry whose ID is not below ``entry_id``."""
        number = position(self.firsts_ms, self.firsts_seq, entry_id) - 1
        if number < 0:
            return 0
        # The first entry of the piece is below, so the one that is looked for lies behind it.
        first, end = self.starts[number], self.starts[number + 1]
        behind, rest = (entry_id >> 64) - self.firsts_ms[number], entry_id & U64_MAX
        low = bisect_left(self.ms, behind, first, end)
        if not rest or low == end or self.ms[low] != behind:
            return low
        high = bisect_right(self.ms, behind, low, end)
        seq = self.seq[low] if low > first else self.firsts_seq[number]
        if self.seq is ZEROS:
            return min(low + max(rest - seq, 0), high)
        sums = list(accumulate(self.seq[low + 1 : high], initial=seq))
        return low + bisect_left(range(len(sums)), rest, key=lambda at: at + sums[at])

    def columns(self, low: int, high: int) -> Columns:
        """The IDs of the entries [low, high)."""
        number, behind = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)
        first = self.starts[number]
        ms, rests = (_wide(row, first, high) for row in (self.ms, self.seq))
        rests[0] = self.firsts_seq[number]
        ends = [*self.starts[number + 1 : behind], high]
        counts = [end - begin for begin, end in zip(self.starts[number:behind], ends, strict=True)]
        ms += np.repeat(np.frombuffer(self.firsts_ms, np.uint64, behind - number, 8 * number), counts)
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
        first = self.starts[number]
        return self.offsets[number] + (index - first) * self.least + sum(self.sizes[first:index])

    # -- frames -----------------------------------------------------------------------------------------------------

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
        begin, size = self.offsets[number], self.offsets[end] - self.offsets[number]
        blob = memoryview(self.blob)[self.begins[number] : self.begins[end]]
        span = Span(memoryview(self.storage.decompress(self.codec, blob, size)), begin, end)
        self.storage.keep_laid_out(self.number + number, self.number + end, span)
        return span

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """The frames [low, high) in as many buffers as they lie in."""
        return list(self._spans(low, high))

    def frame_at(self, index: int) -> bytes:
        """One frame."""
        return b"".join(self._spans(index, index + 1))

    def frames(self, low: int, high: int) -> list[bytes]:
        """The frames [low, high) one by one."""
        data, least = b"".join(self._spans(low, high)), self.least
        ends = accumulate((least + size for size in self.sizes[low:high]), initial=0)
        return [data[begin:end] for begin, end in pairwise(ends)]

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
        for name in ("begins", "blob", "firsts_ms", "firsts_seq", "least", "ms", "offsets", "seq", "sizes", "starts"):
            setattr(other, name, getattr(self, name))
        return other


class Span:
    """Neighbouring pieces, laid out together."""

    __slots__ = ("begin", "behind", "data")

    def __init__(self, data: memoryview, begin: int, behind: int) -> None:
        self.data = data
        #: Where ``data`` begins among all frames of the segment.
        self.begin = begin
        #: The piece behind them.
        self.behind = behind


def pack(plain: Plain, codec: str, storage: Storage) -> Packed:
    """Compress entries that do not change any more."""
    packed = Packed(codec, plain.last_id, storage)
    ends = np.append(np.frombuffer(plain.offsets, np.uint32), np.uint32(len(plain.data)))
    # A piece begins with the first frame at or behind a multiple of its size.
    cuts = np.unique(np.searchsorted(ends[:-1], np.arange(0, len(plain.data), PIECE_BYTES)))
    cuts = cuts[cuts < len(plain)]
    packed.offsets = array("I", ends[[*cuts, -1]].tobytes())
    packed.starts = array("I", [*cuts.tolist(), len(plain)])
    ms, seq = np.frombuffer(plain.ms, np.uint64), np.frombuffer(plain.seq, np.uint64)
    packed.firsts_ms, packed.firsts_seq = (array("Q", half[cuts].tobytes()) for half in (ms, seq))
    sizes = np.diff(ends)
    packed.least = int(sizes.min())
    packed.sizes = _row(sizes - np.uint32(packed.least))
    packed.ms = _row(ms - np.repeat(ms[cuts], np.diff(packed.starts)))
    rests = np.append(np.uint64(0), seq[1:] - np.where(ms[1:] == ms[:-1], seq[:-1] + np.uint64(1), np.uint64(0)))
    packed.seq = _row(rests)
    compressor, data = pa.Codec(codec), memoryview(plain.data)
    blobs = [compressor.compress(data[begin:end], asbytes=True) for begin, end in pairwise(packed.offsets)]
    packed.blob = b"".join(blobs)
    packed.begins = array("I", accumulate(map(len, blobs), initial=0))
    return packed


def _row(values: npt.NDArray[np.unsignedinteger]) -> array[int]:
    """A row of these numbers."""
    most = int(values.max())
    if not most and len(values) <= len(ZEROS):
        return ZEROS
    width = next(width for width in ROW_TYPES if most < 1 << 8 * width)
    return array(ROW_TYPES[width], values.astype(f"u{width}").tobytes())


def _wide(row: array[int], low: int, high: int) -> npt.NDArray[np.uint64]:
    """The numbers [low, high) of a row, one by one as wide as they may be."""
    return np.frombuffer(row[low:high], row.typecode).astype(np.uint64)
