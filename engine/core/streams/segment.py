"""A segment: a contiguous part of a stream's entries in ID order, with marks for deleted entries.

The entries are in the segment's *body*. It is plain at first (`Plain`), with frames (``streamwire.frames``) that are
sliced here, never parsed. It is packed when the segment is cold (`engine.core.streams.compressed.packed.Packed`). If
streams are stored on disk, it becomes a reference to the packed bytes
(`engine.core.streams.compressed.disk_entries.Stored`). Plain and packed entries have the same methods;
`Segment.entries` reads stored ones.

Only the last segment of a stream can be *open*. The others are *sealed*: no entries are added to them, so replies can
hold views of their buffers.

Entries are removed in two ways: ``start`` advances over a trimmed head, and ``dead`` marks entries deleted in
the middle. The entry at ``start`` is always live. A stream drops a segment without live entries.

`Storage` is shared by the streams of one core: the packing queue, the cache of decompressed spans, and the set of
streams with idempotent producers.
"""

from __future__ import annotations

import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from engine.core.protocol.ids import U64_MAX, IdColumns, position
from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.compressed.packed import Packed, SpanCache
from streamwire.entry_batch import EntryBatch

#: A segment is sealed if its frames have at least this many bytes.
SEGMENT_BYTES = 256 * 1024
#: A segment is sealed if it has at least this many entries.
SEGMENT_ENTRIES = 8000

_LIVE, _DEAD = b"\0", b"\1"

#: Frames of up to this many bytes in total are copied: a view would keep the whole buffer alive.
_VIEW_BYTES = 512

#: Size of each frame in bytes.
Sizes = Sequence[int] | NDArray[np.int64]


class Plain:
    """Plain entries 0 .. n-1: frames in ID order, back to back in one buffer, with an index.

    ``data`` is a ``bytearray`` while entries can be added, and a ``memoryview`` afterwards. A reply can hold a view of
    the buffer for any length of time, and a ``bytearray`` cannot grow while a view of it exists, so `views` copies from
    it.
    """

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


#: The classes in which a segment stores its entries.
Body = Plain | Packed | Stored


def loaded(body: Body) -> Plain | Packed:
    """Return the entries of a segment's body, read from the disk if they are stored there."""
    return body.packed() if isinstance(body, Stored) else body


