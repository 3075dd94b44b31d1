"""Detection of entries that were lost before the query read them, from a stream's state.

In a stream that only grows, the last ID is at or after every position ever read, and all entries after the query's
position still exist. The number of entries ever added is at least the number in the query's offset. Any contradiction
means that entries were deleted or trimmed, or that the stream was recreated, because a stream's counters and first ID
never decrease. The caller decides whether a loss is an error or a warning (`raise_or_warn`).

`find_missing` compares a range's contents at planning time (`planning.expect`) with the entries that a task has read
and with the stream's state afterwards. A range with a count is checked by its count. For any other range, these
conclusions are possible:

* if nothing was removed from the stream since planning, the range is complete;
* if the range's first entry is missing, entries were trimmed or deleted;
* if the stream's first entry is after the reader's position, unread entries may have been trimmed;
* if the largest deleted ID has increased and lies in the range, that entry was deleted.

In such a range, the deletion of an entry is not detected if a larger ID was deleted earlier or outside the range.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_streams.errors import PystreamsError, error, first_of
from streamclient.config.address import Address
from streamclient.streams.states import Range, StreamState
from streamwire.stream_id import LAST, ZERO, StreamId

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class Baseline:
    """Facts of a stream when it was read up to `after`.

    `added`: entries ever added up to `after`; None if unknown. `deleted`: the largest ID known to be deleted. `first`:
    ID of the stream's first entry at that time; None if unknown. `missing`: number of entries after `after` that were
    already missing; None if unknown.
    """

    after: StreamId
    added: int | None = None
    deleted: StreamId = ZERO
    first: StreamId | None = None
    missing: int | None = 0


class Known(NamedTuple):
    """Facts of a stream at one moment. None means unknown.

    `last`: an ID that the stream had reached. `added`: entries ever added up to `last`. `first`: the ID of the first
    entry. `removed`: entries ever removed. `deleted`: the largest deleted ID.
    """

    last: StreamId
    added: int | None = None
    first: StreamId | None = None
    removed: int | None = None
    deleted: StreamId | None = None

    @classmethod
    def of(cls, state: StreamState) -> Known:
        """Return the facts in a state."""
        removed = None if state.entries_added is None else state.entries_added - state.length
        return cls(state.last_id, state.entries_added, state.first_id, removed, state.max_deleted_id)

    def upto(self, upto: StreamId, added: int | None) -> Known:
        """Return the facts at the ID `upto`, up to which the stream is read. `added`: entries ever added up to `upto`.

        Entries after `upto` are not part of the facts: a failover may lose them, and other entries may get their IDs.
        """
        return self._replace(last=upto, added=self.added if added is None and upto >= self.last else added)


#: Baseline for a shared batch that an earlier run planned: any missing entry may already have been missing then.
UNKNOWN = Baseline(ZERO, deleted=LAST)


@dataclass(frozen=True)
class Loss:
    """Entries that are gone. `count`: their number, None if unknown. `upto`: the last ID that may be among them.

    `found`: the contradiction that revealed this; empty if single entries are missing. `after`: the position up to
    which the stream was read. `recreated`: whether the stream is a different one now, to be read from its beginning.
    """

    found: str
    after: StreamId
    recreated: bool = False
    upto: StreamId | None = None
    count: int | None = None

    @property
    def at_least(self) -> int:
        """The number of entries; 1 if it is unknown."""
        return 1 if self.count is None else self.count

    def error(self, stream: str, address: Address) -> PystreamsError:
        """Return the error STREAM_LOST or ENTRIES_LOST for this loss."""
        if self.upto is None:
            return error("STREAM_LOST", stream=stream, address=address, offset=self.after, found=self.found)
        count = "an unknown number of entries" if self.count is None else f"{self.count} entries"
        return error("ENTRIES_LOST", stream=stream, address=address, after=self.after, upto=self.upto, count=count)


def find_another(known: Known, state: StreamState) -> Loss | None:
    """Return a contradiction that proves that the stream is a different one; None if there is no contradiction.

    The last ID, the first ID, the largest deleted ID and the numbers of entries added and removed never decrease.
    """
    if state.last_id < known.last:
        return Loss(f"its last ID is now {state.last_id}", known.last, recreated=True)
    if known.first is not None and state.first_id is not None and state.first_id < known.first:
        return Loss(f"its first entry is now {state.first_id}; it was {known.first}", known.last, recreated=True)
    if known.added is not None and state.entries_added is not None:
        if state.entries_added < known.added:
            found = (
                f"only {state.entries_added} entries were ever added to it, fewer than the {known.added} counted before"
            )
            return Loss(found, known.last, recreated=True)
        since = state.entries_added - known.added
        if state.first_id is not None and state.first_id > known.last and state.length > since:
            found = f"it now has {state.length} entries after that ID, although at most {since} were added"
            return Loss(found, known.last, recreated=True)
    if known.removed is not None and state.entries_added is not None:
        removed = state.entries_added - state.length
        if removed < known.removed:
            found = f"only {removed} entries were ever removed from it, fewer than the {known.removed} counted before"
            return Loss(found, known.last, recreated=True)
        both = known.first is not None and state.first_id is not None
        if removed == known.removed and both and state.first_id != known.first:
            found = f"its first entry is {state.first_id}, although {known.first} was not removed"
            return Loss(found, known.last, recreated=True)
    if known.deleted is not None and state.max_deleted_id < known.deleted:
        found = f"its largest deleted ID is now {state.max_deleted_id}; it was {known.deleted}"
        return Loss(found, known.last, recreated=True)
    return None


def find_loss(baseline: Baseline, state: StreamState | None, backlog: int | None) -> Loss | None:
    """Return the loss after the baseline's position; None if no loss is known.

    `backlog` is the exact number of existing entries after the position; None if it was not counted.
    """
    if state is None:
        began = baseline.after > ZERO or baseline.added
        return Loss("it no longer exists", baseline.after, recreated=True) if began else None
    another = find_another(Known(baseline.after, baseline.added, baseline.first), state)
    if another is not None:
        return another
    added, total, before = baseline.added, state.entries_added, baseline.missing
    if added is not None and total is not None and backlog is not None and before is not None:
        missing = total - added - backlog - before
        return Loss("", baseline.after, upto=_last_missing(baseline, state), count=missing) if missing > 0 else None
    if state.max_deleted_id > max(baseline.after, baseline.deleted):
        return Loss("", baseline.after, upto=state.max_deleted_id)
    return None


def find_group_loss(state: StreamState, known: Baseline | None = None) -> Loss | None:
    """Return the loss among the entries that a consumer group has yet to read; None if no loss is known.

    `known`: a result of `group_baseline` for an earlier state; only losses since that state count. Without it, single
    deleted entries do not count for a group that has read nothing, because they may have been deleted before the group
    was created.
    """
    group = state.group
    if group is None or group.last_delivered_id >= state.last_id:
        return None
    after = group.last_delivered_id
    known = known or Baseline(ZERO, deleted=ZERO if after > ZERO else LAST)
    backlog = state.exact_backlog(after)
    added = known.added if group.entries_read is None and after == known.after else group.entries_read
    if added is not None and state.entries_added is not None:
        added = min(added, state.entries_added - (backlog or 0))  # XGROUP SETID accepts any number
    return find_loss(Baseline(after, added, known.deleted, missing=known.missing), state, backlog)


def group_baseline(state: StreamState, known: Baseline | None = None) -> Baseline:
    """Return the baseline of the entries that a consumer group has yet to read. The stream must have the group.

    `known`: the baseline of an earlier state. A group that has skipped missing entries may count them as unread until
    it has caught up (Redis 7). So the baseline carries over the number of entries that are known to be missing.
    """
    assert state.group is not None
    after, added, deleted = state.group.last_delivered_id, state.group.entries_read, state.max_deleted_id
    if state.entries_added is None:
        return Baseline(after, deleted=deleted)
    if after >= state.last_id:
        return Baseline(after, state.entries_added, deleted)
    if added is None and known is not None and after == known.after:
        added = known.added
    missing: int | None = 0 if known is None or known.missing is None else known.missing
    if state.exact_backlog(after) == state.length:  # none of the existing entries was read
        reached = state.entries_added - state.length
        added = reached if added is None else added
        missing = max(0, reached - added)
    elif deleted > after:
        missing = None
    return Baseline(after, added, deleted, missing=missing)


def of_entries(ids: Sequence[bytes]) -> Loss:
    """Return the loss of pending entries that no longer exist. The IDs are in order or of several consumers."""
    parsed = sorted(map(StreamId.parse, ids))
    return Loss("", parsed[0].before(), upto=parsed[-1], count=len(ids))


def _last_missing(baseline: Baseline, state: StreamState) -> StreamId:
    """Return the last ID that may be missing, given the stream's first entry and its largest deleted ID."""
    if state.first_id is not None and state.first_id > baseline.after:
        return max(state.first_id.before(), state.max_deleted_id)
    return state.max_deleted_id if state.max_deleted_id > baseline.after else state.last_id


