"""Required contents of a range, and the check that a reader has received them, for batch and streaming reads.

At planning time, `expect` adds a fact from the server to each range: the number of its entries, or its first entry if
counting would require reading. One request covers all ranges. `find_missing` compares these facts with the
entries that were read and with the stream's state afterwards. Both functions are pure. `spark_streams.read.query.loss`
decides whether the stream is still the same.

A range with a count is checked by its count. For any other range, these conclusions are possible:

* if nothing was removed from the stream since planning, the range is complete;
* if the range's first entry is missing, entries were trimmed or deleted;
* if the stream's first entry is after the reader's position, unread entries may have been trimmed;
* if the largest deleted ID has changed and lies in the range, that entry was deleted.

In such a range, the deletion of an entry is not detected if a larger ID was deleted earlier or outside the range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_streams.read.query.loss import Known, Loss, find_another
from streamclient.streams.counting import Entries
from streamclient.streams.model import Range, StreamState
from streamwire.stream_id import LAST, StreamId


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


def expect(parts: Sequence[Range], states: Mapping[str, StreamState | None], entries: Entries) -> list[Range]:
    """Return the ranges with their number of entries, or with their first entry if counting would require reading.

    `states`: states of all existing streams. Ranges of other streams stay unchanged.
    """
    found = [_deduced(part, states.get(part.stream)) for part in parts]
    left = [
        at
        for at, part in enumerate(found)
        if part.count is None and (entries.counts_cheaply or part.head is None) and states.get(part.stream) is not None
    ]
    requested = [found[at] for at in left]
    if entries.counts_cheaply:
        counts = entries.counts([(part.stream, part.after, part.upto) for part in requested])
        for at, part, count in zip(left, requested, counts, strict=True):
            found[at] = replace(part, count=count)
    else:
        heads = entries.nths([(part.stream, part.after, 1, part.upto) for part in requested])
        for at, part, (head, count) in zip(left, requested, heads, strict=True):
            found[at] = replace(part, head=head) if count else replace(part, count=0)
    return found


def _deduced(part: Range, state: StreamState | None) -> Range:
    """Return the range with the contents that follow from the stream's state."""
    if part.count is not None or state is None:
        return part
    if state.first_id is None or part.upto < state.first_id or part.after >= state.last_id:
        return replace(part, count=0)
    if part.after >= state.first_id:
        return part
    whole = state.length if part.upto >= state.last_id else None
    return replace(part, count=whole, head=part.head or state.first_id)


def find_missing(part: Range, known: Known, state: StreamState | None, read: Read | None = None) -> Loss | None:
    """Return the loss in the range; None if no loss is known.

    `known`: facts of the stream when the range was planned. `state`: the stream's current state. `read`: the entries
    that were read from the whole range; None if reading has not begun.
    """
    if state is None:
        whole = part.count == 0 or (read is not None and part.count == read.entries)
        return None if whole else Loss("it no longer exists", recreated=True)
    another = find_another(known, state)
    if another is not None:
        return another
    if part.count is not None:
        return None if read is None else _miscounted(part, part.count, read)
    untouched = state.entries_added is not None and known.removed == state.entries_added - state.length
    if part.head is not None and (_front(state) > part.head if read is None else read.first != part.head):
        if untouched:
            return Loss(f"the entry {part.head} is gone, although no entry was removed", recreated=True)
        return Loss("", upto=min(part.upto, max(_front(state).before(), part.head)))
    if untouched:
        return None
    if read is not None and read.may_have_missed(part, state):
        return Loss("", upto=min(part.upto, _front(state).before()))
    deleted, seen = state.max_deleted_id, known.deleted
    if seen is not None and max(part.after, seen) < deleted <= part.upto:
        return Loss("", upto=deleted)
    if known.removed is not None and known.first is not None and known.first == state.first_id:
        # Only single entries were deleted, all between the stream's first entry and the largest deleted ID.
        inside = part.after < known.first and deleted <= part.upto
        return Loss("", upto=deleted) if inside else None
    return None


def _miscounted(part: Range, count: int, read: Read) -> Loss | None:
    if read.entries > count:
        found = f"the range ({part.after}, {part.upto}] now has {read.entries} entries; it had {count}"
        return Loss(found, recreated=True)
    return Loss("", upto=part.upto, count=count - read.entries) if read.entries < count else None


def _front(state: StreamState | None) -> StreamId:
    """Return the smallest ID that may still be in the stream."""
    if state is None:
        return LAST
    return state.last_id.next() if state.first_id is None else state.first_id
