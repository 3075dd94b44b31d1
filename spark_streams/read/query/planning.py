"""Planning of a batch: its parts in each stream, their cuts into ranges, the ranges' contents, and tasks.

A micro-batch of a query that owns its positions consists of a `Part` of each stream that may have changed.
`spark_streams.read.ranges.continuity` finds the parts' starts, and `plan` their ends. The plan's answers become the
offset at the end of the batch, so a batch is planned only once. `tasks_between` derives the ranges and tasks from a
batch's two offsets; they are the same in every replay.

At planning time, `expect` adds a fact from the server to each range: the number of its entries, or its first entry if
counting would require reading. `spark_streams.read.query.loss` compares these facts with the entries that a task has
read.

The functions work on plain data, without Spark or a clock. If the data is not enough, a function asks `entries`, for
all streams at once. The same facts and answers always give the same batch. The ranges of a batch are disjoint, and
their union is the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spark_streams.config.read import LimitOptions
from spark_streams.read.query.loss import Baseline, Loss
from spark_streams.read.query.offsets import Offsets, Source
from streamclient.streams.counting import Entries
from streamclient.streams.states import Cut, Range, StreamState, last_id_of
from streamwire.stream_id import ZERO, StreamId

_RANGE_COST = 30  # fixed cost of a range, as a number of entries
_TASK_COST = 100_000  # cost of a task in Spark, on driver and worker, as a number of entries

_SAMPLED = 20  # maximum number of streams in one round that counts their entries

T = TypeVar("T")

#: A position in each stream.
Ids = Mapping[str, StreamId]

#: Each stream's state; None if the stream does not exist.
States = Mapping[str, StreamState | None]


@dataclass
class Part:
    """One stream's part of a batch: the entries in (known.after, end].

    `state`: the stream's state; None if it does not exist. `known`: facts of the stream up to the start. `is_new`:
    whether no batch has read the stream before. `jumps`: whether the start differs from the end of the last batch.
    `loss`: loss found at the start or in the part. `backlog`: exact number of entries after the start; None if unknown.
    `retired`: whether the stream was deleted after all of it had been read.

    `plan` sets the rest. `reach`: the furthest position that the part may reach. `count`: the part's number of entries;
    None if unknown. `size`: this number, or an estimate. `added`: number of entries ever added up to the end; None if
    unknown. `ranges`: the part's cuts into partitions. `head`: the part's first entry if its entries were not counted.
    """

    stream: str
    state: StreamState | None
    known: Baseline
    is_new: bool = False
    jumps: bool = False
    loss: Loss | None = None
    backlog: int | None = None
    retired: bool = False
    reach: StreamId = ZERO
    end: StreamId = ZERO
    count: int | None = None
    size: int = 0
    added: int | None = None
    ranges: Sequence[Range] = ()
    head: StreamId | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether the stream has no entries for the batch."""
        return self.reach <= self.known.after

    @property
    def is_plain(self) -> bool:
        """Whether the part begins at the end of the last batch, and the offset has neither a loss nor a deletion to
        record.
        """
        return not (self.is_new or self.jumps or self.loss or self.retired)

    @property
    def seen(self) -> StreamState | None:
        """The stream's state if the batch's offset has a position in it."""
        return None if self.state is None or self.retired or self.end > self.state.last_id else self.state

    @property
    def total(self) -> int | None:
        """The number of entries ever added between start and end; None if unknown."""
        return None if self.added is None or self.known.added is None else self.added - self.known.added

    @property
    def moves(self) -> bool:
        """Whether the part has entries."""
        return self.end > self.known.after

    @property
    def is_read(self) -> bool:
        """Whether the stream has no entries after the part."""
        return self.seen is not None and self.end == self.seen.last_id

    @property
    def whole(self) -> Range:
        """The part as a single range."""
        return Range(self.stream, self.known.after, self.end, 0, self.count, self.size)


