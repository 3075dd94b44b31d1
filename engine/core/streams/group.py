"""A consumer group: its position in the stream, its consumers, its pending entries list.

It does not know its stream: the stream's counters are passed in where the position needs them. Times come in as
arguments, in milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from weakref import ref

from engine.core.protocol.ids import MAX_ID
from engine.core.streams import position
from engine.core.streams.pending import NOBODY, PendingList, Record
from engine.core.streams.position import UNKNOWN, Counters
from engine.core.streams.runs import Run, id_columns


class Consumer:
    """A consumer. Times are in milliseconds since the epoch; ``active_time`` is -1 until it has got an entry."""

    __slots__ = ("active_time", "name", "number", "seen_time")

    def __init__(self, name: bytes, number: int, seen_time: int, active_time: int = -1) -> None:
        self.name = name
        #: Its number in the pending entries list.
        self.number = number
        self.seen_time = seen_time
        self.active_time = active_time


class Listing:
    """The consumers of a group at one moment, for a reply that is made page by page while the group changes."""

    __slots__ = ("__weakref__", "_consumers", "_pending", "_times")

    def __init__(self, group: Group) -> None:
        self._consumers = list(group.consumers.values())
        self._pending = group.pending.per_owner.copy()
        #: The times of those that have been seen since.
        self._times: dict[Consumer, tuple[int, int]] = {}
        group.listings[ref(self, group.listings.pop)] = None

    def __len__(self) -> int:
        return len(self._consumers)

    def keep(self, consumer: Consumer) -> None:
        """To be called before a consumer's times change."""
        self._times.setdefault(consumer, (consumer.seen_time, consumer.active_time))

    def times(self, consumer: Consumer) -> tuple[int, int]:
        """When the consumer was seen last, and when it got an entry last."""
        return self._times.get(consumer) or (consumer.seen_time, consumer.active_time)

    def pending_of(self, consumer: Consumer) -> int:
        """How many entries were pending with the consumer."""
        return self._pending.get(consumer.number, 0)

    def batches(self) -> Iterator[list[Consumer]]:
        """All consumers, by name. Between two batches, of which the first ones are empty, others may do something."""
        runs = []
        for at in range(0, len(self._consumers), _SORTED_AT_ONCE):
            runs.append(sorted(self._consumers[at : at + _SORTED_AT_ONCE], key=_name_of))
            yield []
        ordered = merge(*runs, key=_name_of)
        while batch := list(islice(ordered, _BATCH)):
            yield batch


#: Consumers that a :class:`Listing` sorts, or gives, at once.
_SORTED_AT_ONCE, _BATCH = 4000, 500
_name_of = attrgetter("name")


