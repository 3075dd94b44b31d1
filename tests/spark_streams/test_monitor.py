"""The monitor: what it reports of a query is what the server says."""

from __future__ import annotations

import logging

import pytest

from spark_streams.errors import OptionsError
from spark_streams.monitor import StreamMonitor, StreamReport
from tests.spark_streams.driver import Query, Site


def watch(site: Site, query: Query, stream: str | None = None) -> list[StreamReport]:
    """Reports on the query's last batch, of two seconds."""
    found: list[StreamReport] = []
    monitor = StreamMonitor(site.url, callback=found.append, stream=stream, clock=lambda: 0.1)
    sources = [(query.log[-2], query.log[-1], len(query.batches[-1])), ('{"other": 1}', "nonsense", 5)]
    monitor.report("q", 7, sources, 2.0)
    if stream is None:
        (summary,) = monitor.latest.values()
        lags = [report.lag_entries or 0 for report in found]
        assert (summary.lag_min, summary.lag_avg, summary.lag_max) == (min(lags), sum(lags) / len(lags), max(lags))
        assert summary.oldest_unread_ms == max(report.oldest_unread_ms or 0 for report in found)
        assert (summary.query, summary.streams) == ("q", len(found))
        assert summary.pending == sum(report.pending or 0 for report in found)
    return found


def test_a_report(site: Site) -> None:
    """Lag in entries and in time, pending, speed and rejected rows are told for each stream."""
    site.add("s", 30)
    site.add("t", 5)
    query = site.query(streams="s,t", group="g", maxEntriesPerTrigger=14)
    query.trigger()
    one, other = watch(site, query)
    assert (one.query, one.batch, one.stream, one.position, one.latest) == ("q", 7, "s", "12-1", "30-1")
    assert (one.lag_ms, one.pending, one.entries, one.entries_per_second, one.rejected) == (18, 12, 12, 6.0, 0)
    if site.kind == "engine":
        assert (one.lag_entries, one.lag_exact) == (18, True)
    else:
        assert one.lag_entries is not None
        assert 15 <= one.lag_entries <= 20
    assert (other.stream, other.entries, other.lost) == ("t", 2, 0)
    assert one.oldest_unread_ms == 100 - 13  # the first unread entry has the ID 13-1, and it is 0.1 s after 1970
    assert one.lag_bytes is not None
    assert 18 * 20 < one.lag_bytes < 20 * 60


def test_a_report_of_a_shared_group(site: Site) -> None:
    """What the group has yet to deliver is behind; the group is the one that the query's offset names."""
    site.add("s", 10)
    query = site.query(stream="s", group="g", consume="shared", maxEntriesPerTrigger=4)
    query.trigger()
    (report,) = watch(site, query)
    assert (report.stream, report.position, report.lag_entries, report.pending) == ("s", "4-1", 6, 4)
    assert report.oldest_unread_ms == 95


def test_rejected_rows(site: Site) -> None:
    """Entries of a batch that became no row are counted."""
    site.add("s", 10)
    site.client.xadd("s", {"n": "many"}, id="50-1")
    query = site.query(stream="s", group="g", mode="DROPMALFORMED")
    assert len(query.trigger() or []) == 10
    (report,) = watch(site, query)
    assert (report.rejected, report.entries, report.lag_entries, report.lag_ms) == (1, 11, 0, 0)


def test_reports_in_a_stream(site: Site) -> None:
    """A report is an entry whose fields are the report's."""
    site.add("s", 10)
    query = site.query(stream="s", group="g")
    query.trigger()
    watch(site, query, stream="reports")
    ((_, fields),) = site.client.xrange("reports")
    assert (fields[b"stream"], fields[b"lag_entries"], fields[b"pending"]) == (b"s", b"0", b"10")


def test_options_of_a_read_are_refused() -> None:
    """A monitor takes the options of a connection, and names one that it does not have."""
    with pytest.raises(OptionsError, match="'failOnDataLoss' is for reading, and cannot be given for connecting"):
        StreamMonitor("redis://127.0.0.1:1", failOnDataLoss="false")


def test_a_server_that_is_gone_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A listener must not fail: there is a warning."""
    monitor = StreamMonitor("redis://127.0.0.1:1", retryTimeoutMs="0")
    offset = '{"version": 2, "streams": {"s": "1-1"}}'
    with caplog.at_level(logging.WARNING, "spark_streams"):
        monitor.report("q", 1, [(None, offset, 1)], 1.0)
    assert "SERVER_UNREACHABLE" in caplog.text
