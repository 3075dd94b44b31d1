"""Existing entries that consumer groups have not read or acknowledged, which would be lost if a stream were emptied.

The numbers of XINFO GROUPS also include entries that were trimmed before they were read or acknowledged. Here only
existing entries are counted, if the server allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streamclient.connection import Connection
from streamclient.reply_maps import pairs
from streamclient.streams.lag import Asked, Backlog, Budget, backlogs
from streamclient.streams.model import StreamState, stream_state
from streamclient.wire_errors import ResponseError
from streamwire.stream_id import StreamId

_PAGE = 1000  # pending entries of one reply
_MOST = 100_000  # maximum number of pending entries examined per group; all others count as existing


@dataclass(frozen=True)
class Unfinished:
    """The existing entries of a stream that a group has yet to read (`unread`), and to acknowledge (`pending`)."""

    stream: bytes
    group: bytes
    unread: Backlog
    pending: int

    def __str__(self) -> str:
        about = "" if self.unread.is_exact else "about "
        name = self.group.decode("utf-8", "replace")
        return f"{name} ({about}{self.unread.entries} unread, {self.pending} pending)"


def unfinished(connection: Connection, replies: Sequence[tuple[bytes, Any, Any]]) -> list[Unfinished]:
    """Return the groups with unfinished entries. `replies`: streams with their replies of XINFO STREAM and GROUPS."""
    groups: list[tuple[bytes, StreamState, dict[bytes, Any], StreamId]] = []
    for stream, reply, listed in replies:
        if isinstance(reply, list) and isinstance(listed, list):
            state = stream_state(reply, None)
            several = map(pairs, listed)
            groups += [(stream, state, group, StreamId.parse(group[b"last-delivered-id"])) for group in several]
    requested = [Asked(stream, state, position, group.get(b"lag")) for stream, state, group, position in groups]
    unread = backlogs(connection, requested, Budget())
    found = [
        Unfinished(stream, group[b"name"], backlog, _pending(connection, stream, state, group))
        for (stream, state, group, _), backlog in zip(groups, unread, strict=True)
    ]
    return [each for each in found if each.unread.most or each.pending]


def _pending(connection: Connection, stream: bytes, state: StreamState, group: dict[bytes, Any]) -> int:
    """Return the number of a group's pending entries that exist.

    If the server refuses to list them, return the number that XINFO GROUPS reported.
    """
    reported, first = int(group[b"pending"]), state.first_id
    if not reported or first is None or not state.length:
        return 0
    (summary,) = connection.pipeline([("XPENDING", stream, group[b"name"])])
    if isinstance(summary, ResponseError) or not summary[0]:
        return reported
    if first <= StreamId.parse(summary[1]) and state.max_deleted_id < first:
        return reported
    number = examined = 0
    for page in _pages(connection, stream, group[b"name"], first):
        number += len(page)
        examined += len(page)
        if state.max_deleted_id >= first:
            replies = connection.pipeline([("XRANGE", stream, each, each) for each in page])
            number -= sum(not reply for reply in replies)
        if examined >= _MOST:
            return min(reported, state.length, number + reported - examined)
    return number


def _pages(connection: Connection, stream: bytes, group: bytes, first: StreamId) -> Iterator[list[bytes]]:
    """Yield the pending IDs from an ID on, in pages."""
    while True:
        (rows,) = connection.pipeline([("XPENDING", stream, group, str(first), "+", _PAGE)])
        if isinstance(rows, ResponseError) or not rows:
            return
        yield [row[0] for row in rows]
        first = StreamId.parse(rows[-1][0]).next()
