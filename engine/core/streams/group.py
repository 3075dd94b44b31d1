"""A consumer group: its position in the stream, its consumers, its pending entries list.

Times come in as arguments. The counters follow the stream's rules for entries-read and lag
(:meth:`engine.core.streams.stream.Stream.estimate_read`); nobody else changes them.
"""

from __future__ import annotations

from engine.core.protocol.ids import MAX_ID
from engine.core.streams.pending import NOBODY, PendingList, Record
from engine.core.streams.stream import UNKNOWN, Run, Stream, columns


class Consumer:
    """A consumer. Times are in milliseconds since the epoch; ``active_time`` is -1 until it has got an entry."""

    __slots__ = ("active_time", "name", "number", "seen_time")

    def __init__(self, name: bytes, number: int, seen_time: int, active_time: int = -1) -> None:
        self.name = name
        #: Its number in the pending entries list.
        self.number = number
        self.seen_time = seen_time
        self.active_time = active_time


class Group:
    """One consumer group of one stream."""

    __slots__ = ("_last_number", "by_number", "consumers", "entries_read", "last_id", "nacked", "pending")

    def __init__(self, last_id: int, entries_read: int = UNKNOWN) -> None:
        #: The last-delivered ID.
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.by_number: dict[int, Consumer] = {}
        self.pending = PendingList()
        #: IDs of the records that nobody owns, in the order in which they were given back.
        self.nacked: dict[int, None] = {}
        self._last_number = NOBODY

    # -- consumers --------------------------------------------------------------------------------------------------

    def consumer(self, name: bytes, now: int) -> tuple[Consumer, bool]:
        """The consumer, made if it was not there, seen ``now``; and whether it was made."""
        consumer = self.consumers.get(name)
        if consumer is not None:
            consumer.seen_time = now
            return consumer, False
        self._last_number += 1
        consumer = Consumer(name, self._last_number, now)
        self.consumers[name] = self.by_number[consumer.number] = consumer
        return consumer, True

    def delete_consumer(self, consumer: Consumer) -> int:
        """The consumer goes, and its pending records with it; how many they were."""
        del self.consumers[consumer.name], self.by_number[consumer.number]
        return self.pending.remove_owner(consumer.number)

    def sorted_consumers(self) -> list[Consumer]:
        """All consumers, by name."""
        return [self.consumers[name] for name in sorted(self.consumers)]

    def pending_of(self, consumer: Consumer) -> int:
        """How many entries are pending with it."""
        return self.pending.per_owner.get(consumer.number, 0)

    def owner_name(self, record: Record) -> bytes:
        """The name of a record's consumer, empty where nobody has it."""
        block, index = record
        number = block.owner_at(index)
        return self.by_number[number].name if number != NOBODY else b""

    # -- the position -----------------------------------------------------------------------------------------------

    def advance(self, stream: Stream, first: int, last: int, count: int) -> None:
        """``count`` new entries, IDs from ``first`` to ``last``, are delivered: move the position over them.

        As if entry by entry: each is one more read while the counter is known and nothing behind the position before
        it was deleted; else its number is estimated, which of all but the first works out for the stream's last only.
        """
        # Where nothing was ever deleted, as with most streams, that comes to a sum.
        if self.entries_read != UNKNOWN and not stream.max_deleted_id and self.last_id >= stream.first_id:
            self.entries_read += count
            self.last_id = last
            return
        if (
            self.entries_read != UNKNOWN
            and self.last_id >= stream.first_id
            and not stream.has_tombstone_from(self.last_id)
        ):
            self.entries_read += 1
        else:
            self.entries_read = stream.estimate_read(first)
        if count > 1:
            if self.entries_read != UNKNOWN and not stream.has_tombstone_from(first):
                self.entries_read += count - 1
            else:
                self.entries_read = stream.estimate_read(last)
        self.last_id = last

    def lag(self, stream: Stream) -> int | None:
        """How many entries of the stream have yet to be delivered; None where that is unknown."""
        if not stream.entries_added or not stream.length:
            return 0
        first_id = stream.first_id
        if self.last_id < first_id and stream.max_deleted_id < first_id:
            return stream.length
        if self.entries_read != UNKNOWN and not stream.has_tombstone_from(self.last_id):
            return stream.entries_added - self.entries_read
        read = stream.estimate_read(self.last_id)
        return None if read == UNKNOWN else stream.entries_added - read

    # -- deliveries -------------------------------------------------------------------------------------------------

    def deliver(self, stream: Stream, runs: list[Run], consumer: Consumer, now: int, noack: bool) -> None:
        """New entries go to ``consumer``; with ``noack`` they are not remembered as pending."""
        ms, seq = columns(runs)
        first, last = ms[0] << 64 | seq[0], ms[-1] << 64 | seq[-1]
        self.advance(stream, first, last, len(ms))
        if noack:
            return
        consumer.active_time = now
        if self.nacked:
            self._no_longer_nacked(first, last)
        self.pending.deliver(ms, seq, consumer.number, now)

    def _no_longer_nacked(self, low: int, high: int) -> None:
        for entry_id in [entry_id for entry_id in self.nacked if low <= entry_id <= high]:
            del self.nacked[entry_id]

    def acknowledge(self, entry_id: int) -> bool:
        """The entry is done; whether it was pending."""
        if self.nacked:
            self.nacked.pop(entry_id, None)
        return self.pending.remove(entry_id)

    def acknowledge_many(self, entry_ids: list[int]) -> int:
        """All of these are done; how many were pending."""
        for entry_id in self.nacked and entry_ids:
            self.nacked.pop(entry_id, None)
        return self.pending.remove_many(entry_ids)

    def acknowledge_range(self, low: int, high: int) -> int:
        """All pending entries of the range are done; how many."""
        if self.nacked:
            self._no_longer_nacked(low, high)
        return self.pending.remove_range(low, high)

    def assign(self, record: Record, consumer: Consumer, time: int, count: int) -> None:
        """A pending record goes to ``consumer``."""
        block, index = record
        if self.nacked:
            self.nacked.pop(block.id_at(index), None)
        self.pending.change(record, consumer.number, time, count)

    def give_back(self, entry_id: int, count: int) -> None:
        """A record, made if it was not there, belongs to nobody, behind those given back before."""
        self.pending.put(entry_id, NOBODY, 0, count)
        self.nacked.pop(entry_id, None)
        self.nacked[entry_id] = None

    def references(self, entry_id: int) -> bool:
        """Whether the group has yet to read or to acknowledge the entry."""
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