class Segment:
    """Entries 0 .. n-1 in ID order. Entries from ``start`` on are live unless they are ``dead``."""

    __slots__ = (
        "__weakref__",
        "as_columns",
        "body",
        "dead",
        "dead_count",
        "sealed",
        "start",
        "storage",
        "token",
    )

    def __init__(self, storage: Storage, body: Body | None = None) -> None:
        self.body = Plain() if body is None else body
        self.start = 0
        #: One byte per entry, 1 if it is deleted; None if no entry is deleted.
        self.dead: bytearray | None = None
        #: Number of dead entries from ``start`` on.
        self.dead_count = 0
        self.sealed = False
        #: Whether the segment is to be packed as columns, because PS.COLUMNS reads this part of the stream.
        self.as_columns = False
        self.storage = storage
        #: Identifies the stream that may change this segment; set by the stream.
        self.token: object = None

    # -- sealed and packed ------------------------------------------------------------------------------------------

    @property
    def plain(self) -> Plain:
        """The body of an unpacked segment."""
        assert isinstance(self.body, Plain)
        return self.body

    @property
    def entries(self) -> Plain | Packed:
        """The body in memory. Raises UnreadableError if it is on disk and cannot be read."""
        return loaded(self.body)

    @property
    def is_stored(self) -> bool:
        """Whether the entries are on disk and not in memory."""
        return isinstance(self.body, Stored)

    def seal(self) -> None:
        """Close the segment to new entries."""
        self.plain.freeze()
        self.note_sealed()

    def note_sealed(self) -> None:
        """Mark the segment as sealed and queue it for packing."""
        self.sealed = True
        self.storage.sealed.add(self)
        self.storage.sealed.shorten()

    def wait_for_packing(self) -> None:
        """Queue a copy of a segment, if it still is to be packed or stored. This needs no memory until it is packed, so
        it does not shorten the queue.
        """
        if self.sealed and type(self.body) is not Stored:
            self.storage.sealed.add(self)
        if self.as_columns and type(self.body) is Packed:
            self.storage.sealed.add_packed(self)

    def want_columns(self) -> None:
        """Request packing as columns, even if the entries are already packed as frames. Entries on disk stay as is."""
        if not self.as_columns:
            self.as_columns = True
            if type(self.body) is Packed:
                self.storage.sealed.add_packed(self)

    @property
    def is_due(self) -> bool:
        """Whether a sealed segment is to be packed, or packed again as columns."""
        return isinstance(self.body, Plain) or (self.as_columns and type(self.body) is Packed)

    # -- look-ups ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the total number of entries, including dead ones and the trimmed head."""
        return len(self.body)

    @property
    def live(self) -> int:
        """The number of live entries."""
        return len(self.body) - self.start - self.dead_count

    @property
    def full(self) -> bool:
        """Whether the next entry belongs in a new segment."""
        if self.sealed:
            return True
        body: Plain = self.body  # type: ignore[assignment]  # (an open segment's body is plain)
        return len(body.ms) >= SEGMENT_ENTRIES or len(body.data) >= SEGMENT_BYTES

    def fits(self, count: int, size: int) -> bool:
        """Return whether ``count`` entries of ``size`` bytes in total fit without filling the segment."""
        if self.sealed:
            return False
        body: Plain = self.body  # type: ignore[assignment]  # as above
        return len(body.ms) + count < SEGMENT_ENTRIES and len(body.data) + size < SEGMENT_BYTES

    @property
    def room_entries(self) -> int:
        """The number of entries after which an open segment is full."""
        return SEGMENT_ENTRIES - len(self.body)

    @property
    def room_bytes(self) -> int:
        """The number of bytes of frames after which an open segment is full."""
        return SEGMENT_BYTES - self.body.data_size

    def find(self, entry_id: int) -> int:
        """Return the index of the live entry with this ID, -1 if not found."""
        entries, dead = self.entries, self.dead
        index = entries.position(entry_id)
        if index < self.start or index == len(entries) or entries.id_at(index) != entry_id:
            return -1
        return index if dead is None or not dead[index] else -1

    def count(self, low: int, high: int) -> int:
        """Return the number of live entries in [low, high)."""
        low = max(low, self.start)
        if low >= high:
            return 0
        return high - low - (self.dead.count(_DEAD, low, high) if self.dead is not None else 0)

    def last_live(self, end: int | None = None) -> int:
        """Return the index of the last live entry before ``end``; -1 if not found."""
        last = (len(self) if end is None else end) - 1
        if self.dead is not None:
            last = self.dead.rfind(_LIVE, 0, last + 1)
        return last if last >= self.start else -1

    def runs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the live entries in [low, high) as ranges [i, j), in order."""
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
        """Yield the live entries in [low, high) as ranges [i, j), the last range first."""
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
        """Return the index of the n-th (from 0) live entry at or after ``low``, which must exist."""
        for first, end in self.runs(low, len(self)):
            if n < end - first:
                return first + n
            n -= end - first
        raise IndexError(n)

    # -- changes ----------------------------------------------------------------------------------------------------

    def append(self, entry_id: int, entry: bytes) -> None:
        """Append one entry to an open segment."""
        self.body.append(entry_id, entry)  # type: ignore[union-attr]  # as above
        if self.dead is not None:
            self.dead.append(0)

    def extend(self, data: bytes | bytearray | memoryview, sizes: Sizes, ms: array[int], seq: array[int]) -> None:
        """Append entries, given their frames back to back, the size of each, and their IDs."""
        self.body.extend(data, sizes, ms, seq)  # type: ignore[union-attr]  # as above
        if self.dead is not None:
            self.dead += bytes(len(ms))

    def delete(self, index: int) -> None:
        """Mark the live entry at ``index`` as deleted."""
        if self.dead is None:
            self.dead = bytearray(len(self))
        self.dead[index] = 1
        self.dead_count += 1
        if index == self.start:
            self._skip_dead_head()
        elif self.sealed and self.dead_count > 64 and self.dead_count * 2 > len(self) - self.start:
            self._compact()

    def delete_many(self, entry_ids: list[int]) -> list[int]:
        """Delete the live entries among ``entry_ids``; return their IDs.

        ``entry_ids`` must be ascending, and the segment sealed.
        """
        ms, seq = self.entries.id_columns(0, len(self))
        if self.dead is None:
            self.dead = bytearray(len(self))
        dead, index, end, deleted = self.dead, self.start, len(self), []
        for entry_id in entry_ids:
            # IDs are often consecutive.
            if index == end or ms[index] << 64 | seq[index] != entry_id:
                index = max(position(ms, seq, entry_id), self.start)
                if index == end:
                    break
                if ms[index] << 64 | seq[index] != entry_id:
                    continue
            if not dead[index]:
                dead[index] = 1
                deleted.append(entry_id)
            index += 1
        self.dead_count += len(deleted)
        if self.start < end and dead[self.start]:
            self._skip_dead_head()
        if self.dead_count > 64 and self.dead_count * 2 > len(self) - self.start:
            self._compact()
        return deleted

    def drop_head(self, count: int) -> None:
        """Remove the first ``count`` live entries; at least one must remain."""
        self.move_start(self.nth_live(self.start, count))

    def move_start(self, index: int) -> None:
        """Remove all entries before ``index``. The entry at ``index`` must be live."""
        if self.dead is not None:
            self.dead_count -= self.dead.count(_DEAD, self.start, index)
        self.start = index

    def _skip_dead_head(self) -> None:
        """Advance ``start`` to the first live entry."""
        assert self.dead is not None
        first = self.dead.find(_LIVE, self.start)
        first = len(self) if first < 0 else first
        self.dead_count -= first - self.start
        self.start = first

    def _compact(self) -> None:
        """Rewrite a sealed segment without its removed entries.

        More than half of the entries from ``start`` on have been deleted, which amortises the cost.
        """
        assert self.dead is not None
        body = Plain()
        for low, high in self.runs(self.start, len(self)):
            frames = self.entries.frames(low, high)
            body.extend(b"".join(frames), list(map(len, frames)), *self.entries.id_columns(low, high))
        body.freeze()
        self.body = body
        self.start = self.dead_count = 0
        self.dead = None
        self.note_sealed()

    def snapshot(self) -> Segment:
        """Return a read-only snapshot with the same body, unaffected by later deletions."""
        return self._twin(self.storage, self.body)

    def copy(self, storage: Storage) -> Segment:
        """Return an independent copy in ``storage``; immutable parts are shared."""
        body = self.body
        if isinstance(body, Plain):
            body = body.copy()
        elif body.cache is not storage.cache:
            body = body.copy(storage.cache)
        return self._twin(storage, body)

    def _twin(self, storage: Storage, body: Body) -> Segment:
        other = Segment(storage, body)
        other.start, other.dead_count = self.start, self.dead_count
        other.sealed, other.as_columns = self.sealed, self.as_columns
        other.dead = None if self.dead is None else bytearray(self.dead)
        return other


class SealedQueue:
    """Sealed segments waiting to be packed, in the order in which they were sealed.

    Packed segments waiting to be packed again as columns have a queue of their own. References are weak.
    """

    __slots__ = ("_packed", "_segments", "most", "relieve", "stores")

    def __init__(self) -> None:
        self._segments: deque[weakref.ref[Segment]] = deque()
        #: Packed segments to be packed again, as columns. They use little memory, so their number is not limited.
        self._packed: deque[weakref.ref[Segment]] = deque()
        #: Whether packed segments also wait in the queue, to be written to disk.
        self.stores = False
        #: Maximum number of waiting segments; None: no maximum. Above the maximum, `shorten` calls `relieve`, which
        #: removes a segment from the queue.
        self.most: int | None = None
        self.relieve: Callable[[], None] | None = None

    def __len__(self) -> int:
        """Return the number of waiting sealed segments, including those that have been dropped or packed since."""
        return len(self._segments)

    def add(self, segment: Segment) -> None:
        """Queue a segment."""
        self._segments.append(weakref.ref(segment))

    def shorten(self) -> None:
        """Remove a segment from the queue if more than the maximum wait."""
        if self.most is not None and len(self._segments) > self.most and self.relieve is not None:
            self.relieve()

    def add_packed(self, segment: Segment) -> None:
        """Queue a packed segment to be packed again as columns."""
        self._packed.append(weakref.ref(segment))

    def pop_packed(self, most: int) -> list[Segment]:
        """Remove and return up to ``most`` packed segments that are still to be packed again."""
        found: list[Segment] = []
        while self._packed and len(found) < most:
            segment = self._packed.popleft()()
            if segment is not None and segment.is_due:
                found.append(segment)
        return found

    def pop(self, oldest: int, most: int) -> tuple[list[Segment], int]:
        """Remove references from the queue until ``most`` segments to be packed (or written to disk) are found.

        Removes up to ``oldest`` references. Returns the segments found, and the number of references removed.
        """
        found: list[Segment] = []
        popped = 0
        while popped < oldest and len(found) < most:
            segment = self._segments.popleft()()
            popped += 1
            if segment is not None and (not segment.is_stored if self.stores else segment.is_due):
                found.append(segment)
        return found, popped


#: Maximum size in bytes of the cache of streams that are read once.
_READ_ONCE_BYTES = 1 << 20


@dataclass(slots=True)
class Storage:
    """Storage of one core. Streams that are read in another thread need their own storage."""

    sealed: SealedQueue = field(default_factory=SealedQueue)
    cache: SpanCache = field(default_factory=SpanCache)
    #: Streams with idempotent producers (weak references).
    idempotent: WeakSet[Any] = field(default_factory=WeakSet)

    @classmethod
    def for_reading_once(cls) -> Storage:
        """Return a storage for copies of streams that are read once, in order, so that a small cache suffices."""
        return cls(cache=SpanCache(_READ_ONCE_BYTES))