def raise_or_warn(losses: Mapping[str, Loss], address: Address, *, fails: bool) -> None:
    """Raise the losses of streams as an error if `fails`; otherwise log them as warnings."""
    problems = {stream: found.error(stream, address) for stream, found in losses.items()}
    if problems and fails:
        raise first_of(problems)
    for problem in problems.values():
        _log.warning("%s", problem)


@dataclass
class Read:
    """Entries of a range that a reader received: their number, and further facts for a range without a count.

    `first`: ID of the first entry. `checked`: ID of the last entry that had been read when the stream's first entry was
    last checked; before any check, the last ID of the first page. `missed`: whether a check found the stream's first
    entry after the previous `checked`, so that unread entries may have been trimmed.
    """

    entries: int = 0
    pages: int = 0
    first: StreamId | None = None
    checked: StreamId | None = None
    missed: bool = False

    def follow(
        self, id_at: Callable[[int], StreamId], first: int, last: int, read_state: Callable[[], StreamState | None]
    ) -> None:
        """Record a page of a range without a count. `id_at(first)` and `id_at(last)` are its first and last ID.

        After the 2nd, 4th, 8th ... page `read_state` reads the stream's state, which shows whether unread entries may
        have been trimmed. The few checks cause no false alarm if the reader is at least twice as fast as the trims.
        """
        if self.first is None:
            self.first = id_at(first)
        self.pages += 1
        if self.pages & (self.pages - 1):
            return
        if self.checked is not None:
            self.missed |= _front(read_state()) > self.checked.next()
        self.checked = id_at(last)

    def may_have_missed(self, part: Range, state: StreamState) -> bool:
        """Return whether entries may have been trimmed before they were read, given a state after the last page."""
        if self.missed or self.checked is None:
            return self.missed
        in_one_page = self.pages == 1 and self.checked >= part.upto
        return not in_one_page and _front(state) > self.checked.next()


