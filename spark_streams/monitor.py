"""Monitoring of queries: a listener that reports a query's lag, for each stream and in total.

    from spark_streams.monitor import StreamMonitor
    monitor = StreamMonitor.install(spark, url="redis://localhost")
    monitor.latest["my query"].lag_entries

In a notebook, a monitor and a report are shown as tables; elsewhere as text.

Reports are also added to the stream `pystreams:queries`, from which `pystreams metrics` and `pystreams ui` read them.
`spark_streams.reports` defines their form.

Spark does not let a Python data source add metrics to a query's progress. So the monitor reads the sources' offsets
from the progress, and asks the server how many entries follow and how many are pending. Failures of the monitor do not
disturb a query: a number that cannot be determined is None, and a server that does not reply causes only a warning.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

try:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )
except ImportError as missing:
    from spark_streams.errors import explained

    raise explained(missing) from None

from spark_streams.config import options
from spark_streams.embedded import launcher
from spark_streams.errors import PystreamsError, fail
from spark_streams.read.query.offsets import Offsets
from spark_streams.reports import (
    MALFORMED_STREAM,
    MAXLEN,
    STREAM,
    Malformed,
    QueryReport,
    StreamReport,
    html_table,
    summary,
    text_table,
    to_fields,
)
from streamclient.config.address import Address, Embedded
from streamclient.connection import BROKEN, Command, Connection
from streamclient.pool import borrow
from streamclient.streams.lag import Asked, Budget, backlogs
from streamclient.streams.states import StreamState
from streamclient.streams.stream_server import open_server
from streamwire.stream_id import LAST, ZERO, StreamId

_COUNTED = 10_000  # maximum entries that a report counts to find lags that the server does not report
_RETRY_MS = 500  # short, because Spark calls its listeners one after another and an unreachable server would delay them
_PLOTTED = 60  # number of last lags that a table in a notebook plots
_PAUSE_SECONDS = 30.0  # time before a server that did not reply is asked again

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class _Source:
    """One source in a query's progress: its offsets before and after the batch, and its number of rows."""

    start: Offsets | None
    end: Offsets
    rows: int


