"""The pending entries that XINFO STREAM FULL shows: the first of a group, and the first of each of its consumers."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.protocol import ids
from engine.core.protocol.replies import Reply, rows_in_pages
from engine.core.streams.group import Consumer, Group
from engine.core.streams.pending import NOBODY
from engine.core.streams.pending_block import Block

#: Maximum number of rows that are built together. More rows are built in pages, from copied blocks.
_MANY = 1000
#: Number of blocks searched at a time for consumers' records.
_BLOCKS_PER_STEP = 20


class PendingRecords:
    """Snapshot of the first ``count`` records of a group, and the first ``count`` records of each of its consumers.

    A ``count`` of 0 includes all records.

    Consumers' records are found a few blocks at a time by ``find``, which must finish before ``of`` is called.
    """

    def __init__(self, group: Group, count: int) -> None:
        pending = group.pending
        self._most = most = count or len(pending)
        #: Whether the rows are built in pages.
        self.is_long = min(most, len(pending)) > _MANY
        self._names = {number: group.by_number[number].name for number in pending.per_owner if number != NOBODY}
        self._names[NOBODY] = b""
        if self.is_long:
            self._blocks = pending.snapshot(0, ids.MAX_ID, len(pending))
        else:
            self._blocks = [block for block, _, _ in pending.blocks(0, ids.MAX_ID)]
        #: Owner -> its rows; empty if rows are built in pages.
        self._rows: dict[int, list[Reply]] = {}
        #: Owner -> blocks, each with the number of the owner's records to show; empty if rows are built at once.
        self._blocks_of: dict[int, list[tuple[Block, int]]] = {}
        self._left = {owner: min(most, records) for owner, records in pending.per_owner.items() if owner != NOBODY}
        self._all: list[Reply] = []
        if not self.is_long:
            self._all = self._first()
            for _ in self.find():
                pass
            self._blocks = []

    def _first(self) -> list[Reply]:
        left, rows = self._most, list[Reply]()
        for block in self._blocks:
            if left <= 0:
                break
            rows += [self._row(block, index) for index in range(min(left, len(block)))]
            left = self._most - len(rows)
        return rows

    def find(self) -> Iterator[None]:
        """Find the first records of each consumer."""
        for number, block in enumerate(self._blocks):
            if not self._left:
                return
            self._find_in(block)
            if not number % _BLOCKS_PER_STEP:
                yield

    def _find_in(self, block: Block) -> None:
        left = self._left
        for owner, records in block.tally(0, len(block)).items():
            wanted = min(left.get(owner, 0), records)
            if not wanted:
                continue
            if self.is_long:
                self._blocks_of.setdefault(owner, []).append((block, wanted))
            else:
                indices = block.matching(owner, None)[:wanted]
                self._rows.setdefault(owner, []).extend(_short_row(block, index) for index in indices)
            left[owner] -= wanted
            if not left[owner]:
                del left[owner]

    def of_all(self) -> Reply:
        """Return the rows of the group: ID, consumer, time and count of the last delivery."""
        if not self.is_long:
            return self._all
        size = sum(map(len, self._blocks))
        records = ((block, index) for block in self._blocks for index in range(len(block)))
        return rows_in_pages(min(size, self._most), records, self._row)

    def _row(self, block: Block, index: int) -> Reply:
        name = self._names[block.owner_at(index)]
        return [ids.text(block.id_at(index)), name, block.time_at(index), block.count_at(index)]

    def of(self, consumer: Consumer) -> Reply:
        """Return the rows of a consumer: ID, time and count of the last delivery."""
        if not self.is_long:
            return self._rows.get(consumer.number, [])
        owner, blocks = consumer.number, self._blocks_of.get(consumer.number, [])
        size = sum(wanted for _, wanted in blocks)
        records = ((block, index) for block, wanted in blocks for index in block.matching(owner, None)[:wanted])
        return rows_in_pages(size, records, _short_row)


def _short_row(block: Block, index: int) -> Reply:
    return [ids.text(block.id_at(index)), block.time_at(index), block.count_at(index)]
