r"""A segment: entries as frames back to back in one buffer, in ID order, with an index over them.

A *frame* is an entry exactly as XRANGE replies with it::

    *2\r\n $15\r\n1518951480106-0\r\n  *4\r\n $9\r\nsensor-id\r\n $4\r\n1234\r\n ...

It is made once, when the entry is added (:func:`frame`), and from then on only sliced. Only the last segment of a
stream is open; a sealed one never changes its bytes, so replies may hold views of it for as long as they like. Views of
the open buffer must not leave this module: while one is alive the buffer cannot grow (:meth:`Segment.view` copies
there).

Entries go in two ways: ``start`` moves over a trimmed head, and ``dead`` marks deleted entries in the middle. The entry
at ``start`` is always live; a segment whose last live entry goes is dropped by its stream.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from engine.core.ids import U64_MAX

#: A segment is sealed when its frames reach this many bytes, or it holds this many entries.
SEGMENT_BYTES = 256 * 1024
SEGMENT_ENTRIES = 8192

_LIVE, _DEAD = b"\0", b"\1"


def frame(entry_id: bytes, fields: Sequence[bytes]) -> bytes:
    """The frame of an entry: its ID as text, and field, value, field, value ... as they came."""
    words = [b"$%d\r\n%b" % (len(word), word) for word in fields]
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b\r\n" % (len(entry_id), entry_id, len(words), b"\r\n".join(words))


def fields_of(entry: bytes | bytearray | memoryview) -> list[bytes]:
    """The [field, value, ...] of a frame, the inverse of :func:`frame`."""
    data = bytes(entry)
    at = data.index(b"*", 4)
    end = data.index(b"\r\n", at)
    words = []
    for _ in range(int(data[at + 1 : end])):
        at = end + 2
        end = data.index(b"\r\n", at)
        size = int(data[at + 1 : end])
        words.append(data[end + 2 : end + 2 + size])
        end += 2 + size
    return words


class Segment:
    """Entries 0 .. n-1 in ID order; those from ``start`` on that are not ``dead`` are live."""

    __slots__ = ("data", "dead", "dead_count", "ms", "offsets", "sealed", "seq", "start")

    def __init__(self) -> None:
        self.data: bytearray | bytes = bytearray()
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

    # -- facts ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many entries it has ever held, the dead ones and the trimmed head included."""
        return len(self.ms)

    @property
    def live(self) -> int:
        """How many entries are live."""
        return len(self.ms) - self.start - self.dead_count

    @property
    def full(self) -> bool:
        """Whether the next entry belongs into a new segment."""
        return self.sealed or len(self.data) >= SEGMENT_BYTES or len(self.ms) >= SEGMENT_ENTRIES

    def id_at(self, index: int) -> int:
        """The ID of the entry at ``index``."""
        return self.ms[index] << 64 | self.seq[index]

    def position(self, entry_id: int) -> int:
        """The index of the first entry (dead ones included) whose ID is not below ``entry_id``."""
        ms = entry_id >> 64
        low = bisect_left(self.ms, ms)
        if low == len(self.ms) or self.ms[low] != ms:
            return low
        return bisect_left(self.seq, entry_id & U64_MAX, low, bisect_right(self.ms, ms, low))

    def find(self, entry_id: int) -> int:
        """The index of the live entry with this ID, -1 if there is none."""
        index = self.position(entry_id)
        if index < self.start or index == len(self.ms) or self.id_at(index) != entry_id or self.is_dead(index):
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
        return found if found >= 0 else len(self.ms)

    def last_live(self, end: int | None = None) -> int:
        """The last live entry before ``end``; -1 if there is none."""
        last = (len(self.ms) if end is None else end) - 1
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
        for first, end in self.runs(low, len(self.ms)):
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
        self.offsets.append(len(self.data))
        self.data += entry
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

    def seal(self) -> None:
        """No entry is added from now on."""
        self.data = bytes(self.data)
        self.sealed = True

    def delete(self, index: int) -> None:
        """The live entry at ``index`` dies."""
        if self.dead is None:
            self.dead = bytearray(len(self.ms))
        self.dead[index] = 1
        self.dead_count += 1
        if index == self.start:
            self._settle()
        elif self.sealed and self.dead_count > 64 and self.dead_count * 2 > len(self.ms) - self.start:
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
        first = len(self.ms) if first < 0 else first
        self.dead_count -= first - self.start
        self.start = first

    def _compact(self) -> None:
        """Rewrite the buffer without what has gone; amortised, as it at least halves it."""
        parts, offsets, size = [], array("I"), 0
        ms, seq = array("Q"), array("Q")
        for low, high in self.runs(self.start, len(self.ms)):
            begin = self.offsets[low]
            offsets.extend([at - begin + size for at in self.offsets[low:high]])
            parts.append(self.data[begin : self._end(high)])
            size += self._end(high) - begin
            ms += self.ms[low:high]
            seq += self.seq[low:high]
        self.data, self.offsets, self.ms, self.seq = b"".join(parts), offsets, ms, seq
        self.start = self.dead_count = 0
        self.dead = None

    def copy(self) -> Segment:
        """An independent segment with the same entries; what a sealed one never changes in place is shared."""
        other = Segment()
        if self.sealed:
            other.data, other.offsets, other.ms, other.seq = self.data, self.offsets, self.ms, self.seq
        else:
            other.data = bytearray(self.data)
            other.offsets, other.ms, other.seq = self.offsets[:], self.ms[:], self.seq[:]
        other.start, other.dead_count, other.sealed = self.start, self.dead_count, self.sealed
        other.dead = None if self.dead is None else bytearray(self.dead)
        return other
