"""Keys of a database, or fields of a hash, in the order in which they expire.

Every deadline that is set goes into a heap. One that is replaced or removed stays there, and is passed over when its
time comes. Where most of the heap is of that kind, a new heap is begun, and each deadline that is set from then on
moves a few deadlines of the former heap: no command ever moves all of them.
"""

from __future__ import annotations

import heapq

#: So many of the former heap's deadlines move with each that is set.
_MOVED = 4
#: A heap of fewer is not begun anew.
_SMALL = 64

Heap = list[tuple[int, bytes]]


class Deadlines:
    """The deadlines of one database's keys. ``by_key`` has those that hold; whoever owns it removes keys from it."""

    __slots__ = ("_by_key", "_former", "_heap")

    def __init__(self, by_key: dict[bytes, int]) -> None:
        self._by_key = by_key
        self._heap: Heap = []
        self._former: Heap = []

    @classmethod
    def of(cls, by_key: dict[bytes, int]) -> Deadlines:
        """The deadlines that ``by_key`` has already."""
        made = cls(by_key)
        made._heap = [(deadline, key) for key, deadline in by_key.items()]
        heapq.heapify(made._heap)
        return made

    def __len__(self) -> int:
        """How many deadlines it keeps, those among them that were replaced or removed."""
        return len(self._heap) + len(self._former)

    def put(self, key: bytes, deadline: int) -> None:
        """Set a key's deadline, in milliseconds since the epoch."""
        self._by_key[key] = deadline
        heapq.heappush(self._heap, (deadline, key))
        if self._former:
            self._move()
        elif self._too_large():
            self._former, self._heap = self._heap, []

    def put_all(self, keys: list[bytes], deadline: int) -> None:
        """Set one deadline, in milliseconds since the epoch, for several keys, all of which are different."""
        heap = self._heap
        if self._former:
            for key in keys:
                self.put(key, deadline)
            return
        self._by_key.update(dict.fromkeys(keys, deadline))
        if len(keys) < len(heap):
            for key in keys:
                heapq.heappush(heap, (deadline, key))
        else:
            heap += [(deadline, key) for key in keys]
            heapq.heapify(heap)
        if self._too_large():
            self._former, self._heap = heap, []

    def _too_large(self) -> bool:
        return len(self._heap) > _SMALL + 2 * len(self._by_key)

    def _move(self) -> None:
        former, by_key = self._former, self._by_key
        for _ in range(min(_MOVED, len(former))):
            # (Without its last element a heap is a heap.)
            deadline, key = former.pop()
            if by_key.get(key) == deadline:
                heapq.heappush(self._heap, (deadline, key))
        if not former and self._too_large():
            # The same deadlines stood in it many times over.
            self._heap = [(deadline, key) for key, deadline in by_key.items()]
            heapq.heapify(self._heap)

    def _next(self) -> Heap:
        """The heap with the earliest deadline; an empty one where there is none."""
        if self._former and (not self._heap or self._former[0] < self._heap[0]):
            return self._former
        return self._heap

    def tables(self) -> tuple[Heap, Heap]:
        """What it consists of, for whoever takes it apart."""
        return self._heap, self._former

    def next(self) -> int | None:
        """The earliest moment at which a key may expire."""
        heap = self._next()
        return heap[0][0] if heap else None

    def due(self, now: int) -> set[bytes]:
        """The keys that expire at ``now`` or before. It costs what they are, however many others there are."""
        found: set[bytes] = set()
        for heap in (self._heap, self._former):
            # Below an element of a heap there is none that is earlier.
            places = [0]
            for place in places:
                if place < len(heap) and heap[place][0] <= now:
                    found.add(heap[place][1])
                    places += (2 * place + 1, 2 * place + 2)
        return {key for key in found if self._by_key.get(key, now + 1) <= now}

    def take_due(self, now: int, most: int) -> list[bytes]:
        """The keys that expire at ``now`` or before, out of the ``most`` earliest deadlines."""
        due: list[bytes] = []
        for _ in range(most):
            heap = self._next()
            if not heap or heap[0][0] > now:
                break
            deadline, key = heapq.heappop(heap)
            if self._by_key.get(key) == deadline:
                due.append(key)
        return due
