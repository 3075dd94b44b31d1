"""Parts of a batch: the ranges and tasks that follow from two offsets. They are the same in every replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_streams.read.query import planning
from spark_streams.read.query.offsets import Offsets
from streamclient.streams.model import Range, StreamState
from streamwire.stream_id import ZERO, StreamId


def ranges_between(begin: Offsets, end: Offsets, sizes: Mapping[str, int] | None = None) -> list[Range]:
    """Return the ranges of the batch between two offsets; `sizes` are estimates of their numbers of entries."""
    was = begin.streams
    ends = {stream: upto for stream, upto in end.streams.items() if was.get(stream) != upto or stream in end.begins}
    starts = {stream: end.begins.get(stream, begin.of(stream)) for stream in ends}
    return planning.ranges(starts, ends, end.cuts, _entries_between(begin, end, ends), sizes)


def whole_from(state: StreamState | None) -> StreamId:
    """Return the position up to which a stream was read according to its group; 0-0 if the group is missing or has
    pending entries.

    If the query starts earlier, its first partition also reads the entries before this position.
    """
    group = None if state is None else state.group
    return ZERO if group is None or group.pending else group.last_delivered_id


def tasks_between(begin: Offsets, end: Offsets) -> list[tuple[Range, ...]]:
    """Return the ranges of the batch between two offsets, grouped by task."""
    if end.starts is None:
        return planning.shared(ranges_between(begin, end), end.tasks)
    counts = _entries_between(begin, end, end.streams)
    seen: dict[str, int] = {}
    tasks: list[tuple[Range, ...]] = []
    for whole in planning.shared(ranges_of_whole(end), end.tasks):
        rest: list[Range] = []
        for part in whole:
            stream = part.stream
            replaced = end.is_another(begin, stream)
            after = max(part.after, end.begins.get(stream, ZERO if replaced else begin.of(stream)))
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


def ranges_of_whole(end: Offsets, sizes: Mapping[str, int] | None = None) -> list[Range]:
    """Return the ranges of a read of everything up to an offset; `sizes` are estimates of their numbers of entries."""
    return planning.ranges(dict.fromkeys(end.streams, ZERO), end.streams, end.cuts, sizes=sizes)


def _entries_between(begin: Offsets, end: Offsets, streams: Iterable[str]) -> dict[str, int]:
    """Return each stream's number of entries in a batch, if both offsets count them and none were lost in between."""
    entries: dict[str, int] = {}
    for stream in streams:
        added, before = end.added.get(stream), begin.added.get(stream)
        is_clear = end.starts is not None or end.lost.get(stream) == begin.lost.get(stream)
        if (
            added is not None
            and before is not None
            and end.begins.get(stream, begin.of(stream)) == begin.of(stream)
            and is_clear
        ):
            entries[stream] = added - before
    return entries