class StreamMonitor(StreamingQueryListener):
    """Reports the batches of all queries that read with pystreams.

    `callback` gets a `StreamReport` for each stream. The `QueryReport` is added to the stream `stream`, which keeps
    about `maxlen` reports. Adding needs the permission `+xadd`. If `stream` is None, no report is added. `latest` has
    the last report of each query, by the query's name, or by its ID if it has no name. `url` is the URL of the
    monitored queries. `group` is a group to report instead of the queries' groups. `connection` has other options of
    the connection, such as `**{"tls.caFile": "/etc/ca.crt"}`. `clock` returns seconds since 1970. Raises OptionsError
    for an unknown option.
    """

    def __init__(
        self,
        url: str | None = None,
        group: str | None = None,
        callback: Callable[[StreamReport], None] | None = None,
        stream: str | None = STREAM,
        maxlen: int = MAXLEN,
        clock: Callable[[], float] = time.time,
        **connection: str,
    ) -> None:
        server = {} if url is None else {"url": url}
        self._server = options.server({"retryTimeoutMs": str(_RETRY_MS), **server, **connection})
        self._group = group
        self._callback = callback
        self._stream = stream
        self._maxlen = maxlen
        self._clock = clock
        self._counted = ZERO  # ID up to which the counts of malformed values were read
        self._parts: dict[tuple[str, int, str], dict[str, int]] = {}  # by query, batch and task
        self._refusal = ""
        self._paused_until = 0.0  # on the monotonic clock
        self._elsewhere: set[str] = set()  # queries already reported as having no streams on this server
        self.latest: dict[str, QueryReport] = {}
        self._lags: dict[str, deque[int]] = {}  # of the last batches, by the name in `latest`

    @classmethod
    def install(cls, spark: SparkSession, url: str | None = None, **arguments: Any) -> StreamMonitor:
        """Return a monitor of all queries of the session, added to its listeners. The arguments are those of the class.

        Raises MONITOR_WITHOUT_URL if `url` is missing in a Spark Connect client, whose embedded engine differs from the
        engine of the queries.
        """
        monitor = cls(url, **arguments)
        if not type(spark).__module__.startswith("pyspark.sql.connect"):
            spark.streams.addListener(monitor)
            return monitor
        if isinstance(monitor._server, Embedded):
            fail("MONITOR_WITHOUT_URL")
        # A Spark Connect client receives events in a thread that would keep the program from ending. That thread is a
        # daemon if it is started by a daemon thread.
        adding = threading.Thread(target=spark.streams.addListener, args=(monitor,), daemon=True)
        adding.start()
        adding.join()
        return monitor

    def __repr__(self) -> str:
        return text_table(list(self.latest.values()))

    def _repr_html_(self) -> str:
        return html_table(list(self.latest.values()), {name: list(lags) for name, lags in self._lags.items()})

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        sources = [(source.startOffset, source.endOffset, source.numInputRows) for source in progress.sources]
        name = progress.name or str(progress.id)
        self.report(name, progress.batchId, sources, progress.batchDuration or 0, str(progress.id))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to report: the next batch reports the lag."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to report: the last batch was reported."""

    def report(
        self, query: str, batch: int, sources: list[tuple[Any, Any, int]], batch_ms: int, query_id: str = ""
    ) -> None:
        """Report one batch. `sources`: each source's start and end offsets, as text, and its number of rows.

        `batch_ms`: duration of the batch in milliseconds.
        """
        ours = [source for source in (_source(*facts) for facts in sources) if source is not None]
        if not ours or time.monotonic() < self._paused_until:
            return
        try:
            each = [found for source in ours for found in self._reports(query, batch, source, batch_ms / 1000)]
        except PystreamsError as problem:
            pauses = problem.condition == "SERVER_UNREACHABLE"
            self._paused_until = time.monotonic() + _PAUSE_SECONDS if pauses else 0.0
            after = f" No query will be monitored for {_PAUSE_SECONDS:g} s." if pauses else ""
            _log.warning("Query %s could not be monitored: %s%s", query, problem, after)
            return
        self._check_found(query, ours, each)
        for found in each:
            if self._callback is not None:
                self._callback(found)
        rows = sum(source.rows for source in ours)
        malformed = self._malformed(query_id or query, batch)
        self.latest[query] = made = summary(query, query_id or query, batch, rows, batch_ms, each, malformed)
        self._lags.setdefault(query, deque(maxlen=_PLOTTED)).append(made.lag_entries)
        _log.info("%r", replace(made, each=()))
        # No report is added for a query that reads the reports, because each report would cause its next batch.
        if self._stream is not None and self._stream not in (found.stream for found in each):
            self._keep(self._stream, made)

    def _malformed(self, query_id: str, batch: int) -> dict[str, int] | None:
        """Return the number of a batch's values that did not parse, by column; None if the counts cannot be read."""
        try:
            with borrow(self._address()) as connection:
                start = str(self._counted.next())
                page = connection.command("XRANGE", MALFORMED_STREAM, start, "+", "COUNT", 2 * MAXLEN)
        except (PystreamsError, *BROKEN):
            return None
        for entry_id, words in page or ():
            self._counted = StreamId.parse(entry_id)
            found = Malformed.from_fields(words or [])
            if found is not None:
                self._parts[found.query, found.batch, found.part] = found.columns
        total: Counter[str] = Counter()
        for key in [key for key in self._parts if key[0] == query_id and key[1] <= batch]:
            columns = self._parts.pop(key)
            if key[1] == batch:
                total.update(columns)
        while len(self._parts) > 2 * MAXLEN:  # counts of queries that are not monitored
            del self._parts[next(iter(self._parts))]
        return dict(total)

    def _check_found(self, query: str, sources: list[_Source], reports: list[StreamReport]) -> None:
        """Warn once per query if it has read streams and the monitor's server has none of them."""
        was_read = any(source.rows or any(source.end.streams.values()) for source in sources)
        if not was_read or any(report.lag_ms is not None for report in reports) or query in self._elsewhere:
            return
        self._elsewhere.add(query)
        _log.warning(
            "Query %s reads streams that do not exist at %s, so no reports about them are possible. Give the monitor "
            "the url of the query: StreamMonitor.install(spark, url=...).",
            query,
            self._server if isinstance(self._server, Address) else "the embedded engine of the monitor's process",
        )

    def _keep(self, stream: str, made: QueryReport) -> None:
        """Add the report to the stream. A repeated refusal is logged once."""
        command: Command = ("XADD", stream, "MAXLEN", "~", self._maxlen, "*", *to_fields(made))
        try:
            with borrow(self._address()) as connection:
                connection.command(*command)
            self._refusal = ""
        except (PystreamsError, *BROKEN) as problem:
            if self._refusal != str(problem):
                self._refusal = str(problem)
                _log.warning("Reports about queries cannot be written to the stream %s: %s", stream, problem)

    def _address(self) -> Address:
        return launcher.started(self._server)

    def _reports(self, query: str, batch: int, source: _Source, seconds: float) -> Iterator[StreamReport]:
        belongs, shared = source.end.source, source.end.shared
        streams = sorted(source.end.streams)
        if shared is not None:
            streams = sorted({*shared.reads, *belongs.streams})
        entries = _entries(source)
        # A batch that ran twice may count its rows twice, so the difference may be negative. Then 0 is reported.
        missing = sum(entries.values()) - source.rows
        rejected = max(0, missing) if streams and len(entries) == len(streams) else None
        group = self._group or belongs.group
        with borrow(self._address()) as connection:
            server = open_server(connection)
            states = server.states.of(streams, group)
            positions = {
                stream: state.group.last_delivered_id
                if shared is not None and state is not None and state.group is not None
                else source.end.of(stream)
                for stream, state in states.items()
            }
            lags = _lags(connection, states, positions)
            behind_in = [stream for stream, (lag, _) in lags.items() if lag]
            firsts = server.entries.nths([(stream, positions[stream], 1, LAST) for stream in behind_in])
            ages = {stream: self._age(*first) for stream, first in zip(behind_in, firsts, strict=True)}
            for stream, state in states.items():
                position, (lag, exact) = positions[stream], lags[stream]
                count = entries.get(stream)
                latest = position if state is None else max(state.last_id, position)
                behind = latest.ms - position.ms if position.ms and state is not None and lag != 0 else 0
                yield StreamReport(
                    query=query,
                    batch=batch,
                    stream=stream,
                    position=str(position),
                    latest=str(latest),
                    lag_entries=lag,
                    lag_exact=exact,
                    lag_ms=behind if state is not None else None,
                    oldest_unread_ms=None if lag is None else ages.get(stream, 0),
                    group=group,
                    pending=state.group.pending if state is not None and state.group is not None else None,
                    entries=count,
                    entries_per_second=None if count is None or not seconds else count / seconds,
                    rejected=rejected,
                    lost=source.end.lost.get(stream, 0),
                )

    def _age(self, first: StreamId, found: int) -> int:
        """Return the age in milliseconds of the first entry after the position; 0 if no entry follows."""
        return max(0, round(self._clock() * 1000) - first.ms) if found else 0


