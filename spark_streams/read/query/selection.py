"""Selection of a query's streams, and of the streams that a trigger must examine.

Requesting and evaluating the state of a stream costs far more than asking whether the stream has changed. The server
can also block until a stream has changed (`StreamKeys.changed`). So a trigger's cost depends on the number of changed
streams, and an idle query waits at the server. Batches never depend on `Watch`: a stream is examined if it has changed
or if nothing is known about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from spark_streams.read.query.offsets import Offsets
from streamclient.config.address import Address
from streamclient.streams.states import StreamState
from streamclient.streams.stream_server import StreamServer

#: End of a message about the embedded engine, which is used if no server is named.
_ALONE = (
    ", which has only the streams of this application. To read the streams of another application, set the "
    "option 'url' to a server that both use"
)


def streams_of(options: ReadOptions, server: StreamServer) -> Sequence[str]:
    """Return the streams that the options name, or the streams that match their pattern now."""
    return options.streams if options.pattern is None else server.streams.find(options.pattern)


def fails_missing(options: ReadOptions, *, available_now: bool) -> bool:
    """Return whether a missing stream is an error in a streaming query. Otherwise the query waits for the stream."""
    return available_now if options.fails_missing is None else options.fails_missing


def check_exist(options: ReadOptions, states: Mapping[str, StreamState | None], address: Address) -> None:
    """Raise STREAM_MISSING if one of these streams does not exist, or if no stream matches the pattern."""
    missing = [f"'{stream}'" for stream, state in states.items() if state is None]
    if not states and options.pattern is not None:
        missing = [f"that matches '{options.pattern}'"]
    if missing:
        where = f"{address}{_ALONE}" if address.driver else address
        fail("STREAM_MISSING", stream=" or ".join(missing), address=where)


class Selection:
    """The streams of a streaming query. A pattern is resolved again periodically. `clock` returns seconds."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._found: Sequence[str] | None = None
        self._due = 0.0

    def streams(self, server: StreamServer) -> Sequence[str]:
        """Return the streams that the options name, or the streams found when the pattern was last resolved."""
        if self._found is None or (self._options.pattern is not None and self._clock() >= self._due):
            self._found = streams_of(self._options, server)
            self._due = self._clock() + self._options.pattern_refresh / 1000
        return self._found


_LOOK_SECONDS = 10.0  # interval at which all streams are examined
_STREAM_SECONDS = 0.005  # added to this interval for each stream
_WAIT_STREAMS = 1000  # the wait grows by `wait` per this many streams, because asking about more streams costs more
_LONGEST_WAIT = 1000  # maximum wait of a trigger, in milliseconds


class Watch:
    """State of the streams that have no entries for a query.

    `wait`: milliseconds for which a trigger waits for a change of up to `_WAIT_STREAMS` streams. `group`: a consumer
    group whose changes are also detected. `clock` returns seconds.
    """

    def __init__(self, wait: int, group: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait = wait
        self._group = group
        self._clock = clock
        self._after: Offsets | None = None  # the offset after which the streams have no entries to read
        self._states: dict[str, StreamState | None] = {}
        self._noted: set[str] = set()  # streams whose facts every batch must record
        self._until = 0.0

    def due(self, server: StreamServer, begin: Offsets, streams: Sequence[str], *, waits: bool) -> Sequence[str]:
        """Return the streams to examine for a batch after `begin`. With `waits` the server may block until a stream has
        changed.
        """
        now = self._clock()
        if self._after is not begin or now >= self._until:
            self._until = now + _LOOK_SECONDS + _STREAM_SECONDS * len(streams)
            self._states = {}
            return streams
        known = {stream: self._states[stream] for stream in streams if stream in self._states}
        is_all = len(known) == len(streams)
        wait = min(_LONGEST_WAIT, self._wait * (1 + len(streams) // _WAIT_STREAMS))
        changed = server.streams.changed(known, self._group, wait if waits and is_all else 0)
        if changed is None:
            self._states = {}
            return streams
        if is_all and not changed:
            return ()
        for stream in changed | (self._noted & known.keys()):
            del self._states[stream]
        return [stream for stream in streams if stream not in self._states]

    def settle(
        self, after: Offsets, states: Mapping[str, StreamState | None], noted: Collection[str] = frozenset()
    ) -> None:
        """Record that these streams, and the streams that `due` omitted, have no entries after that offset.

        If any stream is due, the streams in `noted` are due too, because the next batch's offset must record facts
        about them.
        """
        self._after = after
        self._states.update(states)
        self._noted = (self._noted - states.keys()) | set(noted)

    def reset(self) -> None:
        """Examine all streams next time."""
        self._after = None
