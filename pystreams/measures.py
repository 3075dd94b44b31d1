"""Measures of streams, groups, consumers and queries: one table for columns, JSON keys, the dashboard and metrics.

The command line, the dashboard, Prometheus and the reference all use this table. To add a
measure, add a record and name it in the views that show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pystreams.streams.group_states import SEVERITY, STYLES, Consumer, Group, Status, judge
from pystreams.streams.inventory import Stream
from pystreams.values import names, numbers, times
from spark_streams.reports import QueryReport
from streamwire.stream_id import ZERO, StreamId

_CLOCK_MS = 60_000  # an ID that is further ahead of the server's clock is not a time


@dataclass(frozen=True)
class StreamRow:
    """A stream at the time `at`. `lag`, `behind_ms` and `status`: the worst value of any of its groups.

    `pending`: the sum over all groups. `exact`: whether the lag of every group is exact.
    """

    stream: Stream
    at: int
    lag: int | None = None
    behind_ms: int | None = None
    pending: int = 0
    status: Status | None = None
    exact: bool = True

    @property
    def names(self) -> tuple[bytes, ...]:
        """The name of the stream."""
        return (self.stream.name,)


@dataclass(frozen=True)
class GroupRow:
    """A group and its status."""

    group: Group
    status: Status

    @classmethod
    def judged(cls, group: Group) -> GroupRow:
        """Return a group with its status, judged from this single sample."""
        return cls(group, judge(group))

    @property
    def names(self) -> tuple[bytes, ...]:
        """The names of the stream and the group."""
        return (self.group.stream.name, self.group.name)


@dataclass(frozen=True)
class QueryRow:
    """A Spark query's last report, made at `at` and shown at `now`. `is_silent`: whether the next report is overdue."""

    report: QueryReport
    at: int
    now: int
    is_silent: bool = False


def age(at: StreamId | None, now: int) -> int | None:
    """Return the milliseconds since an entry was added, or None if its ID is not a time. `now`: time of the server."""
    return max(0, now - at.ms) if at is not None and now - now // 2 < at.ms <= now + _CLOCK_MS else None


def _same(value: Any) -> Any:
    return value


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000


@dataclass(frozen=True)
class Form:
    """Presentation of a kind of value. `name`: name of the form in the dashboard's pages.

    `text`: converts a value, or None, to text for a terminal. `json` and `sample`: convert a value to JSON and to a
    metric. `unit`: suffix of the JSON key. `styles`: colours of texts, on terminals.
    """

    name: str
    text: Callable[[Any], str]
    json: Callable[[Any], Any] = _same
    sample: Callable[[Any], float] = _same
    unit: str = ""
    right: bool = True
    styles: Mapping[str, str] | None = field(default=None, compare=False)


STATUS_NUMBERS = {status: number for number, status in enumerate(Status)}
COUNT = Form("count", numbers.count)
BYTES = Form("bytes", numbers.size)
RATE = Form("rate", numbers.rate, lambda rate: round(rate, 6))
DURATION = Form("duration", times.shown, _seconds, _seconds, "_seconds")
ID = Form("id", lambda at: "-" if at is None else str(at), str, lambda at: at.ms, right=False)
FLAG = Form("flag", lambda flag: "yes" if flag else "no", sample=float, right=False)
STATUS = Form(
    "status",
    lambda status: status or "",
    lambda status: status.value,
    STATUS_NUMBERS.__getitem__,
    right=False,
    styles=STYLES,
)
NAME = Form("name", names.shown, right=False)
#: A name, or other bytes, that is also in documents.
WORD = Form("word", lambda word: "-" if word is None else names.shown(word), names.as_json, right=False)
TEXT = Form("text", lambda text: "-" if text is None else str(text), right=False)

Row = TypeVar("Row")


