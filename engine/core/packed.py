"""Packed entries: compressed in pieces, each of which is laid out by itself when it is read.

A piece is some :data:`PIECE_BYTES` of frames with the index over them, compressed as one. Smaller pieces make a read of
a few entries cheaper, larger ones the compression a little better. What is kept beside them is a directory: which entry
each piece begins with and its ID, and where it lies. So a look-up finds its piece without any, and lays out one.

Laid out, a piece is three rows of small signed numbers, each ``width`` bytes, one number an entry, and then the frames:
each frame's size; how far its ID lies behind the one before it, milliseconds and sequence numbers apart (0 for the
first entry, whose ID is in the directory). Sums of a few of them answer what is asked of a single entry, which is
quicker than to make columns of them.

Packing is pure work on bytes that do not change, so another thread may do it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.core.entries import Columns, Entries, Plain
from engine.core.ids import U64_MAX, position

if TYPE_CHECKING:
    from engine.core.storage import Storage

#: Bytes of frames in a piece, about: one ends with the entry that reaches a multiple of it.
PIECE_BYTES = 12 * 1024

#: How numbers of so many bytes are told to a memoryview and to numpy.
_FORMATS: dict[int, Literal["b", "h", "i", "q"]] = {1: "b", 2: "h", 4: "i", 8: "q"}
_TYPES = {width: np.dtype(f"i{width}") for width in _FORMATS}
_SIZE, _MS, _SEQ = range(3)
_ROWS = 3
#: So many numbers are there for the pieces of one segment.
_NUMBERS = 1 << 32
_segments = count()


class Piece(Entries):
    """Some of a packed segment's entries, laid out."""

    __slots__ = ("_count", "_first_id", "_steps")

    def __init__(self, data: bytes, entries: int, first_id: int, width: int) -> None:
        self.data = data
        self._count = entries
        self._first_id = first_id
        self._steps = memoryview(data)[: _ROWS * entries * width].cast(_FORMATS[width])

    def __len__(self) -> int:
        return self._count

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        steps, first, size = self._steps, self._first_id, self._count
        ms = (first >> 64) + sum(steps[size : size + index + 1])
        seq = (first & U64_MAX) + sum(steps[2 * size : 2 * size + index + 1])
        return (ms & U64_MAX) << 64 | seq & U64_MAX

    def _behind_first(self, row: int) -> npt.NDArray[np.uint64]:
        """How far each entry's milliseconds or sequence number lies behind the first one's, modulo 2**64."""
        size, width = self._count, self._steps.itemsize
        steps = np.frombuffer(self.data, _TYPES[width], size, row * size * width)
        return np.add.accumulate(steps, 0, np.int64).view(np.uint64)

    def position(self, entry_id: int) -> int:
        """The index of the first entry whose ID is not below ``entry_id``."""
        if entry_id <= self._first_id:
            return 0
        wanted, rest = (entry_id >> 64) - (self._first_id >> 64), entry_id & U64_MAX
        ms = self._behind_first(_MS).data
        low = bisect_left(ms, wanted)
        if not rest or low == len(ms) or ms[low] != wanted:
            return low
        seq, first = self._behind_first(_SEQ).data, self._first_id & U64_MAX
        return bisect_left(seq, rest, low, bisect_right(ms, wanted, low), key=lambda behind: behind + first & U64_MAX)

    def columns(self, low: int, high: int) -> Columns:
        """The IDs of the entries [low, high)."""
        ms, seq = self._behind_first(_MS)[low:high], self._behind_first(_SEQ)[low:high]
        ms += np.uint64(self._first_id >> 64)
        seq += np.uint64(self._first_id & U64_MAX)
        return ms.data, seq.data

    def offset(self, index: int) -> int:
        """Where the frame at ``index`` begins in ``data``; of the index behind the last, where that one ends."""
        if index == self._count:
            return len(self.data)
        return self._steps.nbytes + sum(self._steps[:index])

    def offsets_of(self, low: int, high: int) -> Sequence[int]:
        """The offsets of low, low + 1 ... high."""
        return list(accumulate(self._steps[low:high], initial=self.offset(low)))

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """(ID, frame) of the entries [low, high)."""
        ms, seq = self.columns(low, high)
        for one, two, entry in zip(ms, seq, self.frames(low, high), strict=True):
            yield one << 64 | two, entry


