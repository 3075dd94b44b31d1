"""Exact number of entries after a position, if available at low cost."""

from __future__ import annotations

from streamclient.streams import rounds
from streamclient.streams.model import StreamState
from streamclient.streams.rounds import Steps
from streamclient.streams.stream_server import StreamServer
from streamwire.stream_id import StreamId


def counted_backlog(server: StreamServer, stream: str, after: StreamId, state: StreamState | None) -> Steps[int | None]:
    """Return the exact number of entries after `after` in that state; None if the server would have to send them."""
    if state is None:
        return 0
    backlog = state.exact_backlog(after)
    if backlog is None and server.entries.counts_cheaply:
        # Count only up to the state's last ID, because the state's other numbers do not include newer entries.
        backlog = yield from rounds.count(stream, after, state.last_id)
    return backlog


def added_upto(server: StreamServer, stream: str, after: StreamId, state: StreamState | None) -> Steps[int | None]:
    """Return the number of entries ever added to the stream up to `after`; None if it is unknown."""
    backlog = yield from counted_backlog(server, stream, after, state)
    return None if state is None or backlog is None or state.entries_added is None else state.entries_added - backlog