@dataclass(frozen=True)
class Estimate(Generic[Row]):
    """Exactness and bounds of a count. `metrics`: (name, HELP) of the estimate and of its lower and upper bound."""

    exact: Callable[[Row], bool]
    bounds: Callable[[Row], tuple[int | None, int | None]] | None = None
    metrics: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Measure(Generic[Row]):
    """One measure. `name` selects it in views and options, and is its column's title if `title` is empty.

    `read`: returns the value of a row. `key`: JSON key, by default `name` with the form's unit. `metric`: name in
    Prometheus; names of counters end with `_total`. `help`: HELP of the metric, and the tooltip in the dashboard
    if `hint` is empty. `order`: returns the sort key of a row, by default its value. `has_history`: whether the
    dashboard keeps a history of the values. `trend`: title of a chart of the last values. `heading`: title in the
    dashboard. `optional`: whether the column is hidden on narrow screens.
    """

    name: str
    read: Callable[[Row], Any]
    form: Form = COUNT
    key: str = ""
    estimate: Estimate[Row] | None = None
    metric: str = ""
    help: str = ""
    order: Callable[[Row], Any] | None = None
    has_history: bool = False
    trend: str = ""
    title: str = ""
    heading: str = ""
    hint: str = ""
    optional: bool = False

    @property
    def label(self) -> str:
        """The title of the column."""
        return self.title or self.name.upper()

    @property
    def json_key(self) -> str:
        """The measure's name in JSON."""
        return self.key or self.name + self.form.unit

    @property
    def metrics(self) -> tuple[tuple[str, str], ...]:
        """The names in Prometheus, with their HELP."""
        return ((self.metric, self.help), *(self.estimate.metrics if self.estimate else ())) if self.metric else ()

    def text(self, row: Row) -> str:
        """Return the value as text; `~` marks an estimate."""
        value = self.read(row)
        return numbers.count(value, exact=self.estimate.exact(row)) if self.estimate else self.form.text(value)

    def sorted_by(self, row: Row) -> Any:
        """Return the sort key of a row; unknown numbers sort below 0."""
        if self.order is not None:
            return self.order(row)
        value = self.read(row)
        return -1 if value is None else value

    def json(self, row: Row) -> Any:
        """Return the value for programs."""
        value = self.read(row)
        return None if value is None else self.form.json(value)

    def samples(self, row: Row) -> Iterator[tuple[str, float]]:
        """Yield the names and values of the metrics; nothing without a metric or if the value is unknown."""
        value = self.read(row)
        if not self.metric or value is None:
            return
        if self.estimate is None or self.estimate.exact(row):
            yield self.metric, self.form.sample(value)
            return
        bounds = self.estimate.bounds(row) if self.estimate.bounds else ()
        for (name, _), number in zip(self.estimate.metrics, (value, *bounds), strict=True):
            if number is not None:
                yield name, number


View = tuple[Measure[Row], ...]


def document(view: View[Row], row: Row) -> dict[str, Any]:
    """Return a row's values by JSON key, except names, which callers add in their own form."""
    found: dict[str, Any] = {}
    for each in view:
        if each.form is NAME:
            continue
        key = each.json_key
        found[key] = each.json(row)
        if each.estimate is not None:
            found[f"{key}_exact"] = each.estimate.exact(row)
            if each.estimate.bounds is not None:
                found[f"{key}_min"], found[f"{key}_max"] = each.estimate.bounds(row)
    return found


def columns(view: View[Any]) -> list[dict[str, Any]]:
    """Return the columns of a view, for the dashboard's pages."""
    return [
        {
            "id": each.name,
            "title": each.heading or each.label.capitalize(),
            "key": each.json_key,
            "form": each.form.name,
            "right": each.form.right,
            "help": each.hint or each.help or None,
            "optional": each.optional,
            "trend": each.trend,
        }
        for each in view
    ]


def _average_bytes(stream: Stream) -> int | None:
    return round(stream.bytes / stream.length) if stream.bytes and stream.length else None