def find_missing(part: Range, known: Known, state: StreamState | None, read: Read | None = None) -> Loss | None:
    """Return the loss in the range; None if no loss is known.

    `known`: facts of the stream when the range was planned. `state`: the stream's current state. `read`: the entries
    that were read from the whole range; None if reading has not begun.
    """
    if state is None:
        whole = part.count == 0 or (read is not None and part.count == read.entries)
        return None if whole else Loss("it no longer exists", part.upto, recreated=True)
    another = find_another(known, state)
    if another is not None:
        return another
    if part.count is not None:
        return None if read is None else _miscounted(part, part.count, read)
    untouched = state.entries_added is not None and known.removed == state.entries_added - state.length
    if part.head is not None and (_front(state) > part.head if read is None else read.first != part.head):
        if untouched:
            return Loss(f"the entry {part.head} is gone, although no entry was removed", part.upto, recreated=True)
        return Loss("", part.after, upto=min(part.upto, max(_front(state).before(), part.head)))
    if untouched:
        return None
    if read is not None and read.may_have_missed(part, state):
        return Loss("", part.after, upto=min(part.upto, _front(state).before()))
    deleted, seen = state.max_deleted_id, known.deleted
    if seen is not None and max(part.after, seen) < deleted <= part.upto:
        return Loss("", part.after, upto=deleted)
    if known.removed is not None and known.first is not None and known.first == state.first_id:
        # Only single entries were deleted, all between the stream's first entry and the largest deleted ID.
        inside = part.after < known.first and deleted <= part.upto
        return Loss("", part.after, upto=deleted) if inside else None
    return None


def _miscounted(part: Range, count: int, read: Read) -> Loss | None:
    if read.entries > count:
        found = f"the range ({part.after}, {part.upto}] now has {read.entries} entries; it had {count}"
        return Loss(found, part.upto, recreated=True)
    return Loss("", part.after, upto=part.upto, count=count - read.entries) if read.entries < count else None


def _front(state: StreamState | None) -> StreamId:
    """Return the smallest ID that may still be in the stream."""
    if state is None:
        return LAST
    return state.last_id.next() if state.first_id is None else state.first_id
