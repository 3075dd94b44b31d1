"""Rows of a snapshot as cells: text and colours. Pure."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from pystreams import measures
from pystreams.dashboard.sampling.snapshot import Snapshot
from pystreams.measures import GroupRow, Measure, StreamRow
from pystreams.streams.groups.status import STYLES
from pystreams.values import numbers, times

_WIDEST = 60  # maximum width of a name; longer ones are truncated


def cells(row: StreamRow | GroupRow, view: str) -> list[Text]:
    """Return the cells of a row. Names are escaped: no markup or control character in them takes effect."""
    return [_cell(column, row) for column in measures.ON_TOP[view]]


def _cell(column: Measure[Any], row: StreamRow | GroupRow) -> Text:
    text = column.text(row)
    if column.form is measures.NAME and len(text) > _WIDEST:
        text = text[: _WIDEST - 1] + "…"
    style = STYLES.get(text, "") if column.form is measures.STATUS else ""
    return Text(text, style, justify="right" if column.form.right else "left")


def headline(snapshot: Snapshot) -> str:
    """Return the totals of all streams."""
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
