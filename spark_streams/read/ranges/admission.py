"""Admission control: how many entries a micro-batch has, and whether to wait for more.

Turns the query's limits (entries, bytes, a minimum with a delay) and the server's state into an end for each stream.
The answer depends on the moment, so the caller writes it into the offset and never asks again for the same batch.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_streams.config.read import ReadOptions
from spark_streams.read.query import planning
from streamclient.streams import rounds
from streamclient.streams.api import StreamServer
from streamclient.streams.model import StreamState
from streamclient.streams.rounds import Steps
from streamwire.stream_id import StreamId

_SAMPLED = 20  # streams whose entries are looked at to learn their size

Ids = Mapping[str, StreamId]
"""A position in each stream."""


@dataclass(frozen=True)
class Admitted:
    """A batch's end in each stream, and its number of entries in each where that is known."""

    ends: dict[str, StreamId]
    counts: dict[str, int]


class Limits:
    """The limits of a query. Remembers when a batch was last planned, and which stream is first in the rotation.

    `clock` gives seconds.
    """

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._planned: float | None = None
        self._rotation = 0

    def admit(
        self,
        server: StreamServer,
        starts: Ids,
        ends: dict[str, StreamId],
        states: Mapping[str, StreamState | None],
        known: Mapping[str, int | None],
        *,
        waits: bool,
    ) -> Admitted | None:
        """What lies between `starts` and `ends`, cut down to the limits; None to wait for more entries.

        `known` is the exact number of entries behind each start in the whole stream, None where it was not counted.
        Without `waits` the minimum does not matter.
        """
        asked = {stream: _backlog(server, stream, starts, ends, states[stream], known.get(stream)) for stream in ends}
        backlogs = rounds.for_each(server, asked)
        if waits and not self._enough(server, starts, ends, backlogs):
            return None
        self._planned = self._clock()
        sizes = {stream: count for stream, (count, _) in backlogs.items()}
        exact = {stream: count for stream, (count, certain) in backlogs.items() if certain}
        limit = self._limit(server, starts, sizes)
        if limit is None:
            return Admitted(ends, exact)
        lengths = {stream: 0 if state is None else state.length for stream, state in states.items()}
        at_most = sum(count if certain else lengths[stream] for stream, (count, certain) in backlogs.items())
        if at_most <= limit:
            return Admitted(ends, exact)
        self._rotation += 1
        return Admitted(*planning.limited(limit, starts, ends, sizes, server.nths, self._rotation))

    def _enough(self, server: StreamServer, starts: Ids, ends: Ids, backlogs: Mapping[str, tuple[int, bool]]) -> bool:
        """Whether the minimum is reached, or the longest delay is over."""
        missing = self._options.min_entries
        if missing is None or self._planned is None:
            return True
        if (self._clock() - self._planned) * 1000 >= self._options.max_delay:
            return True
        missing -= sum(count for count, certain in backlogs.values() if certain)
        unknown = [stream for stream, (_, certain) in backlogs.items() if not certain]
        for at in range(0, len(unknown), _SAMPLED):
            if missing <= 0:
                break
            some = unknown[at : at + _SAMPLED]
            found = server.nths([(stream, starts[stream], missing, ends[stream]) for stream in some])
            missing -= sum(count for _, count in found)
        return missing <= 0

    def _limit(self, server: StreamServer, starts: Ids, sizes: Mapping[str, int]) -> int | None:
        """The largest number of entries; a limit in bytes is divided by the average size of the next entries."""
        limit, most_bytes = self._options.max_entries, self._options.max_bytes
        if most_bytes is None:
            return limit
        waiting = {stream: count for stream, count in sizes.items() if count}
        # Of many streams those with the most entries stand for all.
        sampled = heapq.nlargest(_SAMPLED, waiting, key=lambda stream: (waiting[stream], stream))
        total = sum(waiting[stream] * server.average_entry_bytes(stream, starts[stream]) for stream in sampled)
        total *= sum(waiting.values()) / max(1, sum(waiting[stream] for stream in sampled))
        if total <= most_bytes:
            return limit
        fitting = max(1, int(most_bytes * sum(waiting.values()) / total))
        return fitting if limit is None else min(limit, fitting)


def _backlog(
    server: StreamServer, stream: str, starts: Ids, ends: Ids, state: StreamState | None, known: int | None
) -> Steps[tuple[int, bool]]:
    """The number of entries between a stream's two positions, and whether that is certain."""
    start, end = starts[stream], ends[stream]
    if state is None or end <= start:
        return 0, True
    if end >= state.last_id:
        if known is not None:
            return known, True
        count, certain = state.backlog(start)
        if certain:
            return count, True
    if server.counts_cheaply:
        return (yield from rounds.count(stream, start, end)), True
    return state.backlog(start)[0], False
