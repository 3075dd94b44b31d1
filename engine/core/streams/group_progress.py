"""A consumer group's progress: its entries-read counter and its lag.

Both numbers are derived from the stream's counters, without counting entries. Both are exact if there is no *tombstone*
(a deleted entry) after the group's position. A number that cannot be derived is ``UNKNOWN`` for entries-read, and None
for the lag. The rules are those of Redis, because clients see both numbers in XINFO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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


@dataclass(slots=True)
class Counted:
    """Snapshot of a stream's counters and IDs, for a reply that is sent page by page while the stream changes."""

    length: int
    last_id: int
    max_deleted_id: int
    entries_added: int
    first_id: int

    @classmethod
    def of(cls, stream: Counters) -> Counted:
        """Return a snapshot of a stream's counters and IDs."""
        return cls(stream.length, stream.last_id, stream.max_deleted_id, stream.entries_added, stream.first_id)


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