@dataclass(frozen=True)
class Facts:
    """Facts of a query for planning a batch.

    `streams`: all streams of the query. `finds_streams`: whether a pattern finds the streams. Streams that it no longer
    finds are dropped. `targets`: for Trigger.AvailableNow, each stream's last ID and number of entries ever added at
    the query's start; None for other triggers. `latest_starts`: start of the first batch in streams that the query
    reads from their end. `waited`: milliseconds since the last batch was planned; None before the first batch.
    `rotation`: counter of limited batches. `cores`: cores for which tasks are planned.
    """

    streams: Collection[str]
    source: Source
    finds_streams: bool = False
    targets: Mapping[str, tuple[StreamId, int | None]] | None = None
    latest_starts: Ids = field(default_factory=dict)
    waited: float | None = None
    rotation: int = 0
    cores: int = 1


def plan(begin: Offsets, parts: Sequence[Part], facts: Facts, limits: LimitOptions, entries: Entries) -> Offsets:
    """Find the ends of the parts, with as many entries as the limits allow, and return the offset at the batch's end.

    Return `begin` itself if the streams have no entries, or while they have fewer than the limits' minimum and the
    maximum delay has not passed. The parts of each stream then remain without entries.
    """
    for part in parts:
        reach = last_id_of(part.state)
        if facts.targets is not None:
            reach = min(reach, facts.targets.get(part.stream, (ZERO, 0))[0])
        part.end = part.known.after
        part.reach = max(part.end, reach)
    waiting = [part for part in parts if not part.is_quiet]
    if not waiting or not _admit(waiting, facts, limits, entries):
        return begin
    return _offset(begin, parts, facts, limits, entries)


def first_offset(baselines: Mapping[str, Baseline], states: States, source: Source) -> Offsets:
    """Return the start of a new query. Each stream is read from its baseline, which may be beyond the stream's end."""
    lasts = {stream: last_id_of(state) for stream, state in states.items()}
    ahead = {stream: known.after for stream, known in baselines.items() if known.after > lasts[stream]}
    existing = {stream: state for stream, state in states.items() if state is not None}
    return Offsets(
        {stream: min(known.after, lasts[stream]) for stream, known in baselines.items()},
        added={
            stream: known.added
            for stream, known in baselines.items()
            if known.added is not None and stream not in ahead
        },
        deleted={stream: known.deleted for stream, known in baselines.items() if known.deleted > known.after},
        jumps=ahead,
        firsts=_firsts(existing),
        unread=frozenset(stream for stream, state in existing.items() if baselines[stream].after < state.last_id),
        source=source,
    )


def plan_without_begin(
    starts: Ids, states: States, source: Source, limits: LimitOptions, entries: Entries, cores: int
) -> Offsets:
    """Return the end of a batch whose start is unknown: the end of the streams.

    `starts`: the positions after which the batch begins if the query is new. The cuts are those of a read of everything
    after the group's position, or from 0-0 if the group is missing or has pending entries. If the query starts earlier,
    its first partition also reads the entries in between.
    """
    existing = {stream: state for stream, state in sorted(states.items()) if state is not None}
    wholes: list[Range] = []
    for stream, state in existing.items():
        group = state.group
        after = ZERO if group is None or group.pending else group.last_delivered_id
        if state.last_id > after:
            wholes.append(Range(stream, after, state.last_id, 0, None, state.backlog(after)[0]))
    ranges = split(wholes, limits, entries)
    ends = {stream: last_id_of(state) for stream, state in states.items()}
    ahead = {stream: after for stream, after in starts.items() if after > ends[stream]}
    added = {stream: state.entries_added for stream, state in existing.items() if state.entries_added is not None}
    cuts = {stream: cut for stream, cut in _cuts(ranges).items() if len(cut) > 1}
    whole = [
        part if part.stream in cuts else replace(part, about=existing[part.stream].length)
        for part in _ranges(dict.fromkeys(ends, ZERO), ends, cuts, {})
    ]
    return Offsets(
        ends,
        added={**dict.fromkeys(states.keys() - existing.keys() - ahead.keys(), 0), **added},
        cuts=cuts,
        tasks=tasks(whole, limits, cores),
        jumps=ahead,
        firsts=_firsts(existing),
        source=source,
        starts=starts,
    )


