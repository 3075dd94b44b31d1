"""An idle query: what it saw when there was nothing to read, so that the next triggers need not look at everything.

Asking for the state of each stream costs a command for each; asking whether anything has changed costs far less, and
the server can be asked to answer when something has (`StreamServer.unchanged`). What is decided about a batch never
comes from here: as soon as anything has changed, all states are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spark_streams.read.offsets import Offsets
from spark_streams.server.api import StreamServer
from spark_streams.server.model import StreamState

_LOOK_SECONDS = 10.0  # all states are asked for at least this often


@dataclass(frozen=True)
class _Seen:
    """A look at all streams that found nothing to read after `begin`; `until` is when it is too old."""

    begin: Offsets
    states: Mapping[str, StreamState | None]
    durable: bool | None
    until: float


class Quiet:
    """Whether a query is still idle. `wait`: how long an idle trigger waits, in ms. `clock` gives seconds.

    `group` is one whose state matters as well.
    """

    def __init__(self, wait: int, group: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait = wait
        self._group = group
        self._clock = clock
        self._seen: _Seen | None = None

    def begins(self, begin: Offsets, states: Mapping[str, StreamState | None], *, durable: bool | None) -> None:
        """All streams were looked at, and have nothing to read after `begin`."""
        self._seen = _Seen(begin, states, durable, self._clock() + _LOOK_SECONDS)

    def lasts(
        self, server: StreamServer, begin: Offsets, streams: Sequence[str], *, durable: bool | None, waits: bool
    ) -> bool:
        """Whether nothing has changed in these streams since they were looked at with the same `begin` and `durable`.

        With `waits` the server may take its time to say so. Otherwise, or if it is not known, all is to be looked at.
        """
        seen, self._seen = self._seen, None
        if seen is None or seen.begin is not begin or seen.durable != durable or self._clock() >= seen.until:
            return False
        wait = self._wait if waits else 0
        if seen.states.keys() != set(streams) or not server.unchanged(seen.states, self._group, wait):
            return False
        self._seen = seen
        return True
