"""How far a consumer group has read: its entries-read counter and its lag, counted where possible, else estimated.

Nobody counts the entries between two IDs: both numbers follow from the stream's counters. That is exact as long as no
entry was deleted behind the position (a *tombstone*). Where it cannot be known, entries-read is :data:`UNKNOWN` and the
lag None. The rules are Redis's, because clients see both numbers in XINFO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

#: entries-read where it cannot be known.
UNKNOWN = -1
#: The greatest number that clients, logs and snapshots take.
MOST = (1 << 63) - 1


class Counters(Protocol):
    """A stream's counters and IDs (:class:`engine.core.streams.stream.Stream` describes them)."""

    length: int
    last_id: int
    max_deleted_id: int
    entries_added: int

    @property
    def first_id(self) -> int:
        """The ID of the first live entry, 0 when empty."""


@dataclass(slots=True)
class Counted:
    """A stream's counters and IDs at one moment, for a reply that is made page by page while the stream changes."""

    length: int
    last_id: int
    max_deleted_id: int
    entries_added: int
    first_id: int

    @classmethod
    def of(cls, stream: Counters) -> Counted:
        """Those of now."""
        return cls(stream.length, stream.last_id, stream.max_deleted_id, stream.entries_added, stream.first_id)


def shown(count: int) -> int:
    """A counter as it is told and written. Only one that was given by hand (XSETID) can become too great for that."""
    return min(count, MOST)


def has_tombstone_from(stream: Counters, entry_id: int) -> bool:
    """Whether an entry at ``entry_id`` or behind it may have been deleted."""
    return stream.length > 0 and stream.max_deleted_id > 0 and entry_id <= stream.max_deleted_id


def estimate_read(stream: Counters, entry_id: int) -> int:
    """How many entries had been added up to ``entry_id``, that one included; UNKNOWN where it cannot be told."""
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
    """entries-read after a group at ``last_id`` got ``count`` entries, the IDs from ``first`` to ``last``.

    The result is that of one delivery per entry: each adds one while the counter is known and no tombstone lies behind
    the position, else the counter is estimated.
    """
    if entries_read != UNKNOWN and last_id >= stream.first_id and not has_tombstone_from(stream, last_id):
        entries_read += 1
    else:
        entries_read = estimate_read(stream, first)
    if count == 1:
        return entries_read
    if entries_read != UNKNOWN and not has_tombstone_from(stream, first):
        return entries_read + count - 1
    # An estimate succeeds for the first entry of a stream and for its last one, never for those in between.
    return estimate_read(stream, last)


def lag(stream: Counters, last_id: int, entries_read: int) -> int | None:
    """How many entries a group at ``last_id`` has yet to get; None where it cannot be told."""
    if not stream.entries_added or not stream.length:
        return 0
    first_id = stream.first_id
    if last_id < first_id and stream.max_deleted_id < first_id:
        return stream.length
    if entries_read != UNKNOWN and not has_tombstone_from(stream, last_id):
        return stream.entries_added - entries_read
    read = estimate_read(stream, last_id)
    return None if read == UNKNOWN else stream.entries_added - read