def _firsts(states: Mapping[str, StreamState]) -> dict[str, StreamId]:
    return {stream: state.first_id for stream, state in states.items() if state.first_id is not None}


def _cuts(ranges: Iterable[Range]) -> dict[str, tuple[Cut, ...]]:
    """Return the ranges as cuts of their streams."""
    by_stream = itertools.groupby(ranges, lambda part: part.stream)
    return {stream: tuple((part.upto, part.count) for part in its) for stream, its in by_stream}


def _admit(waiting: Sequence[Part], facts: Facts, limits: LimitOptions, entries: Entries) -> bool:
    """Set the parts' ends to what the limits admit. Return False to wait for more entries."""
    limit = limits.max_entries
    if limit is not None or limits.min_entries is not None:
        _measure(waiting, entries)
        if not _is_enough(waiting, facts, limits, entries):
            return False
    if limit is not None and limit < sum(_most(part) for part in waiting):
        _divide(limit, waiting, facts.rotation, entries)
        return True
    for part in waiting:
        part.end = part.reach
    return True


def _most(part: Part) -> int:
    """Return the largest possible number of entries of a part."""
    return part.count if part.count is not None else 0 if part.state is None else part.state.length


def _measure(waiting: Sequence[Part], entries: Entries) -> None:
    """Set the number of entries that each part can have, or an estimate."""
    unknown: list[Part] = []
    for part in waiting:
        assert part.state is not None  # a missing stream has no entries
        part.size, is_certain = part.state.backlog(part.known.after)
        if part.reach < part.state.last_id:
            is_certain = False
        elif part.backlog is not None:
            part.size, is_certain = part.backlog, True
        part.count = part.size if is_certain else None
        if not is_certain and entries.counts_cheaply:
            unknown.append(part)
    counted = entries.counts([(part.stream, part.known.after, part.reach) for part in unknown])
    for part, count in zip(unknown, counted, strict=True):
        part.size = part.count = count


def _is_enough(waiting: Sequence[Part], facts: Facts, limits: LimitOptions, entries: Entries) -> bool:
    """Return whether the minimum is reached, or the maximum delay has passed.

    The first batch and Trigger.AvailableNow do not wait.
    """
    missing = limits.min_entries
    if missing is None or facts.targets is not None or facts.waited is None or facts.waited >= limits.max_delay:
        return True
    missing -= sum(part.count for part in waiting if part.count is not None)
    unknown = [part for part in waiting if part.count is None]
    while missing > 0 and unknown:
        some, unknown = unknown[:_SAMPLED], unknown[_SAMPLED:]
        found = entries.nths([(part.stream, part.known.after, missing, part.reach) for part in some])
        missing -= sum(count for _, count in found)
    return missing <= 0


def _divide(limit: int, waiting: Sequence[Part], rotation: int, entries: Entries) -> None:
    """Set the ends of a batch of exactly `limit` entries, or of all entries if there are fewer.

    The parts' sizes only determine the proportions. If a stream has fewer entries than estimated, the other streams get
    the remaining entries.
    """
    by_stream = {part.stream: part for part in waiting}
    left = {part.stream: max(1, part.size) for part in waiting}
    counts = dict.fromkeys(by_stream, 0)
    while limit and left:
        requested = shares(limit, left, rotation)
        asked = [by_stream[stream] for stream in requested]
        answers = entries.ends([(part.stream, part.end, requested[part.stream], part.reach) for part in asked])
        for part, (at, found) in zip(asked, answers, strict=True):
            stream, part.end = part.stream, at
            limit -= found
            counts[stream] += found
            if found < requested[stream] or part.end >= part.reach:
                part.end = part.reach
                del left[stream]
            else:
                # A stream with more entries than estimated may use up the remainder.
                left[stream] = left[stream] - found if left[stream] > found else limit
    for part in waiting:
        part.count = counts[part.stream]


