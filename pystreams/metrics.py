"""Metrics of a server, its streams and groups, and Spark queries, for Prometheus.

Metrics of the server have the same names as in redis_exporter, and are those that the dashboard and the alerts in
`conf/` use; redis_exporter has the others. Measures of streams and groups are in `pystreams.measures`. Only metrics of
the table `METRICS` are exposed.

The cost depends on the number of chosen streams, not on their contents. A scrape sends XINFO for each stream and group,
in pages of a few hundred commands, and a few pages of SCAN to find streams, within a time limit. If the connection of
earlier scrapes fails, the scrape starts again on a new one. An unreachable or hanging server has the sample
`redis_up 0`.

`prometheus_client` writes the exposition and serves it over HTTP. Requests during a scrape wait for it and share its
result.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pystreams import measures
from pystreams.connect import Wanted, connect
from pystreams.measures import GroupRow, QueryRow, Row, StreamRow, View
from pystreams.streams import inventory, paged_calls
from pystreams.streams.sampling import Queries, Samples
from pystreams.values import names
from streamclient.connection import Connection
from streamclient.errors import BROKEN, PystreamsError, ResponseError, error
from streamclient.reply_maps import info_lines
from streamclient.streams.lag import Budget

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family


@dataclass(frozen=True)
class Metric:
    """A metric. A counter's name ends with `_total`. `labels`: label names, in the order of a sample's values."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The type, in Prometheus's terms."""
        return "counter" if self.name.endswith("_total") else "gauge"