class Packed:
    """A segment's entries, compressed. ``storage`` lays out and keeps for a while what is read."""

    __slots__ = ("begins", "blob", "codec", "last_id", "ms", "number", "seq", "sizes", "starts", "storage", "width")

    def __init__(self, codec: str, width: int, last_id: int, storage: Storage) -> None:
        self.codec = codec
        self.width = width
        self.last_id = last_id
        self.storage = storage
        #: The number of its first piece, unlike all others'.
        self.number = next(_segments) * _NUMBERS
        #: The index of each piece's first entry, and behind them how many entries there are.
        self.starts = array("I", [0])
        #: The ID of each piece's first entry.
        self.ms = array("Q")
        self.seq = array("Q")
        #: Where each piece begins in ``blob``, and behind them where the last one ends.
        self.begins = array("I", [0])
        #: Bytes of each piece laid out, the index included.
        self.sizes = array("I")
        #: The compressed pieces, back to back.
        self.blob: bytes | memoryview = b""

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def data_size(self) -> int:
        """Bytes of frames, laid out."""
        return sum(self.sizes) - _ROWS * self.width * len(self)

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        columns = (self.starts, self.ms, self.seq, self.begins, self.sizes)
        return len(self.blob) + sum(len(column) * column.itemsize for column in columns)

    def _piece(self, number: int) -> Piece:
        key = self.number + number
        piece = self.storage.laid_out.get(key)
        if piece is None:
            blob = memoryview(self.blob)[self.begins[number] : self.begins[number + 1]]
            data = self.storage.decompress(self.codec, blob, self.sizes[number])
            entries = self.starts[number + 1] - self.starts[number]
            piece = Piece(data, entries, self.ms[number] << 64 | self.seq[number], self.width)
            self.storage.keep_laid_out(key, piece)
        return piece

    def laid_out(self) -> Iterator[Piece]:
        """The pieces that are laid out at the moment."""
        for key in range(self.number, self.number + len(self.sizes)):
            piece = self.storage.laid_out.get(key)
            if piece is not None:
                yield piece

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        number = bisect_right(self.starts, index) - 1
        inside = index - self.starts[number]
        return self._piece(number).id_at(inside) if inside else self.ms[number] << 64 | self.seq[number]

    def position(self, entry_id: int) -> int:
        """The index of the first entry whose ID is not below ``entry_id``."""
        number = position(self.ms, self.seq, entry_id)
        if not number or (number < len(self.ms) and self.ms[number] << 64 | self.seq[number] == entry_id):
            return self.starts[number]
        return self.starts[number - 1] + self._piece(number - 1).position(entry_id)

    def frame_at(self, index: int) -> bytes:
        """One frame."""
        number = bisect_right(self.starts, index) - 1
        return self._piece(number).frame_at(index - self.starts[number])

    def parts(self, low: int, high: int) -> Iterator[tuple[Entries, int, int]]:
        """The entries [low, high) as stretches (piece, i, j) of the pieces that they lie in."""
        number = bisect_right(self.starts, low) - 1
        while low < high:
            first, end = self.starts[number], min(self.starts[number + 1], high)
            yield self._piece(number), low - first, end - first
            low, number = end, number + 1

    def copy(self, storage: Storage) -> Packed:
        """The same entries, laid out by another storage."""
        other = Packed(self.codec, self.width, self.last_id, storage)
        other.starts, other.ms, other.seq = self.starts, self.ms, self.seq
        other.begins, other.sizes, other.blob = self.begins, self.sizes, self.blob
        return other


def pack(plain: Plain, codec: str, storage: Storage) -> Packed:
    """Compress entries that do not change any more."""
    size = len(plain)
    offsets = np.frombuffer(plain.offsets, np.uint32)
    ms, seq = np.frombuffer(plain.ms, np.uint64), np.frombuffer(plain.seq, np.uint64)
    # A piece begins with the first frame at or behind a multiple of its size.
    cuts = np.unique(np.searchsorted(offsets, np.arange(0, len(plain.data), PIECE_BYTES)))
    cuts = cuts[cuts < size]
    steps = np.zeros((_ROWS, size), np.int64)
    steps[_SIZE] = np.diff(offsets.astype(np.int64), append=len(plain.data))
    steps[_MS, 1:] = np.diff(ms).view(np.int64)
    steps[_SEQ, 1:] = np.diff(seq).view(np.int64)
    steps[_MS:, cuts] = 0
    rows = _narrow(steps)
    packed = Packed(codec, rows.itemsize, plain.last_id, storage)
    packed.starts = array("I", [*cuts.tolist(), size])
    packed.ms, packed.seq = array("Q", ms[cuts].tobytes()), array("Q", seq[cuts].tobytes())
    compressor, data, blobs = pa.Codec(codec), memoryview(plain.data), []
    ends = [*offsets[cuts].tolist(), len(data)]
    for number in range(len(cuts)):
        low, high = packed.starts[number], packed.starts[number + 1]
        piece = b"".join((rows[:, low:high].tobytes(), data[ends[number] : ends[number + 1]]))
        blobs.append(compressor.compress(piece, asbytes=True))
        packed.sizes.append(len(piece))
        packed.begins.append(packed.begins[-1] + len(blobs[-1]))
    packed.blob = b"".join(blobs)
    return packed


def _narrow(steps: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The same numbers in as few bytes as the farthest from 0 needs."""
    least, most = int(steps.min()), int(steps.max())
    width = next(width for width in _FORMATS if -1 << 8 * width - 1 <= least and most < 1 << 8 * width - 1)
    return steps.astype(_TYPES[width])
