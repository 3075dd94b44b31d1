r"""A segment: entries as frames back to back in one buffer, in ID order, with an index over them.

Frames (:mod:`engine.core.frames`) are only sliced here. Only the last segment of a stream is open; a sealed one never
changes its bytes, so replies may hold views of it for as long as they like. Views of the open buffer must not leave
this module: while one is alive the buffer cannot grow (:meth:`Segment.view` copies there).

A sealed segment may be *packed*: its frames and index compressed (:mod:`engine.core.storage`). Then ``data``,
``offsets``, ``ms`` and ``seq`` are not there, and whoever reads one of them lays them out anew without noticing.

Entries go in two ways: ``start`` moves over a trimmed head, and ``dead`` marks deleted entries in the middle. The entry
at ``start`` is always live; a segment whose last live entry goes is dropped by its stream.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from engine.core.ids import U64_MAX, position
from engine.core.nodes import SegmentNodes
from engine.core.storage import Packed, Storage, unpack

#: A segment is sealed when its frames reach this many bytes, or it holds this many entries, ...
SEGMENT_BYTES = 256 * 1024
SEGMENT_ENTRIES = 8000
#: ... but only at a multiple of this number, where a node of Redis's usually ends, while it is not far too large.
SEGMENT_STEP = 100
_TOO_LARGE = 4

_LIVE, _DEAD = b"\0", b"\1"
#: What a packed segment lacks until it is read.
_LAID_OUT = ("data", "offsets", "ms", "seq")


class Segment:
    """Entries 0 .. n-1 in ID order; those from ``start`` on that are not ``dead`` are live."""

    __slots__ = (
        "__weakref__", "_last_id", "_size", "_storage", "data", "dead", "dead_count", "ms", "nodes", "offsets",
        "packed", "sealed", "seq", "start",
    )  # fmt: skip

    data: bytearray | bytes
    offsets: array[int]
    ms: array[int]
    seq: array[int]

    def __init__(self) -> None:
        self.data = bytearray()
        #: Where each frame begins in ``data``.
        self.offsets = array("I")
        self.ms = array("Q")
        self.seq = array("Q")
        self.start = 0
        #: One byte an entry, 1 for deleted; None while nothing is.
        self.dead: bytearray | None = None
        #: How many entries from ``start`` on are dead.
        self.dead_count = 0
        self.sealed = False
        #: Frames and index compressed, None unless it has gone cold.
        self.packed: Packed | None = None
        #: What is known of the nodes that clients see.
        self.nodes = SegmentNodes()
        # Of a sealed segment: facts that must not need its index, and who keeps count of those laid out.
        self._size = 0
        self._last_id = 0
        self._storage: Storage | None = None

    # -- cold and hot -----------------------------------------------------------------------------------------------

    def seal(self, storage: Storage) -> None:
        """No entry is added from now on."""
        self.data = bytes(self.data)
        self.note_sealed(storage)

    def note_sealed(self, storage: Storage) -> None:
        """The segment's fields will not change any more; they need not be this module's own buffers."""
        self._size, self._last_id, self._storage = len(self.ms), self.id_at(-1), storage
        self.sealed = True
        storage.note_sealed(self)

    def pack(self, packed: Packed) -> None:
        """Keep only the compressed form, which was made of this sealed segment as it is."""
        self.packed = packed
        self.put_away()

    def put_away(self) -> None:
        """Forget what can be laid out anew."""
        del self.data, self.offsets, self.ms, self.seq

    def __getattr__(self, name: str) -> Any:
        """Lay a packed segment out when one of the fields that it lacks is read."""
        if name not in _LAID_OUT or self.packed is None or self._storage is None:
            raise AttributeError(name)
        self.data, (self.offsets, self.ms, self.seq) = unpack(self.packed)
        self._storage.keep_laid_out(self, self.packed.data_size)
        return object.__getattribute__(self, name)

    @property
    def is_laid_out(self) -> bool:
        """Whether its frames and index are there as they are, perhaps beside the packed form."""
        return self.packed is None or (self._storage is not None and self._storage.has_laid_out(self))

    # -- facts ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many entries it has ever held, the dead ones and the trimmed head included."""
        return self._size if self.sealed else len(self.ms)

    @property
    def last_id(self) -> int:
        """The ID of the last entry, dead or live."""
        return self._last_id if self.sealed else self.id_at(-1)

    @property
    def live(self) -> int:
        """How many entries are live."""
        return len(self) - self.start - self.dead_count

    @property
    def full(self) -> bool:
        """Whether the next entry belongs into a new segment."""
        if self.sealed:
            return True
        count, size = len(self.ms), len(self.data)
        if count < SEGMENT_ENTRIES and size < SEGMENT_BYTES:
            return False
        return count >= SEGMENT_ENTRIES or not count % SEGMENT_STEP or size >= _TOO_LARGE * SEGMENT_BYTES

    def room(self, entry_bytes: int) -> int:
        """How many entries of about this size fit before it is full; at least one."""
        count = len(self.ms)
        wanted = max(SEGMENT_BYTES - len(self.data), 0) // max(entry_bytes, 1)
        end = -(-(count + wanted + 1) // SEGMENT_STEP) * SEGMENT_STEP
        return max(min(end, SEGMENT_ENTRIES) - count, 1)

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        return self.ms[index] << 64 | self.seq[index]

    def position(self, entry_id: int) -> int:
        """The index of the first entry (dead ones included) whose ID is not below ``entry_id``."""
        return position(self.ms, self.seq, entry_id)

    def find(self, entry_id: int) -> int:
        """The index of the live entry with this ID, -1 if there is none."""
        index = self.position(entry_id)
        if index < self.start or index == len(self) or self.id_at(index) != entry_id or self.is_dead(index):
            return -1
        return index

    def is_dead(self, index: int) -> bool:
        """Whether the entry at ``index`` has been deleted."""
        return self.dead is not None and self.dead[index] == 1

    def count(self, low: int, high: int) -> int:
        """How many entries in [low, high) are live."""
        low = max(low, self.start)
        if low >= high:
            return 0
        return high - low - (self.dead.count(_DEAD, low, high) if self.dead is not None else 0)

    def first_live(self, index: int) -> int:
        """The first live entry at ``index`` or behind it; ``len(self)`` if there is none."""
        index = max(index, self.start)
        if self.dead is None:
            return index
        found = self.dead.find(_LIVE, index)
        return found if found >= 0 else len(self)

    def last_live(self, end: int | None = None) -> int:
        """The last live entry before ``end``; -1 if there is none."""
        last = (len(self) if end is None else end) - 1
        if self.dead is not None:
            last = self.dead.rfind(_LIVE, 0, last + 1)
        return last if last >= self.start else -1

    def runs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The stretches [i, j) of live entries in [low, high), in order."""
        low = max(low, self.start)
        if self.dead is None:
            if low < high:
                yield low, high
            return
        while low < high:
            low = self.dead.find(_LIVE, low, high)
            if low < 0:
                return
            end = self.dead.find(_DEAD, low, high)
            end = high if end < 0 else end
            yield low, end
            low = end

    def runs_backward(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The stretches [i, j) of live entries in [low, high), the last one first."""
        low = max(low, self.start)
        if self.dead is None:
            if low < high:
                yield low, high
            return
        while low < high:
            last = self.dead.rfind(_LIVE, low, high)
            if last < 0:
                return
            first = self.dead.rfind(_DEAD, low, last) + 1
            first = max(first, low)
            yield first, last + 1
            high = first

    def nth_live(self, low: int, n: int) -> int:
        """The index of the n-th (from 0) live entry at ``low`` or behind it. It must exist."""
        for first, end in self.runs(low, len(self)):
            if n < end - first:
                return first + n
            n -= end - first
        raise IndexError(n)

    # -- frames -----------------------------------------------------------------------------------------------------

    def _end(self, index: int) -> int:
        return self.offsets[index] if index < len(self.offsets) else len(self.data)

    def view(self, low: int, high: int) -> bytes | memoryview:
        """The frames [low, high), which must all be live: a view of a sealed segment, a copy of the open one."""
        begin, end = self.offsets[low], self._end(high)
        if self.sealed and end - begin > 512:
            return memoryview(self.data)[begin:end]
        return bytes(self.data[begin:end])

    def frame_at(self, index: int) -> bytes:
        """One frame."""
        return bytes(self.data[self.offsets[index] : self._end(index + 1)])

    # -- changes ----------------------------------------------------------------------------------------------------

    def append(self, entry_id: int, entry: bytes) -> None:
        """Add one entry behind the last; only to an open segment."""
        data = self.data
        self.offsets.append(len(data))
        data += entry  # in place: the buffer of an open segment is a bytearray
        self.ms.append(entry_id >> 64)
        self.seq.append(entry_id & U64_MAX)
        if self.dead is not None:
            self.dead.append(0)

    def extend(self, data: bytes, sizes: Sequence[int], ms: array[int], seq: array[int]) -> None:
        """Add entries behind the last, given their frames back to back, each one's size, and the IDs."""
        self.offsets.extend(accumulate(sizes[:-1], initial=len(self.data)))
        self.data += data
        self.ms += ms
        self.seq += seq
        if self.dead is not None:
            self.dead += bytes(len(ms))

    def delete(self, index: int) -> None:
        """The live entry at ``index`` dies."""
        if self.dead is None:
            self.dead = bytearray(len(self))
        self.dead[index] = 1
        self.dead_count += 1
        if index == self.start:
            self._settle()
        elif self.sealed and self.dead_count > 64 and self.dead_count * 2 > len(self) - self.start:
            self._compact()

    def drop_head(self, count: int) -> None:
        """The first ``count`` live entries go, fewer than there are."""
        self.move_start(self.nth_live(self.start, count))

    def move_start(self, index: int) -> None:
        """All entries before the live one at ``index`` go."""
        if self.dead is not None:
            self.dead_count -= self.dead.count(_DEAD, self.start, index)
        self.start = index

    def _settle(self) -> None:
        assert self.dead is not None
        first = self.dead.find(_LIVE, self.start)
        first = len(self) if first < 0 else first
        self.dead_count -= first - self.start
        self.start = first

    def _compact(self) -> None:
        """Rewrite a sealed segment without what has gone; amortised, as it at least halves it."""
        assert self._storage is not None
        assert self.dead is not None
        parts, offsets, size = [], array("I"), 0
        ms, seq = array("Q"), array("Q")
        for low, high in self.runs(self.start, len(self)):
            begin = self.offsets[low]
            offsets.extend([at - begin + size for at in self.offsets[low:high]])
            parts.append(self.data[begin : self._end(high)])
            size += self._end(high) - begin
            ms += self.ms[low:high]
            seq += self.seq[low:high]
        if self.nodes.upto:
            gone = self.start
            left = [0] * (gone + 1) + list(accumulate(1 - flag for flag in self.dead[gone:]))
            self.nodes.compacted(left)
        self._storage.forget(self)
        self.packed = None
        self.data, self.offsets, self.ms, self.seq = b"".join(parts), offsets, ms, seq
        self.start = self.dead_count = 0
        self.dead = None
        self.note_sealed(self._storage)

    def copy(self) -> Segment:
        """An independent segment with the same entries; what a sealed one never changes in place is shared."""
        other = Segment()
        if self.packed is not None:
            other.packed = self.packed
            other.put_away()
        elif self.sealed:
            other.data, other.offsets, other.ms, other.seq = self.data, self.offsets, self.ms, self.seq
        else:
            other.data = bytearray(self.data)
            other.offsets, other.ms, other.seq = self.offsets[:], self.ms[:], self.seq[:]
        other.start, other.dead_count, other.sealed = self.start, self.dead_count, self.sealed
        other.dead = None if self.dead is None else bytearray(self.dead)
        other.nodes = self.nodes.copy()
        other._size, other._last_id, other._storage = self._size, self._last_id, self._storage
        if other.sealed and other.packed is None and self._storage is not None:
            self._storage.note_sealed(other)
        return other
