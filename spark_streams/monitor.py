"""Watching queries: a listener that says, per stream, how far a query is behind and how fast it goes.

    from spark_streams.monitor import StreamMonitor
    spark.streams.addListener(StreamMonitor(url="redis://localhost", group="g", callback=print))

It reads what a query's progress says of its sources, and asks the server how many entries follow and how many are
pending. It never disturbs a query: what cannot be found out is None, and a server that does not answer is a warning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_streams.client.connection import Command
from spark_streams.client.pool import borrow
from spark_streams.config import options
from spark_streams.config.address import Address
from spark_streams.embedded import launcher
from spark_streams.errors import PystreamsError
from spark_streams.read.offsets import Offsets
from spark_streams.server.api import StreamServer
from spark_streams.server.model import StreamState
from spark_streams.server.open import open_server
from spark_streams.stream_id import LAST, StreamId

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class StreamReport:
    """How a query stands with one stream after a batch.

    `lag_entries`: entries that follow what is read, an estimate unless `lag_exact`; `lag_ms`: how much older the last
    entry that was read is than the last one there is; `pending`: entries of the group that wait for acknowledgement;
    `entries`: those of this batch, and per second; `lost`: those noticed as lost so far. `rejected`: how many of the
    source's entries in this batch became no row (mode DROPMALFORMED), of all its streams together. Neither is known of
    a query's first batch.
    """

    query: str
    batch: int
    stream: str
    position: str
    latest: str
    lag_entries: int | None
    lag_exact: bool
    lag_ms: int | None
    pending: int | None
    entries: int | None
    entries_per_second: float | None
    rejected: int | None
    lost: int


@dataclass(frozen=True)
class _Source:
    """What the progress says of one source: its offsets before and after the batch, and its rows."""

    start: Offsets | None
    end: Offsets
    rows: int


class StreamMonitor(StreamingQueryListener):
    """Reports every batch of every query that reads pystreams, to `callback` or into the stream `stream`, or both.

    `url` and `group` are as in the options of the queries that it watches. The stream is kept at about `maxlen`
    entries, whose fields are those of `StreamReport`.
    """

    def __init__(
        self,
        url: str | None = None,
        group: str | None = None,
        callback: Callable[[StreamReport], None] | None = None,
        stream: str | None = None,
        maxlen: int = 10_000,
        **connection: str,
    ) -> None:
        self._server = options.server({**({} if url is None else {"url": url}), **connection})
        self._group = group
        self._callback = callback
        self._stream = stream
        self._maxlen = maxlen

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        sources = [(source.startOffset, source.endOffset, source.numInputRows) for source in progress.sources]
        seconds = (progress.batchDuration or 0) / 1000
        self.report(progress.name or str(progress.id), progress.batchId, sources, seconds)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has changed but the lag, which the next batch reports."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """What there was to say has been said."""

    def report(self, query: str, batch: int, sources: list[tuple[Any, Any, int]], seconds: float) -> None:
        """Report one batch: `sources` holds the offsets before and after it, as text, and the number of rows."""
        try:
            for source in filter(None, (_source(*one) for one in sources)):
                for found in self._reports(query, batch, source, seconds):
                    if self._callback is not None:
                        self._callback(found)
                    if self._stream is not None:
                        self._write(self._stream, found)
        except PystreamsError as problem:
            _log.warning("Query %s is not watched for now: %s", query, problem)

    def _address(self) -> Address:
        return launcher.started(self._server)

    def _reports(self, query: str, batch: int, source: _Source, seconds: float) -> Iterator[StreamReport]:
        streams = sorted(source.end.streams)
        entries = _entries(source)
        known = list(entries.values())
        # Rows that are counted twice, because the batch was run twice, hide what was rejected: then nothing is said.
        rejected = max(0, sum(known) - source.rows) if len(entries) == len(streams) and streams else None
        with borrow(self._address()) as connection:
            server = open_server(connection)
            for stream, state in server.states(streams, self._group).items():
                position = source.end.of(stream)
                lag, exact = _lag(server, stream, position, state)
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
                    pending=state.group.pending if state is not None and state.group is not None else None,
                    entries=count,
                    entries_per_second=None if count is None or not seconds else count / seconds,
                    rejected=rejected,
                    lost=source.end.lost.get(stream, 0),
                )

    def _write(self, stream: str, found: StreamReport) -> None:
        fields: list[str] = []
        for name, value in asdict(found).items():
            if value is not None:
                fields += [name, json.dumps(value) if not isinstance(value, str) else value]
        command: Command = ("XADD", stream, "MAXLEN", "~", self._maxlen, "*", *fields)
        with borrow(self._address()) as connection:
            connection.command(*command)


def _source(start: Any, end: Any, rows: int) -> _Source | None:
    """The source, if its offsets are this connector's."""
    try:
        # A query's first progress has no start, which Python shows as a word.
        begin = None if start in (None, "None", "null") else Offsets.from_json(json.loads(start))
        return _Source(begin, Offsets.from_json(json.loads(end)), rows)
    except (PystreamsError, ValueError, AttributeError, TypeError):
        return None


def _entries(source: _Source) -> dict[str, int]:
    """How many entries each stream had in the batch, where that is known."""
    found: dict[str, int] = {}
    if source.start is None:
        return found
    for stream, end in source.end.added.items():
        begin = source.start.added.get(stream)
        if begin is None and stream not in source.start.streams:
            begin = 0
        if begin is not None:
            gone = source.end.lost.get(stream, 0) - source.start.lost.get(stream, 0)
            found[stream] = max(0, end - begin - gone)
    return found


def _lag(server: StreamServer, stream: str, position: StreamId, state: StreamState | None) -> tuple[int | None, bool]:
    if state is None:
        return None, False
    following = state.exact_backlog(position)
    if following is not None:
        return following, True
    if server.counts_cheaply:
        return server.count(stream, position, LAST), True
    return state.backlog(position)
