"""A consumer group: its position in the stream, its consumers, and its pending entries list.

A group has no reference to its stream: the stream's counters are arguments of the methods that need them. Times are
arguments, too, in milliseconds since the epoch.

A group's entries-read counter and its lag are derived from the stream's counters, without counting entries. Both are
exact if there is no *tombstone* (a deleted entry) after the group's position. A number that cannot be derived is
``UNKNOWN`` for entries-read, and None for the lag. The rules are those of Redis, because clients see both numbers in
XINFO.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Generator
from typing import Protocol

from engine.core.protocol.ids import MAX_ID
from engine.core.streams.pending import NOBODY, PendingList, Record

#: Value of entries-read if it is unknown.
UNKNOWN = -1
#: Maximum value of a counter that clients, logs and snapshots accept.
MOST = (1 << 63) - 1


class Counters(Protocol):
    """A stream's counters and IDs (``engine.core.streams.stream.Stream`` describes them)."""

    length: int
    last_id: int
    max_deleted_id: int
    entries_added: int

    @property
    def first_id(self) -> int:
        """The ID of the first live entry, 0 if the stream is empty."""


def shown(count: int) -> int:
    """Clamp a counter for replies and files. Only a counter set by XSETID can exceed the maximum."""
    return min(count, MOST)


def has_tombstone_from(stream: Counters, entry_id: int) -> bool:
    """Return whether an entry at or after ``entry_id`` may have been deleted."""
    return stream.length > 0 and stream.max_deleted_id > 0 and entry_id <= stream.max_deleted_id


def estimate_read(stream: Counters, entry_id: int) -> int:
    """Estimate how many entries had been added up to and including ``entry_id``; UNKNOWN if this cannot be derived."""
    if not stream.entries_added:
        return 0
    if not stream.length and entry_id <= stream.last_id:
        return stream.entries_added
    if entry_id and entry_id < stream.max_deleted_id:
        return UNKNOWN
    if entry_id == stream.last_id:
        return stream.entries_added
    if entry_id > stream.last_id:
        return UNKNOWN
    first_id = stream.first_id
    if not stream.max_deleted_id or stream.max_deleted_id < first_id:
        if entry_id < first_id:
            return stream.entries_added - stream.length
        if entry_id == first_id:
            return stream.entries_added - stream.length + 1
    return UNKNOWN


def read_after_delivery(stream: Counters, last_id: int, entries_read: int, first: int, last: int, count: int) -> int:
    """Return entries-read after a group at ``last_id`` received ``count`` entries with the IDs ``first`` to ``last``.

    The result is the same as if the entries were delivered one by one. Each delivery adds one if the counter is known
    and there is no tombstone after the position; otherwise the counter is estimated.
    """
    if entries_read != UNKNOWN and last_id >= stream.first_id and not has_tombstone_from(stream, last_id):
        entries_read += 1
    else:
        entries_read = estimate_read(stream, first)
    if count == 1:
        return entries_read
    if entries_read != UNKNOWN and not has_tombstone_from(stream, first):
        return entries_read + count - 1
    # Estimates exist only for a stream's first and last entry, not for entries in between.
    return estimate_read(stream, last)


def lag(stream: Counters, last_id: int, entries_read: int) -> int | None:
    """Return the number of entries not yet delivered to a group at ``last_id``; None if unknown."""
    if not stream.entries_added or not stream.length:
        return 0
    first_id = stream.first_id
    if last_id < first_id and stream.max_deleted_id < first_id:
        return stream.length
    if entries_read != UNKNOWN and not has_tombstone_from(stream, last_id):
        return stream.entries_added - entries_read
    read = estimate_read(stream, last_id)
    return None if read == UNKNOWN else stream.entries_added - read


class Consumer:
    """A consumer. Times are in milliseconds since the epoch; ``active_time`` is -1 before the first delivery."""

    __slots__ = ("active_time", "name", "number", "seen_time")

    def __init__(self, name: bytes, number: int, seen_time: int, active_time: int = -1) -> None:
        self.name = name
        #: The consumer's number in the pending entries list.
        self.number = number
        self.seen_time = seen_time
        self.active_time = active_time


