r"""Entries in ID order, as frames back to back in one buffer with an index over them.

Frames (:mod:`engine.core.frames`) are only sliced here. There are two forms: :class:`Plain`, which entries are added to
and which is quick to read anywhere, and the piece of a packed segment (:mod:`engine.core.packed`), whose index is as
small as can be. Both answer the same questions; nobody else looks at their columns.

Replies hold views of a buffer for as long as they like, so its bytes must not change. The one that does, a growing
``bytearray``, cannot even grow while there is a view of it: of that one :meth:`Entries.view` makes copies.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from engine.core.ids import U64_MAX, position

#: A view keeps the whole buffer; what is shorter is copied.
_VIEW_BYTES = 512

#: IDs as two columns, milliseconds and sequence numbers.
Columns = tuple["array[int] | memoryview[int]", "array[int] | memoryview[int]"]


class Entries:
    """Entries 0 .. n-1: what follows from where each frame lies in ``data``."""

    __slots__ = ("data",)

    data: bytearray | bytes | memoryview

    def __len__(self) -> int:
        raise NotImplementedError

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        raise NotImplementedError

    def position(self, entry_id: int) -> int:
        """The index of the first entry whose ID is not below ``entry_id``."""
        raise NotImplementedError

    def columns(self, low: int, high: int) -> Columns:
        """The IDs of the entries [low, high)."""
        raise NotImplementedError

    def offset(self, index: int) -> int:
        """Where the frame at ``index`` begins in ``data``; of the index behind the last, where that one ends."""
        raise NotImplementedError

    def offsets_of(self, low: int, high: int) -> Sequence[int]:
        """The offsets of low, low + 1 ... high."""
        raise NotImplementedError

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """(ID, frame) of the entries [low, high), no more of them looked at than are taken."""
        for index in range(low, high):
            yield self.id_at(index), self.frame_at(index)

    def view(self, low: int, high: int) -> bytes | memoryview:
        """The frames [low, high): a view, or a copy where they are few or ``data`` may grow."""
        begin, end = self.offset(low), self.offset(high)
        if end - begin > _VIEW_BYTES and not isinstance(self.data, bytearray):
            return memoryview(self.data)[begin:end]
        return bytes(self.data[begin:end])

    def frame_at(self, index: int) -> bytes:
        """One frame."""
        return bytes(self.data[self.offset(index) : self.offset(index + 1)])

    def frames(self, low: int, high: int) -> list[bytes]:
        """The frames [low, high) one by one."""
        data = self.data
        return [bytes(data[begin:end]) for begin, end in pairwise(self.offsets_of(low, high))]


class Plain(Entries):
    """Entries with three columns: where each frame begins, milliseconds, sequence numbers."""

    __slots__ = ("ms", "offsets", "seq")

    def __init__(self) -> None:
        self.data = bytearray()
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

    def offset(self, index: int) -> int:
        """Where the frame at ``index`` begins in ``data``; of the index behind the last, where that one ends."""
        return self.offsets[index] if index < len(self.offsets) else len(self.data)

    def offsets_of(self, low: int, high: int) -> Sequence[int]:
        """The offsets of low, low + 1 ... high."""
        return [*self.offsets[low:high], self.offset(high)]

    def parts(self, low: int, high: int) -> tuple[tuple[Entries, int, int]]:
        """The entries [low, high) as stretches (entries, i, j) of what they lie in."""
        return ((self, low, high),)

    def append(self, entry_id: int, entry: bytes) -> None:
        """Add one entry behind the last."""
        data = self.data
        self.offsets.append(len(data))
        data += entry  # type: ignore[operator]  # in place: what grows is a bytearray
        self.ms.append(entry_id >> 64)
        self.seq.append(entry_id & U64_MAX)

    def extend(self, data: bytes, sizes: Sequence[int], ms: array[int], seq: array[int]) -> None:
        """Add entries behind the last, given their frames back to back, each one's size, and the IDs."""
        self.offsets.extend(accumulate(sizes[:-1], initial=len(self.data)))
        self.data += data  # type: ignore[operator]
        self.ms += ms
        self.seq += seq

    def freeze(self) -> None:
        """The buffer will not grow any more."""
        self.data = bytes(self.data)

    def copy(self) -> Plain:
        """Independent entries of which no more is shared than cannot change."""
        other = Plain()
        if isinstance(self.data, bytearray):
            other.data = bytearray(self.data)
            other.offsets, other.ms, other.seq = self.offsets[:], self.ms[:], self.seq[:]
        else:
            other.data, other.offsets, other.ms, other.seq = self.data, self.offsets, self.ms, self.seq
        return other