class Sample(NamedTuple):
    """One value. `node`: the server of a cluster that the value describes; empty for a single server."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()
    node: str = ""


#: Metrics of fields of INFO that are exposed unchanged, except that `ok` and `up` become 1, and `err` and `down` 0.
OF_INFO = {
    "uptime_in_seconds": Metric("redis_uptime_in_seconds", "Seconds since the server's start."),
    "connected_clients": Metric("redis_connected_clients", "Connections of clients."),
    "blocked_clients": Metric("redis_blocked_clients", "Clients that wait in a blocking command."),
    "rejected_connections": Metric("redis_rejected_connections_total", "Connections rejected because of maxclients."),
    "used_memory": Metric("redis_memory_used_bytes", "Memory in use."),
    "maxmemory": Metric("redis_memory_max_bytes", "The limit maxmemory; 0 for none."),
    "total_commands_processed": Metric("redis_commands_processed_total", "Commands of all clients."),
    "total_net_input_bytes": Metric("redis_net_input_bytes_total", "Bytes received from clients."),
    "total_net_output_bytes": Metric("redis_net_output_bytes_total", "Bytes sent to clients."),
    "connected_slaves": Metric("redis_connected_slaves", "Connected replicas."),
    "rdb_changes_since_last_save": Metric("redis_rdb_changes_since_last_save", "Changes since the last snapshot."),
    "rdb_last_bgsave_status": Metric("redis_rdb_last_bgsave_status", "Whether the last snapshot was written."),
    "aof_last_write_status": Metric("redis_aof_last_write_status", "Whether the append-only file can be written."),
}
UP = Metric("redis_up", "Whether the server answered.")
INSTANCE = Metric("redis_instance_info", "Always 1; the labels describe the server.", ("role", "redis_version"))
COMMANDS = Metric("redis_commands_total", "Calls of each command.", ("cmd",))
COMMAND_SECONDS = Metric("redis_commands_duration_seconds_total", "Time spent in each command.", ("cmd",))
ERRORS = Metric("redis_errors_total", "Error replies, by their first word.", ("err",))
REPLICA_LAG = Metric(
    "redis_connected_slave_lag_seconds",
    "Seconds since each replica's last acknowledgement.",
    ("slave_ip", "slave_port", "slave_state"),
)
MASTER_UP = Metric(
    "redis_master_link_up", "Whether a replica's link to its master is up.", ("master_host", "master_port")
)

OF_SERVER = (UP, INSTANCE, *OF_INFO.values(), COMMANDS, COMMAND_SECONDS, ERRORS, REPLICA_LAG, MASTER_UP)

_STREAM = ("db", "stream")


def _of_view(view: View[Any], labels: tuple[str, ...]) -> dict[str, Metric]:
    """Return the metrics of a table of measures, by name."""
    return {name: Metric(name, text, labels) for each in view for name, text in each.metrics}


OF_STREAMS = {
    **_of_view(measures.STREAM, _STREAM),
    **_of_view(measures.GROUP, (*_STREAM, "group")),
    **_of_view(measures.CONSUMER, (*_STREAM, "group", "consumer")),
}
OF_QUERIES = _of_view(measures.QUERY, ("query", "id"))

SCRAPES = Metric("redis_exporter_scrapes_total", "Number of scrapes.")
SCRAPE_SECONDS = Metric("redis_exporter_last_scrape_duration_seconds", "Duration of the last scrape.")
SCRAPE_ERROR = Metric(
    "redis_exporter_last_scrape_error", "Whether a part of the last scrape failed. Label err: the error's ID.", ("err",)
)
STREAMS_SHOWN = Metric("pystreams_exporter_streams", "Streams that the last scrape examined.")
STREAMS_MORE = Metric(
    "pystreams_exporter_streams_left_out",
    "Whether streams were omitted because of a limit (number, time) or a missing permission.",
)

OF_EXPORTER = (SCRAPES, SCRAPE_SECONDS, SCRAPE_ERROR, STREAMS_SHOWN, STREAMS_MORE)

#: All metrics by name, in the order of the exposition.
METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (*OF_SERVER, *OF_STREAMS.values(), *OF_QUERIES.values(), *OF_EXPORTER)
}


_REPLICA = re.compile(r"slave[0-9]+")
_REPLICA_PARTS = ("ip", "port", "state")
_WORDS = {"ok": 1.0, "err": 0.0, "up": 1.0, "down": 0.0}


def of_info(info: Mapping[str, str], node: str = "") -> Iterator[Sample]:
    """Yield the samples of INFO ALL. Fields that are missing or not numeric are skipped."""
    for field, metric in OF_INFO.items():
        yield from _of(metric, info.get(field), (), node)
    yield Sample(INSTANCE, 1, tuple(info.get(label, "") for label in INSTANCE.labels), node)
    for name, text_of_parts in info.items():
        parts = {part: value for part, _, value in (each.partition("=") for each in text_of_parts.split(","))}
        if name.startswith("cmdstat_"):
            labels = (name.removeprefix("cmdstat_"),)
            yield from _of(COMMANDS, parts.get("calls"), labels, node)
            yield from _of(COMMAND_SECONDS, parts.get("usec"), labels, node, 1_000_000)
        elif name.startswith("errorstat_"):
            yield from _of(ERRORS, parts.get("count"), (name.removeprefix("errorstat_"),), node)
        elif _REPLICA.fullmatch(name):
            yield from _of(REPLICA_LAG, parts.get("lag"), tuple(parts.get(each, "") for each in _REPLICA_PARTS), node)
    if info.get("role") == "slave":
        master = tuple(info.get(label, "") for label in MASTER_UP.labels)
        yield from _of(MASTER_UP, info.get("master_link_status"), master, node)


def _of(metric: Metric, text: str | None, labels: tuple[str, ...], node: str, divisor: int = 1) -> Iterator[Sample]:
    """Yield the sample of a number or word of INFO; nothing for other texts."""
    if text in _WORDS:
        yield Sample(metric, _WORDS[text], labels, node)
        return
    with suppress(TypeError, ValueError):
        yield Sample(metric, float(text or "") / divisor, labels, node)


#: Maximum number of a group's consumers that have their own samples: those with the most pending entries.
CONSUMERS = 1000


def text(name: bytes) -> str:
    r"""Return a name as a label's value: unchanged, or with escapes if it is not UTF-8.

    Different names stay different, so backslashes are doubled in a name that contains the text of an escape, such as a
    backslash followed by `xff`.
    """
    try:
        found = name.decode()
        if "\\x" not in found:
            return found
    except UnicodeDecodeError:
        pass
    return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def of_stream(row: StreamRow, database: str) -> Iterator[Sample]:
    """Return the samples of a stream. `database`: value of the label, such as `db0`."""
    return _samples(measures.STREAM, row, (database, text(row.stream.name)))


def of_group(row: GroupRow, database: str, *, consumers: bool) -> Iterator[Sample]:
    """Yield the samples of a group, and of its consumers if requested. Unknown values are skipped."""
    group = row.group
    labels = (database, text(group.stream.name), text(group.name))
    yield from _samples(measures.GROUP, row, labels)
    if not consumers:
        return
    shown = group.consumers or ()
    if len(shown) > CONSUMERS:
        shown = tuple(sorted(shown, key=lambda each: -each.pending)[:CONSUMERS])
    for each in shown:
        yield from _samples(measures.CONSUMER, each, (*labels, text(each.name)))


def of_query(row: QueryRow) -> Iterator[Sample]:
    """Return the samples of a Spark query's last batch, from the report of `StreamMonitor`."""
    return _samples(measures.QUERY, row, (row.report.query, row.report.id))


