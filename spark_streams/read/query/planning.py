"""Planning for both ways of consuming: limits, shares of streams, cuts into ranges, their contents, and tasks.

The functions work on plain data, without Spark or a clock. If the data is not enough to find a cut, a function asks
`entries` for counts, of all streams at once. The ranges of a batch are disjoint, and their union is the batch.

At planning time, `expect` adds a fact from the server to each range: the number of its entries, or its first entry if
counting would require reading. `find_missing` compares these facts with the entries that a task has read and with the
stream's state afterwards. `spark_streams.read.query.loss` decides whether the stream is still the same.

A range with a count is checked by its count. For any other range, these conclusions are possible:

* if nothing was removed from the stream since planning, the range is complete;
* if the range's first entry is missing, entries were trimmed or deleted;
* if the stream's first entry is after the reader's position, unread entries may have been trimmed;
* if the largest deleted ID has changed and lies in the range, that entry was deleted.

In such a range, the deletion of an entry is not detected if a larger ID was deleted earlier or outside the range.

`plan_shared` plans a batch of a shared group: the numbers of entries that each of its consumers may read and claim.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spark_streams.config.read import LimitOptions
from spark_streams.read.query.loss import Known, Loss, find_another
from spark_streams.read.query.offsets import Offsets, SharedBatch, Source
from streamclient.streams.counting import Entries
from streamclient.streams.states import Cut, Range, StreamState
from streamwire.stream_id import LAST, ZERO, StreamId


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


_RANGE_COST = 30  # fixed cost of a range, as a number of entries
_TASK_COST = 100_000  # cost of a task in Spark, on driver and worker, as a number of entries

Part = TypeVar("Part")

#: A position in each stream.
Ids = Mapping[str, StreamId]

#: Each stream's state; None if the stream does not exist.
States = Mapping[str, StreamState | None]


def unlimited(limits: LimitOptions) -> LimitOptions:
    """Return only the limits of partitions, without the limits of a micro-batch."""
    return LimitOptions(
        min_partitions=limits.min_partitions,
        max_partitions=limits.max_partitions,
        max_per_partition=limits.max_per_partition,
    )


def read_once(
    starts: Ids, ends: Ids, states: States, limits: LimitOptions, entries: Entries, cores: int
) -> list[tuple[Range, ...]]:
    """Return the ranges of each task of a batch read between two positions, with their required contents."""
    found = cuts(starts, ends, {}, states, limits, entries)
    sizes = estimates(starts, states)
    whole = expect(ranges(starts, ends, found, sizes=sizes), states, entries)
    return by_task(whole, tasks(whole, limits, cores))


def estimates(starts: Ids, states: States) -> dict[str, int]:
    """Return the number of entries after each position, or an estimate of it."""
    return {stream: 0 if state is None else state.backlog(starts[stream])[0] for stream, state in states.items()}


def cuts(
    starts: Ids,
    ends: Ids,
    counts: Mapping[str, int],
    states: States,
    limits: LimitOptions,
    entries: Entries,
) -> dict[str, Sequence[Cut]]:
    """Return the positions at which streams are cut into partitions. Streams that need no cut are omitted.

    `counts`: number of entries between start and end, by stream if known.
    """
    least, most = limits.min_partitions, limits.max_per_partition
    if least <= 1 and most is None:
        return {}
    unread = {stream: state for stream, state in states.items() if state is not None and ends[stream] > starts[stream]}
    unknown = [stream for stream in unread if entries.counts_cheaply and stream not in counts]
    counted = entries.counts([(stream, starts[stream], ends[stream]) for stream in unknown])
    known = {**counts, **dict(zip(unknown, counted, strict=True))}
    sizes = {
        stream: known[stream] if stream in known else state.backlog(starts[stream])[0]
        for stream, state in unread.items()
    }
    wanted = [
        (Range(stream, starts[stream], ends[stream], 0, counts.get(stream)), number)
        for stream, number in parts(sizes, least, most).items()
        if number > 1 or (most is not None and stream not in counts)
    ]
    found = entries.splits(wanted, most) if wanted else []
    return {whole.stream: cut for (whole, _), cut in zip(wanted, found, strict=True)}


def ranges(
    starts: Ids,
    ends: Ids,
    cuts: Mapping[str, Sequence[Cut]] | None = None,
    counts: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Range]:
    """Return the ranges between two positions: one for each stream with entries, or one for each cut of the stream.

    `counts`: known numbers of entries of streams that are not cut. `sizes`: estimates.
    """
    found: list[Range] = []
    for stream in sorted(ends):
        after, end = starts[stream], ends[stream]
        if end <= after:
            continue
        cut = (cuts or {}).get(stream)
        if not cut:
            found.append(Range(stream, after, end, 0, (counts or {}).get(stream), (sizes or {}).get(stream)))
            continue
        for index, (upto, count) in enumerate(cut):
            found.append(Range(stream, after, upto, index, count))
            after = upto
    return found


def tasks(ranges: Sequence[Range], limits: LimitOptions, cores: int) -> tuple[int, ...]:
    """Return the number of ranges that each task reads, in order; empty if each range has its own task.

    The limits apply to the number of tasks and to the entries per task. Without a maximum number of tasks, the maximum
    is the number of cores, or more if the minimum or the number of entries requires more.
    """
    most, limit = limits.max_per_partition, limits.max_partitions
    costs = [_RANGE_COST + (part.size or 0) for part in ranges]
    total = sum(costs)
    if limit is None:
        limit = max(limits.min_partitions, cores, total // _TASK_COST)
    if most is None and len(ranges) <= limit:
        return ()
    found: list[int] = []
    before, current, entries = 0, -1, 0
    for part, cost in zip(ranges, costs, strict=True):
        size = most or 0 if part.count is None else part.count
        at = (2 * before + cost) * limit // (2 * total)
        if at == current and (most is None or entries + size <= most):
            found[-1] += 1
            entries += size
        else:
            found.append(1)
            entries = size
        current = at
        before += cost
    return tuple(found) if len(found) < len(ranges) else ()


def by_task(ranges: Sequence[Part], tasks: Sequence[int]) -> list[tuple[Part, ...]]:
    """Divide the ranges among tasks in order. `tasks`: the number of ranges of each task.

    If the numbers do not add up to the number of ranges, each range has its own task.
    """
    if sum(tasks) != len(ranges):
        return [(part,) for part in ranges]
    ends = list(itertools.accumulate(tasks))
    return [tuple(ranges[end - count : end]) for count, end in zip(tasks, ends, strict=True)]


def parts(sizes: Mapping[str, int], at_least: int, most: int | None) -> dict[str, int]:
    """Return the number of partitions of each stream that has entries.

    `sizes` are numbers of entries. No partition gets more than `most` entries. All streams together get at least
    `at_least` partitions in proportion to their sizes, but no stream gets more partitions than entries.
    """
    waiting = {stream: size for stream, size in sizes.items() if size > 0}
    total = sum(waiting.values())
    wanted = {stream: 1 if most is None else -(-size // most) for stream, size in waiting.items()}
    short = at_least - sum(wanted.values())
    if short > 0 and total:
        for stream, size in waiting.items():
            wanted[stream] = min(size, max(wanted[stream], -(-size * at_least // total)))
    return wanted


def shares(limit: int, backlog: Mapping[str, int], rotation: int = 0) -> dict[str, int]:
    """Divide `limit` entries among streams in proportion to their backlogs.

    Each stream gets at least one entry and at most its backlog. The shares add up to the limit, or to the total backlog
    if it is smaller. If the limit is smaller than the number of streams, only `limit` streams get an entry; `rotation`
    determines which.
    """
    waiting = {name: backlog[name] for name in sorted(backlog) if backlog[name] > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    if limit <= len(waiting):
        names = list(waiting)
        return {names[(rotation * limit + i) % len(names)]: 1 for i in range(limit)}
    share = {name: max(1, limit * count // total) for name, count in waiting.items()}
    # Rounding leaves a few entries too many or too few: correct the largest shares, in a fixed order.
    order = sorted(waiting, key=lambda name: (-waiting[name], name))
    spare = limit - sum(share.values())
    while spare:
        for name in order:
            step = 1 if spare > 0 and share[name] < waiting[name] else -1 if spare < 0 and share[name] > 1 else 0
            share[name] += step
            spare -= step
            if not spare:
                break
    return share


def limited(
    limit: int, starts: Ids, ends: Ids, backlog: Mapping[str, int], entries: Entries, rotation: int = 0
) -> tuple[dict[str, StreamId], dict[str, int]]:
    """Return the ends of a batch of exactly `limit` entries, or of all entries if there are fewer.

    `backlog` may be an estimate, because it only determines the proportions. If a stream has fewer entries than
    estimated, the other streams get the remaining entries. Returns the ends, and the number of entries of each stream
    up to its end.
    """
    reached = dict(starts)
    counts = dict.fromkeys(starts, 0)
    left = limit
    waiting = {stream: max(1, backlog[stream]) for stream in ends if ends[stream] > starts[stream]}
    while left and waiting:
        requested = shares(left, waiting, rotation)
        answers = entries.ends([(stream, reached[stream], share, ends[stream]) for stream, share in requested.items()])
        for (stream, share), (at, found) in zip(requested.items(), answers, strict=True):
            reached[stream] = at
            left -= found
            counts[stream] += found
            if found < share or reached[stream] >= ends[stream]:
                reached[stream] = ends[stream]
                del waiting[stream]
            else:
                # A stream with more entries than estimated may use up the remainder.
                waiting[stream] = waiting[stream] - found if waiting[stream] > found else limit
    return reached, counts


_MOST = 100_000  # default maximum number of entries per task, which arrive in one reply


@dataclass(frozen=True)
class SharedFacts:
    """Facts for planning a batch of a shared group.

    `lag`: number of entries that the group has yet to read in each stream, or an estimate. `claims`: number of entries
    pending for other consumers that may be claimed. `starts`: start of a new query, if the batch is planned without
    knowing the previous one (Spark 4.0 and 4.1). `cores`: cores for which tasks are planned. `lost`: number of entries
    that the query has noticed as lost so far.
    """

    lag: Mapping[str, int]
    claims: Mapping[str, int]
    source: Source
    starts: Mapping[str, StreamId] | None = None
    cores: int = 1
    lost: Mapping[str, int] = field(default_factory=dict)


def plan_shared(number: int, since: int, facts: SharedFacts, limits: LimitOptions) -> Offsets:
    """Return the batch with the number `number`. `since`: number of the last batch of the query's earlier runs.

    The batch is empty if the group has no entries for it.
    """
    lag = facts.lag
    if limits.max_entries is not None:
        left = max(0, limits.max_entries - sum(facts.claims.values()))
        lag = shares(left, lag, number) if left else {}
    most = limits.max_per_partition or _MOST
    # A batch without a known start has all existing entries, in as many parts as necessary.
    wanted = parts(lag, limits.min_partitions, limits.max_per_partition if facts.starts is None else most)
    reads = {stream: _equal_parts(count, wanted.get(stream, 1), most) for stream, count in lag.items() if count}
    reads = {**dict.fromkeys(facts.claims, (0,)), **reads}
    consumers = [
        Range(stream, ZERO, LAST, index, count + (0 if index else facts.claims.get(stream, 0)))
        for stream, counts in sorted(reads.items())
        for index, count in enumerate(counts)
    ]
    return Offsets(
        {},
        tasks=tasks(consumers, limits, facts.cores),
        lost=facts.lost,
        shared=SharedBatch(number, since, reads, facts.claims),
        source=facts.source,
        starts=facts.starts,
    )


def _equal_parts(count: int, parts: int, most: int) -> tuple[int, ...]:
    """Return the number of entries of each part: numbers that differ by at most 1, none above `most`."""
    parts = max(1, min(parts, count))
    count = min(count, parts * most)
    return tuple(count * (part + 1) // parts - count * part // parts for part in range(parts))
