"""Trimming: finds the entries that no group needs, and removes entries in steps that do not block other clients for
long.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.streams import inventory
from pystreams.streams.inventory import Stream
from pystreams.streams.paged_calls import ask, ask_all
from streamclient.connection import Command, Connection
from streamclient.reply_maps import pairs
from streamwire.stream_id import StreamId

_STEP = 10_000  # maximum number of entries removed per command


def first_needed(connection: Connection, stream: bytes) -> StreamId | None:
    """Return the smallest ID that any group has yet to read or to acknowledge; None if the stream has no group."""
    groups = [pairs(info) for info in ask(connection, "XINFO", "GROUPS", stream)]
    summaries = ask_all(connection, [("XPENDING", stream, group[b"name"]) for group in groups])
    needed = [StreamId.parse(group[b"last-delivered-id"]).next() for group in groups]
    needed += [StreamId.parse(summary[1]) for summary in summaries if summary[0]]
    return min(needed, default=None)


def about_before(connection: Connection, stream: Stream, before: StreamId) -> tuple[int, bool]:
    """Return the number of entries before an ID, and whether it is exact or an estimate."""
    (backlog,) = inventory.behind(connection, [(stream, before.before())])
    return stream.length - backlog.entries, backlog.is_exact


def may_remove_needed(
    connection: Connection, stream: Stream, limit: tuple[str, str | int], count: int, needed: StreamId
) -> bool:
    """Return whether a limit that removes `count` entries may remove `needed` or later entries.

    If the number of entries before `needed` is an estimate, its lower bound is used.
    """
    if not count or stream.first is None:
        return False
    if limit[0] == "MINID":
        return StreamId.parse(str(limit[1])) > needed
    (backlog,) = inventory.behind(connection, [(stream, needed.before())])
    return count > stream.length - backlog.most


def trim(connection: Connection, stream: bytes, *limit: str | int) -> Iterator[int]:
    """Remove all entries beyond a limit (`MAXLEN n` or `MINID id`) in steps.

    Yields the number of entries removed per step.
    """
    kind, value = limit
    command: Command = ("XTRIM", stream, kind, "~", value, "LIMIT", _STEP)
    while True:
        removed = int(ask(connection, *command))
        yield removed
        if not removed:
            break
    # XTRIM with `~` removes only whole nodes. Remove the last entries exactly, which are in the stream's first node.
    yield int(ask(connection, "XTRIM", stream, kind, "=", value))
