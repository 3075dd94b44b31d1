"""The pending entries list of a consumer group: for each entry its consumer, delivery time and delivery count.

Records are stored in ID order in *blocks* of about ``BLOCK`` records at most (`Block`), each with an array per value.
A record takes 36 bytes. Finding a record takes two binary searches. A range is removed block by block.

Consumers are represented by numbers; ``engine.core.streams.group.Consumer`` has the names. ``NOBODY`` owns the records
released by XNACK. ``PendingList.per_owner`` has the number of records of each owner.

Copies are copy-on-write: both blocks share their arrays until one of them changes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from engine.core.protocol import pace
from engine.core.protocol.ids import MAX_ID, U64_MAX, columns, position

#: ``matches`` returns 0 instead of comparing this many records or fewer.
_SHORT_MATCH = 4


class Block:
    """Records in ID order: milliseconds and sequence numbers of the IDs, owners, times (milliseconds) and counts."""

    __slots__ = ("counts", "is_shared", "ms", "oldest", "owners", "seq", "times")

    def __init__(
        self, ms: array[int], seq: array[int], owners: array[int], times: array[int], counts: array[int]
    ) -> None:
        self.ms, self.seq = ms, seq
        self.owners, self.times, self.counts = owners, times, counts
        #: A lower bound of the delivery times; ``tighten`` makes it exact.
        self.oldest = 0
        #: Whether another block may share the arrays. If so, they are copied before a change.
        self.is_shared = False

    @classmethod
    def of(cls, ms: array[int], seq: array[int], owner: int, time: int, count: int) -> Block:
        """Return records that all have the same owner, time and count."""
        size = len(ms)
        block = cls(ms, seq, array("I", (owner,)) * size, array("q", (time,)) * size, array("q", (count,)) * size)
        block.oldest = time
        return block

    def __len__(self) -> int:
        return len(self.ms)

    def id_at(self, index: int) -> int:
        """Return the ID of a record."""
        return self.ms[index] << 64 | self.seq[index]

    def ids(self, low: int, high: int) -> list[int]:
        """Return the IDs of the records [low, high)."""
        return [ms << 64 | seq for ms, seq in zip(self.ms[low:high], self.seq[low:high], strict=True)]

    def position(self, entry_id: int) -> int:
        """Return the index of the first record whose ID is not below ``entry_id``."""
        return position(self.ms, self.seq, entry_id)

    def matches(self, index: int, ms: array[int], seq: array[int], at: int) -> int:
        """Count records, starting at ``index``, whose IDs equal those in the columns starting at ``at``.

        More records than this number may match: the method compares as many records as both have, then half as many,
        and so on, and returns the size of the first comparison that succeeds.
        """
        count = min(len(self.ms) - index, len(ms) - at)
        while count > _SHORT_MATCH:
            end = index + count
            if self.ms[index:end] == ms[at : at + count] and self.seq[index:end] == seq[at : at + count]:
                return count
            count //= 2
        return 0

    def assign(self, low: int, high: int, owner: int, time: int, counts: array[int]) -> None:
        """Set the owner, time and counts of the records [low, high)."""
        self._unshare()
        size = high - low
        self.owners[low:high] = array("I", (owner,)) * size
        self.times[low:high] = array("q", (time,)) * size
        self.counts[low:high] = counts
        self.oldest = min(self.oldest, time)

    def insert(self, index: int, entry_id: int, owner: int, time: int, count: int) -> None:
        """Insert a record at ``index``."""
        self._unshare()
        self.ms.insert(index, entry_id >> 64)
        self.seq.insert(index, entry_id & U64_MAX)
        self.owners.insert(index, owner)
        self.times.insert(index, time)
        self.counts.insert(index, count)
        self.oldest = min(self.oldest, time)

    def extend(self, ms: array[int], seq: array[int], owner: int, time: int, count: int) -> None:
        """Append records that all have the same owner, time and count."""
        self._unshare()
        size = len(ms)
        self.ms += ms
        self.seq += seq
        self.owners += array("I", (owner,)) * size
        self.times += array("q", (time,)) * size
        self.counts += array("q", (count,)) * size
        self.oldest = min(self.oldest, time)

    def matching(self, owner: int | None, before: int | None) -> Sequence[int]:
        """Return the indices of the records of ``owner`` (None: of all owners), filtered by time.

        ``before``: the latest delivery time (None: any time).
        """
        if owner is None and before is None:
            return range(len(self.ms))
        found: list[int] = np.flatnonzero(self._matches(owner, before)).tolist()
        return found

    def count_matching(self, owner: int | None, before: int | None) -> int:
        """Return the number of records that ``matching`` finds."""
        if owner is None and before is None:
            return len(self.ms)
        return int(np.count_nonzero(self._matches(owner, before)))

    def _matches(self, owner: int | None, before: int | None) -> npt.NDArray[np.bool_]:
        owned = np.True_ if owner is None else np.frombuffer(self.owners, np.uint32) == owner
        delivered = np.True_ if before is None else np.frombuffer(self.times, np.int64) <= before
        return np.logical_and(owned, delivered)

    def tighten(self) -> None:
        """Make ``oldest`` exact."""
        self.oldest = int(np.frombuffer(self.times, np.int64).min())

    def earliest_time(self, after: int) -> int | None:
        """Return the earliest delivery time later than ``after``; None if there is no such record."""
        return min((time for time in self.times if time > after), default=None)

    def remove(self, low: int, high: int) -> None:
        """Remove the records [low, high)."""
        self._unshare()
        del self.ms[low:high], self.seq[low:high], self.owners[low:high], self.times[low:high], self.counts[low:high]

    def remove_ids(self, pairs: set[tuple[int, int]]) -> dict[int, int]:
        """Remove the records of these (milliseconds, sequence) pairs; return the number removed per owner."""
        stays = np.array([pair not in pairs for pair in zip(self.ms, self.seq, strict=True)])
        owners = Counter(_filtered(self.owners, ~stays))
        self._keep(stays)
        return owners

    def remove_owner(self, owner: int) -> None:
        """Remove all records of ``owner``."""
        stays = np.frombuffer(self.owners, np.uint32) != owner
        if not stays.all():
            self._keep(stays)

    def _keep(self, stays: npt.NDArray[np.bool_]) -> None:
        """Keep only the records for which ``stays`` is true."""
        self.ms, self.seq = _filtered(self.ms, stays), _filtered(self.seq, stays)
        self.owners, self.times, self.counts = (
            _filtered(column, stays) for column in (self.owners, self.times, self.counts)
        )
        self.is_shared = False

    def shared_copy(self) -> Block:
        """Return a copy-on-write copy."""
        other = Block(self.ms, self.seq, self.owners, self.times, self.counts)
        other.oldest = self.oldest
        self.is_shared = other.is_shared = True
        return other

    def _unshare(self) -> None:
        """Replace shared arrays with copies, which can be changed."""
        if self.is_shared:
            self.ms, self.seq = self.ms[:], self.seq[:]
            self.owners, self.times, self.counts = self.owners[:], self.times[:], self.counts[:]
            self.is_shared = False

    def tail(self, index: int, end: int | None = None) -> Block:
        """Return a copy of the records from ``index`` to ``end`` (default: all the rest) as a block."""
        part = slice(index, end)
        other = Block(self.ms[part], self.seq[part], self.owners[part], self.times[part], self.counts[part])
        other.oldest = self.oldest
        return other

    def tally(self, low: int, high: int) -> dict[int, int]:
        """Return the number of records in [low, high) by owner."""
        owners = self.owners[low:high]
        if owners and owners == owners[:1] * len(owners):
            # Most ranges have one owner, and arrays are compared fast.
            return {owners[0]: len(owners)}
        return Counter(owners)


def _filtered(column: array[int], stays: npt.NDArray[np.bool_]) -> array[int]:
    """Return the elements of a column for which ``stays`` is true."""
    return array(column.typecode, np.frombuffer(column, column.typecode)[stays].tobytes())


#: Maximum number of records of a block after an append. Insertions split a block at twice this number.
BLOCK = 1024
#: ``remove_many`` removes fewer records of a block than this one by one, unless they are adjacent.
_MANY = 32
#: The owner of records without a consumer.
NOBODY = 0

Record = tuple[Block, int]


class PendingList:
    """All pending records of a group, in ID order."""

    __slots__ = ("_blocks", "_firsts", "_size", "first_removed", "per_owner")

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        #: For each block, a lower bound of its first ID. It is not updated when the first records are removed.
        self._firsts: list[int] = []
        self._size = 0
        #: The smallest ID of a record that was removed since ``engine.core.streams.trimming`` reset this attribute.
        self.first_removed = MAX_ID
        #: Owner -> number of records; owners without records are left out.
        self.per_owner: dict[int, int] = {}

    def __len__(self) -> int:
        return self._size

    def append_block(self, block: Block) -> None:
        """Append a block. Its IDs must be greater than all IDs in the list."""
        self._blocks.append(block)
        self._firsts.append(block.id_at(0))
        self._size += len(block)
        for owner, count in block.tally(0, len(block)).items():
            self.per_owner[owner] = self.per_owner.get(owner, 0) + count

    def _count(self, owner: int, change: int) -> None:
        left = self.per_owner.get(owner, 0) + change
        if left:
            self.per_owner[owner] = left
        else:
            self.per_owner.pop(owner, None)

    # -- look-ups ---------------------------------------------------------------------------------------------------

    def _block_for(self, entry_id: int) -> int:
        return max(bisect_right(self._firsts, entry_id) - 1, 0)

    def find(self, entry_id: int) -> Record | None:
        """Return the record of an ID, None if there is no such record."""
        if not self._size:
            return None
        block = self._blocks[self._block_for(entry_id)]
        index = block.position(entry_id)
        if index < len(block) and block.id_at(index) == entry_id:
            return block, index
        return None

    def __contains__(self, entry_id: int) -> bool:
        return self.find(entry_id) is not None

    def missing(self, entry_ids: list[int]) -> list[int]:
        """Return those of these IDs, which are ascending, that have no record."""
        if not self._size or not entry_ids or entry_ids[-1] < self.first_id or entry_ids[0] > self.last_id:
            return entry_ids
        found: list[int] = []
        at = 0
        while at < len(entry_ids):
            number = self._block_for(entry_ids[at])
            block = self._blocks[number]
            behind = self._firsts[number + 1] if number + 1 < len(self._firsts) else MAX_ID + 1
            end = bisect_left(entry_ids, behind, at)
            if end - at < _MANY:
                found += [entry_id for entry_id in entry_ids[at:end] if self.find(entry_id) is None]
            else:
                held = set(block.ids(0, len(block)))
                found += [entry_id for entry_id in entry_ids[at:end] if entry_id not in held]
            at = end
        return found

    @property
    def first_id(self) -> int:
        """The smallest pending ID. The list must not be empty."""
        return self._blocks[0].id_at(0)

    @property
    def last_id(self) -> int:
        """The greatest pending ID. The list must not be empty."""
        return self._blocks[-1].id_at(-1)

    def blocks(self, low: int, high: int) -> Iterator[tuple[Block, int, int]]:
        """Yield the records with low <= ID <= high as (block, i, j), in order. The list must not change meanwhile."""
        blocks, firsts = self._blocks, self._firsts
        first, last = self._block_for(low), len(blocks) - 1
        for number in range(first, last + 1):
            block = blocks[number]
            if firsts[number] > high:
                return
            # Only the first and the last block of the range are searched.
            begin = block.position(low) if number == first else 0
            end = len(block)
            if (number == last or firsts[number + 1] > high) and block.id_at(-1) > high:
                end = block.position(high + 1)
            if begin < end:
                yield block, begin, end

    def snapshot(
        self, low: int, high: int, most: int, owner: int | None = None, before: int | None = None
    ) -> tuple[list[Block], int]:
        """Return copies of the blocks with the first ``most`` records that match, and the number of these records in
        the copies, which may be greater than ``most``.

        Records match if low <= ID <= high, and if they belong to ``owner`` and were delivered at ``before`` or earlier
        (None: all records).
        """
        found, size = list[Block](), 0
        for block, begin, end in self.blocks(low, high):
            part = block if end - begin == len(block) else block.tail(begin, end)
            matching = part.count_matching(owner, before)
            if matching:
                found.append(part.shared_copy() if part is block else part)
                size += matching
            if size >= most:
                break
        return found, size

    def records(self, low: int, high: int, owner: int | None = None) -> Iterator[Record]:
        """Yield the records with low <= ID <= high in order, of one owner or of all.

        The list must not change during the iteration.
        """
        left = self.per_owner.get(owner, 0) if owner is not None else self._size
        for block, begin, end in self.blocks(low, high):
            if not left:
                return
            for index in range(begin, end) if owner is None else block.matching(owner, None):
                if begin <= index < end:
                    left -= 1
                    yield block, index

    def oldest(self, before: int) -> Iterator[int]:
        """Yield the IDs of owned records delivered at ``before`` or earlier, ordered by time, then by ID.

        Records can be changed during the iteration, but none may be added or removed.
        """
        blocks = [block for block in self._blocks if block.oldest <= before]
        blocks.sort(key=lambda block: block.oldest)
        heap: list[tuple[int, int]] = []
        for number, block in enumerate(blocks):
            block.tighten()
            for index in range(len(block)):
                time = block.times[index]
                if time <= before and block.owners[index] != NOBODY:
                    heappush(heap, (time, block.id_at(index)))
            behind = blocks[number + 1] if number + 1 < len(blocks) else None
            while heap and (behind is None or heap[0] < (behind.oldest, behind.id_at(0))):
                yield heappop(heap)[1]

    def oldest_time(self, after: int) -> int | None:
        """Return the earliest delivery time later than ``after``; None if there is no such record."""
        found: int | None = None
        for block in self._blocks:
            if found is not None and block.oldest >= found:
                continue
            block.tighten()
            time = block.oldest if block.oldest > after else block.earliest_time(after)
            if time is not None and (found is None or time < found):
                found = time
        return found

    # -- changes ----------------------------------------------------------------------------------------------------

    def deliver(self, ms: array[int], seq: array[int], owner: int, time: int) -> None:
        """Add records of ``owner`` (IDs ascending) with a delivery count of 1. Existing records are replaced."""
        low, size = ms[0] << 64 | seq[0], len(ms)
        if self._size and low <= self._blocks[-1].id_at(-1):
            high = ms[-1] << 64 | seq[-1]
            if any(True for _ in self.blocks(low, high)):
                for one_ms, one_seq in zip(ms, seq, strict=True):
                    self.put(one_ms << 64 | one_seq, owner, time, 1)
                return
            number = self._block_for(low)
            if low > self._blocks[number].id_at(0):
                # Records exist on both sides: split the block and insert between its halves.
                self._split_block(number, self._blocks[number].position(low))
                number += 1
            self._insert_blocks(number, ms, seq, owner, time)
        elif self._blocks and len(self._blocks[-1].ms) + size <= BLOCK:
            self._blocks[-1].extend(ms, seq, owner, time, 1)
        else:
            self._insert_blocks(len(self._blocks), ms, seq, owner, time)
        self._size += size
        self.per_owner[owner] = self.per_owner.get(owner, 0) + size

    def _insert_blocks(self, number: int, ms: array[int], seq: array[int], owner: int, time: int) -> None:
        if number < len(self._blocks):
            # Make the next block's lower bound exact: it may be a removed ID that is below some of the new IDs.
            self._firsts[number] = self._blocks[number].id_at(0)
        parts = (slice(at, at + BLOCK) for at in range(0, len(ms), BLOCK))
        blocks = [Block.of(ms[part], seq[part], owner, time, 1) for part in parts]
        self._blocks[number:number] = blocks
        self._firsts[number:number] = [block.id_at(0) for block in blocks]

    def _split_block(self, number: int, index: int) -> None:
        block = self._blocks[number]
        if 0 < index < len(block):
            rest = block.tail(index)
            block.remove(index, len(block))
            self._blocks.insert(number + 1, rest)
            self._firsts.insert(number + 1, rest.id_at(0))

    def put(self, entry_id: int, owner: int, time: int, count: int) -> None:
        """Add a record, or update the record of this ID."""
        record = self.find(entry_id)
        if record is not None:
            self.change(record, owner, time, count)
            return
        self._size += 1
        self._count(owner, 1)
        if not self._blocks:
            ms, seq = array("Q", [entry_id >> 64]), array("Q", [entry_id & U64_MAX])
            self._blocks.append(Block.of(ms, seq, owner, time, count))
            self._firsts.append(entry_id)
            return
        number = self._block_for(entry_id)
        block = self._blocks[number]
        block.insert(block.position(entry_id), entry_id, owner, time, count)
        self._firsts[number] = min(self._firsts[number], entry_id)
        if len(block) >= 2 * BLOCK:
            self._split_block(number, BLOCK)

    def change(self, record: Record, owner: int, time: int, count: int) -> None:
        """Set a record's owner, delivery time and delivery count."""
        block, index = record
        before = block.owners[index]
        if before != owner:
            self._count(before, -1)
            self._count(owner, 1)
        block.assign(index, index + 1, owner, time, array("q", (count,)))

    def remove(self, entry_id: int) -> bool:
        """Remove one record; return whether it existed."""
        if not self._size:
            return False
        number = self._block_for(entry_id)
        block = self._blocks[number]
        index = block.position(entry_id)
        if index == len(block) or block.id_at(index) != entry_id:
            return False
        self._count(block.owners[index], -1)
        self._size -= 1
        if entry_id < self.first_removed:  # noqa: PLR1730 - a call would cost more, for every XACK
            self.first_removed = entry_id
        block.remove(index, index + 1)
        if not len(block):
            del self._blocks[number], self._firsts[number]
        return True

    def remove_many(self, entry_ids: list[int]) -> int:
        """Remove the records of these IDs, in any order; return how many existed.

        Adjacent records are removed together, and a block that loses many records is rebuilt.
        """
        if not self._size or not entry_ids:
            return 0
        entry_ids = sorted(entry_ids)
        self.first_removed = min(self.first_removed, entry_ids[0])
        ms, seq = columns(entry_ids)
        at = removed = 0
        while at < len(entry_ids) and self._size:
            number = self._block_for(entry_ids[at])
            block = self._blocks[number]
            behind = self._firsts[number + 1] if number + 1 < len(self._firsts) else MAX_ID + 1
            end = bisect_left(entry_ids, behind, at)
            index = block.position(entry_ids[at])
            count = block.matches(index, ms, seq, at)
            if count:
                owners = block.tally(index, index + count)
                block.remove(index, index + count)
                at += count
            elif end - at >= _MANY:
                owners = block.remove_ids(set(zip(ms[at:end], seq[at:end], strict=True)))
                at = end
            else:
                removed += self.remove(entry_ids[at])
                at += 1
                continue
            for owner, records in owners.items():
                self._count(owner, -records)
                self._size -= records
                removed += records
            if not len(block):
                del self._blocks[number], self._firsts[number]
        return removed

    def assign(self, block: Block, low: int, high: int, owner: int, time: int, counts: array[int]) -> None:
        """Set the owner, time and counts of the records [low, high) of a block."""
        for before, records in block.tally(low, high).items():
            self._count(before, -records)
        self._count(owner, high - low)
        block.assign(low, high, owner, time, counts)

    def remove_range(self, low: int, high: int) -> int:
        """Remove all records with low <= ID <= high; return how many there were."""
        if low > high:
            return 0
        self.first_removed = min(self.first_removed, low)
        first, removed = self._block_for(low), 0
        number = first
        while number < len(self._blocks) and self._firsts[number] <= high:
            block = self._blocks[number]
            begin = block.position(low)
            end = len(block) if block.id_at(-1) <= high else block.position(high + 1)
            for owner, count in block.tally(begin, end).items():
                self._count(owner, -count)
            removed += end - begin
            block.remove(begin, end)
            number += 1
        remaining = [at for at in range(first, number) if len(self._blocks[at])]
        self._blocks[first:number] = [self._blocks[at] for at in remaining]
        self._firsts[first:number] = [self._firsts[at] for at in remaining]
        self._size -= removed
        return removed

    def remove_owner(self, owner: int) -> Generator[None, None, int]:
        """Remove all records of ``owner`` in steps; return how many there were. Until the end, the list is unusable."""
        removed = self.per_owner.get(owner, 0)
        if not removed:
            return 0
        for number, block in enumerate(self._blocks, 1):
            block.remove_owner(owner)
            if not number % pace.BLOCKS:
                yield
        self.first_removed = 0
        left = [number for number, block in enumerate(self._blocks) if len(block)]
        self._blocks, self._firsts = [self._blocks[at] for at in left], [self._firsts[at] for at in left]
        self._size -= self.per_owner.pop(owner)
        return removed

    def copy(self) -> PendingList:
        """Return an independent copy."""
        other = PendingList()
        other._blocks = [block.shared_copy() for block in self._blocks]
        other._firsts = self._firsts[:]
        other._size = self._size
        other.first_removed = self.first_removed
        other.per_owner = dict(self.per_owner)
        return other
