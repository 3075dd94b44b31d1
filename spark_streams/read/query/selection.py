"""Selection of a query's streams, and the user's start and end positions in each stream."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence

from spark_streams.config import globs
from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail
from streamclient.config.address import Address
from streamclient.streams.model import StreamState, last_id_of
from streamclient.streams.stream_server import StreamServer

#: End of a message about the embedded engine, which is used if no server is named.
_ALONE = (
    ", which has only the streams of this application. To read the streams of another application, set the "
    "option 'url' to a server that both use"
)


def streams_of(options: ReadOptions, server: StreamServer) -> Sequence[str]:
    """Return the streams that the options name, or the streams that match their pattern now."""
    if options.regex is not None:
        return server.streams.find(globs.around(options.regex), re.compile(options.regex))
    return options.streams if options.glob is None else server.streams.find(options.glob)


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


def start_of(options: ReadOptions, stream: str, otherwise: Position, state: StreamState | None) -> Position:
    """Return the start position in a stream; `otherwise` if the user did not set one.

    Raises NO_ENTRY_AT_TIME if the start is a time that the stream has not reached and the options treat this as an
    error.
    """
    position = otherwise if options.starting is None else options.starting.get(stream, otherwise)
    if position.time and position.after is not None and position.after >= last_id_of(state):
        if options.timestamp_strategy == "error":
            fail("NO_ENTRY_AT_TIME", stream=stream, time=position.time, last=last_id_of(state))
        if options.timestamp_strategy == "latest":
            return Position("latest")
    return position


def end_of(options: ReadOptions, stream: str, otherwise: Position) -> Position:
    """Return the end position in a stream; `otherwise` if the user did not set one."""
    return otherwise if options.ending is None else options.ending.get(stream, otherwise)