def _source(start: Any, end: Any, rows: int) -> _Source | None:
    """Return the source; None if its offsets were not written by this connector."""
    try:
        # The first progress of a query has no start offset. PySpark then gives the text of None or null.
        begin = None if start in (None, "None", "null") else Offsets.from_json(json.loads(start))
        return _Source(begin, Offsets.from_json(json.loads(end)), rows)
    except (PystreamsError, ValueError, AttributeError, TypeError):
        return None


def _entries(source: _Source) -> dict[str, int]:
    """Return the batch's number of entries per stream; streams with an unknown number are omitted."""
    found: dict[str, int] = {}
    if source.start is None:
        return found
    for stream, end in source.end.added.items():
        begin = source.start.added.get(stream)
        if begin is None and stream not in source.start.streams:
            begin = 0
        if begin is not None:
            lost = source.end.lost.get(stream, 0) - source.start.lost.get(stream, 0)
            found[stream] = max(0, end - begin - lost)
    return found


def _lags(
    connection: Connection, states: Mapping[str, StreamState | None], positions: Mapping[str, StreamId]
) -> dict[str, tuple[int | None, bool]]:
    """Return by stream the number of entries after the position, and whether the number is exact.

    For a group's position beyond the stream's end, the number is the lag in XINFO.
    """
    found: dict[str, tuple[int | None, bool]] = dict.fromkeys(states, (None, False))
    requested: dict[str, Asked] = {}
    for stream, state in states.items():
        if state is None:
            continue
        position, group = positions[stream], state.group
        if group is not None and group.last_delivered_id == position > state.last_id:
            found[stream] = group.lag, group.lag is not None
        else:
            requested[stream] = Asked(stream.encode("utf-8", "surrogateescape"), state, position)
    counted = backlogs(connection, list(requested.values()), Budget(_COUNTED))
    found |= {stream: (each.entries, each.is_exact) for stream, each in zip(requested, counted, strict=True)}
    return found
