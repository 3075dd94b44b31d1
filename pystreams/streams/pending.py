"""Pending entries: search by consumer, idle time and number of deliveries; acknowledge, claim, give back.

XPENDING's own filter by idle time may scan millions of entries before it replies. So pages of a thousand entries are
requested without this filter, and filtered here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.streams.paged_calls import ask, ask_all, failure, pages
from streamclient.connection import Command, Connection
from streamclient.errors import ResponseError
from streamclient.streams import groups
from streamclient.streams.states import stream_state
from streamwire.stream_id import StreamId

_PAGE = 1000
#: Idle time in milliseconds that is set when an entry is given back without XNACK, so that the next claim includes it.
LONG_AGO_MS = 86_400_000


@dataclass(frozen=True)
class Pending:
    """An entry that was delivered and not acknowledged.

    If it was given back (XNACK), it belongs to no consumer: `consumer` is empty, and `idle_ms` is None. Any claim of
    idle entries then includes it, regardless of the minimum idle time.
    """

    id: bytes
    consumer: bytes
    idle_ms: int | None
    deliveries: int

    @property
    def is_free(self) -> bool:
        """Whether the entry was given back."""
        return self.idle_ms is None


@dataclass(frozen=True)
class Which:
    """Selection of entries: by ID, consumer, minimum idle time and number of deliveries."""

    ids: tuple[bytes, ...] = ()
    consumer: bytes | None = None
    idle_ms: int = 0
    deliveries: int = 0

    @property
    def is_all(self) -> bool:
        """Whether this selects all entries."""
        return self == Which()

    def has(self, entry: Pending) -> bool:
        return (
            (entry.idle_ms is None or entry.idle_ms >= self.idle_ms)
            and entry.deliveries >= self.deliveries
            and (self.consumer is None or entry.consumer == self.consumer)
        )


def total(connection: Connection, stream: bytes, group: bytes) -> int:
    """Return the number of all pending entries. Raises NO_SUCH_STREAM and NO_SUCH_GROUP."""
    ask(connection, "XINFO", "STREAM", stream)
    return int(ask(connection, "XPENDING", stream, group)[0])


def find(connection: Connection, stream: bytes, group: bytes, which: Which) -> Iterator[list[Pending]]:
    """Yield the selected entries in the order of their IDs, in non-empty pages of at most a thousand."""
    if which.ids:
        for some in pages(dict.fromkeys(which.ids), _PAGE):
            replies = ask_all(connection, [("XPENDING", stream, group, each, each, 1) for each in some])
            yield from _selected([row for reply in replies for row in reply], which)
        return
    start = "-"
    while True:
        consumer: Command = () if which.consumer is None else (which.consumer,)
        rows = ask(connection, "XPENDING", stream, group, start, "+", _PAGE, *consumer)
        yield from _selected(rows, which)
        if len(rows) < _PAGE:
            return
        start = str(StreamId.parse(rows[-1][0]).next())


def unchanged(connection: Connection, stream: bytes, group: bytes, shown: Sequence[Pending]) -> list[Pending]:
    """Return those of these entries that still have the same consumer and number of deliveries."""
    found = {
        each.id: each
        for page in find(connection, stream, group, Which(tuple(each.id for each in shown)))
        for each in page
    }
    return [
        now
        for each in shown
        if (now := found.get(each.id)) is not None
        and (now.consumer, now.deliveries) == (each.consumer, each.deliveries)
    ]


def _selected(rows: Sequence[Any], which: Which) -> Iterator[list[Pending]]:
    selected = [entry for entry in map(parsed, rows) if which.has(entry)]
    if selected:
        yield selected


def parsed(row: Sequence[Any]) -> Pending:
    """Return the entry in a row of XPENDING."""
    return Pending(row[0], row[1] or b"", idle_of(row), int(row[3]))


def idle_of(row: Sequence[Any]) -> int | None:
    """Return the idle time of an entry in milliseconds, from its row of XPENDING; None if it was given back."""
    return int(row[2]) if int(row[2]) >= 0 else None


def acknowledge(connection: Connection, stream: bytes, group: bytes, entries: Sequence[Pending]) -> int:
    """Acknowledge entries. Returns how many were still pending."""
    return int(ask(connection, "XACK", stream, group, *(entry.id for entry in entries)))


def claim(
    connection: Connection, stream: bytes, group: bytes, entries: Sequence[Pending], consumer: bytes, idle_ms: int
) -> int:
    """Assign entries to another consumer, without changing delivery counts.

    Skips entries whose idle time is now below `idle_ms`, for example after another claim. Returns the number of
    claimed entries.
    """
    ids = [entry.id for entry in entries]
    return len(ask(connection, "XCLAIM", stream, group, consumer, idle_ms, *ids, "JUSTID"))


def removed(connection: Connection, stream: bytes, group: bytes, entries: Sequence[Pending]) -> int:
    """Return how many of these pending entries no longer exist in the stream. A claim drops them."""
    state = stream_state(ask(connection, "XINFO", "STREAM", stream), None)
    (found,) = groups.removed(connection, [(stream, group, [entry.id for entry in entries], state)])
    return len(found)


def is_unknown(refusal: ResponseError) -> bool:
    """Return whether the server does not know or permit the command, so the caller must use another command."""
    return "unknown command" in str(refusal).lower() or str(refusal).startswith("NOPERM")


def give_back(connection: Connection, stream: bytes, group: bytes, entries: Sequence[Pending]) -> int:
    """Give entries back, so that the next claim by any consumer includes them. Returns how many were given back.

    The number of deliveries stays. Uses XNACK (Redis 8.8, the engine). If the server does not know or permit XNACK, the
    idle time is set to a day instead.
    """
    ids = [entry.id for entry in entries]
    command: Command = ("XNACK", stream, group, "FAIL", "IDS", len(ids), *ids)
    (reply,) = connection.pipeline([command])
    if not isinstance(reply, ResponseError):
        return int(reply)
    if not is_unknown(reply):
        raise failure(connection, command, reply)
    # Entries that were given back before are not changed.
    claims: list[Command] = [
        ("XCLAIM", stream, group, entry.consumer, 0, entry.id, "IDLE", LONG_AGO_MS, "JUSTID")
        for entry in entries
        if not entry.is_free
    ]
    return sum(len(claimed) for claimed in ask_all(connection, claims))
