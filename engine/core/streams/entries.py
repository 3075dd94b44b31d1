"""Plain entries: frames in ID order, back to back in one buffer, with an index. A new segment holds plain entries.

Frames (``streamwire.frames``) are only sliced here, never parsed. When a segment becomes cold, its entries are replaced
with packed entries (``engine.core.streams.compressed.packed.Packed``), which have the same methods. The fields of both
classes are private to them and to snapshots.

A reply can hold a view of a buffer for any length of time, so existing bytes must not change. A growing ``bytearray``
cannot be resized while a view of it exists, so ``Plain.views`` copies from it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from engine.core.protocol.ids import U64_MAX, position
from streamwire.entry_batch import EntryBatch

#: Frames of up to this many bytes in total are copied: a view would keep the whole buffer alive.
_VIEW_BYTES = 512

#: IDs as two columns, milliseconds and sequence numbers.
IdColumns = tuple["array[int]", "array[int]"]

#: Size of each frame in bytes.
Sizes = Sequence[int] | NDArray[np.int64]


class Plain:
    """Entries 0 .. n-1. ``data`` is a ``bytearray`` while entries can be added, and a ``memoryview`` afterwards."""

    __slots__ = ("data", "ms", "offsets", "seq")

    data: bytearray | bytes | memoryview

    def __init__(self) -> None:
        self.data = bytearray()
        #: Offset of each frame in ``data``.
        self.offsets = array("I")
        self.ms = array("Q")
        self.seq = array("Q")

    def __len__(self) -> int:
        return len(self.ms)

    @property
    def data_size(self) -> int:
        """Size of the frames in bytes."""
        return len(self.data)

    @property
    def last_id(self) -> int:
        """The ID of the last entry."""
        return self.ms[-1] << 64 | self.seq[-1]

    def id_at(self, index: int) -> int:
        """Return the ID of the entry at ``index``."""
        return self.ms[index] << 64 | self.seq[index]

    def position(self, entry_id: int) -> int:
        """Return the index of the first entry whose ID is not below ``entry_id``."""
        return position(self.ms, self.seq, entry_id)

    def id_columns(self, low: int, high: int) -> IdColumns:
        """Return the IDs of the entries [low, high)."""
        return self.ms[low:high], self.seq[low:high]

    def _end(self, index: int) -> int:
        return self.offsets[index] if index < len(self.offsets) else len(self.data)

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """Return the frames [low, high) as one buffer: a view, or a copy if they are short or ``data`` can grow."""
        begin, end = self.offsets[low], self._end(high)
        if end - begin > _VIEW_BYTES and not isinstance(self.data, bytearray):
            return [memoryview(self.data)[begin:end]]
        return [bytes(self.data[begin:end])]

    def frame_at(self, index: int) -> bytes:
        """Return the frame at ``index``."""
        return bytes(self.data[self.offsets[index] : self._end(index + 1)])

    def frames(self, low: int, high: int) -> list[bytes]:
        """Return a list of the frames [low, high)."""
        data = self.data
        return [bytes(data[begin:end]) for begin, end in pairwise([*self.offsets[low:high], self._end(high)])]

    def columns(self, low: int, high: int) -> EntryBatch | None:  # noqa: ARG002  # for PackedColumns
        """Return None, because plain entries are not stored as columns."""
        return None

    def append(self, entry_id: int, entry: bytes) -> None:
        """Add one entry at the end."""
        data = self.data
        self.offsets.append(len(data))
        data += entry  # type: ignore[operator]  # (In place: a growing buffer is a bytearray.)
        self.ms.append(entry_id >> 64)
        self.seq.append(entry_id & U64_MAX)

    def extend(self, data: bytes | bytearray | memoryview, sizes: Sizes, ms: array[int], seq: array[int]) -> None:
        """Append entries, given their frames back to back, the size of each, and their IDs."""
        if isinstance(sizes, np.ndarray):
            begins = np.cumsum(sizes) - sizes + len(self.data)
            self.offsets.frombytes(begins.astype(np.uint32).tobytes())
        else:
            self.offsets.extend(accumulate(sizes[:-1], initial=len(self.data)))
        self.data += data  # type: ignore[operator]
        self.ms += ms
        self.seq += seq

    def freeze(self) -> None:
        """Stop accepting entries, so that the buffer can be viewed."""
        self.data = memoryview(self.data)

    def copy(self) -> Plain:
        """Return an independent copy, which shares the buffers of frozen entries."""
        # Avoids __init__, whose empty buffers would be costly when an image copies a million small streams.
        other = Plain.__new__(Plain)
        if isinstance(self.data, bytearray):
            other.data = bytearray(self.data)
            other.offsets, other.ms, other.seq = self.offsets[:], self.ms[:], self.seq[:]
        else:
            other.data, other.offsets, other.ms, other.seq = self.data, self.offsets, self.ms, self.seq
        return other