def _offset(begin: Offsets, parts: Sequence[Part], facts: Facts, limits: LimitOptions, entries: Entries) -> Offsets:
    """Return the offset at the end of a batch: positions, and everything that a replay needs.

    Deleted streams that were read completely, and streams that a changed pattern no longer finds, are dropped. All
    other streams without a new position keep theirs.

    Cuts and heads record what a range must contain, unless the batch's two offsets show it. A known number of entries
    is recorded as a cut. If the number is unknown, the ID of the first entry is recorded as the head.
    """
    seen = {part.stream: part for part in parts if part.seen is not None}
    moved = sorted((part for part in seen.values() if part.moves), key=lambda part: part.stream)
    shown = {part.stream for part in moved if part.is_plain}
    _count(seen.values(), facts, entries)
    _cut(moved, limits, entries)
    states = {stream: part.seen for stream, part in seen.items() if part.seen is not None}
    # An earlier pattern found these streams, and the current pattern does not.
    dropped = begin.streams.keys() - facts.streams if facts.finds_streams else frozenset()
    retained = begin.streams.keys() - dropped - {part.stream for part in parts if part.retired}
    old = retained - seen.keys()
    losses = {part.stream: part.loss.at_least for part in seen.values() if part.loss is not None}
    lost = {stream: count for stream, count in begin.lost.items() if stream in retained}
    firsts = {
        stream: first
        for stream, first in begin.firsts.items()
        if stream in old or (stream in retained and not seen[stream].jumps)
    }
    # For each stream, the largest deleted ID is recorded if it is after this ID: the part's start if the stream has a
    # head, otherwise the part's end.
    aheads = {stream: part.end if part.head is None else part.known.after for stream, part in seen.items()}
    named = {part.stream for part in parts}
    return Offsets(
        {stream: begin.streams[stream] for stream in old} | {stream: part.end for stream, part in seen.items()},
        added={stream: total for stream, total in begin.added.items() if stream in old}
        | {stream: part.added for stream, part in seen.items() if part.added is not None},
        deleted={stream: upto for stream, upto in begin.deleted.items() if stream in retained - named}
        | {stream: state.max_deleted_id for stream, state in states.items() if state.max_deleted_id > aheads[stream]},
        cuts={
            part.stream: tuple((each.upto, each.count) for each in part.ranges)
            for part in moved
            if len(part.ranges) > 1
            or (part.ranges[0].count is not None and (part.total is None or part.stream not in shown))
        },
        tasks=tasks([each for part in moved for each in part.ranges], limits, facts.cores),
        # If the first batch is repeated, Spark requests the query's start again, and the streams may have grown
        # meanwhile. So a start at the stream's end is recorded, too.
        jumps={
            part.stream: part.known.after
            for part in parts
            if part.jumps or facts.latest_starts.get(part.stream) == part.known.after < part.end
        },
        lost=lost | {stream: lost.get(stream, 0) + count for stream, count in losses.items()},
        firsts=firsts | _firsts(states),
        heads={part.stream: part.head for part in moved if part.head is not None},
        unread=frozenset(begin.unread & old) | {part.stream for part in seen.values() if not part.is_read},
        source=facts.source,
    )


def _count(seen: Collection[Part], facts: Facts, entries: Entries) -> None:
    """Set the number of entries ever added to each stream up to the end of its part, if it can be known."""
    uncounted: list[Part] = []
    for part in seen:
        before, target = part.known.added, (facts.targets or {}).get(part.stream)
        if not part.moves:
            part.added = before
        elif part.is_read:
            part.added = None if part.seen is None else part.seen.entries_added
        elif part.count is not None and before is not None:
            part.added = before + part.count
        else:
            part.added = target[1] if target is not None and target[0] == part.end else None
        if part.added is None and entries.counts_cheaply and before is not None:
            uncounted.append(part)
    counted = entries.counts([(part.stream, part.known.after, part.end) for part in uncounted])
    for part, count in zip(uncounted, counted, strict=True):
        part.added = (part.known.added or 0) + count


