r"""A segment: entries in ID order, with what has become of each.

The entries themselves lie in its *body*: plain (:class:`~engine.core.streams.entries.Plain`) at first, packed
(:class:`~engine.core.streams.packed.Packed`) once it has gone cold; whoever reads a segment need not know which. Only
the last segment of a stream is open; the entries of a sealed one never change, so replies may hold views of them.

Entries go in two ways: ``start`` moves over a trimmed head, and ``dead`` marks deleted entries in the middle. The entry
at ``start`` is always live; a segment whose last live entry goes is dropped by its stream.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate

from engine.core.streams.entries import Plain
from engine.core.streams.laid_out import Storage
from engine.core.streams.nodes import SegmentNodes
from engine.core.streams.packed import Packed

#: A segment is sealed when its frames reach this many bytes, or it holds this many entries, ...
SEGMENT_BYTES = 256 * 1024
SEGMENT_ENTRIES = 8000
#: ... but only at a multiple of this number, where a node of Redis's usually ends, while it is not far too large.
SEGMENT_STEP = 100
_TOO_LARGE = 4

_LIVE, _DEAD = b"\0", b"\1"


class Segment:
    """Entries 0 .. n-1 in ID order; those from ``start`` on that are not ``dead`` are live."""

    __slots__ = ("__weakref__", "_storage", "body", "dead", "dead_count", "nodes", "sealed", "start")

    def __init__(self, storage: Storage, body: Plain | Packed | None = None) -> None:
        self.body = Plain() if body is None else body
        self.start = 0
        #: One byte an entry, 1 for deleted; None while nothing is.
        self.dead: bytearray | None = None
        #: How many entries from ``start`` on are dead.
        self.dead_count = 0
        self.sealed = False
        #: What is known of the nodes that clients see.
        self.nodes = SegmentNodes()
        self._storage = storage

    # -- cold and hot -----------------------------------------------------------------------------------------------

    @property
    def plain(self) -> Plain:
        """The body of a segment that is not packed."""
        assert isinstance(self.body, Plain)
        return self.body

    @property
    def is_packed(self) -> bool:
        """Whether its entries are compressed."""
        return isinstance(self.body, Packed)

    def seal(self) -> None:
        """No entry is added from now on."""
        self.plain.freeze()
        self.note_sealed()

    def note_sealed(self) -> None:
        """The entries will not change any more, and may be packed."""
        self.sealed = True
        self._storage.note_sealed(self)

    # -- facts ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many entries it has ever held, the dead ones and the trimmed head included."""
        return len(self.body)

    @property
    def last_id(self) -> int:
        """The ID of the last entry, dead or live."""
        return self.body.last_id

    @property
    def live(self) -> int:
        """How many entries are live."""
        return len(self) - self.start - self.dead_count

    @property
    def full(self) -> bool:
        """Whether the next entry belongs into a new segment."""
        if self.sealed:
            return True
        body = self.plain
        count, size = len(body), len(body.data)
        if count < SEGMENT_ENTRIES and size < SEGMENT_BYTES:
            return False
        return count >= SEGMENT_ENTRIES or not count % SEGMENT_STEP or size >= _TOO_LARGE * SEGMENT_BYTES

    def fits(self, count: int, size: int) -> bool:
        """Whether it has room for so many entries of so many bytes together, and then for more."""
        plain = self.body
        return not self.sealed and len(plain) + count < SEGMENT_ENTRIES and plain.data_size + size < SEGMENT_BYTES

    def room(self, entry_bytes: int) -> int:
        """How many entries of about this size fit before it is full; at least one."""
        count = len(self.body)
        wanted = max(SEGMENT_BYTES - self.body.data_size, 0) // max(entry_bytes, 1)
        end = -(-(count + wanted + 1) // SEGMENT_STEP) * SEGMENT_STEP
        return max(min(end, SEGMENT_ENTRIES) - count, 1)

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        return self.body.id_at(index)

    def position(self, entry_id: int) -> int:
        """The index of the first entry (dead ones included) whose ID is not below ``entry_id``."""
        return self.body.position(entry_id)

    def find(self, entry_id: int) -> int:
        """The index of the live entry with this ID, -1 if there is none."""
        body, dead = self.body, self.dead
        index = body.position(entry_id)
        if index < self.start or index == len(body) or body.id_at(index) != entry_id:
            return -1
        return index if dead is None or not dead[index] else -1

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

    # -- entries ----------------------------------------------------------------------------------------------------

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """The frames [low, high), which must all be live, in as many buffers as they lie in."""
        return self.body.views(low, high)

    def frame_at(self, index: int) -> bytes:
        """One frame."""
        return self.body.frame_at(index)

    def frames(self, low: int, high: int) -> list[bytes]:
        """The frames [low, high) one by one."""
        return self.body.frames(low, high)

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """(ID, frame) of the entries [low, high)."""
        return self.body.pairs(low, high)

    def columns(self, low: int, high: int) -> tuple[array[int], array[int]]:
        """The IDs of the entries [low, high), milliseconds and sequence numbers, as the caller's own arrays."""
        ms, seq = self.body.columns(low, high)
        if isinstance(ms, array) and isinstance(seq, array):
            return ms, seq
        return array("Q", ms.tobytes()), array("Q", seq.tobytes())

    # -- changes ----------------------------------------------------------------------------------------------------

    def append(self, entry_id: int, entry: bytes) -> None:
        """Add one entry behind the last; only to an open segment."""
        self.plain.append(entry_id, entry)
        if self.dead is not None:
            self.dead.append(0)

    def extend(self, data: bytes | memoryview, sizes: Sequence[int], ms: array[int], seq: array[int]) -> None:
        """Add entries behind the last, given their frames back to back, each one's size, and the IDs."""
        self.plain.extend(data, sizes, ms, seq)
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
        assert self.dead is not None
        body = Plain()
        for low, high in self.runs(self.start, len(self)):
            frames = self.frames(low, high)
            body.extend(b"".join(frames), list(map(len, frames)), *self.columns(low, high))
        body.freeze()
        if self.nodes.upto:
            gone = self.start
            left = [0] * (gone + 1) + list(accumulate(1 - flag for flag in self.dead[gone:]))
            self.nodes.compacted(left)
        self.body = body
        self.start = self.dead_count = 0
        self.dead = None
        self.note_sealed()

    def copy(self, storage: Storage) -> Segment:
        """An independent segment with the same entries, of a stream in ``storage``; what never changes is shared."""
        body = self.body.copy(storage) if isinstance(self.body, Packed) else self.body.copy()
        other = Segment(storage, body)
        other.start, other.dead_count = self.start, self.dead_count
        other.dead = None if self.dead is None else bytearray(self.dead)
        other.nodes = self.nodes.copy()
        if self.sealed:
            other.note_sealed()
        return other
