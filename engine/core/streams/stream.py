"""A stream: its segments in order, its counters, and its consumer groups.

It owns the state that changes with every entry: the length, the last ID, and the counters from which the lag is derived
(``engine.core.streams.group``). It does not depend on commands, keys or clients; times are arguments. Ranges are
returned as `Frames`, entries that are already encoded.
The module is long because all its methods keep the same few lists consistent.

`Streams` is the state shared by all streams of one core, and `next_id` finds the ID of a new entry.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from engine.core.protocol import ids
from engine.core.protocol.ids import MAX_ID
from engine.core.protocol.replies import CommandError, Frames
from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.group import Group
from engine.core.streams.idempotency import Producers
from engine.core.streams.runs import Run, frames_of, id_columns
from engine.core.streams.segment import Segment, Sizes, Storage
from engine.settings.config import Config
from engine.text import messages

#: Fewer entries of a segment than this are deleted one by one.
DELETED_TOGETHER = 32


class Stream:
    """Entries in ID order. All IDs are integers (``engine.core.protocol.ids``)."""

    __slots__ = (
        "__weakref__",
        "_own_groups",
        "_segments",
        "_token",
        "entries_added",
        "firsts",
        "groups",
        "last_id",
        "length",
        "max_deleted_id",
        "needed_until",
        "producers",
        "storage",
    )

    def __init__(self, storage: Storage) -> None:
        #: The segments. Those whose ``token`` is not `_token` may be shared with a copy of the stream: see `_own`.
        self._segments: list[Segment] = []
        self._token = object()
        #: The ID of entry 0 of each segment.
        self.firsts: list[int] = []
        #: Number of live entries.
        self.length = 0
        #: The ID of the last added entry, or the ID set by XSETID.
        self.last_id = 0
        #: The greatest deleted ID, or the ID set by XSETID; 0 if nothing was deleted. Trimmed entries do not count.
        self.max_deleted_id = 0
        #: Total number of entries added, including deleted and trimmed entries. XSETID can set another number.
        self.entries_added = 0
        #: The groups. A caller that may change a group gets it from ``group``.
        self.groups: dict[bytes, Group] = {}
        #: Names of the groups that no copy of the stream shares; None if there was no copy.
        self._own_groups: set[bytes] | None = None
        #: All live entries up to this ID were pending in a group when ``engine.core.streams.trimming`` set it.
        self.needed_until = 0
        self.storage = storage
        #: Records of idempotent producers, if any; set by ``remember_producers``.
        self.producers: Producers | None = None

    @classmethod
    def of_segments(cls, storage: Storage, segments: list[tuple[int, Segment]]) -> Stream:
        """Return a stream without groups, given its segments with the IDs of their first entries (`firsts`).

        The caller sets the counters.
        """
        stream = cls(storage)
        stream._segments = [segment for _, segment in segments]
        stream.firsts = [first for first, _ in segments]
        stream.length = sum(segment.live for segment in stream._segments)
        for segment in stream._segments:
            segment.token = stream._token
        return stream

    def remember_producers(self, producers: Producers) -> None:
        """Attach idempotency records and register the stream for their expiry."""
        self.producers = producers
        self.storage.idempotent.add(self)

    def group(self, name: bytes) -> Group:
        """Return an existing group, for a change. If a copy of the stream shares the group, replace it by a copy."""
        group, own = self.groups[name], self._own_groups
        if own is not None and name not in own:
            group = self.groups[name] = group.copy()
            own.add(name)
        return group

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def first_id(self) -> int:
        """The ID of the first live entry, 0 if the stream is empty."""
        if not self._segments:
            return 0
        head = self._segments[0]
        # Avoid reading the segment if possible: it may be on disk.
        return self.segment_at(0).entries.id_at(head.start) if head.start else self.firsts[0]

    @property
    def last_entry_id(self) -> int:
        """The ID of the last live entry, 0 if the stream is empty."""
        if not self._segments:
            return 0
        tail = self.segment_at(-1)
        last = tail.last_live()
        return tail.body.last_id if last == len(tail) - 1 else tail.entries.id_at(last)

    def segments(self) -> list[Segment]:
        """Return all segments in order, for reading."""
        return list(map(self.segment_at, range(len(self._segments))))

    def pieces(self) -> Sequence[Segment]:
        """Return all segments in order, for their sizes. Their entries may belong to another storage."""
        return self._segments

    # -- shared segments --------------------------------------------------------------------------------------------

    def segment_at(self, number: int) -> Segment:
        """Return the segment with this number, for reading."""
        segment = self._segments[number]
        return segment if segment.storage is self.storage else segment.copy(self.storage)

    def _own(self, number: int) -> Segment:
        """Return the segment with this number, for a change. A segment that may be shared is replaced by a copy."""
        segment = self._segments[number]
        if segment.token is not self._token:
            segment = self._segments[number] = segment.copy(self.storage)
            segment.token = self._token
            segment.wait_for_packing()
        return segment

    def _locate(self, entry_id: int) -> int:
        """Return the number of the segment whose ID range contains ``entry_id`` (the first segment for smaller IDs)."""
        return max(bisect_right(self.firsts, entry_id) - 1, 0)

    def _part_of(self, number: int, low: int, high: int) -> Run:
        """Return a segment and the range [i, j) of its entries, live or dead, with low <= ID <= high.

        The segment is not read from disk if its first and last ID are in the range.
        """
        segment = self.segment_at(number)
        begin = segment.entries.position(low) if self.firsts[number] < low else 0
        end = len(segment) if segment.body.last_id <= high else segment.entries.position(high + 1)
        return segment, begin, end

    def ranges(self, low: int, high: int) -> Iterator[Run]:
        """Yield (segment, i, j) in order: the segment's entries [i, j), live or dead, have low <= ID <= high."""
        for number in range(self._locate(low), len(self._segments)):
            if self.firsts[number] > high:
                return
            yield self._part_of(number, low, high)

    def runs(self, low: int, high: int) -> Iterator[Run]:
        """Yield the live entries with low <= ID <= high as runs, in order."""
        for segment, begin, end in self.ranges(low, high):
            for first, last in segment.runs(begin, end):
                yield segment, first, last

    def runs_backward(self, low: int, high: int) -> Iterator[Run]:
        """Yield the same runs as ``runs``, the last run first."""
        for number in range(self._locate(high), -1, -1):
            if number >= len(self._segments):
                return
            if self.segment_at(number).body.last_id < low:
                return
            segment, begin, end = self._part_of(number, low, high)
            for first, last in segment.runs_backward(begin, end):
                yield segment, first, last

    def first_runs(self, low: int, high: int, count: int) -> list[Run]:
        """Return the first ``count`` live entries of [low, high] as runs, or all of them if ``count`` is 0."""
        runs: list[Run] = []
        left = count or self.length
        for number in range(self._locate(low), len(self._segments)):
            if self.firsts[number] > high:
                break
            segment, begin, end = self._part_of(number, low, high)
            for first, last in segment.runs(begin, end):
                last = min(last, first + left)
                runs.append((segment, first, last))
                left -= last - first
                if not left:
                    return runs
        return runs

    def range(self, low: int, high: int, count: int) -> Frames:
        """Return the first ``count`` entries of [low, high], or all of them if ``count`` is 0."""
        return frames_of(self.first_runs(low, high, count))

    def range_backward(self, low: int, high: int, count: int) -> Frames:
        """Return the last ``count`` entries of [low, high], or all of them if ``count`` is 0, in reverse order."""
        parts: list[bytes | memoryview] = []
        for segment, first, last in self.runs_backward(low, high):
            if count:
                first = max(first, last - (count - len(parts)))
            parts.extend(reversed(segment.entries.frames(first, last)))
            if len(parts) == count:
                break
        return Frames(len(parts), parts)

    def frozen_ranges(self, low: int, high: int) -> list[Run]:
        """Return (segment, i, j) for each segment of [low, high]: a read-only copy, and entries, live or dead."""
        return [(segment.snapshot(), begin, end) for segment, begin, end in self.ranges(low, high)]

    def ids(self, low: int, high: int) -> list[int]:
        """Return the IDs of all live entries of [low, high]."""
        return _ids_of(id_columns(self.runs(low, high)))

    def first_ids(self, count: int, after: int = -1) -> list[int]:
        """Return the IDs of the first ``count`` live entries after the ID ``after``."""
        return _ids_of(id_columns(self.first_runs(after + 1, MAX_ID, count)))

    def _find(self, entry_id: int) -> tuple[int, int]:
        """Return (segment number, index) of a live entry; the index is -1 if there is no such entry."""
        if not self._segments:
            return 0, -1
        number = self._locate(entry_id)
        return number, self.segment_at(number).find(entry_id)

    def __contains__(self, entry_id: int) -> bool:
        return self._find(entry_id)[1] >= 0

    def stores(self, entry_id: int) -> bool:
        """Return, without reading the disk, whether the segment whose ID range contains ``entry_id`` is on disk."""
        number = self._locate(entry_id)
        body = self._segments[number].body if self._segments else None
        return isinstance(body, Stored) and self.firsts[number] <= entry_id <= body.last_id

    def frame(self, entry_id: int) -> bytes | None:
        """Return the entry's frame, None if there is no such live entry."""
        number, index = self._find(entry_id)
        return self.segment_at(number).entries.frame_at(index) if index >= 0 else None

    def count(self, low: int, high: int) -> int:
        """Return the number of live entries with low <= ID <= high.

        The cost grows with the number of segments in the range.
        """
        if not self._segments or low > high:
            return 0
        first, last = self._locate(low), self._locate(high)
        total = 0
        for number in range(first, last + 1):
            if first < number < last:
                total += self._segments[number].live
                continue
            segment, begin, end = self._part_of(number, low, high)
            total += segment.live if not begin and end == len(segment) else segment.count(begin, end)
        return total

    def nth_after(self, after: int, n: int) -> int:
        """Return the ID of the n-th live entry (from 1) after ``after``; 0 if fewer than ``n`` entries follow."""
        for number in range(self._locate(after), len(self._segments)):
            if self.firsts[number] > after and n > (live := self._segments[number].live):
                n -= live
                continue
            segment = self.segment_at(number)
            begin = segment.entries.position(after + 1) if self.firsts[number] <= after else 0
            here = segment.live if begin <= segment.start else segment.count(begin, len(segment))
            if n <= here:
                return segment.entries.id_at(segment.nth_live(begin, n - 1))
            n -= here
        return 0

    # -- changes ----------------------------------------------------------------------------------------------------

    def append(self, entry_id: int, entry: bytes) -> None:
        """Append an entry, given its frame. Its ID must be above ``last_id``."""
        tail = self._segments[-1] if self._segments else None
        if tail is None or tail.full:
            tail = self._open_segment(entry_id)
        tail.append(entry_id, entry)
        self.length += 1
        self.entries_added += 1
        self.last_id = entry_id

    def extend(self, data: bytes | bytearray, sizes: Sizes, ms: array[int], seq: array[int]) -> None:
        """Append entries with ascending IDs above ``last_id``, given their frames back to back and their sizes."""
        count = len(ms)
        tail = self._segments[-1] if self._segments else None
        if tail is not None and tail.fits(count, len(data)):
            tail.extend(data, sizes, ms, seq)
        else:
            self._extend_several(tail, memoryview(data), sizes, ms, seq)
        self.length += count
        self.entries_added += count
        self.last_id = ms[-1] << 64 | seq[-1]

    def _extend_several(
        self, tail: Segment | None, data: memoryview, sizes: Sizes, ms: array[int], seq: array[int]
    ) -> None:
        """Append entries to ``tail`` until it is full, and the others to new segments."""
        ends, at, begin = np.cumsum(sizes), 0, 0
        while at < len(ends):
            if tail is None or tail.full:
                tail = self._open_segment(ms[at] << 64 | seq[at])
            last = min(at + tail.room_entries, int(np.searchsorted(ends, begin + tail.room_bytes)) + 1, len(ends))
            end = int(ends[last - 1])
            tail.extend(data[begin:end], sizes[at:last], ms[at:last], seq[at:last])
            at, begin = last, end

    def _open_segment(self, first_id: int) -> Segment:
        newest = self._segments[-1] if self._segments else None
        if newest is not None and not newest.sealed:
            newest.seal()
        tail = Segment(self.storage)
        tail.token = self._token
        tail.as_columns = newest is not None and newest.as_columns
        self._segments.append(tail)
        self.firsts.append(first_id)
        return tail

    def delete(self, entry_id: int) -> bool:
        """Delete one entry (XDEL); return whether it existed."""
        number, index = self._find(entry_id)
        if index < 0:
            return False
        self._remove(number, index)
        self.max_deleted_id = max(self.max_deleted_id, entry_id)
        return True

    def load_segments(self, entry_ids: list[int]) -> None:
        """Load the segments of these entries from disk. Raises UnreadableError if a segment cannot be read.

        Callers load the segments before a change, so that such an error does not leave the change half done.
        """
        if self.storage.sealed.stores and self._segments:
            for number in sorted({self._locate(entry_id) for entry_id in entry_ids}):
                body = self.segment_at(number).body
                if isinstance(body, Stored):
                    body.packed()

    def delete_many(self, entry_ids: list[int]) -> int:
        """Delete entries (XDEL); return how many existed. Many entries of a sealed segment are deleted together.

        If an entry cannot be read, this raises UnreadableError and deletes nothing.
        """
        self.load_segments(entry_ids)
        if len(entry_ids) < DELETED_TOGETHER:
            return sum(map(self.delete, entry_ids))
        deleted, greatest = self._remove_many(sorted(set(entry_ids)))
        self.max_deleted_id = max(self.max_deleted_id, greatest)
        return deleted

    def trim_many(self, entry_ids: list[int]) -> int:
        """Trim these live entries, which are ascending; return their number. Otherwise like ``delete_many``."""
        self.load_segments(entry_ids)
        return self._remove_many(entry_ids)[0]

    def _remove_many(self, entry_ids: list[int]) -> tuple[int, int]:
        """Remove the live entries among these IDs, which are ascending; return their number and the greatest ID."""
        at = removed = greatest = 0
        while at < len(entry_ids) and self._segments:
            number = self._locate(entry_ids[at])
            segment = self._own(number)
            behind = number + 1 < len(self._segments)
            end = bisect_left(entry_ids, self.firsts[number + 1], at) if behind else len(entry_ids)
            if not segment.sealed or end - at < DELETED_TOGETHER:
                for entry_id in entry_ids[at:end]:
                    number, index = self._find(entry_id)
                    if index >= 0:
                        self._remove(number, index)
                        removed, greatest = removed + 1, entry_id
            else:
                found = segment.delete_many(entry_ids[at:end])
                if found:
                    self.length -= len(found)
                    removed, greatest = removed + len(found), found[-1]
                    self._rearrange(number)
            at = end
        return removed, greatest

    def _remove(self, number: int, index: int) -> None:
        """Remove one live entry without changing ``max_deleted_id``."""
        segment = self._own(number)
        segment.delete(index)
        self.length -= 1
        self._rearrange(number)

    def _rearrange(self, number: int) -> None:
        """Update the list of segments after deletions in one of them."""
        segment = self._own(number)
        if not segment.dead_count:
            # The segment was rewritten, or all its deleted entries were at the head.
            if not segment.live:
                del self._segments[number], self.firsts[number]
            else:
                self.firsts[number] = segment.entries.id_at(0)

    def trim_head(self, count: int) -> int:
        """Remove the first ``count`` live entries, or all if there are fewer; return how many were removed."""
        removed = 0
        while removed < count and self._segments:
            live = self._segments[0].live
            if live <= count - removed:
                removed += live
                del self._segments[0], self.firsts[0]
            else:
                self._own(0).drop_head(count - removed)
                removed = count
        self.length -= removed
        return removed

    def tables(self) -> tuple[list[Segment], dict[bytes, Group]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        return self._segments, self.groups

    def copy(self, storage: Storage | None = None) -> Stream:
        """Return an independent copy. Segments and groups are copied when one of the two streams changes them.

        A copy that another thread reads needs its own ``storage``, because the cache is not thread-safe.
        """
        storage = storage or self.storage
        other = Stream(storage)
        other._segments = self._segments[:]
        self._token = object()
        if self._segments and not self._segments[-1].sealed:
            # An open segment grows in place.
            self._segments[-1].token = self._token
            other._segments[-1] = self._segments[-1].copy(storage)
            other._segments[-1].token = other._token
        other.firsts = self.firsts[:]
        other.length, other.last_id = self.length, self.last_id
        other.max_deleted_id, other.entries_added = self.max_deleted_id, self.entries_added
        other.groups = dict(self.groups)
        self._own_groups, other._own_groups = set(), set()
        if self.producers is not None:
            other.remember_producers(self.producers.copy())
        return other


def _ids_of(columns: tuple[array[int], array[int]]) -> list[int]:
    """Return the IDs whose milliseconds and sequence numbers are in these columns."""
    return [ms << 64 | seq for ms, seq in zip(*columns, strict=True)]


#: Approximate maximum number of idempotent IDs, producers and streams that one call examines for expiry.
_EXPIRED_AT_ONCE = 2000
#: The first numbers: ``counted`` returns slices of them.
_NUMBERS = array("Q", range(10_000))


class Streams:
    """State shared by all streams of one core."""

    __slots__ = ("_config", "_expiring", "storage")

    def __init__(self, config: Config) -> None:
        self._config = config
        self.storage = Storage()
        #: Streams whose idempotent IDs are still to be examined in this round.
        self._expiring: list[Stream] = []

    def new(self) -> Stream:
        """Return an empty stream that is not in the keyspace yet."""
        return Stream(self.storage)

    def producers_of(self, stream: Stream) -> Producers:
        """Return the stream's idempotency records, created with the configured limits on first use."""
        producers = stream.producers
        if producers is None:
            integer = self._config.integer
            producers = Producers(integer("stream-idmp-duration"), integer("stream-idmp-maxsize"))
        if not producers.by_producer:
            # Register again: `expire_producers` removes a stream from the set when its last producer expires.
            stream.remember_producers(producers)
        return producers

    def expire_producers(self, now: int) -> bool:
        """Expire some of the idempotent IDs that are too old at ``now`` (milliseconds since the epoch); return whether
        the caller must call again, soon, for the others.
        """
        idempotent, left = self.storage.idempotent, _EXPIRED_AT_ONCE
        if not self._expiring:
            self._expiring = list(idempotent)
        while self._expiring and left > 0:
            stream = self._expiring[-1]
            producers = stream.producers
            done = producers.expire(now, left) if producers is not None else 0
            if done < left:
                self._expiring.pop()
                if producers is None or not producers.by_producer:
                    idempotent.discard(stream)
            left -= done + 1
        return bool(self._expiring)


def next_id(stream: Stream | None, word: bytes, now_ms: int) -> int:
    """Return the ID of a new entry for ``*``, ``ms-*`` or an explicit ID.

    Raises CommandError if ``word`` is not an ID, or if the ID would not be above the stream's last ID.
    """
    last_id = stream.last_id if stream is not None else 0
    if word == b"*":
        if last_id == ids.MAX_ID:
            raise CommandError(messages.ID_EXHAUSTED)
        return now_ms << 64 if now_ms > last_id >> 64 else last_id + 1
    if word.endswith(b"-*"):
        ms = ids.parse_u64(word[:-2])
        if ms < 0:
            raise CommandError(messages.INVALID_ID)
        if last_id == ids.MAX_ID:
            raise CommandError(messages.ID_EXHAUSTED)
        entry_id = last_id + 1 if last_id >> 64 == ms else ms << 64
        if not entry_id:
            entry_id = 1
        if entry_id <= last_id or entry_id >> 64 != ms:
            raise CommandError(messages.ID_TOO_SMALL)
        return entry_id
    entry_id = ids.parse(word)
    if last_id == ids.MAX_ID:
        raise CommandError(messages.ID_EXHAUSTED)
    if entry_id <= last_id:
        raise CommandError(messages.ID_TOO_SMALL)
    return entry_id


def counted(first: int, count: int) -> array[int]:
    """Return ``count`` consecutive numbers from ``first``, in the array type used for sequence numbers."""
    if first + count <= len(_NUMBERS):
        return _NUMBERS[first : first + count]
    numbers = array("Q")
    numbers.frombytes((np.arange(count, dtype=np.uint64) + np.uint64(first)).tobytes())
    return numbers
