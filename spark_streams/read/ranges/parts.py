"""The parts of a batch: where streams are cut into partitions, and the ranges that two offsets mean."""

from __future__ import annotations

from collections.abc import Mapping

from spark_streams.config.read import ReadOptions
from spark_streams.read.query import planning
from spark_streams.read.query.offsets import Offsets
from spark_streams.read.ranges.continuity import Begin
from spark_streams.server.api import StreamServer
from spark_streams.server.model import Cut, Range, StreamState
from spark_streams.stream_id import StreamId

States = Mapping[str, StreamState | None]


def cuts_of(
    options: ReadOptions,
    server: StreamServer,
    begins: Mapping[str, Begin],
    ends: Mapping[str, StreamId],
    counts: Mapping[str, int],
    states: States,
) -> dict[str, tuple[Cut, ...]]:
    """Where the streams' parts of a batch are cut into partitions, by the options."""
    least, most = options.min_partitions, options.max_per_partition
    if least <= 1 and most is None:
        return {}
    sizes: dict[str, int] = {}
    uncounted: list[tuple[str, StreamId, StreamId]] = []
    for stream, found in begins.items():
        state, after = states[stream], found.baseline.after
        if state is None or ends[stream] <= after:
            continue
        size = counts.get(stream)
        if size is None and server.counts_cheaply:
            uncounted.append((stream, after, ends[stream]))
        sizes[stream] = state.backlog(after)[0] if size is None else size
    sizes.update(zip((stream for stream, *_ in uncounted), server.counts(uncounted), strict=True))
    exact = options.group is not None and options.ack == "commit"
    cuts: dict[str, tuple[Cut, ...]] = {}
    wanted = [
        (Range(stream, begins[stream].baseline.after, ends[stream], 0), parts)
        for stream, parts in planning.parts(sizes, least, most).items()
        if parts > 1 or (most is not None and stream not in counts)
    ]
    for (whole, _), found_cuts in zip(wanted, server.splits(wanted, most, exact=exact), strict=True):
        if len(found_cuts) > 1:
            cuts[whole.stream] = tuple(found_cuts)
    return cuts


def ranges_between(begin: Offsets, end: Offsets, sizes: Mapping[str, int] | None = None) -> list[Range]:
    """The ranges of the batch between two offsets; `sizes` are estimates of their numbers of entries."""
    starts = {stream: end.begins.get(stream, begin.of(stream)) for stream in end.streams}
    return planning.ranges(starts, end.streams, end.cuts, _entries_between(begin, end), sizes)


def _entries_between(begin: Offsets, end: Offsets) -> dict[str, int]:
    """Each stream's number of entries in a batch, where both offsets know it and nothing was lost in between."""
    entries: dict[str, int] = {}
    for stream, added in end.added.items():
        before = begin.added.get(stream)
        if before is not None and stream not in end.begins and end.lost.get(stream) == begin.lost.get(stream):
            entries[stream] = added - before
    return entries