class Group:
    """One consumer group of one stream."""

    __slots__ = ("_last_number", "by_number", "consumers", "entries_read", "last_id", "listings", "nacked", "pending")

    def __init__(self, last_id: int, entries_read: int = UNKNOWN) -> None:
        #: The last-delivered ID.
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.by_number: dict[int, Consumer] = {}
        self.pending = PendingList()
        #: IDs of the records that no consumer owns (XNACK), in the order in which they were given back.
        self.nacked: dict[int, None] = {}
        self._last_number = NOBODY
        #: Replies that list the consumers. A consumer's times change in a command that has called :meth:`consumer`.
        self.listings: dict[ref[Listing], None] = {}

    # -- consumers --------------------------------------------------------------------------------------------------

    def consumer(self, name: bytes, now: int) -> tuple[Consumer, bool]:
        """The consumer of this name, seen ``now``, created where there is none; and whether it was created."""
        consumer = self.consumers.get(name)
        if consumer is not None:
            if self.listings:
                self._keep(consumer)
            consumer.seen_time = now
            return consumer, False
        self._last_number += 1
        consumer = Consumer(name, self._last_number, now)
        self.consumers[name] = self.by_number[consumer.number] = consumer
        return consumer, True

    def _keep(self, consumer: Consumer) -> None:
        for one in tuple(self.listings):
            listing = one()
            if listing is not None:
                listing.keep(consumer)

    def delete_consumer(self, consumer: Consumer) -> int:
        """Delete a consumer with its pending records; returns how many those were."""
        del self.consumers[consumer.name], self.by_number[consumer.number]
        return self.pending.remove_owner(consumer.number)

    def sorted_consumers(self) -> list[Consumer]:
        """All consumers, by name."""
        return [self.consumers[name] for name in sorted(self.consumers)]

    def pending_of(self, consumer: Consumer) -> int:
        """How many entries are pending with it."""
        return self.pending.per_owner.get(consumer.number, 0)

    def owner_name(self, record: Record) -> bytes:
        """The name of the record's consumer, empty where it has none."""
        block, index = record
        number = block.owner_at(index)
        return self.by_number[number].name if number != NOBODY else b""

    # -- the position -----------------------------------------------------------------------------------------------

    def advance(self, stream: Counters, first: int, last: int, count: int) -> None:
        """Move the position over ``count`` new entries, the IDs from ``first`` to ``last``."""
        if self.entries_read != UNKNOWN and not stream.max_deleted_id and self.last_id >= stream.first_id:
            # The usual case, in which nothing was ever deleted, without the calls.
            self.entries_read += count
        else:
            self.entries_read = position.read_after_delivery(
                stream, self.last_id, self.entries_read, first, last, count
            )
        self.last_id = last

    def lag(self, stream: Counters) -> int | None:
        """How many entries of the stream have yet to be delivered; None where that is unknown."""
        return position.lag(stream, self.last_id, self.entries_read)

    # -- deliveries -------------------------------------------------------------------------------------------------

    def deliver(self, stream: Counters, runs: list[Run], consumer: Consumer, now: int, noack: bool) -> None:
        """Deliver new entries to ``consumer``; with ``noack`` they do not become pending."""
        ms, seq = id_columns(runs)
        first, last = ms[0] << 64 | seq[0], ms[-1] << 64 | seq[-1]
        self.advance(stream, first, last, len(ms))
        if noack:
            return
        consumer.active_time = now
        if self.nacked and any(first <= entry_id <= last for entry_id in self.nacked):
            # (Those that were given back and then deleted are not delivered, and stay as they are.)
            for one_ms, one_seq in zip(ms, seq, strict=True):
                self.nacked.pop(one_ms << 64 | one_seq, None)
        self.pending.deliver(ms, seq, consumer.number, now)

    def _forget_nacked(self, low: int, high: int) -> None:
        for entry_id in [entry_id for entry_id in self.nacked if low <= entry_id <= high]:
            del self.nacked[entry_id]

    def acknowledge(self, entry_id: int) -> bool:
        """Remove an entry from the pending ones; whether it was there."""
        if self.nacked:
            self.nacked.pop(entry_id, None)
        return self.pending.remove(entry_id)

    def acknowledge_many(self, entry_ids: list[int]) -> int:
        """Remove entries from the pending ones; how many were there."""
        for entry_id in self.nacked and entry_ids:
            self.nacked.pop(entry_id, None)
        return self.pending.remove_many(entry_ids)

    def acknowledge_range(self, low: int, high: int) -> int:
        """Remove all pending entries of the range; how many there were."""
        if self.nacked:
            self._forget_nacked(low, high)
        return self.pending.remove_range(low, high)

    def assign(self, record: Record, consumer: Consumer, time: int, count: int) -> None:
        """Give a pending record to ``consumer``, with a new delivery time and count."""
        block, index = record
        if self.nacked:
            self.nacked.pop(block.id_at(index), None)
        self.pending.change(record, consumer.number, time, count)

    def give_back(self, entry_id: int, record: Record | None, count: int) -> None:
        """Take the entry's record from its consumer, or create one, and queue it behind those given back before."""
        if record is None:
            self.pending.put(entry_id, NOBODY, 0, count)
        else:
            self.pending.change(record, NOBODY, 0, count)
        self.nacked.pop(entry_id, None)
        self.nacked[entry_id] = None

    def references(self, entry_id: int) -> bool:
        """Whether the group has not read or not acknowledged the entry yet."""
        return self.last_id < entry_id or entry_id in self.pending

    def records(self, low: int = 0, high: int = MAX_ID, consumer: Consumer | None = None) -> list[Record]:
        """All pending records of a range, in ID order."""
        return list(self.pending.records(low, high, consumer.number if consumer is not None else None))

    def copy(self) -> Group:
        """An independent group that is equal in everything."""
        other = Group(self.last_id, self.entries_read)
        other._last_number = self._last_number
        for consumer in self.consumers.values():
            twin = Consumer(consumer.name, consumer.number, consumer.seen_time, consumer.active_time)
            other.consumers[twin.name] = other.by_number[twin.number] = twin
        other.pending = self.pending.copy()
        other.nacked = dict(self.nacked)
        return other