def _cut(moved: Sequence[Part], limits: LimitOptions, entries: Entries) -> None:
    """Set the ranges of the parts, with the number of entries or the part's first entry.

    If all ranges were counted, and the numbers of entries ever added show that there were more, the others are lost.
    """
    for part in moved:
        part.size = part.size if part.seen is None else part.seen.backlog(part.known.after)[0]
    ranges = split([part.whole for part in moved], limits, entries)
    by_stream = {stream: list(its) for stream, its in itertools.groupby(ranges, lambda each: each.stream)}
    uncounted: list[Part] = []
    for part in moved:
        part.ranges = by_stream[part.stream]
        if len(part.ranges) > 1:
            part.count = _sum(part.ranges)
            if part.count is not None and part.total is not None and part.total > part.count:
                part.loss = Loss("", part.known.after, upto=part.end, count=part.total - part.count)
        else:
            limited = part.count if part.end < part.reach else None
            part.count = limited if part.total is None else part.total
            part.ranges = [replace(part.ranges[0], count=part.count)]
        if part.count is None and part.seen is not None and part.seen.entries_added is not None:
            uncounted.append(part)
    wholes = [Range(part.stream, part.known.after, part.end, 0) for part in uncounted]
    expected = expect(wholes, {part.stream: part.state for part in uncounted}, entries)
    for part, whole in zip(uncounted, expected, strict=True):
        part.head, part.count = whole.head, whole.count
        if len(part.ranges) == 1:
            part.ranges = [replace(part.ranges[0], count=whole.count)]
        elif part.count is None and part.is_plain and part.state and part.state.max_deleted_id <= part.known.after:
            part.count = part.total


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


def unlimited(limits: LimitOptions) -> LimitOptions:
    """Return only the limits of partitions, without the limits of a micro-batch."""
    return LimitOptions(
        min_partitions=limits.min_partitions,
        max_partitions=limits.max_partitions,
        max_per_partition=limits.max_per_partition,
    )


def split(wholes: Sequence[Range], limits: LimitOptions, entries: Entries) -> list[Range]:
    """Return the ranges of partitions: each whole as it is, or cut at some positions."""
    least, most = limits.min_partitions, limits.max_per_partition
    if least <= 1 and most is None:
        return list(wholes)
    if entries.counts_cheaply:
        unknown = [whole for whole in wholes if whole.count is None]
        counted = entries.counts([(whole.stream, whole.after, whole.upto) for whole in unknown])
        counts = dict(zip(unknown, counted, strict=True))
        wholes = [replace(whole, count=counts.get(whole, whole.count)) for whole in wholes]
    numbers = parts({whole.stream: whole.size or 0 for whole in wholes}, least, most)
    wanted = [
        (whole, numbers[whole.stream])
        for whole in wholes
        if numbers.get(whole.stream, 0) > 1 or (most is not None and whole.count is None and whole.stream in numbers)
    ]
    cuts = dict(zip((whole for whole, _ in wanted), entries.splits(wanted, most) if wanted else (), strict=True))
    return [part for whole in wholes for part in cut(whole, cuts.get(whole, ()))]


def cut(whole: Range, cuts: Sequence[Cut]) -> list[Range]:
    """Return a range for each cut; the whole itself without cuts."""
    starts = [whole.after, *(upto for upto, _ in cuts)]
    return [
        Range(whole.stream, after, upto, index, count)
        for index, (after, (upto, count)) in enumerate(zip(starts, cuts, strict=False))
    ] or [whole]


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


def by_task(ranges: Sequence[T], tasks: Sequence[int]) -> list[tuple[T, ...]]:
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


def tasks_between(begin: Offsets, end: Offsets) -> list[tuple[Range, ...]]:
    """Return the ranges of the batch between two offsets, grouped by task."""
    if end.starts is not None:
        return _tasks_of_whole(begin, end)
    was = begin.streams
    ends = {stream: upto for stream, upto in end.streams.items() if was.get(stream) != upto or stream in end.jumps}
    starts = {stream: end.jumps.get(stream, begin.of(stream)) for stream in ends}
    return by_task(_ranges(starts, ends, end.cuts, _entries_between(begin, end, ends)), end.tasks)


