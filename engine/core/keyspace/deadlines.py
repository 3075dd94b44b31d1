"""Keys of a database in the order of their deadlines.

Every new deadline is pushed onto a heap. Replaced and removed deadlines stay in the heap as stale entries, and are
skipped when they are due. If most of the heap is stale, a new heap is started. Each new deadline then moves a few
deadlines from the former heap to the new one, so that a command rarely has to move all of them.
"""

from __future__ import annotations

import heapq

#: Number of former deadlines moved per new deadline.
_MOVED = 4
#: Size of an entry's deadline in bytes.
_TIME_BYTES = 8
#: Number added to each entry's deadline, because deadlines can be negative.
_OFFSET = 1 << 63
#: A heap of up to this many deadlines is kept even if all of them are stale.
_SMALL = 64

#: Entries: the deadline as a big-endian number, followed by the key. The entries are not tuples, because the garbage
#: collector tracks tuples. It counts allocations minus deallocations. While new tuples replace old ones, it would start
#: late, and then take long.
Heap = list[bytes]


def _start(deadline: int) -> bytes:
    """Return the start of the entries with a deadline; entries with earlier deadlines are smaller."""
    return (deadline + _OFFSET).to_bytes(_TIME_BYTES, "big")


def _parts(entry: bytes) -> tuple[int, bytes]:
    """Return the deadline and the key of an entry."""
    return int.from_bytes(entry[:_TIME_BYTES], "big") - _OFFSET, entry[_TIME_BYTES:]


def _heap_of(by_key: dict[bytes, int]) -> Heap:
    heap = [_start(deadline) + key for key, deadline in by_key.items()]
    heapq.heapify(heap)
    return heap


class Deadlines:
    """The deadlines of a database's keys.

    ``by_key`` holds the current deadlines. The owner of ``by_key`` may remove keys from it directly.
    """

    __slots__ = ("_by_key", "_former", "_heap")

    def __init__(self, by_key: dict[bytes, int]) -> None:
        self._by_key = by_key
        self._heap: Heap = []
        self._former: Heap = []

    def put(self, key: bytes, deadline: int) -> None:
        """Set a key's deadline, in milliseconds since the epoch."""
        if self._by_key.get(key) == deadline:
            # It is in a heap already.
            return
        self._by_key[key] = deadline
        self.put_back(key, deadline)

    def put_back(self, key: bytes, deadline: int) -> None:
        """Add the deadline of a key to the heap, from which `pop_due` has removed it."""
        heapq.heappush(self._heap, _start(deadline) + key)
        if self._former:
            self._move()
        elif self._too_large():
            self._former, self._heap = self._heap, []

    def _too_large(self) -> bool:
        return len(self._heap) > _SMALL + 2 * len(self._by_key)

    def _move(self) -> None:
        former, by_key = self._former, self._by_key
        for _ in range(min(_MOVED, len(former))):
            # Removing the last element of a heap leaves a heap.
            entry = former.pop()
            deadline, key = _parts(entry)
            if by_key.get(key) == deadline:
                heapq.heappush(self._heap, entry)
        if not former and self._too_large():
            # Most of the new heap is stale again, because the former heap contained deadlines repeatedly.
            self._heap = _heap_of(by_key)

    def _next(self) -> Heap:
        """Return the heap with the earliest deadline; an empty one if there are no deadlines."""
        if self._former and (not self._heap or self._former[0] < self._heap[0]):
            return self._former
        return self._heap

    def tables(self) -> tuple[Heap, Heap]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return self._heap, self._former

    def next(self) -> int | None:
        """Return the earliest time at which a key may expire; None if there are no deadlines."""
        heap = self._next()
        return _parts(heap[0])[0] if heap else None

    def due(self, now: int) -> set[bytes]:
        """Return the keys that are due at ``now``. The cost depends only on the number of due deadlines."""
        found: set[bytes] = set()
        end = _start(now + 1)
        for heap in (self._heap, self._former):
            # In a heap, the children of an element are never earlier than the element, so only the children of due
            # elements are visited.
            indexes = [0]
            for index in indexes:
                if index < len(heap) and heap[index] < end:
                    found.add(heap[index][_TIME_BYTES:])
                    indexes += (2 * index + 1, 2 * index + 2)
        return {key for key in found if self._by_key.get(key, now + 1) <= now}

    def pop_due(self, now: int, most: int) -> list[bytes]:
        """Remove up to ``most`` deadlines that are due at ``now`` from the heap; return their keys.

        Keys of stale deadlines are left out, and a key can occur repeatedly. ``by_key`` does not change.
        """
        due: list[bytes] = []
        end = _start(now + 1)
        for _ in range(most):
            heap = self._next()
            if not heap or heap[0] >= end:
                break
            deadline, key = _parts(heapq.heappop(heap))
            if self._by_key.get(key) == deadline:
                due.append(key)
        return due
