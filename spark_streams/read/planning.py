"""Planning: which entries belong to a micro-batch, and how they are cut into partitions.

Arithmetic on plain data, without Spark or a server: what must be counted is asked through functions. A range is
half-open: after its start, up to and including its end; the ranges of a batch are disjoint and together exactly the
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spark_streams.server.model import Cut, Range
from spark_streams.stream_id import StreamId

Nth = Callable[[str, StreamId, int, StreamId], tuple[StreamId, int]]
"""(stream, after, count, upto) to an ID and a number: see `StreamServer.nth`."""


def ranges(
    starts: Mapping[str, StreamId],
    ends: Mapping[str, StreamId],
    cuts: Mapping[str, Sequence[Cut]] | None = None,
    counts: Mapping[str, int] | None = None,
) -> list[Range]:
    """The ranges between two positions: one for each stream that moves, or as many as its cuts make."""
    found: list[Range] = []
    for stream in sorted(ends):
        after, end = starts[stream], ends[stream]
        if end <= after:
            continue
        whole: Sequence[Cut] = [(end, (counts or {}).get(stream))]
        for index, (upto, count) in enumerate((cuts or {}).get(stream) or whole):
            found.append(Range(stream, after, upto, index, count))
            after = upto
    return found


def parts(sizes: Mapping[str, int], at_least: int, most: int | None) -> dict[str, int]:
    """How many partitions each stream gets: one, or its share of `at_least`, or what `most` entries each make of it."""
    waiting = {stream: size for stream, size in sizes.items() if size > 0}
    total = sum(waiting.values())
    wanted = {stream: 1 if most is None else -(-size // most) for stream, size in waiting.items()}
    short = at_least - sum(wanted.values())
    if short > 0 and total:
        for stream, size in waiting.items():
            wanted[stream] = min(size, max(wanted[stream], -(-size * at_least // total)))
    return wanted


def shares(limit: int, backlog: Mapping[str, int], turn: int = 0) -> dict[str, int]:
    """`limit` entries shared in proportion to each stream's backlog: no more than it has, and at least one each.

    The shares add up to the limit, or to all there is. With fewer entries than streams, one each goes to as many as it
    lasts for, beginning with another one at each `turn`.
    """
    waiting = {name: backlog[name] for name in sorted(backlog) if backlog[name] > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    if limit <= len(waiting):
        names = list(waiting)
        return {names[(turn * limit + i) % len(names)]: 1 for i in range(limit)}
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
    nth: Nth,
    turn: int = 0,
) -> tuple[dict[str, StreamId], dict[str, int]]:
    """Ends such that exactly `limit` entries lie between, or all there are if that is fewer.

    `backlog` may be estimated: it only decides the proportions. What a stream turns out not to have goes to the others.
    With the ends comes how many entries each stream has up to there.
    """
    reached = dict(starts)
    counts = dict.fromkeys(starts, 0)
    left = limit
    waiting = {stream: max(1, backlog[stream]) for stream in ends if ends[stream] > starts[stream]}
    while left and waiting:
        for stream, share in shares(left, waiting, turn).items():
            reached[stream], taken = nth(stream, reached[stream], share, ends[stream])
            left -= taken
            counts[stream] += taken
            if taken < share or reached[stream] >= ends[stream]:
                reached[stream] = ends[stream]
                del waiting[stream]
            else:
                # One that has more than was thought takes whatever is left.
                waiting[stream] = waiting[stream] - taken if waiting[stream] > taken else limit
    return reached, counts