def _samples(view: View[Row], row: Row, labels: tuple[str, ...]) -> Iterator[Sample]:
    return (Sample(METRICS[name], value, labels) for each in view for name, value in each.samples(row))


#: Rules of ACL SETUSER for an exporter's user.
NEEDS = "+echo +info +scan +xinfo +xpending +xrange +xrevrange +time +cluster|slots"

TIMEOUT_SECONDS = 9.0  # less than the default timeout of Prometheus, which is ten seconds
_ANSWER_SHARE = 0.4  # of a scrape's time, for a reply: a scrape that a former master does not answer can start again
_CONTENTS_SHARE = 0.75  # of a scrape's time, after which it requests no further streams
_FRESH_SECONDS = 1.0  # maximum age of samples that later requests reuse
_NODE = "node"
_RETRY_MS = 1000  # short, so a scrape during a failover reports that the server is down
_SCAN_SECONDS = 0.5  # maximum time of SCAN per scrape; later scrapes continue the scan of a large key space
_GROUPS = 20_000  # number of groups after which a scrape requests no further streams
_COUNTED = 10_000  # maximum entries counted per scrape, for lags that the server does not report


@dataclass(frozen=True)
class Chosen:
    """Selection of streams. `patterns`: names or globs. `limit`: maximum number of streams.

    `consumers`: whether each consumer has its own samples. Names of consumers may be unbounded: a shared query of Spark
    has new ones for each batch.
    """

    patterns: tuple[str, ...] = ("*",)
    limit: int = 1000
    consumers: bool = False


class Collector:
    """Collects samples of one server, for any number of threads. `seconds`: maximum duration of a scrape."""

    def __init__(
        self,
        wanted: Wanted,
        chosen: Chosen | None = None,
        seconds: float = TIMEOUT_SECONDS,
        fresh: float = _FRESH_SECONDS,
    ) -> None:
        self._seconds, self._fresh = seconds, fresh
        self._lock = threading.Lock()
        self._shared: list[Sample] = []
        self._ended = -fresh
        self._wanted = replace(wanted, given={"retryTimeoutMs": str(_RETRY_MS), **wanted.given})
        self._chosen = chosen if chosen is not None else Chosen()
        self._connection: Connection | None = None
        self._names = _Names(self._chosen)
        self._samples = Samples()
        self._queries = Queries()
        self._scrapes = 0
        #: The failure of the last scrape.
        self.failure: PystreamsError | None = None

    def samples(self) -> list[Sample]:
        """Return samples that are at most a second old. Concurrent calls share one scrape."""
        with self._lock:
            if time.monotonic() - self._ended >= self._fresh:
                self._shared = self.collect()
                self._ended = time.monotonic()
            return self._shared

    def collect(self) -> list[Sample]:
        """Return current samples. An error of the server or the connection is not raised, but stored in `failure`."""
        begin = time.monotonic()
        end = begin + self._seconds * _CONTENTS_SHARE
        self._scrapes += 1
        was_open = self._connection is not None
        found = self._attempt(end)
        if self.failure is not None and was_open and time.monotonic() < end:
            found = self._attempt(end)  # on a new connection: the old one may lead to a former master
        if not any(sample.metric is UP for sample in found):
            found.insert(0, Sample(UP, 0))
        return [*found, *self._of_itself(time.monotonic() - begin)]

    def _attempt(self, end: float) -> list[Sample]:
        """Return the samples until the first failure, which closes the connection."""
        found: list[Sample] = []
        self.failure = None
        try:
            connection = self._connected()
            found += self._of_servers(connection)
            found += self._of_contents(connection, end)
        except PystreamsError as failure:
            self.failure = failure
        except (*BROKEN, ResponseError) as cause:
            self.failure = error("CONNECTION_BROKEN", reason=str(cause).rstrip("."))
        if self.failure is not None:
            self.close()
        return found

    def close(self) -> None:
        """Close the connection. It is opened again on demand."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._names.connection_lost()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._wanted, NEEDS, answer_seconds=self._seconds * _ANSWER_SHARE)
        return self._connection

    def _of_itself(self, seconds: float) -> Iterator[Sample]:
        problem = self.failure.condition if self.failure is not None else ""
        yield Sample(SCRAPES, self._scrapes)
        yield Sample(SCRAPE_SECONDS, seconds)
        yield Sample(SCRAPE_ERROR, 1 if problem else 0, (problem,))

    def _of_servers(self, connection: Connection) -> Iterator[Sample]:
        """Yield the samples of each server's INFO."""
        several = connection.topology.is_cluster
        for endpoint in connection.topology.masters():
            node = f"{endpoint.host}:{endpoint.port}" if several else ""
            try:
                (info,) = paged_calls.ask_server(connection, endpoint, [("INFO", "ALL")])
            except BROKEN as cause:
                if not several:
                    raise connection.unreachable(cause) from cause
                yield Sample(UP, 0, (), node)
                continue
            yield Sample(UP, 1, (), node)
            if isinstance(info, bytes):
                yield from of_info(info_lines(info), node)

    def _of_contents(self, connection: Connection, end: float) -> Iterator[Sample]:
        """Yield the samples of contents: streams, groups, consumers, and reports of Spark queries."""
        database = f"db{connection.address.login.database}"
        now = paged_calls.now_ms(connection)
        self._queries.read_new(connection, now)
        for each in self._queries.latest.values():
            yield from of_query(QueryRow(each.report, each.at, now))
        chosen, more = self._names.now(connection)
        shown = group_count = 0
        forbidden: set[bytes] = set()
        pages = self._samples.pages(
            connection, chosen, now, every=self._chosen.consumers, budget=Budget(_COUNTED), forbidden=forbidden
        )
        left = len(chosen)
        for page in pages:
            shown += len(page.streams)
            for stream in page.streams:
                yield from of_stream(StreamRow(stream, now), database)
            for group, status in page.groups:
                yield from of_group(GroupRow(group, status), database, consumers=self._chosen.consumers)
            group_count += len(page.groups)
            left -= paged_calls.PAGE
            if left > 0 and (time.monotonic() > end or group_count > _GROUPS):
                more = True
                break
        self._samples.drop(now)
        more = more or bool(forbidden)
        yield Sample(STREAMS_SHOWN, shown)
        yield Sample(STREAMS_MORE, int(more))