def _weight(status: Status, lag: int | None, pending: int) -> tuple[int, int, int]:
    """Return the weight of a status, by which rows are sorted: first stalled and stopped groups, then the number of
    entries that wait for delivery or acknowledgement.
    """
    acute = SEVERITY[status] >= SEVERITY[Status.STALL]
    return 2 if acute else int(status != Status.OK), (lag or 0) + pending, SEVERITY[status]


_STATUSES = ", ".join(f"{number} {status}" for status, number in STATUS_NUMBERS.items())
_OF_ESTIMATES = (
    ("pystreams_group_lag_estimate", "Estimated undelivered entries, if they are too many to count."),
    ("pystreams_group_lag_min", "Lower bound of the lag, if the lag is an estimate. Use this bound for alerts."),
    ("pystreams_group_lag_max", "Upper bound of the lag, if the lag is an estimate."),
)

# fmt: off
STREAM: View[StreamRow] = (
    Measure("name", lambda row: row.stream.name, NAME, title="STREAM"),
    Measure("length", lambda row: row.stream.length, metric="redis_stream_length", help="Entries in the stream.",
            has_history=True),
    Measure("bytes", lambda row: row.stream.bytes, BYTES, heading="Size", hint="Memory usage, estimated by the server",
            optional=True),
    Measure("average_bytes", lambda row: _average_bytes(row.stream), BYTES),
    Measure("rate", lambda row: row.stream.rate, RATE, has_history=True, trend="Last hour"),
    Measure("average_rate", lambda row: row.stream.average_rate(row.at), RATE),
    Measure("groups", lambda row: row.stream.groups, metric="redis_stream_groups",
            help="Consumer groups of the stream.", optional=True),
    Measure("first", lambda row: row.stream.first_id, ID, "first_id", metric="redis_stream_first_entry_id",
            help="Milliseconds of the first entry's ID."),
    Measure("last", lambda row: row.stream.last_entry, ID, "last_id", metric="redis_stream_last_entry_id",
            help="Milliseconds of the last entry's ID."),
    Measure("generated", lambda row: row.stream.last_id, ID, "generated_id", metric="redis_stream_last_generated_id",
            help="Milliseconds of the last generated ID."),
    Measure("deleted", lambda row: row.stream.max_deleted_id, ID, "max_deleted_id",
            metric="redis_stream_max_deleted_entry_id", help="Milliseconds of the largest deleted ID."),
    Measure("oldest", lambda row: age(row.stream.first_id, row.at), DURATION),
    Measure("newest", lambda row: age(row.stream.last_entry, row.at), DURATION,
            order=lambda row: row.stream.last_entry or ZERO, hint="Age of the last entry", optional=True),
    Measure("added", lambda row: row.stream.entries_added, metric="pystreams_stream_entries_added_total",
            help="Entries ever added (Redis 7 and later)."),
    Measure("removed", lambda row: row.stream.removed),
    Measure("gaps", lambda row: row.stream.has_gaps, FLAG),
    Measure("lag", lambda row: row.lag, estimate=Estimate(lambda row: row.exact),
            hint="Entries that the slowest group has yet to read; ~ is an estimate"),
    Measure("behind", lambda row: row.behind_ms, DURATION, "lag_seconds",
            hint="Age of the first entry that the slowest group has yet to read"),
    Measure("pending", lambda row: row.pending, hint="Entries that were delivered and not acknowledged"),
    Measure("status", lambda row: row.status, STATUS,
            order=lambda row: (-1,) if row.status is None else _weight(row.status, row.lag, row.pending)),
)

