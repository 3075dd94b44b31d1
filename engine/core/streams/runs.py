"""Runs of consecutive live entries of one segment, and the replies and IDs made from them.

A long reply is sent page by page, and the stream may change between pages. So the reply refers to the *bodies* of
segments: entries can be appended to a body, but existing entries never change. The runs record which entries were live.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from engine.core.protocol import pace
from engine.core.protocol.replies import Frames, Pages, Several
from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.segment import Body, Segment, loaded

#: (segment, i, j): the segment's entries [i, j), all live unless stated otherwise (`Stream.frozen_ranges`).
Run = tuple[Segment, int, int]
#: (body, i, j): a run of a long reply.
BodyRun = tuple[Body, int, int]


def frames_of(runs: list[Run]) -> Frames:
    """Return a reply that consists of the entries of the runs."""
    if len(runs) == 1:
        segment, first, last = runs[0]
        return Frames(last - first, segment.entries.views(first, last))
    count = sum(last - first for _, first, last in runs)
    return Frames(count, [view for segment, first, last in runs for view in segment.entries.views(first, last)])


def reply_of(runs: list[Run]) -> Frames | Pages:
    """Return the reply of ``frames_of``, in pages if it is long."""
    if len(runs) <= pace.MANY_SEGMENTS:
        return frames_of(runs)
    count = sum(last - first for _, first, last in runs)
    if count <= pace.MANY_ENTRIES:
        return frames_of(runs)
    bodies: list[BodyRun] = [(segment.body, first, last) for segment, first, last in runs]
    return Pages(list, count, _pages(bodies, count), size_in_memory(body for body, _, _ in bodies))


def size_in_memory(bodies: Iterable[Body]) -> int:
    """Return the total size in bytes of the bodies' entries; a repeated body counts once, one on disk does not."""
    return sum(body.data_size for body in set(bodies) if type(body) is not Stored)


def reply_of_snapshots(snapshots: list[Run], count: int, *, backward: bool) -> Pages:
    """Return a reply with the first ``count`` live entries of ``snapshots`` (see `Stream.frozen_ranges`).

    With ``backward``, the reply has the last entries, in reverse order.
    """
    held = size_in_memory(segment.body for segment, _, _ in snapshots)
    if backward:
        parts = ((segment, segment.runs_backward(low, high)) for segment, low, high in reversed(snapshots))
    else:
        parts = ((segment, segment.runs(low, high)) for segment, low, high in snapshots)
    runs = ((segment.body, first, last) for segment, live in parts for first, last in live)
    return Pages(list, count, (_pages_backward if backward else _pages)(runs, count), held)


def _pages(runs: Iterable[BodyRun], left: int) -> Iterator[list[Several]]:
    count, size = 0, 0
    views: list[bytes | memoryview] = []
    for body, first, last in runs:
        last = min(last, first + left)
        more = loaded(body).views(first, last)
        views += more
        size += sum(map(len, more))
        count += last - first
        left -= last - first
        if size >= pace.PAGE_BYTES or len(views) >= pace.PAGE_BUFFERS or not left:
            yield [Several(count, views)]
            if not left:
                return
            views, count, size = [], 0, 0


def _pages_backward(runs: Iterable[BodyRun], left: int) -> Iterator[list[Several]]:
    page: list[bytes] = []
    for body, first, last in runs:
        while last > first:
            begin = max(first, last - min(left, pace.PAGE_ENTRIES - len(page)))
            page += reversed(loaded(body).frames(begin, last))
            left -= last - begin
            last = begin
            if len(page) == pace.PAGE_ENTRIES or not left:
                yield [Several(len(page), page)]
                if not left:
                    return
                page = []


def equal_ranges(snapshots: Iterable[Run], total: int, count: int) -> Iterator[tuple[int, int]]:
    """Split ``total`` live entries into ``count`` ranges of equal size; yield (last ID, size) of all but the last.

    ``snapshots``: see `Stream.frozen_ranges`.
    """
    first_number, upto, before = 1, 0, 0
    for segment, begin, end in snapshots:
        for first, last in segment.runs(begin, end):
            here = before + last - first
            behind = min(((here + 1) * count - 1) // total, count - 1) + 1
            for number in range(first_number, behind):
                size, upto = total * number // count - upto, total * number // count
                yield segment.entries.id_at(first + upto - before - 1), size
            first_number, before = max(behind, first_number), here


def id_columns(runs: Iterable[Run]) -> tuple[array[int], array[int]]:
    """Return the IDs of the runs' entries as new arrays: milliseconds and sequence numbers."""
    ms = seq = None
    for segment, first, last in runs:
        if ms is None or seq is None:
            ms, seq = segment.entries.id_columns(first, last)
        else:
            more_ms, more_seq = segment.entries.id_columns(first, last)
            ms += more_ms
            seq += more_seq
    return (array("Q"), array("Q")) if ms is None or seq is None else (ms, seq)
