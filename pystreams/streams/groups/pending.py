"""Pending entries: found by who has them, for how long, how often delivered; acknowledged, claimed, given back.

XPENDING's own filter by idle time may look at a whole list of millions before it answers. So pages are asked for
without it, a thousand entries each, and filtered here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.streams.paged_calls import ask, ask_all, failure, pages
from streamclient.connection import Command, Connection
from streamclient.wire_errors import ResponseError
from streamwire.stream_id import StreamId

_PAGE = 1000
#: The idle time of an entry that is given back without XNACK: whoever claims what was left alone takes it.
LONG_AGO_MS = 86_400_000


@dataclass(frozen=True)
class Pending:
    """An entry that was delivered and not acknowledged.

    One that was given back (XNACK) belongs to no consumer: `consumer` is empty, and `idle_ms` None. Whoever claims what
    was left alone gets it, however long that must be.
    """

    id: bytes
    consumer: bytes
    idle_ms: int | None
    deliveries: int

    @property
    def is_free(self) -> bool:
        """Whether it was given back."""
        return self.idle_ms is None


@dataclass(frozen=True)
class Which:
    """Which entries are meant: of these IDs or of all, of this consumer, at least so long alone, so often delivered."""

    ids: tuple[bytes, ...] = ()
    consumer: bytes | None = None
    idle_ms: int = 0
    deliveries: int = 0

    @property
    def is_all(self) -> bool:
        """Whether nothing narrows it down."""
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
    """Yield the entries that are meant, in the order of their IDs, in pages of at most a thousand; none of them is
    empty.
    """
    if which.ids:
        for some in pages(dict.fromkeys(which.ids), _PAGE):
            replies = ask_all(connection, [("XPENDING", stream, group, each, each, 1) for each in some])
            yield from _kept([row for reply in replies for row in reply], which)
        return
    start = "-"
    while True:
        consumer: Command = () if which.consumer is None else (which.consumer,)
        rows = ask(connection, "XPENDING", stream, group, start, "+", _PAGE, *consumer)
        yield from _kept(rows, which)
        if len(rows) < _PAGE:
            return
        start = str(StreamId.parse(rows[-1][0]).next())


def _kept(rows: Sequence[Any], which: Which) -> Iterator[list[Pending]]:
    kept = [entry for entry in map(parsed, rows) if which.has(entry)]
    if kept:
        yield kept


def parsed(row: Sequence[Any]) -> Pending:
    """Return the entry of a row of XPENDING."""
    return Pending(row[0], row[1] or b"", idle_of(row), int(row[3]))


def idle_of(row: Sequence[Any]) -> int | None:
    """For how many milliseconds an entry was left alone, by its row of XPENDING; None if it was given back."""
    return int(row[2]) if int(row[2]) >= 0 else None


def acknowledge(connection: Connection, stream: bytes, group: bytes, entries: Sequence[Pending]) -> int:
    """Acknowledge entries. How many were still pending."""
    return int(ask(connection, "XACK", stream, group, *(entry.id for entry in entries)))


def claim(
    connection: Connection, stream: bytes, group: bytes, entries: Sequence[Pending], consumer: bytes, idle_ms: int
) -> int:
    """Make entries another consumer's, unless somebody took them meanwhile; their deliveries are not counted up.

    How many were claimed.
    """
    ids = [entry.id for entry in entries]
    return len(ask(connection, "XCLAIM", stream, group, consumer, idle_ms, *ids, "JUSTID"))


def is_unknown(refusal: ResponseError) -> bool:
    """Return whether the server does not know the command, or does not let this user call it: there must be another
    way.
    """
    return "unknown command" in str(refusal).lower() or str(refusal).startswith("NOPERM")


def give_back(connection: Connection, stream: bytes, group: bytes, entries: Sequence[Pending], mode: str) -> int:
    """Give entries back, so that the next claim of any consumer gets them. How many were.

    `mode`: "fail" keeps the number of deliveries, "silent" takes the last one back. By XNACK (Redis 8.8, the engine);
    other servers, and those that do not let this user, are told that the entries were left alone for a day.
    """
    ids = [entry.id for entry in entries]
    command: Command = ("XNACK", stream, group, mode.upper(), "IDS", len(ids), *ids)
    (reply,) = connection.pipeline([command])
    if not isinstance(reply, ResponseError):
        return int(reply)
    if not is_unknown(reply):
        raise failure(connection, command, reply)
    # An entry that is free stays so.
    claims: list[Command] = [
        (
            *("XCLAIM", stream, group, entry.consumer, 0, entry.id, "IDLE", LONG_AGO_MS, "RETRYCOUNT"),
            max(0, entry.deliveries - (mode == "silent")),
            "JUSTID",
        )
        for entry in entries
        if not entry.is_free
    ]
    return sum(len(claimed) for claimed in ask_all(connection, claims))
