"""A sorted set: members with their scores, in the order of these, and whether Redis would still keep a listpack.

Members of equal scores are in the order of their bytes. What Redis keeps as a listpack has no sign at a score of zero.
A sorted set never becomes small again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import chain, islice
from typing import Any, NamedTuple

from sortedcontainers import SortedList

from engine.core.keyspace.elements import Elements, drawn_places
from engine.settings.config import Config

#: A score and its member: so, pairs are in order as they are.
Pair = tuple[float, bytes]
#: From so many members on the order is kept all the time; of fewer ones it is made when it is first asked for.
_ORDERED = 64
#: Of so few members the order is not kept where some of them are taken away.
_TINY = 8
#: Pairs that are put in order together.
_SORTED_AT_ONCE = 2000
#: So many runs of these are let go together.
_FREED_AT_ONCE = 20


class SortedSetLimits(NamedTuple):
    """How large a sorted set may be that Redis keeps as a listpack."""

    #: The most members.
    entries: int
    #: The longest member, in bytes.
    length: int


def sorted_set_limits(config: Config) -> SortedSetLimits:
    """The limits that the configuration sets."""
    return SortedSetLimits(config.integer("zset-max-listpack-entries"), config.integer("zset-max-listpack-value"))


class Order(SortedList):  # type: ignore[misc]  # (it ships without types)
    """Pairs in order, in blocks of some thousand. What asks for ranks, adds and removes takes logarithmic time.

    The fields that begin with ``_`` are SortedList's, which has them for its subclasses.
    """

    def copy(self) -> Order:
        """An order of its own with the same pairs."""
        return Order.of_blocks([block[:] for block in self._lists])

    @classmethod
    def of_blocks(cls, blocks: list[list[Pair]]) -> Order:
        """An order that consists of these blocks, none of which is empty; the caller gives them away."""
        order = cls()
        order._lists, order._maxes = blocks, [block[-1] for block in blocks]
        order._len = sum(map(len, blocks))
        return order

    def blocks(self) -> list[list[Pair]]:
        """The blocks that it consists of."""
        found: list[list[Pair]] = self._lists
        return found


class SortedSet(Elements[float]):
    """Members and their scores. They are set and removed with the methods here alone, never with ``[]``."""

    __slots__ = ("_order", "big")

    def __init__(self, pairs: Iterable[tuple[bytes, float]] = (), *, big: bool = False) -> None:
        super().__init__(pairs)
        #: Too many members, or too long ones, for a listpack.
        self.big = big
        self._order: Order | None = None

    @classmethod
    def of_ordered(cls, blocks: list[list[Pair]], *, big: bool) -> SortedSet:
        """A sorted set of pairs that are in order, in blocks of some hundred, which the caller gives away."""
        made = cls(((member, score) for score, member in chain.from_iterable(blocks)), big=big)
        made.put_in_order(blocks)
        return made

    def put(self, member: bytes, score: float, limits: SortedSetLimits) -> bool:
        """Set a member's score; whether it is new."""
        former = self.get(member)
        if not self.big:
            if former is None and (len(self) >= limits.entries or len(member) > limits.length):
                self.big = True
            elif not score:
                score = 0.0
        self._place(member, score)
        order = self._order
        if order is not None:
            if former is not None:
                order.remove((former, member))
            order.add((score, member))
        elif len(self) >= _ORDERED:
            self._order = Order(self._pairs())
        return former is None

    def remove(self, name: bytes) -> bool:
        """Drop a member; whether it was there."""
        score = self.get(name)
        if score is None:
            return False
        super().remove(name)
        if self._order is not None:
            self._order.remove((score, name))
        return True

    def cut(self, start: int, stop: int) -> list[Pair]:
        """Remove the pairs of these ranks, ``stop`` not included; what they were, in order."""
        if self._order is None and len(self) <= _TINY:
            pairs = sorted(self._pairs())[start:stop]
            for _, member in pairs:
                super().remove(member)
            return pairs
        order = self.order
        pairs = list(order.islice(start, stop))
        for _, member in pairs:
            super().remove(member)
        if stop >= len(order):
            for _ in pairs:
                order.pop()
        else:
            for _ in pairs:
                del order[start]
        return pairs

    def expect(self, count: int, limits: SortedSetLimits) -> None:
        """Let a new sorted set have the form of one with ``count`` members, as Redis does before it adds them."""
        if count > limits.entries:
            self.big = True

    @property
    def order(self) -> Order:
        """Its pairs in order."""
        if self._order is None:
            self._order = Order(self._pairs())
        return self._order

    def _pairs(self) -> Iterator[Pair]:
        return zip(self.values(), self.keys(), strict=True)

    def put_in_order(self, blocks: list[list[Pair]]) -> None:
        """Take these for its order: all its pairs, in blocks, which the caller gives away."""
        self._order = Order.of_blocks(blocks)

    def rank(self, member: bytes) -> int:
        """How many members come before one that is there."""
        place: int = self.order.bisect_left((self[member], member))
        return place

    def below(self, score: float) -> int:
        """How many members have a lower score."""
        count: int = self.order.bisect_left((score,))
        return count

    def up_to(self, score: float) -> int:
        """How many members have this score or a lower one."""
        return len(self) if score == math.inf else self.below(math.nextafter(score, math.inf))

    def drawn_pairs(self, count: int, pick: Callable[[int], int]) -> list[Pair]:
        """As :meth:`drawn`, with their scores. The members must be more than ``count``."""
        return list(map(self.order.__getitem__, drawn_places(len(self), count, pick)))

    def shown(self) -> list[tuple[bytes, float]]:
        """Members with their scores in the order in which a client sees them."""
        return [(member, score) for score, member in self.order]

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        """What it consists of, for whoever takes it apart."""
        return [*super().tables(), *(self._order.blocks() if self._order is not None else ())]

    def copy(self) -> SortedSet:
        """A sorted set of its own with the same members."""
        made = SortedSet(big=self.big)
        made.update(self)
        if self._order is not None:
            made._order = self._order.copy()
        return made


def in_order(scores: dict[bytes, float]) -> Generator[None, None, list[list[Pair]]]:
    """Members with their scores, which are taken out of ``scores``, as blocks of pairs in order, in steps."""
    runs: list[list[Pair]] = []
    while scores:
        members = (scores.popitem() for _ in range(min(len(scores), _SORTED_AT_ONCE)))
        runs.append(sorted([(score, member) for member, score in members]))
        yield
    blocks: list[list[Pair]] = []
    merged = merge(*runs)
    while block := list(islice(merged, _SORTED_AT_ONCE // 2)):
        blocks.append(block)
        yield
    while runs:
        # (Letting all of them go together would take long.)
        del runs[-_FREED_AT_ONCE:]
        yield
    return blocks
