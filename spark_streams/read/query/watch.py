"""Change detection: selection of the streams that a trigger must examine, because they may have new entries.

Requesting and evaluating the state of a stream costs far more than asking whether the stream has changed. The server
can also block until a stream has changed (`StreamKeys.changed`). So a trigger's cost depends on the number of changed
streams, and an idle query waits at the server. Batches never depend on this module: a stream is examined if it has
changed or if nothing is known about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from spark_streams.read.query.offsets import Offsets
from streamclient.streams.model import StreamState
from streamclient.streams.stream_server import StreamServer

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
