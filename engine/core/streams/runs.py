"""Runs: consecutive live entries of one segment, as reads find them, and the replies and IDs made of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from engine.core.protocol.replies import Frames
from engine.core.streams.segment import Segment

#: (segment, i, j): its entries [i, j), all live.
Run = tuple[Segment, int, int]


def frames_of(runs: list[Run]) -> Frames:
    """The reply that consists of the entries of the runs."""
    if len(runs) == 1:
        segment, first, last = runs[0]
        return Frames(last - first, segment.views(first, last))
    count = sum(last - first for _, first, last in runs)
    return Frames(count, [view for segment, first, last in runs for view in segment.views(first, last)])


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