class Group:
    """One consumer group of one stream."""

    __slots__ = ("by_number", "consumers", "entries_read", "last_id", "last_number", "nacked", "pending")

    def __init__(self, last_id: int, entries_read: int = UNKNOWN) -> None:
        #: The last-delivered ID.
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.by_number: dict[int, Consumer] = {}
        self.pending = PendingList()
        #: IDs of records without an owner (XNACK), in the order in which they were released.
        self.nacked: dict[int, None] = {}
        #: The number of the newest consumer.
        self.last_number = NOBODY

    # -- consumers --------------------------------------------------------------------------------------------------

    def consumer(self, name: bytes, now: int) -> tuple[Consumer, bool]:
        """Return the consumer of this name, marked as seen at ``now``, and whether this call created it."""
        consumer = self.consumers.get(name)
        if consumer is not None:
            consumer.seen_time = now
            return consumer, False
        self.last_number += 1
        consumer = Consumer(name, self.last_number, now)
        self.consumers[name] = self.by_number[consumer.number] = consumer
        return consumer, True

    def delete_consumer(self, consumer: Consumer) -> Generator[None, None, int]:
        """Delete a consumer and its pending records in steps; return how many records it had."""
        removed = yield from self.pending.remove_owner(consumer.number)
        del self.consumers[consumer.name], self.by_number[consumer.number]
        return removed

    def sorted_consumers(self) -> list[Consumer]:
        """Return all consumers, by name."""
        return [self.consumers[name] for name in sorted(self.consumers)]

    def pending_of(self, consumer: Consumer) -> int:
        """Return the number of entries pending for a consumer."""
        return self.pending.per_owner.get(consumer.number, 0)

    # -- the position -----------------------------------------------------------------------------------------------

    def advance(self, stream: Counters, first: int, last: int, count: int) -> None:
        """Advance the position over ``count`` new entries with the IDs ``first`` to ``last``."""
        self.entries_read = read_after_delivery(stream, self.last_id, self.entries_read, first, last, count)
        self.last_id = last

    def lag(self, stream: Counters) -> int | None:
        """Return the number of entries not yet delivered to the group; None if unknown."""
        return lag(stream, self.last_id, self.entries_read)

    # -- deliveries -------------------------------------------------------------------------------------------------

    def deliver(
        self, stream: Counters, new: tuple[array[int], array[int]], consumer: Consumer, now: int, noack: bool
    ) -> None:
        """Deliver new entries with these IDs to ``consumer``. The entries become pending unless ``noack``."""
        ms, seq = new
        first, last = ms[0] << 64 | seq[0], ms[-1] << 64 | seq[-1]
        self.advance(stream, first, last, len(ms))
        if noack:
            return
        consumer.active_time = now
        if self.nacked and any(first <= entry_id <= last for entry_id in self.nacked):
            # Remove exactly the delivered IDs: released IDs between them may belong to deleted entries.
            for one_ms, one_seq in zip(ms, seq, strict=True):
                self.nacked.pop(one_ms << 64 | one_seq, None)
        self.pending.deliver(ms, seq, consumer.number, now)

    def _forget_nacked(self, low: int, high: int) -> None:
        for entry_id in [entry_id for entry_id in self.nacked if low <= entry_id <= high]:
            del self.nacked[entry_id]

    def acknowledge(self, entry_id: int) -> bool:
        """Remove an entry from the pending entries list; return whether it was pending."""
        if self.nacked:
            self.nacked.pop(entry_id, None)
        return self.pending.remove(entry_id)

    def acknowledge_many(self, entry_ids: list[int]) -> int:
        """Remove entries from the pending entries list; return how many were pending."""
        for entry_id in self.nacked and entry_ids:
            self.nacked.pop(entry_id, None)
        return self.pending.remove_many(entry_ids)

    def acknowledge_range(self, low: int, high: int) -> int:
        """Remove all pending entries of a range; return how many there were."""
        if self.nacked:
            self._forget_nacked(low, high)
        return self.pending.remove_range(low, high)

    def assign(self, record: Record, consumer: Consumer, time: int, count: int) -> None:
        """Assign a pending record to ``consumer`` with a new delivery time and count."""
        block, index = record
        if self.nacked:
            self.nacked.pop(block.id_at(index), None)
        self.pending.change(record, consumer.number, time, count)

    def give_back(self, entry_id: int, record: Record | None, count: int) -> None:
        """Release ``record`` from its consumer, or create a record without a consumer if ``record`` is None.

        The entry moves to the end of ``nacked``.
        """
        if record is None:
            self.pending.put(entry_id, NOBODY, 0, count)
        else:
            self.pending.change(record, NOBODY, 0, count)
        self.nacked.pop(entry_id, None)
        self.nacked[entry_id] = None

    def unneeded(self, entry_ids: list[int]) -> list[int]:
        """Return those of these IDs, which are ascending, that the group has read and acknowledged."""
        if entry_ids and entry_ids[-1] > self.last_id:
            entry_ids = entry_ids[: bisect_right(entry_ids, self.last_id)]
        return self.pending.missing(entry_ids)

    def records(self, low: int = 0, high: int = MAX_ID, consumer: Consumer | None = None) -> list[Record]:
        """Return all pending records of a range (with ``consumer``: only its records), in ID order."""
        return list(self.pending.records(low, high, consumer.number if consumer is not None else None))

    def copy(self) -> Group:
        """Return an independent copy of the group."""
        other = Group(self.last_id, self.entries_read)
        other.last_number = self.last_number
        for consumer in self.consumers.values():
            twin = Consumer(consumer.name, consumer.number, consumer.seen_time, consumer.active_time)
            other.consumers[twin.name] = other.by_number[twin.number] = twin
        other.pending = self.pending.copy()
        other.nacked = dict(self.nacked)
        return other
