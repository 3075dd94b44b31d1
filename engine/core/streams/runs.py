"""Runs: consecutive live entries of one segment, as reads find them, and the replies and IDs made of them.

A long reply is made page by page, while the stream may change. So it is made of *bodies*: those of a segment get more
entries at their end, but the ones that they have stay as they are. What was deleted is known from the runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from engine.core.protocol.replies import Frames, Pages, Several
from engine.core.streams.segment import Body, Segment

#: (segment, i, j): its entries [i, j), all live.
Run = tuple[Segment, int, int]
#: (body, i, j): the same for long replies.
BodyRun = tuple[Body, int, int]

#: More runs of more entries make a long reply.
_MANY_RUNS, _MANY_ENTRIES = 10, 20_000
#: Fewer IDs of a run are looked up one by one.
_MANY_IDS = 32
#: A page is full with so many bytes or runs; in reverse order, where each entry is sliced, with so many entries.
_PAGE_BYTES, _PAGE_RUNS, _PAGE_ENTRIES = 512 * 1024, 1000, 4000


def frames_of(runs: list[Run]) -> Frames:
    """The reply that consists of the entries of the runs."""
    if len(runs) == 1:
        segment, first, last = runs[0]
        return Frames(last - first, segment.views(first, last))
    count = sum(last - first for _, first, last in runs)
    return Frames(count, [view for segment, first, last in runs for view in segment.views(first, last)])


def reply_of(runs: list[Run]) -> Frames | Pages:
    """As :func:`frames_of`, in pages if the reply is long."""
    if len(runs) <= _MANY_RUNS:
        return frames_of(runs)
    count = sum(last - first for _, first, last in runs)
    if count <= _MANY_ENTRIES:
        return frames_of(runs)
    bodies: list[BodyRun] = [(segment.body, first, last) for segment, first, last in runs]
    return Pages(list, count, _pages(bodies, count))


def reply_of_parts(parts: list[Run], count: int, *, backward: bool) -> Pages:
    """The first ``count`` live entries of parts of segments that nobody changes; ``backward``: the last ones, the last
    one first.
    """
    if backward:
        return Pages(
            list,
            count,
            _pages_backward(
                (
                    (segment.body, *run)
                    for segment, first, last in reversed(parts)
                    for run in segment.runs_backward(first, last)
                ),
                count,
            ),
        )
    runs = ((segment.body, *run) for segment, first, last in parts for run in segment.runs(first, last))
    return Pages(list, count, _pages(runs, count))


def _pages(runs: Iterable[BodyRun], left: int) -> Iterator[list[Several]]:
    count, size = 0, 0
    views: list[bytes | memoryview] = []
    for body, first, last in runs:
        last = min(last, first + left)
        more = body.views(first, last)
        views += more
        size += sum(map(len, more))
        count += last - first
        left -= last - first
        if size >= _PAGE_BYTES or len(views) >= _PAGE_RUNS or not left:
            yield [Several(count, views)]
            if not left:
                return
            views, count, size = [], 0, 0


def _pages_backward(runs: Iterable[BodyRun], left: int) -> Iterator[list[Several]]:
    page: list[bytes] = []
    for body, first, last in runs:
        while last > first:
            begin = max(first, last - min(left, _PAGE_ENTRIES - len(page)))
            page += reversed(body.frames(begin, last))
            left -= last - begin
            last = begin
            if len(page) == _PAGE_ENTRIES or not left:
                yield [Several(len(page), page)]
                if not left:
                    return
                page = []


def ends_of_parts(parts: Iterable[Run], total: int, count: int) -> Iterator[tuple[int, int]]:
    """(Last ID, number of entries) of each but the last of ``count`` equal parts of ``total`` live entries.

    ``parts`` are the segments that the entries lie in.
    """
    first_part, place, before = 1, 0, 0
    for segment, begin, end in parts:
        for first, last in segment.runs(begin, end):
            here = before + last - first
            behind = min(((here + 1) * count - 1) // total, count - 1) + 1
            ms, seq = segment.id_columns(first, last) if behind - first_part >= _MANY_IDS else (None, None)
            for number in range(first_part, behind):
                size, place = total * number // count - place, total * number // count
                at = place - before - 1
                yield (segment.id_at(first + at) if ms is None or seq is None else ms[at] << 64 | seq[at]), size
            first_part, before = max(behind, first_part), here


def id_columns(runs: Iterable[Run]) -> tuple[array[int], array[int]]:
    """The IDs of the runs' entries: milliseconds and sequence numbers, as new arrays."""
    ms = seq = None
    for segment, first, last in runs:
        if ms is None or seq is None:
            ms, seq = segment.id_columns(first, last)
        else:
            more_ms, more_seq = segment.id_columns(first, last)
            ms += more_ms
            seq += more_seq
    return (array("Q"), array("Q")) if ms is None or seq is None else (ms, seq)
