"""How much a micro-batch takes: at least, at most, in entries or in bytes; and whether to wait for more.

Turns options and a server's state into ends for the streams. What it decides depends on the server's state at the
moment, so whatever it answers is written into the offset, and never asked again for the same batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_streams.config.read import ReadOptions
from spark_streams.read import planning
from spark_streams.server.api import StreamServer
from spark_streams.server.model import StreamState
from spark_streams.stream_id import StreamId

Places = dict[str, StreamId]


@dataclass(frozen=True)
class Taken:
    """Where each stream's part of a batch ends, and its number of entries where that is known."""

    ends: Places
    counts: dict[str, int]


class Limits:
    """The limits of a query. It remembers when a batch was last planned, and whose turn it is."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._planned: float | None = None
        self._turn = 0

    def apply(
        self,
        server: StreamServer,
        starts: Places,
        ends: Places,
        states: Mapping[str, StreamState | None],
        following: Mapping[str, int | None],
        *,
        waits: bool,
    ) -> Taken | None:
        """What lies between `starts` and `ends`, cut down to the limits; None to wait for more.

        `following` is how many entries follow each start in the whole stream, where that is known.
        """
        known = {
            stream: _backlog(server, stream, starts, ends, states[stream], following.get(stream)) for stream in ends
        }
        if waits and not self._enough(server, starts, ends, known):
            return None
        self._planned = self._clock()
        sure = {stream: count for stream, (count, certain) in known.items() if certain}
        limit = self._limit(server, starts, {stream: count for stream, (count, _) in known.items()})
        if limit is None:
            return Taken(ends, sure)
        lengths = {stream: 0 if state is None else state.length for stream, state in states.items()}
        at_most = sum(count if certain else lengths[stream] for stream, (count, certain) in known.items())
        if at_most <= limit:
            return Taken(ends, sure)
        self._turn += 1
        backlog = {stream: count for stream, (count, _) in known.items()}
        reached, counts = planning.limited(limit, starts, ends, backlog, server.nth, self._turn)
        return Taken(reached, counts)

    def _enough(
        self, server: StreamServer, starts: Places, ends: Places, known: Mapping[str, tuple[int, bool]]
    ) -> bool:
        least = self._options.min_entries
        if least is None or self._planned is None:
            return True
        if (self._clock() - self._planned) * 1000 >= self._options.max_delay:
            return True
        for stream, (count, certain) in known.items():
            if least <= 0:
                break
            least -= count if certain else server.nth(stream, starts[stream], least, ends[stream])[1]
        return least <= 0

    def _limit(self, server: StreamServer, starts: Places, backlog: Mapping[str, int]) -> int | None:
        limit, most_bytes = self._options.max_entries, self._options.max_bytes
        if most_bytes is None:
            return limit
        waiting = {stream: count for stream, count in backlog.items() if count}
        size = sum(count * server.average_entry_bytes(stream, starts[stream]) for stream, count in waiting.items())
        if size <= most_bytes:
            return limit
        fitting = max(1, int(most_bytes * sum(waiting.values()) / size))
        return fitting if limit is None else min(limit, fitting)


def _backlog(
    server: StreamServer, stream: str, starts: Places, ends: Places, state: StreamState | None, following: int | None
) -> tuple[int, bool]:
    """How many entries a stream has between its two places, and whether that is certain."""
    start, end = starts[stream], ends[stream]
    if state is None or end <= start:
        return 0, True
    if end >= state.last_id:
        if following is not None:
            return following, True
        count, certain = state.backlog(start)
        if certain:
            return count, True
    if server.counts_cheaply:
        return server.count(stream, start, end), True
    return state.backlog(start)[0], False
