"""Planning arithmetic for both ways of consuming: limits, shares of streams, cuts into ranges, and tasks.

The functions work on plain data, without Spark or a clock. If the data is not enough to find a cut, a function asks
`entries` for counts, of all streams at once. The ranges of a batch are disjoint, and their union is the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

from spark_streams.config.read import LimitOptions
from spark_streams.read.query.contents import expect
from streamclient.streams.counting import Entries
from streamclient.streams.model import Cut, Range, StreamState
from streamwire.stream_id import StreamId

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
    found = cuts(starts, ends, {}, states, limits, entries, exact=False)
    sizes = estimates(starts, states)
    whole = expect(ranges(starts, ends, found, sizes=sizes), states, entries)
    return shared(whole, tasks(whole, limits, cores))


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
    *,
    exact: bool,
) -> dict[str, Sequence[Cut]]:
    """Return the positions at which streams are cut into partitions. Streams that need no cut are omitted.

    `counts`: number of entries between start and end, by stream if known. `exact`: whether to count the entries of
    every part.
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
    found = entries.splits(wanted, most, exact=exact) if wanted else []
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


def shared(ranges: Sequence[Part], tasks: Sequence[int]) -> list[tuple[Part, ...]]:
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
        answers = entries.nths([(stream, reached[stream], share, ends[stream]) for stream, share in requested.items()])
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
