"""Which streams a trigger must look at: those that have changed since it was seen that nothing is to be read in them.

Asking for the state of a stream, and working out what it means, costs far more than asking whether it has changed; and
the server can be asked to answer when a stream has (`StreamKeys.changed`). So a trigger costs what the streams cost
that have changed, and an idle query waits at the server. What is decided about a batch never comes from here: a stream
that has changed, or about which nothing is known, is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from spark_streams.read.query.offsets import Offsets
from streamclient.streams.model import StreamState
from streamclient.streams.server import StreamServer

_LOOK_SECONDS = 10.0  # all streams are looked at about this often
_STREAM_SECONDS = 0.005  # with many streams less often: this much more per stream
_WAIT_STREAMS = 1000  # with so many streams asking costs about as much as a wait saves, so the wait is longer
_LONGEST_WAIT = 1000


class Watch:
    """State of the streams in which a query has nothing to read.

    `wait`: how long a trigger waits for a change, in milliseconds. `group` is one whose state matters as well. `clock`
    gives seconds.
    """

    def __init__(self, wait: int, group: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait = wait
        self._group = group
        self._clock = clock
        self._after: Offsets | None = None  # the offset after which nothing is to be read in the streams
        self._states: dict[str, StreamState | None] = {}
        self._noted: set[str] = set()  # those of them that every batch must be told of
        self._until = 0.0

    def due(self, server: StreamServer, begin: Offsets, streams: Sequence[str], *, waits: bool) -> Sequence[str]:
        """Return the streams to look at for a batch after `begin`. With `waits` the server may take its time to find
        one.
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
        """Nothing is to be read after that offset in these streams, nor in those that were not due.

        If anything is due, the streams `noted` are, too: the offset of the next batch must say something about them.
        """
        self._after = after
        self._states.update(states)
        self._noted = (self._noted - states.keys()) | set(noted)

    def forget(self) -> None:
        """Look at all streams next time."""
        self._after = None
