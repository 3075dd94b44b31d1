"""Order of a sorted set: pairs of a score and a member, in blocks of at most a thousand.

A block is an array of scores, and a list of the members at the same positions. So a search compares numbers that are
next to each other in memory, and compares members only if scores are equal. The last pairs of all blocks form another
block, which is searched first, to find the block of a pair.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

#: A score and its member. Pairs sort by score, then by member.
Pair = tuple[float, bytes]
#: Scores and members, in order.
Block = tuple["array[float]", list[bytes]]

#: Number of pairs above which a block is divided.
_LARGEST = 1000
#: Number of pairs below which a block is joined with the next block.
_SMALLEST = 250


def block_of(pairs: list[Pair]) -> Block:
    """Return the block of ordered pairs."""
    return array("d", [score for score, _ in pairs]), [member for _, member in pairs]


def _position(block: Block, score: float, member: bytes) -> int:
    """Return the number of pairs of a block that precede a pair."""
    scores, members = block
    position = bisect_left(scores, score)
    if position < len(scores) and scores[position] == score and members[position] < member:
        return bisect_left(members, member, position, bisect_right(scores, score, position))
    return position


class Order:
    """Pairs in order.

    Finding a rank, adding and removing take a search, then read or change one block, and one number for each block.
    """

    __slots__ = ("_lasts", "_size", "_starts", "blocks")

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        ordered, size = sorted(pairs), _LARGEST // 2
        self._take([block_of(ordered[at : at + size]) for at in range(0, len(ordered), size)])

    @classmethod
    def of_blocks(cls, blocks: list[Block]) -> Order:
        """Return an order that takes over these blocks. A block must not be empty."""
        made = cls.__new__(cls)
        made._take(blocks)
        return made

    def _take(self, blocks: list[Block]) -> None:
        #: The blocks in order. Callers must not change them.
        self.blocks = blocks
        self._lasts: Block = array("d", [scores[-1] for scores, _ in blocks]), [members[-1] for _, members in blocks]
        self._size = sum(len(members) for _, members in blocks)
        #: The rank of each block's first pair, followed by the size; None until a rank is needed.
        self._starts: npt.NDArray[np.int64] | None = None

    def copy(self) -> Order:
        """Return an independent copy."""
        return Order.of_blocks([(scores[:], members[:]) for scores, members in self.blocks])

    # -- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Pair]:
        for scores, members in self.blocks:
            yield from zip(scores, members, strict=True)

    def __reversed__(self) -> Iterator[Pair]:
        for scores, members in reversed(self.blocks):
            yield from zip(reversed(scores), reversed(members), strict=True)

    def __getitem__(self, rank: int) -> Pair:
        number, position = self._find(rank)
        scores, members = self.blocks[number]
        return scores[position], members[position]

    def between(self, start: int, stop: int) -> list[Pair]:
        """Return the pairs with the ranks [start, stop)."""
        return [pair for block in self._slices(start, stop) for pair in zip(*block, strict=True)]

    def members_between(self, start: int, stop: int) -> list[bytes]:
        """Return the members of the pairs with the ranks [start, stop)."""
        found: list[bytes] = []
        for _, members in self._slices(start, stop):
            found += members
        return found

    def _slices(self, start: int, stop: int) -> Iterator[Block]:
        number, position = self._find(start)
        left = stop - start
        while left > 0:
            scores, members = self.blocks[number]
            part = members[position : position + left]
            yield scores[position : position + left], part
            left -= len(part)
            number, position = number + 1, 0

    def rank(self, score: float, member: bytes) -> int:
        """Return the number of pairs that precede a pair, which need not exist."""
        number = _position(self._lasts, score, member)
        if number == len(self.blocks):
            return self._size
        position = _position(self.blocks[number], score, member)
        return int(self._ranks()[number]) + position if number else position

    def _find(self, rank: int) -> tuple[int, int]:
        """Return the number of the block with the pair at a rank, and the pair's position in the block."""
        blocks, from_end = self.blocks, self._size - rank
        # The ends are read and removed most often. They need no ranks of blocks, which change with every addition.
        if not blocks or rank < len(blocks[0][1]):
            return 0, rank
        size = len(blocks[-1][1])
        if from_end <= size:
            return len(blocks) - 1, size - from_end
        starts = self._ranks()
        number = int(starts.searchsorted(rank, "right")) - 1
        return number, rank - int(starts[number])

    def _ranks(self) -> npt.NDArray[np.int64]:
        if self._starts is None:
            self._starts = np.cumsum([0, *(len(members) for _, members in self.blocks)])
        return self._starts

    # -- changes ------------------------------------------------------------------------------------------------------

    def add(self, score: float, member: bytes) -> None:
        """Add a pair whose member is in no other pair."""
        number = _position(self._lasts, score, member)
        if number == len(self.blocks):
            if not number:
                self._take([(array("d", [score]), [member])])
                return
            number -= 1
            self._lasts[0][number], self._lasts[1][number] = score, member
        block = scores, members = self.blocks[number]
        position = _position(block, score, member)
        scores.insert(position, score)
        members.insert(position, member)
        self._size += 1
        if self._starts is not None:
            self._starts[number + 1 :] += 1
        if len(members) > _LARGEST:
            self._divide(number)

    def remove(self, score: float, member: bytes) -> None:
        """Remove an existing pair."""
        number = _position(self._lasts, score, member)
        block = self.blocks[number]
        position = _position(block, score, member)
        self._delete(number, position, position + 1)

    def cut(self, start: int, stop: int) -> list[Pair]:
        """Remove the pairs with the ranks [start, stop); return them in order."""
        found: list[Pair] = []
        while len(found) < stop - start:
            number, position = self._find(start)
            end = position + stop - start - len(found)
            scores, members = self.blocks[number]
            part = members[position:end]
            found += zip(scores[position:end], part, strict=True)
            self._delete(number, position, position + len(part))
        return found

    def _delete(self, number: int, start: int, stop: int) -> None:
        """Remove the pairs at the positions [start, stop) of a block."""
        scores, members = self.blocks[number]
        del scores[start:stop], members[start:stop]
        self._size -= stop - start
        if self._starts is not None:
            self._starts[number + 1 :] -= stop - start
        if start == len(members) and members:
            self._lasts[0][number], self._lasts[1][number] = scores[-1], members[-1]
        if len(members) < _SMALLEST:
            self._join(number)

    def _divide(self, number: int) -> None:
        scores, members = self.blocks[number]
        half = len(members) // 2
        self.blocks.insert(number + 1, (scores[half:], members[half:]))
        del scores[half:], members[half:]
        self._lasts[0].insert(number, scores[-1])
        self._lasts[1].insert(number, members[-1])
        self._starts = None

    def _join(self, number: int) -> None:
        """Join a block with the next one; the last block is joined with the one before it."""
        blocks = self.blocks
        if len(blocks) == 1:
            if not blocks[0][1]:
                self._take([])
            return
        number = min(number, len(blocks) - 2)
        (scores, members), (more_scores, more_members) = blocks[number], blocks.pop(number + 1)
        scores += more_scores
        members += more_members
        if more_members:
            del self._lasts[0][number], self._lasts[1][number]
        else:
            del self._lasts[0][number + 1], self._lasts[1][number + 1]
        self._starts = None
        if len(members) > _LARGEST:
            self._divide(number)
