"""The pending entries that XINFO STREAM FULL shows: the first ones of a group, and of each of its consumers."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.protocol import ids
from engine.core.protocol.replies import Reply, rows_in_pages
from engine.core.streams.group import Consumer, Group
from engine.core.streams.pending import NOBODY
from engine.core.streams.pending_block import Block

#: Where no more rows are asked for, or no more could be, they are made at once; else in pages, of copied blocks.
_MANY = 1000


class PendingRecords:
    """The first ``count`` records (0: all) of a group and of each of its consumers, as they are now."""

    def __init__(self, group: Group, count: int) -> None:
        pending = group.pending
        self._most = most = count or len(pending)
        self._many = min(most, len(pending)) > _MANY
        self._names = {number: group.by_number[number].name for number in pending.per_owner if number != NOBODY}
        self._names[NOBODY] = b""
        every = pending.blocks(0, ids.MAX_ID)
        self._blocks = pending.still(0, ids.MAX_ID, len(pending)) if self._many else [block for block, _, _ in every]
        #: Owner -> its records, as rows, or as blocks with indices.
        self._rows: dict[int, list[Reply]] = {}
        self._places: dict[int, list[tuple[Block, Sequence[int]]]] = {}
        self._all = [] if self._many else self._first()
        self._find({owner: min(most, records) for owner, records in pending.per_owner.items() if owner != NOBODY})
        if not self._many:
            self._blocks = []

    def _first(self) -> list[Reply]:
        left, rows = self._most, list[Reply]()
        for block in self._blocks:
            if left <= 0:
                break
            rows += [self._row(block, index) for index in range(min(left, len(block)))]
            left = self._most - len(rows)
        return rows

    def _find(self, left: dict[int, int]) -> None:
        """Find the first records of each owner; ``left``: how many of them."""
        for block in self._blocks:
            if not left:
                return
            for owner in {block.owner} if block.owners is None else set(block.owners):
                wanted = left.get(owner, 0)
                if not wanted:
                    continue
                places = block.matching(owner, None)[:wanted]
                if self._many:
                    self._places.setdefault(owner, []).append((block, places))
                else:
                    self._rows.setdefault(owner, []).extend(_short_row(block, index) for index in places)
                left[owner] -= len(places)
                if not left[owner]:
                    del left[owner]

    def of_all(self) -> Reply:
        """The rows of the group: ID, consumer, time and count of the last delivery."""
        if not self._many:
            return self._all
        size = sum(map(len, self._blocks))
        records = ((block, index) for block in self._blocks for index in range(len(block)))
        return rows_in_pages(min(size, self._most), records, self._row)

    def _row(self, block: Block, index: int) -> Reply:
        name = self._names[block.owner_at(index)]
        return [ids.text(block.id_at(index)), name, block.time_at(index), block.count_at(index)]

    def of(self, consumer: Consumer) -> Reply:
        """The rows of a consumer: ID, time and count of the last delivery."""
        if not self._many:
            return self._rows.get(consumer.number, [])
        places = self._places.get(consumer.number, [])
        size = sum(len(indices) for _, indices in places)
        return rows_in_pages(size, ((block, index) for block, indices in places for index in indices), _short_row)


def _short_row(block: Block, index: int) -> Reply:
    return [ids.text(block.id_at(index)), block.time_at(index), block.count_at(index)]
