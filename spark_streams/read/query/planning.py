"""Planning: which entries belong to a micro-batch, and how they are cut into partitions.

Arithmetic on plain data, without Spark or a server; what must be counted is asked through a function (`Nths`). The
ranges of a batch are disjoint, and together they are exactly the batch.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from spark_streams.config.read import LimitOptions
from streamclient.streams.model import Cut, Range
from streamwire.stream_id import StreamId

_RANGE_COST = 30  # what a range costs besides its entries, as a number of entries
_TASK_COST = 100_000  # entries that take about as long as all that Spark does for a task, on both its sides

Part = TypeVar("Part")
Nths = Callable[[Sequence[tuple[str, StreamId, int, StreamId]]], Sequence[tuple[StreamId, int]]]
"""Of each (stream, after, count, upto): (ID, number of entries). See `StreamServer.nths`."""


def ranges(
    starts: Mapping[str, StreamId],
    ends: Mapping[str, StreamId],
    cuts: Mapping[str, Sequence[Cut]] | None = None,
    counts: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Range]:
    """The ranges between two positions: one for each stream that has moved, or as many as it has cuts.

    `counts` is the number of entries of a stream that is not cut, where it is known; `sizes` are estimates of it.
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


def tasks(ranges: Sequence[Range], options: LimitOptions, cores: int | None = None) -> list[int]:
    """How many of the ranges, which stay in their order, each task reads. No task is empty.

    The options limit the number of tasks and the entries of each. Without a limit there is a task for each core, or
    more if there are so many entries that they are worth it. `cores` are those of this machine by default.
    """
    most, limit = options.max_per_partition, options.max_partitions
    costs = [_RANGE_COST + (one.size or 0) for one in ranges]
    total = sum(costs)
    if limit is None:
        cores = cores or os.cpu_count() or 1
        limit = max(options.min_partitions, cores, total // _TASK_COST)
    if most is None and len(ranges) <= limit:
        return [1] * len(ranges)
    found: list[int] = []
    before, place, entries = 0, -1, 0
    for one, cost in zip(ranges, costs, strict=True):
        size = most or 0 if one.count is None else one.count
        at = (2 * before + cost) * limit // (2 * total)
        if at == place and (most is None or entries + size <= most):
            found[-1] += 1
            entries += size
        else:
            found.append(1)
            entries = size
        place = at
        before += cost
    return found


def shared(ranges: Sequence[Part], tasks: Sequence[int]) -> list[tuple[Part, ...]]:
    """The ranges of each task: as many as `tasks` says, in order. Without tasks, or with others, each has its own."""
    if sum(tasks) != len(ranges):
        return [(one,) for one in ranges]
    ends = list(itertools.accumulate(tasks))
    return [tuple(ranges[end - count : end]) for count, end in zip(tasks, ends, strict=True)]


def parts(sizes: Mapping[str, int], at_least: int, most: int | None) -> dict[str, int]:
    """The number of partitions of each stream that has entries.

    `sizes` are numbers of entries. No partition gets more than `most` entries; all streams together get `at_least`
    partitions, in proportion to their sizes, but no stream gets more partitions than it has entries.
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
    """Divide `limit` entries among streams in proportion to their backlogs: at least one each, at most what it has.

    The shares add up to the limit, or to the whole backlog if that is smaller. With fewer entries than streams, that
    many streams get one each, and `rotation` decides with which of them to begin.
    """
    waiting = {name: backlog[name] for name in sorted(backlog) if backlog[name] > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    if limit <= len(waiting):
        names = list(waiting)
        return {names[(rotation * limit + i) % len(names)]: 1 for i in range(limit)}
    share = {name: max(1, limit * count // total) for name, count in waiting.items()}
    # Rounding leaves a few too many (the ones) or too few: settle with the largest, in a fixed order.
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
    limit: int,
    starts: Mapping[str, StreamId],
    ends: Mapping[str, StreamId],
    backlog: Mapping[str, int],
    nths: Nths,
    rotation: int = 0,
) -> tuple[dict[str, StreamId], dict[str, int]]:
    """Ends between which exactly `limit` entries lie, or all entries if there are fewer.

    `backlog` may be an estimate: it decides the proportions only, and what one stream turns out not to have goes to the
    others. Returns the ends, and the number of entries of each stream up to there.
    """
    reached = dict(starts)
    counts = dict.fromkeys(starts, 0)
    left = limit
    waiting = {stream: max(1, backlog[stream]) for stream in ends if ends[stream] > starts[stream]}
    while left and waiting:
        asked = shares(left, waiting, rotation)
        answers = nths([(stream, reached[stream], share, ends[stream]) for stream, share in asked.items()])
        for (stream, share), (at, found) in zip(asked.items(), answers, strict=True):
            reached[stream] = at
            left -= found
            counts[stream] += found
            if found < share or reached[stream] >= ends[stream]:
                reached[stream] = ends[stream]
                del waiting[stream]
            else:
                # A stream with more entries than estimated may use up whatever is left.
                waiting[stream] = waiting[stream] - found if waiting[stream] > found else limit
    return reached, counts
