"""Exact numbers of entries before and after positions, if available at low cost."""

from __future__ import annotations

from collections.abc import Mapping

from streamclient.streams.model import StreamState
from streamclient.streams.stream_server import StreamServer
from streamwire.stream_id import StreamId


def counted_backlogs(
    server: StreamServer, positions: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
) -> dict[str, int | None]:
    """Return the exact number of entries after each position; None if the server would have to send them."""
    known = {stream: states[stream] for stream in positions}
    found = {stream: 0 if state is None else state.exact_backlog(positions[stream]) for stream, state in known.items()}
    if server.entries.counts_cheaply:
        # Count only up to the state's last ID, because the state's other numbers do not include newer entries.
        asked = [
            (stream, positions[stream], state.last_id)
            for stream, state in known.items()
            if state is not None and found[stream] is None
        ]
        found.update(zip((stream for stream, *_ in asked), server.entries.counts(asked), strict=True))
    return found


def added_upto(
    server: StreamServer, positions: Mapping[str, StreamId], states: Mapping[str, StreamState | None]
) -> dict[str, int | None]:
    """Return the number of entries ever added to each stream up to a position; None if it is unknown."""
    found: dict[str, int | None] = {}
    for stream, backlog in counted_backlogs(server, positions, states).items():
        state = states[stream]
        added = None if state is None else state.entries_added
        found[stream] = None if added is None or backlog is None else added - backlog
    return found
