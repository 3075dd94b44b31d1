"""XREADGROUP with an ID instead of ``>``: the consumer's own pending entries are delivered again.

Records that were delivered together are usually adjacent, and so are their entries. Such a stretch of records is
delivered again at once. The remaining records are processed one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator

from engine.core.commands.streams.groups.effects import ClaimEffects, see_consumer
from engine.core.commands.streams.groups.read_arguments import Budget
from engine.core.commands.streams.lookups import GroupRef
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import I64_MAX
from engine.core.protocol.replies import NIL_ARRAY, Array, Frames, Pages, Raw, Reply, Several, held_by
from engine.core.streams.group import Consumer
from engine.core.streams.pending import Block
from engine.core.streams.runs import BodyRun, Run, id_columns, size_in_memory
from engine.core.streams.stream import Stream

#: Fewer adjacent records than this number are processed one by one.
_STRETCH = 8
#: Units of work per entry if entries are delivered together.
_OF_A_RANGE = 0.1
#: Units of work per block of the pending entries list.
_OF_A_BLOCK = 2.0


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
    """A read, in steps, of the entries of one stream that are pending for a consumer.

    ``find`` returns the group, or raises the command's error if the group does not exist.
    """

    def __init__(self, ctx: Context, find: Callable[[], GroupRef], consumer: bytes, budget: Budget) -> None:
        self._ctx, self._find, self._consumer, self._budget = ctx, find, consumer, budget
        #: Number of entries in the reply so far, including deleted ones.
        self._count = 0
        #: The parts of the reply: stretches (count, runs), single entries, and IDs of deleted entries.
        self._given: list[tuple[int, list[BodyRun]] | Reply] = []

    def size(self) -> int:
        """Return the maximum number of entries that the reply can have."""
        group = self._find().group
        consumer = group.consumers.get(self._consumer)
        pending = 0 if consumer is None else group.pending_of(consumer)
        return min(pending, self._budget.limit() or pending)

    def read(self, after: int) -> Generator[None, None, Reply]:
        """Return the consumer's entries after ``after``, within the budget.

        Set the delivery times and increment the delivery counts of those that are not deleted. Records that another
        command inserts after the last one while the steps run are left out.
        """
        pending, limit = self._find().group.pending, self._budget.limit()
        last = pending.last_id if len(pending) else 0
        cursor = self._step(after + 1, last, limit)
        while cursor is not None:
            yield
            cursor = self._step(cursor, last, limit)
        return self._reply()

    def _step(self, cursor: int, last: int, limit: int) -> int | None:
        """Deliver the entries from ``cursor`` to ``last`` again until the step's work is done.

        Return the ID from which the next step continues, None after the last step.
        """
        ref = self._find()
        consumer = see_consumer(self._ctx, ref, self._consumer)
        effects, left, work = ClaimEffects(self._ctx, ref, consumer.name), ref.group.pending_of(consumer), pace.WORK
        try:
            # Counting a delivery changes only the record's values, not the list being iterated.
            for block, begin, end in ref.group.pending.blocks(cursor, last):
                if not left:
                    return None
                if work <= 0:
                    return block.id_at(begin)
                work -= _OF_A_BLOCK
                for low, high in _stretches(block, begin, end, consumer.number):
                    left -= high - low
                    high = min(high, low + limit - self._count) if limit else high
                    if self._deliver_range(ref, consumer, effects, block, low, high):
                        work -= (high - low) * _OF_A_RANGE
                    else:
                        for index in range(low, high):
                            if self._count and self._budget.spent:
                                return None
                            if work <= 0:
                                return block.id_at(index)
                            self._budget.charge(self._deliver_one(ref, consumer, effects, block, index))
                            work -= 1
                    if limit and self._count >= limit:
                        return None
        finally:
            # If an entry cannot be read, still record the deliveries before this entry.
            effects.flush()
        return None

    def _deliver_range(
        self, ref: GroupRef, consumer: Consumer, effects: ClaimEffects, block: Block, low: int, high: int
    ) -> bool:
        """Deliver the records [low, high) again at once; return False, with no change, if that is not possible."""
        budget, now = self._budget, self._ctx.now
        runs = runs_of(ref.stream, block, low, high) if high - low >= _STRETCH and not budget.maxsize else []
        if not runs:
            return False
        counts = delivered_again(block, low, high, 1)
        ref.group.pending.assign(block, low, high, consumer.number, now, counts)
        if self._ctx.changes.recording:
            for entry_id, count in zip(block.ids(low, high), counts, strict=True):
                effects.add(entry_id, now, count)
        self._given.append((high - low, [(segment.body, first, last) for segment, first, last in runs]))
        self._count += high - low
        if budget.left is not None:
            budget.left -= high - low
        return True

    def _deliver_one(self, ref: GroupRef, consumer: Consumer, effects: ClaimEffects, block: Block, index: int) -> int:
        """Deliver the entry of one record again; return the entry's size in bytes.

        If the entry was deleted, add its ID to the reply without a delivery, and return 0.
        """
        entry_id = block.id_at(index)
        entry = ref.stream.frame(entry_id)
        self._count += 1
        if entry is None:
            self._given.append([ids.text(entry_id), NIL_ARRAY])
            return 0
        self._given.append(Raw(entry))
        count = min(block.count_at(index) + 1, I64_MAX)
        ref.group.assign((block, index), consumer, self._ctx.now, count)
        effects.add(entry_id, self._ctx.now, count)
        return len(entry)

    def _reply(self) -> Reply:
        if self._count > pace.MANY_ENTRIES:
            bodies = (run[0] for part in self._given if type(part) is tuple for run in part[1])
            return Pages(list, self._count, self._pages(), size_in_memory(bodies) + held_by(self._given))
        parts = list(map(_shown, self._given))
        if any(type(part) is list for part in parts):
            return Array(parts)
        every = [part.parts if type(part) is Several else (part,) for part in parts]
        return Frames(self._count, [view for views in every for view in views])

    def _pages(self) -> Iterator[list[Reply]]:
        page: list[Reply] = []
        stretches = 0
        for part in self._given:
            page.append(_shown(part))
            stretches += type(part) is tuple
            if stretches == pace.PAGE_STRETCHES or len(page) == pace.PAGE_ROWS:
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
