"""A sorted set: members ordered by score, and whether Redis would still store it as a listpack.

Members with equal scores are ordered bytewise. As in Redis, a listpack turns the score -0 into 0, and a sorted set that
has outgrown the listpack never returns to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from engine.core.keyspace.elements import Elements, drawn_positions
from engine.core.keyspace.order import Block, Order, Pair
from engine.settings.config import Config

#: A set that grows to this number of members creates its order; a smaller set creates the order on demand.
_ORDERED = 64
#: In a set of up to this many members, a range is removed without creating the order.
_TINY = 8
#: Number of pairs sorted together.
_SORTED_AT_ONCE = 2000
#: Number of sorted runs freed together.
_FREED_AT_ONCE = 20


class SortedSetLimits(NamedTuple):
    """Size limits of a sorted set in a listpack."""

    #: Maximum number of members.
    entries: int
    #: Maximum length of a member in bytes.
    length: int


#: The directives that set these limits, in the order of the fields.
SORTED_SET_LIMITS = ("zset-max-listpack-entries", "zset-max-listpack-value")


def sorted_set_limits(config: Config) -> SortedSetLimits:
    """Return the configured limits."""
    return SortedSetLimits(*map(config.integer, SORTED_SET_LIMITS))


class SortedSet(Elements[float]):
    """Members and their scores. Set and remove members only with the methods here, never with ``[]``."""

    __slots__ = ("_order", "big")

    def __init__(self, pairs: Iterable[tuple[bytes, float]] = (), *, big: bool = False) -> None:
        Elements.__init__(self, pairs)  # faster than super(), which matters for small values
        #: Whether the set has too many or too long members for a listpack.
        self.big = big
        self._order: Order | None = None

    @classmethod
    def of_ordered(cls, blocks: list[Block], *, big: bool) -> SortedSet:
        """Create a sorted set that takes over these blocks, each of up to about a thousand pairs."""
        made = cls(big=big)
        for scores, members in blocks:
            made.update(zip(members, scores, strict=True))
        made.put_in_order(blocks)
        return made

    def put(self, member: bytes, score: float, limits: SortedSetLimits) -> bool | None:
        """Set a member's score; return whether the member is new, None if the member already has this score."""
        former = self.get(member)
        if score == former:
            return None
        if self.readings:
            self._disturb()
        if not self.big:
            if former is None and (len(self) >= limits.entries or len(member) > limits.length):
                self.big = True
            elif not score:
                score = 0.0
        self[member] = score
        if former is None and self._names is not None:
            self._names.add(member)
        order = self._order
        if order is not None:
            if former is not None:
                order.remove(former, member)
            order.add(score, member)
        elif len(self) >= _ORDERED:
            self._order = Order(self._pairs())
        return former is None

    def remove(self, name: bytes) -> bool:
        """Remove a member; return whether it existed."""
        score = self.get(name)
        if score is None:
            return False
        super().remove(name)
        if self._order is not None:
            self._order.remove(score, name)
        return True

    def cut(self, start: int, stop: int) -> list[Pair]:
        """Remove the pairs with the ranks [start, stop); return them in order."""
        if self.readings:
            self._disturb()
        if self._order is None and len(self) <= _TINY:
            pairs = sorted([(score, member) for member, score in self.items()])[start:stop]
        else:
            pairs = self.order.cut(start, stop)
        for _, member in pairs:
            del self[member]
            if self._names is not None:
                self._names.remove(member)
        return pairs

    def expect(self, count: int, limits: SortedSetLimits) -> None:
        """Choose the encoding before ``count`` members are added, as Redis does."""
        if count > limits.entries:
            self.big = True

    @property
    def order(self) -> Order:
        """The pairs in order."""
        if self._order is None:
            self._order = Order(self._pairs())
        return self._order

    def _pairs(self) -> Iterator[Pair]:
        return zip(self.values(), self.keys(), strict=True)

    def put_in_order(self, blocks: list[Block]) -> None:
        """Use these blocks, which contain all pairs, as the order."""
        self._order = Order.of_blocks(blocks)

    def rank(self, member: bytes) -> int:
        """Return the number of members before an existing member."""
        return self.order.rank(self[member], member)

    def below(self, score: float) -> int:
        """Return the number of members with a lower score."""
        return self.order.rank(score, b"")

    def up_to(self, score: float) -> int:
        """Return the number of members with this score or a lower score."""
        return len(self) if score == math.inf else self.below(math.nextafter(score, math.inf))

    def draws_of_pairs(self, count: int, pick: Callable[[int], int]) -> Iterator[Pair]:
        """Draw pairs as ``draws`` draws members. There must be more than ``count`` members."""
        return map(self.order.__getitem__, drawn_positions(len(self), count, pick))

    def shown(self) -> list[tuple[bytes, float]]:
        """Return members with their scores in the order in which clients see them."""
        return [(member, score) for score, member in self.order]

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        blocks = self._order.blocks if self._order is not None else ()
        return [*super().tables(), *(members for _, members in blocks)]

    def copy(self) -> SortedSet:
        """Return an independent copy."""
        made = SortedSet(big=self.big)
        made.update(self)
        if self._order is not None:
            made._order = self._order.copy()
        return made


def in_order(scores: dict[bytes, float]) -> Generator[None, None, list[list[Pair]]]:
    """Move the members out of ``scores`` and return them as ordered blocks of pairs, in steps."""
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
        # Freeing all runs at once would block the server.
        del runs[-_FREED_AT_ONCE:]
        yield
    return blocks
