"""Removing entries and streams, in steps that do not block other clients for long, and entries that no group needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pystreams.errors import fail
from pystreams.streams import entries, inventory, seeks
from pystreams.streams.inventory import Stream
from pystreams.streams.paged_calls import ask
from pystreams.values.names import shown
from streamclient.connection import Command, Connection
from streamclient.errors import PystreamsError
from streamclient.streams.groups import Groups
from streamwire.stream_id import ZERO, StreamId

_STEP = 10_000  # maximum number of entries removed per command


def first_needed(connection: Connection, stream: bytes) -> StreamId | None:
    """Return the smallest ID that any group has yet to read or to acknowledge; None if the stream has no group."""
    return Groups(connection).first_unfinished_ids([stream])[stream]


def still_unneeded(connection: Connection, stream: bytes, before: StreamId) -> StreamId:
    """Return `before`, or the ID that a group has come to need since then. Raises PLAN_OUTDATED without groups."""
    needed = first_needed(connection, stream)
    return fail("PLAN_OUTDATED", what=f"the stream '{shown(stream)}'") if needed is None else min(needed, before)


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
    if not count or stream.first_id is None:
        return False
    if limit[0] == "MINID":
        return StreamId.parse(str(limit[1])) > needed
    (backlog,) = inventory.behind(connection, [(stream, needed.before())])
    return count > stream.length - backlog.most


def trim(connection: Connection, stream: Stream, before: StreamId | None, count: int) -> Iterator[int]:
    """Remove the entries that were shown, in steps: those before an ID, or else the first `count` entries.

    Yields the number of entries removed per step. Entries that were added since then stay. `stream`: the state that was
    shown.
    """
    if before is not None:
        yield from _before(connection, stream.name, before)
        return
    gone = 0
    while step := _first(connection, stream, count, gone):
        gone += step
        yield step


def _before(connection: Connection, name: bytes, before: StreamId) -> Iterator[int]:
    command: Command = ("XTRIM", name, "MINID", "~", str(before), "LIMIT", _STEP)
    while True:
        removed = int(ask(connection, *command))
        yield removed
        if not removed:
            break
    # XTRIM with `~` removes only whole nodes. Remove the last entries exactly, which are in the stream's first node.
    yield int(ask(connection, "XTRIM", name, "MINID", "=", str(before)))


def _first(connection: Connection, stream: Stream, count: int, gone: int) -> int:
    """Remove at most `_STEP` of the first entries that are left after `gone` entries. Returns their number.

    The entries that others have removed since the trim was shown count, too. The last entries are removed by ID, since
    entries that are added meanwhile would shift a length.
    """
    name = stream.name
    now = inventory.parsed(name, ask(connection, "XINFO", "STREAM", name))
    others = 0
    if now.removed is not None and stream.removed is not None:
        others = max(0, now.removed - stream.removed - gone)
    left = min(count - gone - others, now.length)
    if left > 2 * _STEP:
        return int(ask(connection, "XTRIM", name, "MAXLEN", "=", now.length - _STEP))
    if left <= 0:
        return 0
    last, _ = entries.forward(connection, name, ZERO, min(left, _STEP))
    return int(ask(connection, "XTRIM", name, "MINID", "=", str(last.next())))


def remove_streams(connection: Connection, found: Sequence[Stream]) -> list[PystreamsError]:
    """Remove streams that have not changed; their memory is freed in the background. Return an error for each of the
    others.
    """
    problems = []
    for each in found:
        try:
            seeks.apply(connection, each.name, [seeks.of_stream(each)], [("UNLINK", each.name)])
        except PystreamsError as failure:
            problems.append(failure)
    return problems
