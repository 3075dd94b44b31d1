"""Spark queries, with their last batches and groups, from the reports that StreamMonitor writes to a stream."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pystreams import measures
from pystreams.dashboard.api import shapes
from pystreams.dashboard.api.requests.parameters import Asked
from pystreams.dashboard.sampling.snapshot import Snapshot
from pystreams.measures import QueryRow
from pystreams.streams import entries, paged_calls
from spark_streams.reports import MAXLEN, STREAM, QueryReport, StreamReport, from_fields
from streamwire.stream_id import LAST, StreamId

_TREND = 60  # number of last batches in the curve of a query
_SILENT_MS = 60_000  # minimum age of a silent query's last report
_SILENT_GAPS = 5  # minimum age of that report, in median intervals between reports
_GAPS = 20  # number of last reports; the intervals between them determine the median
_MOST_QUERIES, _MOST_STREAMS = 100, 200


def queries(asked: Asked) -> dict[str, Any]:
    """Return each query's last report, the rows per second of its last batches, and its streams with groups."""
    found: dict[str, list[tuple[int, QueryReport]]] = {}
    with asked.access.lend() as connection:
        now = paged_calls.now_ms(connection)
        for page in entries.pages_back(connection, STREAM.encode(), LAST, most=MAXLEN):
            for entry_id, words in page:
                report = from_fields(words)
                if report is not None and (report.id in found or len(found) < _MOST_QUERIES):
                    found.setdefault(report.id, []).append((StreamId.parse(entry_id).ms, report))
    latest = sorted((reports[0] for reports in found.values()), key=lambda each: each[1].query)
    streams = [(report.query, each) for _, report in latest for each in report.each][:_MOST_STREAMS]
    seen = asked.access.visible([_bytes(each.stream) for _, each in streams])
    return {
        "rows": [_row(now, found[report.id]) for _, report in latest],
        "streams": [_stream(query, each, asked.snapshot) for query, each in streams if _bytes(each.stream) in seen],
    }


def is_silent(ago: int, times: Sequence[int]) -> bool:
    """Return whether a query's last report is over a minute old, and older than five median intervals of its reports.

    `ago`: milliseconds since the last report; `times`: times of the last reports, newest first.
    """
    gaps = sorted(late - early for late, early in pairwise(times[:_GAPS]))
    usual = gaps[len(gaps) // 2] if gaps else 0
    return ago > max(_SILENT_MS, _SILENT_GAPS * usual)


def _row(now: int, reports: list[tuple[int, QueryReport]]) -> dict[str, Any]:
    at, report = reports[0]
    row = QueryRow(report, at, now, is_silent(now - at, [at for at, _ in reports]))
    return {
        "query": shapes.cut(report.query.encode(), 200),
        "id": shapes.cut(report.id.encode(), 200),
        **measures.document(measures.QUERY, row),
        "trends": {"rate": [each.rows_per_second for _, each in reversed(reports[:_TREND])]},
    }


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _stream(query: str, report: StreamReport, snapshot: Snapshot) -> dict[str, Any]:
    """Return the JSON form of a stream in a query's report, with the current state of the group if it was sampled."""
    name = _bytes(report.stream)
    group = None if report.group is None else _bytes(report.group)
    row = None if group is None else snapshot.groups.get((name, group))
    return {
        "query": shapes.cut(query.encode(), 200),
        "stream": shapes.name(name),
        "group": None if group is None else shapes.name(group),
        "position": shapes.cut(report.position.encode(), 50),
        "group_position": None if row is None else str(row.group.position),
        "status": None if row is None else row.status.value,
        "lag": report.lag_entries,
        "lag_exact": report.lag_exact,
        "entries_per_second": report.entries_per_second,
        "lost": report.lost,
    }
