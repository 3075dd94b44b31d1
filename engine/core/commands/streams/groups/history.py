"""XREADGROUP with an ID instead of ``>``: the consumer's own pending entries are delivered again.

Records that were delivered together are usually adjacent, and so are their entries. These stretches of records are
counted and returned together. The remaining entries are processed one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from engine.core.commands.streams.groups.effects import ClaimEffects
from engine.core.commands.streams.groups.read_arguments import Budget
from engine.core.commands.streams.lookups import GroupRef
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import I64_MAX
from engine.core.protocol.replies import NIL_ARRAY, Array, Frames, Pages, Raw, Reply, Several
from engine.core.streams.group import Consumer
from engine.core.streams.pending_block import Block
from engine.core.streams.runs import BodyRun, Run, id_columns
from engine.core.streams.stream import Stream

#: Number of records below which they are processed one by one.
_STRETCH = 8
#: Number of entries above which the reply is paged.
_MANY = 20_000
#: Maximum number of stretches of a page.
_PAGE_STRETCHES = 4
#: Maximum number of stretches, single entries and IDs of deleted entries of a page, in total.
_PAGE = 500


def runs_of(stream: Stream, block: Block, low: int, high: int) -> list[Run]:
    """Return the entries of the records [low, high) if all exist and are adjacent; otherwise an empty list."""
    count = high - low
    runs = stream.first_runs(block.id_at(low), block.id_at(high - 1), count + 1)
    ms, seq = id_columns(runs)
    return runs if len(ms) == count and ms == block.ms[low:high] and seq == block.seq[low:high] else []


def delivered_again(block: Block, low: int, high: int, more: int) -> array[int]:
    """Return the delivery counts of the records [low, high), each increased by ``more``."""
    if block.owners is None:
        return array("q", [min(block.count + more, I64_MAX)]) * (high - low)
    return array("q", [min(before + more, I64_MAX) for before in block.counts[low:high]])


class History:
    """A read in progress of the consumer's pending entries of one stream."""

    def __init__(self, ctx: Context, ref: GroupRef, consumer: Consumer) -> None:
        self._ctx, self._stream, self._group, self._consumer = ctx, ref.stream, ref.group, consumer
        self._effects = ClaimEffects(ctx, ref, consumer.name)
        #: Number of entries in the reply so far, including deleted ones.
        self._count = 0
        #: The parts of the reply: stretches (count, runs), single entries, and IDs of deleted entries.
        self._given: list[tuple[int, list[BodyRun]] | Reply] = []

    def read(self, after: int, budget: Budget) -> Reply:
        """Return the consumer's pending entries after ``after``, within ``budget``.

        Set the delivery times and increment the delivery counts of those that are not deleted.
        """
        if after != ids.MAX_ID:
            try:
                self._deliver(after, budget)
            finally:
                # If an entry cannot be read, the deliveries before it still count.
                self._effects.flush()
        return self._reply()

    def _deliver(self, after: int, budget: Budget) -> None:
        limit, owner, pending = budget.limit(), self._consumer.number, self._group.pending
        left = pending.per_owner.get(owner, 0)
        # Counting a delivery changes only the record's values, not the list being iterated.
        for block, begin, end in pending.blocks(after + 1, ids.MAX_ID):
            if not left:
                return
            for low, high in _stretches(block, begin, end, owner):
                left -= high - low
                high = min(high, low + limit - self._count) if limit else high
                if not budget.maxsize and self._deliver_range(block, low, high):
                    if budget.left is not None:
                        budget.left -= high - low
                else:
                    for index in range(low, high):
                        if self._count and budget.spent:
                            return
                        budget.charge(self._deliver_one(block, index))
                if limit and self._count >= limit:
                    return

    def _deliver_range(self, block: Block, low: int, high: int) -> bool:
        runs = runs_of(self._stream, block, low, high) if high - low >= _STRETCH else []
        if not runs:
            return False
        counts = delivered_again(block, low, high, 1)
        self._group.pending.assign(block, low, high, self._consumer.number, self._ctx.now, counts)
        if self._ctx.changes.recording:
            for ms, seq, count in zip(block.ms[low:high], block.seq[low:high], counts, strict=True):
                self._effects.add(ms << 64 | seq, self._ctx.now, count)
        self._given.append((high - low, [(segment.body, first, last) for segment, first, last in runs]))
        self._count += high - low
        return True

    def _deliver_one(self, block: Block, index: int) -> int:
        """Add one record's entry to the reply; return its size in bytes."""
        entry_id = block.id_at(index)
        entry = self._stream.frame(entry_id)
        self._count += 1
        if entry is None:
            self._given.append([ids.text(entry_id), NIL_ARRAY])
            return 0
        self._given.append(Raw(entry))
        count = min(block.count_at(index) + 1, I64_MAX)
        self._group.assign((block, index), self._consumer, self._ctx.now, count)
        self._effects.add(entry_id, self._ctx.now, count)
        return len(entry)

    def _reply(self) -> Reply:
        if self._count > _MANY:
            return Pages(list, self._count, self._pages())
        parts = list(map(_shown, self._given))
        if any(type(part) is list for part in parts):
            return Array(parts)
        every = [part.parts if type(part) is Several else (part,) for part in parts]
        return Frames(self._count, [view for views in every for view in views])

    def _pages(self) -> Iterator[list[Reply]]:
        page: list[Reply] = []
        stretches = 0
        for one in self._given:
            page.append(_shown(one))
            stretches += type(one) is tuple
            if stretches == _PAGE_STRETCHES or len(page) == _PAGE:
                yield page
                page, stretches = [], 0
        yield page


def _shown(given: tuple[int, list[BodyRun]] | Reply) -> Reply:
    if type(given) is not tuple:
        return given
    count, runs = given
    return Several(count, [view for body, first, last in runs for view in body.views(first, last)])


def _stretches(block: Block, begin: int, end: int, owner: int) -> Iterator[tuple[int, int]]:
    """Yield the records of ``owner`` in [begin, end) as stretches [i, j) of adjacent records."""
    if block.owners is None:
        if block.owner == owner:
            yield begin, end
        return
    low = high = begin
    for index in block.matching(owner, None):
        if not begin <= index < end:
            continue
        if index != high:
            if low < high:
                yield low, high
            low = index
        high = index + 1
    if low < high:
        yield low, high
