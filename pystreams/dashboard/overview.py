"""Overview of the server: streams, groups, totals, groups that need attention, and Spark queries.

The queries come from the reports that StreamMonitor writes to a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pystreams import measures
from pystreams.dashboard import shapes
from pystreams.dashboard.requests import Asked, visible_page
from pystreams.dashboard.sampler import ATTENTION, SORTS, Curve, Snapshot, State
from pystreams.measures import GroupRow, QueryRow
from pystreams.streams import entries, inventory, paged_calls, servers
from pystreams.streams import group_states as of_groups
from pystreams.streams.group_states import Group, Status
from pystreams.streams.sampling import BEHIND_CHECKPOINT, Name
from pystreams.values import numbers
from spark_streams.reports import MAXLEN, STREAM, QueryReport, StreamReport, from_fields
from streamclient.connection import Connection
from streamwire.stream_id import LAST, StreamId

_ATTENTION = 6  # maximum number of groups that need attention in the overview
_TREND = 60  # maximum number of points of a sparkline in a table
#: Names of the curves, which are of totals over all streams.
_CURVES = ("rate", "lag", "pending")


def news(state: State, *, whole: bool) -> dict[str, Any]:
    """Return the document that browsers get after each sample. It contains no name of a stream or group.

    `whole`: whether the session may see every stream. Otherwise, and before the first sample, the totals are None.
    """
    snapshot = state.snapshot
    return {
        "number": state.number,
        "at": snapshot.at,
        "problem": state.problem,
        "age_ms": state.age_ms,
        "totals": snapshot.totals if whole and snapshot.at else None,
        "server": {
            "product": servers.product(snapshot.facts),
            "commands_per_second": snapshot.commands,
            "memory": snapshot.fact("used_memory"),
            "maxmemory": snapshot.fact("maxmemory"),
        },
    }


def overview(asked: Asked) -> dict[str, Any]:
    """Return the current totals and their curves, the group furthest behind, and groups that need attention."""
    every, _ = _groups(asked, "behind")
    furthest = next((row for row in every if row.group.behind_ms), None)
    attention, number = _groups(asked, "status", ATTENTION)
    return {
        **news(asked.sampler.state, whole=asked.session.whole),
        "curves": {name: shapes.curve(_curve(asked, name)) for name in _CURVES},
        "furthest": None if furthest is None else shapes.group(furthest),
        "attention": [shapes.group(row) for row in attention[:_ATTENTION]],
        "attention_total": number,
    }


def _groups(asked: Asked, sort: str, status: str = "") -> tuple[list[GroupRow], int | None]:
    """Return the requested page of groups in falling order of a measure, and the total number of groups.

    `status`: a status, or `ATTENTION`; empty for all. Only groups that the session may see are included.
    """
    rows = asked.snapshot.ordered("groups", sort, falling=True, status=status)
    return visible_page(asked, rows, lambda row: row.names[0])


def _curve(asked: Asked, name: str) -> Curve:
    """Return the curve `name`. It is empty if the session's user may not see the totals over all streams."""
    return asked.sampler.curve(name) if asked.session.whole else Curve([], [])


def streams(asked: Asked) -> dict[str, Any]:
    """Return a page of the streams, sorted and searched."""
    return _listed(asked, "streams", "name", "rising", shapes.stream)


def groups(asked: Asked) -> dict[str, Any]:
    """Return a page of the groups of all streams, sorted and searched, optionally only groups with one status."""
    return _listed(asked, "groups", "lag", "falling", shapes.group)


def _listed(asked: Asked, kind: str, sort: str, order: str, shape: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    sort = asked.choice("sort", SORTS[kind], sort)
    falling = asked.choice("order", ("rising", "falling"), order) == "falling"
    status = asked.choice("status", ("any", ATTENTION, *Status), "any")
    search = asked.text("search")[:200]
    rows = asked.snapshot.ordered(kind, sort, falling=falling, search=search, status="" if status == "any" else status)
    page, total = visible_page(asked, rows, lambda row: row.names[0])
    drawn = [each.name for each in measures.IN_BROWSER[kind] if each.trend]

    def trends(row: Any) -> dict[str, Any]:
        curves = {name: asked.sampler.curve(name, *row.names) for name in drawn}
        return {name: shapes.curve(curve, _TREND)["values"] for name, curve in curves.items()}

    rows = [{**shape(row), "trends": trends(row)} for row in page]
    return {"at": asked.snapshot.at, "total": total, "rows": rows}


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
        streams = [(query, each) for query, each in streams if _bytes(each.stream) in seen]
        reports = [each for _, each in streams]
        names = dict.fromkeys(_bytes(each.stream) for each in reports if each.group is not None)
        # The last sample may be older than a report, so a group that has advanced since would seem to be behind.
        every = of_groups.groups(connection, names, now, forbidden=set())
        groups = {(each.stream.name, each.name): each for each in every}
        differences = _differences(connection, reports, groups)
    return {
        "rows": [_row(now, found[report.id]) for _, report in latest],
        "streams": [
            _stream(query, each, groups, differences.get(_name(each), ""), asked.snapshot) for query, each in streams
        ],
    }


def _differences(
    connection: Connection, reports: Sequence[StreamReport], groups: Mapping[Name, Group]
) -> dict[Name, str]:
    """Return the consequence of each group that is behind its query, with the number of entries if it is known."""
    found: dict[Name, str] = {}
    for each in reports:
        group = groups.get(_name(each))
        if group is None or group.position >= (position := StreamId.parse(each.position)):
            continue
        (left,) = inventory.behind(connection, [(group.stream, position)])
        known = group.exact and group.lag is not None and left.is_exact
        count = f", {numbers.things((group.lag or 0) - left.entries, 'entry')}" if known else ""
        found[_name(each)] = f"{BEHIND_CHECKPOINT}{count}"
    return found


def _name(report: StreamReport) -> Name:
    return _bytes(report.stream), _bytes(report.group or "")


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


def _stream(
    query: str, report: StreamReport, groups: Mapping[Name, Group], difference: str, snapshot: Snapshot
) -> dict[str, Any]:
    """Return the JSON form of a stream in a query's report, with the current state of the group and its status if it
    was sampled.
    """
    name = _name(report)
    group, sampled = groups.get(name), snapshot.groups.get(name)
    has_group = report.group is not None
    return {
        "query": shapes.cut(query.encode(), 200),
        "stream": shapes.name(name[0]),
        "group": shapes.name(name[1]) if has_group else None,
        "position": shapes.cut(report.position.encode(), 50),
        "group_position": None if group is None else str(group.position),
        "difference": "the group is gone" if has_group and group is None else difference,
        "status": None if sampled is None else sampled.status.value,
        "lag": report.lag_entries,
        "lag_exact": report.lag_exact,
        "entries_per_second": report.entries_per_second,
        "lost": report.lost,
    }