GROUP: View[GroupRow] = (
    Measure("name", lambda row: row.group.name, NAME, title="GROUP",
            order=lambda row: (row.group.name, row.group.stream.name)),
    Measure("stream", lambda row: row.group.stream.name, NAME,
            order=lambda row: (row.group.stream.name, row.group.name)),
    Measure("consumers", lambda row: row.group.consumer_count, metric="redis_stream_group_consumers",
            help="Consumers of the group.", optional=True),
    Measure("pending", lambda row: row.group.pending, metric="redis_stream_group_messages_pending",
            help="Entries delivered and not acknowledged.", has_history=True),
    Measure("lag", lambda row: row.group.lag,
            estimate=Estimate(lambda row: row.group.exact, lambda row: row.group.bounds, _OF_ESTIMATES),
            metric="redis_stream_group_lag", help="Exact number of undelivered entries, reported by XINFO or counted.",
            hint="Entries that are not delivered; ~ is an estimate", has_history=True, trend="Last hour"),
    Measure("position", lambda row: row.group.position, ID, metric="redis_stream_group_last_delivered_id",
            help="Milliseconds of the last delivered ID."),
    Measure("end", lambda row: row.group.stream.last_id, ID),
    Measure("read", lambda row: row.group.read, metric="redis_stream_group_entries_read",
            help="Entries ever delivered, if the server reports them."),
    Measure("behind", lambda row: row.group.behind_ms, DURATION, "lag_seconds", metric="pystreams_group_lag_seconds",
            help="Age of the first undelivered entry; 0 if all are delivered.", has_history=True,
            order=lambda row: (-1 if row.group.behind_ms is None else row.group.behind_ms, row.group.lag or 0)),
    Measure("oldest", lambda row: row.group.oldest, ID, "oldest_pending"),
    Measure("oldest_idle", lambda row: row.group.oldest_idle_ms, DURATION, "oldest_pending_idle_seconds"),
    Measure("left_alone", lambda row: row.group.oldest_idle_ms if row.group.pending else 0, DURATION,
            metric="pystreams_group_oldest_pending_seconds",
            help="Seconds since the first pending entry was last delivered; 0 without pending entries."),
    Measure("rate", lambda row: row.group.stream.rate, RATE),
    Measure("delivered", lambda row: row.group.rate, RATE, "delivered_per_second",
            metric="pystreams_group_delivered_per_second", help="Entries delivered to the group per second.",
            optional=True),
    Measure("catch_up", lambda row: row.group.catch_up_ms, DURATION, "catch_up_seconds", title="CATCH-UP",
            metric="pystreams_group_catch_up_seconds",
            help="Seconds until the lag is 0 if it goes on to shrink as it does; missing if it does not shrink.",
            hint="Time until the lag is 0 if it goes on to shrink as it does; – if it does not shrink"),
    Measure("idle", lambda row: row.group.idle_ms, DURATION, hint="Time since the last call of a consumer",
            optional=True),
    Measure("status", lambda row: row.status, STATUS, metric="pystreams_group_status",
            help=f"Status as Burrow judges it: {_STATUSES}.",
            order=lambda row: _weight(row.status, row.group.lag, row.group.pending)),
)

CONSUMER: View[Consumer] = (
    Measure("name", lambda row: row.name, NAME, title="CONSUMER"),
    Measure("pending", lambda row: row.pending, metric="redis_stream_group_consumer_messages_pending",
            help="Entries that this consumer has not acknowledged."),
    Measure("idle", lambda row: row.idle_ms, DURATION, metric="redis_stream_group_consumer_idle_seconds",
            help="Seconds since the consumer's last call."),
    Measure("inactive", lambda row: row.inactive_ms, DURATION, hint="Time since the consumer last received an entry",
            optional=True),
)

