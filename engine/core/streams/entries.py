"""Entries in ID order, as frames back to back in one buffer with an index over them: what a segment is made of first.

Frames (:mod:`engine.core.streams.frames`) are only sliced here. Once a segment has gone cold, packed entries
(:class:`engine.core.streams.packed.Packed`) take the place of these; both answer the same questions, and nobody else
looks at what they are answered from.

Replies hold views of a buffer for as long as they like, so its bytes must not change. The one that does, a growing
``bytearray``, cannot even grow while there is a view of it: of that one :meth:`Plain.views` makes copies.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from engine.core.protocol.ids import U64_MAX, position

#: A view keeps the whole buffer; what is shorter is copied.
_VIEW_BYTES = 512

#: IDs as two columns, milliseconds and sequence numbers.
Columns = tuple["array[int] | memoryview[int]", "array[int] | memoryview[int]"]


class Plain:
    """Entries 0 .. n-1. ``data`` is a ``bytearray`` as long as entries may be added."""

    __slots__ = ("data", "ms", "offsets", "seq")

    data: bytearray | bytes | memoryview

    def __init__(self) -> None:
        self.data = bytearray()
        #: Where each frame begins in ``data``.
        self.offsets = array("I")
        self.ms = array("Q")
        self.seq = array("Q")

    def __len__(self) -> int:
        return len(self.ms)

    @property
    def data_size(self) -> int:
        """Bytes of frames."""
        return len(self.data)

    @property
    def last_id(self) -> int:
        """The ID of the last entry."""
        return self.ms[-1] << 64 | self.seq[-1]

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        return self.ms[index] << 64 | self.seq[index]

    def position(self, entry_id: int) -> int:
        """The index of the first entry whose ID is not below ``entry_id``."""
        return position(self.ms, self.seq, entry_id)

    def columns(self, low: int, high: int) -> Columns:
        """The IDs of the entries [low, high)."""
        return self.ms[low:high], self.seq[low:high]

    def _end(self, index: int) -> int:
        return self.offsets[index] if index < len(self.offsets) else len(self.data)

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """The frames [low, high) in as many buffers as they lie in: copied where they are few or ``data`` may grow."""
        begin, end = self.offsets[low], self._end(high)
        if end - begin > _VIEW_BYTES and not isinstance(self.data, bytearray):
            return [memoryview(self.data)[begin:end]]
        return [bytes(self.data[begin:end])]

    def frame_at(self, index: int) -> bytes:
        """One frame."""
        return bytes(self.data[self.offsets[index] : self._end(index + 1)])

    def frames(self, low: int, high: int) -> list[bytes]:
        """The frames [low, high) one by one."""
        data = self.data
        return [bytes(data[begin:end]) for begin, end in pairwise([*self.offsets[low:high], self._end(high)])]

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """(ID, frame) of the entries [low, high), no more of them looked at than are taken."""
        for index in range(low, high):
            yield self.id_at(index), self.frame_at(index)

    def append(self, entry_id: int, entry: bytes) -> None:
        """Add one entry behind the last."""
        data = self.data
        self.offsets.append(len(data))
        data += entry  # type: ignore[operator]  # in place: what grows is a bytearray
        self.ms.append(entry_id >> 64)
        self.seq.append(entry_id & U64_MAX)

    def extend(self, data: bytes | memoryview, sizes: Sequence[int], ms: array[int], seq: array[int]) -> None:
        """Add entries behind the last, given their frames back to back, each one's size, and the IDs."""
        self.offsets.extend(accumulate(sizes[:-1], initial=len(self.data)))
        self.data += data  # type: ignore[operator]
        self.ms += ms
        self.seq += seq

    def freeze(self) -> None:
        """The buffer will not grow any more."""
        self.data = memoryview(self.data)

    def copy(self) -> Plain:
        """Independent entries of which no more is shared than cannot change."""
        other = Plain()
        if isinstance(self.data, bytearray):
            other.data = bytearray(self.data)
            other.offsets, other.ms, other.seq = self.offsets[:], self.ms[:], self.seq[:]
        else:
            other.data, other.offsets, other.ms, other.seq = self.data, self.offsets, self.ms, self.seq
        return other
