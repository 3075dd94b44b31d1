"""Cutting a range into parts of equal size, from marks (counted) or windows (sampled). All functions are pure.

*Marks* are the IDs of every grid-th entry. A *probe* is an ID, and its *window* is the first few entries at or after
this ID. The distances of a window's IDs give the density of the stream at the probe. The densities give the numbers of
entries between probes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from streamclient.streams.model import Cut
from streamwire.stream_id import StreamId

#: Number of entries sampled at a probe.
WINDOW = 64

_PROBES_PER_PART = 16  # probes per requested part of the range
_MANY = 20_000  # minimum number of entries for which marks pay off
_MARKS = range(800, 1600)  # possible numbers of marks: enough for eight parts whose sizes differ by at most a hundredth


def cut(marks: Sequence[StreamId], grid: int, total: int, upto: StreamId, parts: int, most: int | None) -> list[Cut]:
    """Cut at marks into `parts` parts, as equal as the grid allows, or into more so that none exceeds `most` entries.

    `total` is the range's number of entries, `upto` its end.
    """
    if most is not None:
        parts = max(parts, -(-total // max(grid, most // grid * grid)))
    cuts: list[Cut] = []
    done = 0
    for part in range(1, parts):
        at = total * part // parts // grid  # number of marks up to this cut
        if most is not None:
            at = min(at, done // grid + most // grid)
        if at * grid > done and at * grid < total:
            cuts.append((marks[at - 1], at * grid - done))
            done = at * grid
    while most is not None and total - done > most:
        at = done // grid + most // grid
        cuts.append((marks[at - 1], at * grid - done))
        done = at * grid
    return [*cuts, (upto, total - done)]


def grid_of(count: int) -> int:
    """Return a grid of marks whose last mark is the `count`-th entry; `count` itself if no grid fits.

    Also returns `count` if marks do not pay off: for few entries, and for a `count` so large that it is only a limit.
    """
    if count < _MANY or count > _MANY * _MANY:
        return count
    return next((count // number for number in _MARKS if count % number == 0), count)


def probes(after: StreamId, upto: StreamId, parts: int) -> list[StreamId]:
    """Return the IDs to sample at: equal distances in time, or in sequence numbers within a single millisecond."""
    count = parts * _PROBES_PER_PART
    if upto.ms > after.ms:
        step = (upto.ms - after.ms) / count
        found = [StreamId(after.ms + int(step * i), 0) for i in range(count)]
        found[0] = after.next()
    else:
        found = [StreamId(after.ms, after.seq + 1 + (upto.seq - after.seq) * i // count) for i in range(count)]
    return sorted(set(found))


def estimated(
    at: Sequence[StreamId], windows: Sequence[Sequence[StreamId]], upto: StreamId, parts: int
) -> list[StreamId]:
    """Return the ends of at most `parts` ranges with equal estimated numbers of entries.

    `windows[i]` has the IDs of the first `WINDOW` entries at or after `at[i]`.
    """
    points: list[StreamId] = []  # ends of sections of known density
    weights: list[float] = []
    for i, window in enumerate(windows):
        edge = at[i + 1] if i + 1 < len(at) else upto.next()
        inside = [entry_id for entry_id in window if entry_id < edge]
        if not inside:
            continue
        points.append(inside[-1])
        weights.append(len(inside))
        if len(inside) == WINDOW:
            # A full window: assume the same density up to the next probe.
            covered = _distance(inside[0], inside[-1]) or 1.0
            points.append(min(edge.before(), upto))
            weights.append(len(inside) * _distance(inside[-1], edge) / covered)
    ends: list[StreamId] = []
    sums = list(accumulate(weights))
    for part in range(1, parts):
        wanted = sums[-1] * part / parts if sums else 0.0
        index = bisect_left(sums, wanted)
        if index >= len(points):
            break
        before = sums[index - 1] if index else 0.0
        low = points[index - 1] if index else at[0].before()
        share = (wanted - before) / weights[index] if weights[index] else 1.0
        end = _between(low, points[index], share)
        if end < upto and (not ends or end > ends[-1]) and end >= at[0]:
            ends.append(end)
    return [*ends, upto]


def _distance(low: StreamId, high: StreamId) -> float:
    if high.ms == low.ms:
        return (high.seq - low.seq) / 2**20
    return float(high.ms - low.ms)


def _between(low: StreamId, high: StreamId, share: float) -> StreamId:
    if high.ms - low.ms > 1:
        return StreamId(low.ms + int((high.ms - low.ms) * share), high.seq if share >= 1 else 0)
    if high.ms == low.ms:
        return StreamId(low.ms, low.seq + int((high.seq - low.seq) * share))
    return high
