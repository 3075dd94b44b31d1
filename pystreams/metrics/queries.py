"""Samples of Spark queries, from the reports of `StreamMonitor`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pystreams.metrics import table
from pystreams.metrics.table import Sample
from pystreams.streams.queries import Reported


def of_queries(reported: Iterable[Reported], now: int) -> Iterator[Sample]:
    """The samples of each query's last batch. `now`: milliseconds since 1970."""
    for each in reported:
        report = each.report
        labels = (report.query, report.id)
        yield Sample(table.QUERY_BATCH, report.batch, labels)
        yield Sample(table.QUERY_ROWS, report.rows, labels)
        if report.rows_per_second is not None:
            yield Sample(table.QUERY_RATE, report.rows_per_second, labels)
        yield Sample(table.QUERY_SECONDS, report.batch_ms / 1000, labels)
        yield Sample(table.QUERY_STREAMS, report.streams, labels)
        lag = table.QUERY_LAG if report.lag_exact else table.QUERY_LAG_ESTIMATE
        yield Sample(lag, report.lag_entries, labels)
        yield Sample(table.QUERY_LAG_SECONDS, report.oldest_unread_ms / 1000, labels)
        yield Sample(table.QUERY_PENDING, report.pending, labels)
        yield Sample(table.QUERY_LOST, report.lost, labels)
        yield Sample(table.QUERY_AGE, max(0, now - each.at) / 1000, labels)
