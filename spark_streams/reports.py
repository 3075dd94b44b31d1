"""Reports about queries: the facts that `spark_streams.monitor` collects about a batch, their form in a stream, and as
tables of text and HTML.

Each batch has one entry with the fields of `QueryReport`. Texts are unchanged, and numbers and booleans are JSON.
`each` is a JSON list of objects whose members are the fields of `StreamReport`. Unknown values are omitted. Readers
must ignore unknown fields, as `from_fields` does. The entry's ID contains the time of the report.

This module works without Spark, because programs that show reports read them with it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

#: Default stream for a monitor's reports.
STREAM = "pystreams:queries"
#: Approximate number of reports that the stream keeps.
MAXLEN = 2_000
#: Stream to which tasks add their counts of values that did not parse.
MALFORMED_STREAM = "pystreams:malformed"
#: Maximum number of stream reports in an entry. If the query has more streams, those furthest behind are reported.
EACH = 20


@dataclass(frozen=True)
class StreamReport:
    """One stream of a query after a batch.

    `position`, `latest`: the IDs of the last entry read and of the stream's last entry. `lag_entries`: number of
    entries after `position`; an estimate if `lag_exact` is false. `lag_ms`: milliseconds between the times in the two
    IDs; 0 if nothing has been read or the lag is 0; None if the stream does not exist. `oldest_unread_ms`: the age in
    milliseconds of the first entry after `position`, by its ID; 0 without one. `group`: the consumer group; None if the
    query has no group. `pending`: number of the group's pending entries. `entries`, `entries_per_second`: entries in
    this batch; None for a query's first batch, or if unknown. `rejected`: number of the batch's entries, in all streams
    of the source, that mode DROPMALFORMED dropped; None for a query's first batch, or if unknown. `lost`: number of
    lost entries that the query has noticed so far.
    """

    query: str
    batch: int
    stream: str
    position: str
    latest: str
    lag_entries: int | None
    lag_exact: bool
    lag_ms: int | None
    oldest_unread_ms: int | None
    group: str | None
    pending: int | None
    entries: int | None
    entries_per_second: float | None
    rejected: int | None
    lost: int


@dataclass(frozen=True)
class QueryReport:
    """A query after a batch, with totals over its streams. Values that are unknown for a stream are not counted.

    `query`: the query's name, or its ID if it has no name. `id`: the query's ID, which stays the same after a restart.
    `rows`, `rows_per_second`: rows of the batch from this connector's sources. `batch_ms`: duration of the batch in
    milliseconds. `lag_entries`: lag in entries over all streams. `lag_exact`: whether it is exact for every stream.
    `pending`, `lost`: sums over the streams. `oldest_unread_ms`: the age of the oldest unread entry. `malformed`:
    number of the batch's values that did not parse, by column; None if unknown. `each`: the reports of the streams. An
    entry has only the reports of the `EACH` streams that are furthest behind.
    """

    query: str
    id: str
    batch: int
    rows: int
    rows_per_second: float | None
    batch_ms: int
    streams: int
    lag_entries: int
    oldest_unread_ms: int
    pending: int
    lost: int
    lag_exact: bool = True
    malformed: dict[str, int] | None = None
    each: tuple[StreamReport, ...] = ()

    def __str__(self) -> str:
        return _text(_STREAM_COLUMNS, self.each)

    def _repr_html_(self) -> str:
        return _html(_STREAM_COLUMNS, self.each, [])


def summary(
    query: str,
    query_id: str,
    batch: int,
    rows: int,
    batch_ms: int,
    each: Sequence[StreamReport],
    malformed: dict[str, int] | None = None,
) -> QueryReport:
    """Return the report of a query whose streams have the reports `each`."""
    return QueryReport(
        query=query,
        id=query_id,
        batch=batch,
        rows=rows,
        rows_per_second=rows * 1000 / batch_ms if batch_ms else None,
        batch_ms=batch_ms,
        streams=len(each),
        lag_entries=sum(report.lag_entries or 0 for report in each),
        oldest_unread_ms=max((report.oldest_unread_ms or 0 for report in each), default=0),
        pending=sum(report.pending or 0 for report in each),
        lost=sum(report.lost for report in each),
        lag_exact=all(report.lag_exact or report.lag_entries is None for report in each),
        malformed=malformed,
        each=tuple(each),
    )


@dataclass(frozen=True)
class Malformed:
    """Number of one task's values that did not parse, by column.

    `query` is the query's ID. `part` identifies the task; retries of a task have the same `part`.
    """

    query: str
    batch: int
    part: str
    columns: dict[str, int]

    def to_fields(self) -> list[str]:
        """Return the alternating field names and values of an entry with these counts."""
        return ["query", self.query, "batch", str(self.batch), "part", self.part, "columns", json.dumps(self.columns)]

    @classmethod
    def from_fields(cls, words: Sequence[bytes]) -> Malformed | None:
        """Return the counts in an entry's fields; None if the fields are not a result of `to_fields`."""
        try:
            found = {name.decode(): value.decode() for name, value in zip(words[::2], words[1::2], strict=True)}
            columns = json.loads(found["columns"])
            return cls(found["query"], int(found["batch"]), found["part"], _counts(columns))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None