class _Names:
    """Names of the chosen streams. The search takes a limited time in each scrape, and continues in the next."""

    def __init__(self, chosen: Chosen) -> None:
        self._limit = chosen.limit
        self._patterns = [names.from_shell(pattern) for pattern in chosen.patterns]
        self._known: dict[bytes, None] = {}
        self._found: dict[bytes, None] = {}
        self._pages: Iterator[list[bytes]] | None = None
        self._more = False

    def now(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> tuple[list[bytes], bool]:
        """Return the names, and whether there are more than the limit."""
        end = clock() + _SCAN_SECONDS
        pages = self._pages or self._all_pages(connection)
        self._pages = None
        for page in pages:
            self._found.update(dict.fromkeys(page))
            if len(self._found) > self._limit:
                self._round_done()
                break
            if clock() > end:
                # Keep the names of the last complete search until this search is complete.
                self._pages = pages
                merged = {**self._known, **self._found}
                return list(merged)[: self._limit], self._more or len(merged) > self._limit
        else:
            self._round_done()
        return list(self._known), self._more

    def connection_lost(self) -> None:
        """Drop the cursor, since the next connection may reach another server."""
        self._pages = None
        self._found = {}

    def _round_done(self) -> None:
        self._more = len(self._found) > self._limit
        self._known = dict.fromkeys(list(self._found)[: self._limit])
        self._found = {}

    def _all_pages(self, connection: Connection) -> Iterator[list[bytes]]:
        for pattern in self._patterns:
            if any(each in pattern for each in b"*?[\\"):
                yield from inventory.scan_pages(connection, pattern)
            else:
                yield [pattern]


def registry_of(read: Callable[[], Sequence[Sample]]) -> CollectorRegistry:
    """Return a registry of prometheus-client with the samples that `read` returns at each request."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra, which other verbs do without

    registry = CollectorRegistry()
    registry.register(_Page(read))
    return registry


class _Page:
    """Samples as metric families for prometheus-client."""

    def __init__(self, read: Callable[[], Sequence[Sample]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Family]:
        """Yield a family for each metric with samples, in the order of the table `METRICS`."""
        from prometheus_client.core import Metric as Family  # noqa: PLC0415 - an extra

        families: dict[Metric, Family] = {}
        for metric, value, labels, node in self._read():
            family = families.get(metric)
            if family is None:
                name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
                families[metric] = family = Family(name, metric.help, metric.kind)
            named = dict(zip(metric.labels, labels, strict=True))
            if node:
                named[_NODE] = node
            family.add_sample(metric.name, named, value)
        for metric in METRICS.values():
            if metric in families:
                yield families[metric]
