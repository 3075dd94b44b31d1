"""Rows of a snapshot as cells: titles, texts, colours, and what a column is sorted by. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from pystreams.dashboard.sampling.snapshot import GroupRow, Rows, Snapshot, StreamRow
from pystreams.streams.groups.status import STYLES
from pystreams.values import names, numbers, times

_WIDEST = 60  # places of a name; what is longer is cut


@dataclass(frozen=True)
class Column:
    """A column. `sort`: its name among the snapshot's orders. `text`: a row's cell."""

    title: str
    sort: str
    text: Callable[[Any, int], str]
    right: bool = True


def _name(value: bytes) -> str:
    text = names.shown(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _newest(row: StreamRow, now: int) -> str:
    last = row.stream.last
    return times.shown(now - last.ms if last is not None and 0 <= now - last.ms < now // 2 else None)


def _status(row: StreamRow | GroupRow) -> str:
    return "" if row.status is None else row.status.value


GROUPS = (
    Column("STREAM", "stream", lambda row, _: _name(row.group.stream.name), right=False),
    Column("GROUP", "name", lambda row, _: _name(row.group.name), right=False),
    Column("RATE", "rate", lambda row, _: numbers.rate(row.group.stream.rate)),
    Column("DELIVERED", "delivered", lambda row, _: numbers.rate(row.group.rate)),
    Column("LAG", "lag", lambda row, _: numbers.count(row.group.lag, exact=row.group.exact)),
    Column("BEHIND", "behind", lambda row, _: times.shown(row.group.behind_ms)),
    Column("PENDING", "pending", lambda row, _: numbers.count(row.group.pending)),
    Column("CONSUMERS", "consumers", lambda row, _: numbers.count(row.group.consumer_count)),
    Column("IDLE", "idle", lambda row, _: times.shown(row.group.idle_ms)),
    Column("STATUS", "status", lambda row, _: _status(row), right=False),
)
STREAMS = (
    Column("STREAM", "name", lambda row, _: _name(row.stream.name), right=False),
    Column("LENGTH", "length", lambda row, _: numbers.count(row.stream.length)),
    Column("RATE", "rate", lambda row, _: numbers.rate(row.stream.rate)),
    Column("BYTES", "bytes", lambda row, _: numbers.size(row.stream.bytes)),
    Column("NEWEST", "newest", _newest),
    Column("GROUPS", "groups", lambda row, _: numbers.count(row.stream.groups)),
    Column("LAG", "lag", lambda row, _: numbers.count(row.lag, exact=row.exact)),
    Column("BEHIND", "behind", lambda row, _: times.shown(row.behind_ms)),
    Column("PENDING", "pending", lambda row, _: numbers.count(row.pending)),
    Column("STATUS", "status", lambda row, _: _status(row), right=False),
)
VIEWS: dict[str, tuple[Column, ...]] = {"groups": GROUPS, "streams": STREAMS}


def rows(snapshot: Snapshot, view: str, column: Column, *, falling: bool, search: str) -> Rows[Any]:
    """The rows of a view, in the order of a column."""
    found: Rows[Any]
    if view == "groups":
        found = snapshot.groups_by(column.sort, falling=falling, search=search)
    else:
        found = snapshot.streams_by(column.sort, falling=falling, search=search)
    return found


def cells(row: StreamRow | GroupRow, view: str, now: int) -> list[Text]:
    """The cells of a row. Nothing of a name is taken for markup or sent to the terminal as it is."""
    texts = [(column, column.text(row, now)) for column in VIEWS[view]]
    return [
        Text(text, STYLES.get(text, "") if column.sort == "status" else "", justify="right" if column.right else "left")
        for column, text in texts
    ]


def key(row: StreamRow | GroupRow) -> tuple[bytes, bytes]:
    """What names the row, from look to look."""
    return (row.group.stream.name, row.group.name) if isinstance(row, GroupRow) else (row.stream.name, b"")


def headline(snapshot: Snapshot) -> str:
    """The numbers of all streams together."""
    totals = snapshot.totals
    parts = [
        numbers.things(totals.streams, "stream"),
        numbers.things(totals.groups, "group"),
        f"{numbers.rate(totals.rate)} in",
        f"lag {numbers.count(totals.lag, exact=totals.exact)} ({times.shown(totals.behind_ms)})",
        f"pending {totals.pending:,}",
        *(f"{status} {count}" for status, count in totals.statuses.items() if count and status != "ok"),
    ]
    return "   ".join(parts)