def _counts(value: Any) -> dict[str, int]:
    """Return `value` if it is a dictionary of integers by name. Raises TypeError otherwise."""
    if not isinstance(value, dict) or not all(type(count) is int for count in value.values()):
        raise TypeError("not counts")
    return value


def to_fields(report: QueryReport) -> list[str]:
    """Return the alternating field names and values of an entry with this report."""
    worst = sorted(report.each, key=lambda stream: -(stream.lag_entries or 0))[:EACH]
    found: list[str] = []
    for field in fields(report):
        value = getattr(report, field.name)
        if field.name == "each":
            known = [{name: fact for name, fact in asdict(each).items() if fact is not None} for each in worst]
            found += [field.name, json.dumps(known)]
        elif value is not None:
            found += [field.name, value if isinstance(value, str) else json.dumps(value)]
    return found


def from_fields(words: Sequence[bytes]) -> QueryReport | None:
    """Return the report in an entry's fields; None if it is missing or has an unknown form."""
    known = {field.name for field in fields(QueryReport)}
    values: dict[str, Any] = {}
    try:
        for name, value in zip(words[::2], words[1::2], strict=True):
            text = name.decode("utf-8", "replace")
            if text in known:
                values[text] = value.decode() if text in ("query", "id") else json.loads(value)
        each = tuple(_made(StreamReport, document) for document in values.pop("each", []))
        found: QueryReport = _made(QueryReport, {**values, "each": each})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return found


_NUMBERS = ("int", "float", "int | None", "float | None")


def _made(kind: Any, values: dict[str, Any]) -> Any:
    """Return a report of the class `kind`. Raises TypeError for missing required values, and most wrong types."""
    known = {field.name: field.type for field in fields(kind)}
    taken: dict[str, Any] = {name: None for name, declared in known.items() if str(declared).endswith("| None")}
    for name, value in values.items():
        declared = str(known.get(name, ""))
        if declared in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(name)
        if declared.startswith("dict"):
            _counts(value)
        if declared.startswith("str") and not isinstance(value, str):
            raise TypeError(name)
        if declared:
            taken[name] = value
    return kind(**taken)


# -- tables -----------------------------------------------------------------------------------------------------------

_Columns = Sequence[tuple[str, Callable[[Any], str]]]
_PLOT_WIDTH, _PLOT_HEIGHT = 120, 20  # pixels


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _lag(report: QueryReport | StreamReport) -> str:
    return _count(report.lag_entries) if report.lag_exact or report.lag_entries is None else f"~{report.lag_entries:,}"


def _seconds(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds / 1000:,.1f} s"


_QUERY_COLUMNS: _Columns = (
    ("query", lambda report: report.query),
    ("batch", lambda report: _count(report.batch)),
    ("rows/s", lambda report: _count(report.rows_per_second)),
    ("lag", _lag),
    ("oldest unread", lambda report: _seconds(report.oldest_unread_ms)),
    ("pending", lambda report: _count(report.pending)),
    ("lost", lambda report: _count(report.lost)),
)
_STREAM_COLUMNS: _Columns = (
    ("stream", lambda report: report.stream),
    ("position", lambda report: report.position),
    ("end", lambda report: report.latest),
    ("lag", _lag),
    ("oldest unread", lambda report: _seconds(report.oldest_unread_ms)),
    ("pending", lambda report: _count(report.pending)),
    ("lost", lambda report: _count(report.lost)),
)


def text_table(reports: Sequence[QueryReport]) -> str:
    """Return a table of queries as text."""
    return _text(_QUERY_COLUMNS, reports)


def html_table(reports: Sequence[QueryReport], lags: Mapping[str, Sequence[int]]) -> str:
    """Return a table of queries as HTML, with a plot of each query's last lags in entries, by its name."""
    return _html(_QUERY_COLUMNS, reports, [_plot(lags.get(report.query, ())) for report in reports])


def _text(columns: _Columns, reports: Iterable[Any]) -> str:
    rows = [[title for title, _ in columns], *([shown(report) for _, shown in columns] for report in reports)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = (
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        for row in rows
    )
    return "\n".join("  ".join(line) for line in lines)


def _html(columns: _Columns, reports: Iterable[Any], plots: Sequence[str]) -> str:
    head = [title for title, _ in columns] + ["last lags"] * bool(plots)
    rows = [[html.escape(shown(report)) for _, shown in columns] for report in reports]
    for row, plot in zip(rows, plots, strict=False):
        row.append(plot)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{''.join(f'<th>{title}</th>' for title in head)}</tr></thead><tbody>{body}</tbody></table>"
    )


def _plot(lags: Sequence[int]) -> str:
    """Return a line of the lags as SVG, in the colour of the text; empty if there are fewer than two lags."""
    if len(lags) < 2:
        return ""
    step, most = _PLOT_WIDTH / (len(lags) - 1), max(*lags, 1)
    points = " ".join(
        f"{n * step:.1f},{_PLOT_HEIGHT - 1 - lag / most * (_PLOT_HEIGHT - 2):.1f}" for n, lag in enumerate(lags)
    )
    return (
        f'<svg width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}"><title>up to {most:,} entries</title>'
        f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
    )