def _tasks_of_whole(begin: Offsets, end: Offsets) -> list[tuple[Range, ...]]:
    """Return the tasks of a batch that was planned as a part of a read from 0-0 (`plan_without_begin`)."""
    counts = _entries_between(begin, end, end.streams)
    seen: dict[str, int] = {}
    tasks: list[tuple[Range, ...]] = []
    wholes = _ranges(dict.fromkeys(end.streams, ZERO), end.streams, end.cuts, {})
    for whole in by_task(wholes, end.tasks):
        rest: list[Range] = []
        for part in whole:
            stream = part.stream
            replaced = end.is_another(begin, stream)
            after = max(part.after, end.jumps.get(stream, ZERO if replaced else begin.of(stream)))
            if after >= part.upto:
                continue
            index = seen[stream] = seen.get(stream, -1) + 1
            count = part.count
            if not index:  # the planned part may begin before the batch
                count = None if replaced or stream in end.cuts else counts.get(stream)
            rest.append(Range(stream, after, part.upto, index, count))
        if rest:
            tasks.append(tuple(rest))
    return tasks


def _ranges(starts: Ids, ends: Ids, cuts: Mapping[str, Sequence[Cut]], counts: Mapping[str, int]) -> list[Range]:
    """Return the ranges between two positions. `counts`: known numbers of entries of streams without cuts."""
    found: list[Range] = []
    for stream in sorted(ends):
        if ends[stream] > starts[stream]:
            whole = Range(stream, starts[stream], ends[stream], 0, counts.get(stream))
            found += cut(whole, cuts.get(stream, ()))
    return found


def parts_between(begin: Offsets, end: Offsets, tasks: Iterable[Iterable[Range]], states: States) -> list[Part]:
    """Return the parts of the batch between two offsets, which has these tasks. `states`: states of the streams now."""
    counts = _entries_between(begin, end, end.streams) if end.starts is None else {}
    by_stream: dict[str, list[Range]] = {}
    for each in itertools.chain.from_iterable(tasks):
        by_stream.setdefault(each.stream, []).append(each)
    parts: list[Part] = []
    for stream, ranges in by_stream.items():
        known, state, head = baseline_in(begin, stream), states[stream], end.heads.get(stream)
        deleted = max(known.deleted, end.deleted.get(stream, ZERO))
        was_replaced = end.starts is not None and end.is_another(begin, stream)
        if ranges[0].after != begin.of(stream) or stream not in begin.streams or was_replaced:
            known = Baseline(ranges[0].after)
        elif end.lost.get(stream, 0) > begin.lost.get(stream, 0):
            known = replace(known, added=None)  # losses before the batch was planned are already reported
        part = Part(stream, state, replace(known, deleted=deleted, first=end.firsts.get(stream)), head=head)
        part.end, part.added = ranges[-1].upto, end.added.get(stream)
        part.ranges = [replace(ranges[0], head=head), *ranges[1:]]
        part.count = _sum(ranges)
        if part.count is None and state is not None and state.max_deleted_id <= part.known.after:
            part.count = counts.get(stream)
        parts.append(part)
    return parts


def _sum(ranges: Sequence[Range]) -> int | None:
    counts = [each.count for each in ranges if each.count is not None]
    return sum(counts) if len(counts) == len(ranges) else None


def baseline_in(offset: Offsets, stream: str) -> Baseline:
    """Return the facts about a stream in an offset."""
    first = offset.firsts.get(stream)
    return Baseline(offset.of(stream), offset.added.get(stream), offset.deleted.get(stream, ZERO), first)


def _entries_between(begin: Offsets, end: Offsets, streams: Iterable[str]) -> dict[str, int]:
    """Return each stream's number of entries in a batch, if both offsets count them and none were lost in between."""
    entries: dict[str, int] = {}
    for stream in streams:
        added, before = end.added.get(stream), begin.added.get(stream)
        is_clear = end.starts is not None or end.lost.get(stream) == begin.lost.get(stream)
        if (
            added is not None
            and before is not None
            and end.jumps.get(stream, begin.of(stream)) == begin.of(stream)
            and is_clear
        ):
            entries[stream] = added - before
    return entries