QUERY: View[QueryRow] = (
    Measure("name", lambda row: row.report.query.encode(), NAME, "query", title="QUERY"),
    Measure("batch", lambda row: row.report.batch, metric="pystreams_query_batch",
            help="Number of the query's last batch."),
    Measure("state", lambda row: row.is_silent, FLAG, "silent"),
    Measure("rows", lambda row: row.report.rows, metric="pystreams_query_rows", help="Rows of the last batch."),
    Measure("rate", lambda row: None if row.is_silent else row.report.rows_per_second, RATE, "rows_per_second",
            metric="pystreams_query_rows_per_second", help="Rows per second of the last batch.",
            heading="Rows/s", trend="Last batches"),
    Measure("took", lambda row: row.report.batch_ms, DURATION, "batch_seconds", heading="Batch took",
            metric="pystreams_query_batch_duration_seconds", help="Duration of the last batch.", optional=True),
    Measure("streams", lambda row: row.report.streams, metric="pystreams_query_streams",
            help="Streams that the query reads."),
    Measure("lag", lambda row: row.report.lag_entries, metric="pystreams_query_lag",
            help="Exact number of unread entries of all streams of the query after the last batch.", heading="Behind",
            hint="Unread entries of all streams of the query; ~ is an estimate",
            estimate=Estimate(lambda row: row.report.lag_exact, metrics=(("pystreams_query_lag_estimate",
                              "Estimated unread entries, if they are too many to count."),))),
    Measure("behind", lambda row: row.report.oldest_unread_ms, DURATION, "lag_seconds", heading="Oldest",
            metric="pystreams_query_lag_seconds", help="Age of the oldest unread entry after the last batch."),
    Measure("pending", lambda row: row.report.pending, metric="pystreams_query_pending",
            help="Unacknowledged entries of the groups of the query.", optional=True),
    Measure("lost", lambda row: row.report.lost, metric="pystreams_query_lost_total",
            help="Lost entries that the query has detected."),
    Measure("malformed", lambda row: None if row.report.malformed is None else sum(row.report.malformed.values()),
            metric="pystreams_query_malformed", optional=True,
            help="Values of the last batch that could not be parsed.", heading="Malformed"),
    Measure("age", lambda row: max(0, row.now - row.at), DURATION, heading="Reported",
            metric="pystreams_query_report_age_seconds", help="Seconds since the query's last report."),
)

# fmt: on


def _view(table: View[Row], chosen: str) -> View[Row]:
    known = {each.name: each for each in table}
    return tuple(known[name] for name in chosen.split())


# The columns of tables, from left to right.
STREAMS_LISTED = _view(STREAM, "name length bytes rate oldest newest groups removed")
STREAMS_IN_BROWSER = _view(STREAM, "name status length rate lag behind pending groups newest bytes")
GROUPS_LISTED = _view(GROUP, "stream name position end lag pending consumers")
GROUPS_LAGGING = _view(GROUP, "stream name position end lag behind pending consumers idle status")
GROUPS_WATCHED = _view(GROUP, "stream name position end lag behind delivered catch_up pending consumers idle status")
GROUPS_IN_BROWSER = _view(GROUP, "name stream status lag behind delivered catch_up pending consumers idle")
QUERIES_IN_BROWSER = _view(QUERY, "name batch state age rate took lag behind lost malformed")
IN_BROWSER: dict[str, View[Any]] = {
    "streams": STREAMS_IN_BROWSER,
    "groups": GROUPS_IN_BROWSER,
    "consumers": CONSUMER,
    "queries": QUERIES_IN_BROWSER,
}

#: The lines of `info`.
STREAM_LINES = _view(STREAM, "name length added removed first last generated bytes average_rate groups")

# The keys of JSON documents.
STREAM_DOCUMENT = _view(STREAM, "length bytes rate first last oldest newest groups removed gaps")
STREAM_DETAILS = (*STREAM_DOCUMENT, *_view(STREAM, "generated added deleted average_bytes"))
GROUP_DOCUMENT = _view(GROUP, "position end lag behind pending consumers idle")
GROUP_JUDGED = (*GROUP_DOCUMENT, *_view(GROUP, "status"))
GROUP_WATCHED = (*GROUP_JUDGED, *_view(GROUP, "delivered catch_up"))
GROUP_DETAILS = (*GROUP_JUDGED, *_view(GROUP, "oldest oldest_idle"))
GROUP_OF_STREAM = _view(GROUP, "lag pending")
