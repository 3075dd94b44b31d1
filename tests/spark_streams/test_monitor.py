"""Monitor: its report of a query agrees with the server."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from operator import methodcaller
from types import SimpleNamespace

import pytest

from spark_streams.errors import OptionsError
from spark_streams.monitor import StreamMonitor
from spark_streams.reports import (
    EACH,
    MALFORMED_STREAM,
    STREAM,
    Malformed,
    QueryReport,
    StreamReport,
    from_fields,
    summary,
    to_fields,
)
from tests.spark_streams.driver import Query, Site


def watch(site: Site, query: Query) -> list[StreamReport]:
    """Return the monitor's reports on the streams of the query's last batch, and check the report
    of the whole query.
    """
    found: list[StreamReport] = []
    monitor = StreamMonitor(site.url, callback=found.append, clock=lambda: 0.1)
    sources = [(query.log[-2], query.log[-1], len(query.batches[-1])), ('{"other": 1}', "nonsense", 5)]
    monitor.report("q", 7, sources, 2000, "some-id")
    (whole,) = monitor.latest.values()
    lags = [report.lag_entries or 0 for report in found]
    assert (whole.lag_entries, whole.each) == (sum(lags), tuple(found))
    assert whole.oldest_unread_ms == max(report.oldest_unread_ms or 0 for report in found)
    assert (whole.query, whole.id, whole.batch, whole.streams) == ("q", "some-id", 7, len(found))
    assert (whole.rows, whole.rows_per_second) == (len(query.batches[-1]), len(query.batches[-1]) / 2)
    assert whole.pending == sum(report.pending or 0 for report in found)
    ((_, fields),) = site.client.xrange(STREAM)
    stored = from_fields([word for pair in fields.items() for word in pair])
    assert stored is not None
    assert sorted(stored.each, key=lambda report: report.stream) == found
    assert replace(stored, each=()) == replace(whole, each=())
    return found


#: Returns the HTML that a notebook shows.
notebook = methodcaller("_repr_html_")


def test_a_report(site: Site) -> None:
    """A report has the lag in entries and in time, pending entries, rate and rejected rows of each stream."""
    site.add("s", 30)
    site.add("t", 5)
    query = site.query(streams="s,t", group="g", maxEntriesPerTrigger=14)
    query.trigger()
    first, second = watch(site, query)
    assert (first.query, first.batch, first.stream, first.position, first.latest) == ("q", 7, "s", "12-1", "30-1")
    assert (first.lag_ms, first.pending, first.entries) == (18, 12, 12)
    assert (first.entries_per_second, first.rejected) == (6.0, 0)
    if site.kind == "engine":
        assert (first.lag_entries, first.lag_exact) == (18, True)
    else:
        assert first.lag_entries is not None
        assert 15 <= first.lag_entries <= 20
    assert (second.stream, second.entries, second.lost) == ("t", 2, 0)
    # The first unread entry has the ID 13-1, and the clock is 0.1 s after 1970.
    assert first.oldest_unread_ms == 100 - 13


def test_a_monitor_is_a_table_in_notebooks_and_text_elsewhere(site: Site) -> None:
    """A monitor shows each query with its lag, and in HTML a plot of the last lags; a report shows each stream."""
    site.add("<s>", 30)
    query = site.query(stream="<s>", group="g", maxEntriesPerTrigger=12)
    query.trigger()
    query.trigger()
    monitor = StreamMonitor(site.url, clock=lambda: 0.1)
    for batch in (0, 1):
        monitor.report("<q>", batch, [(query.log[batch], query.log[batch + 1], 12)], 2000, "some-id")
    head, row = repr(monitor).splitlines()
    assert head.split() == ["query", "batch", "rows/s", "lag", "oldest", "unread", "pending", "lost"]
    assert row.split() == ["<q>", "1", "6", "6", "0.1", "s", "12", "0"]
    shown, report = notebook(monitor), monitor.latest["<q>"]
    assert "<td>&lt;q&gt;</td><td>1</td><td>6</td><td>6</td>" in shown
    assert "<title>up to 18 entries</title>" in shown
    assert str(report).splitlines()[1].split()[:4] == ["<s>", "24-1", "30-1", "6"]
    assert "<td>&lt;s&gt;</td><td>24-1</td><td>30-1</td><td>6</td>" in notebook(report)


def test_a_report_of_a_shared_group(site: Site) -> None:
    """The lag of a shared group is the number of its undelivered entries."""
    site.add("s", 10)
    query = site.query(stream="s", group="g", consume="shared", maxEntriesPerTrigger=4)
    query.trigger()
    (report,) = watch(site, query)
    assert (report.stream, report.position, report.lag_entries, report.pending) == ("s", "4-1", 6, 4)
    assert report.oldest_unread_ms == 95


def test_rejected_rows(site: Site) -> None:
    """Entries that did not become rows are counted as rejected."""
    site.add("s", 10)
    site.client.xadd("s", {"n": "many"}, id="50-1")
    query = site.query(stream="s", group="g", mode="DROPMALFORMED")
    assert len(query.trigger() or []) == 10
    (report,) = watch(site, query)
    assert (report.rejected, report.entries, report.lag_entries, report.lag_ms) == (1, 11, 0, 0)


def test_a_report_that_cannot_be_stored_is_logged_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A failure to store a report is logged once; without a stream, or in a stream that the query reads, nothing is
    stored.
    """
    site.add("s", 10)
    site.client.set("text", "no stream")
    query = site.query(stream="s", group="g")
    query.trigger()
    sources = [(None, query.log[-1], 10)]
    keys = sorted(site.client.keys())
    monitor = StreamMonitor(site.url, stream="text")
    with caplog.at_level(logging.WARNING, "spark_streams"):
        for batch in (1, 2):
            monitor.report("q", batch, sources, 1000)
    assert monitor.latest["q"].batch == 2
    assert caplog.text.count("cannot be written to the stream text") == 1
    StreamMonitor(site.url, stream=None).report("q", 1, sources, 1000)
    # A query that reads the stream of its own reports would never become idle.
    StreamMonitor(site.url, stream="s").report("q", 1, sources, 1000)
    assert (sorted(site.client.keys()), site.client.xlen("s")) == (keys, 10)


def test_an_unreachable_server_delays_a_listener_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """An unreachable server delays the listener once and briefly, with one warning; later batches are skipped."""
    site.add("s", 10)
    query = site.query(stream="s", group="g")
    query.trigger()
    monitor = StreamMonitor("redis://127.0.0.1:1")
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "spark_streams"):
        for batch in range(100):
            monitor.report("q", batch, [(None, query.log[-1], 10)], 1000)
    assert time.monotonic() - began < 8
    assert caplog.text.count("Query q could not be monitored: [SERVER_UNREACHABLE]") == 1
    assert monitor.latest == {}


def _made(stream: str, lag: int | None) -> StreamReport:
    return StreamReport("q", 1, stream, "1-0", "2-0", lag, True, None, 5, None, None, None, None, None, 0)


def test_a_stored_report_has_the_largest_lags() -> None:
    """A stored report contains only the streams with the largest lag, and sums over all streams."""
    whole = summary("q", "i", 3, 12, 0, [_made(f"s{n}", n) for n in range(5000)])
    words = [word.encode() for word in to_fields(whole)]
    assert sum(map(len, words)) < 5000
    stored = from_fields(words)
    assert stored is not None
    assert (stored.streams, stored.lag_entries, stored.rows_per_second) == (5000, sum(range(5000)), None)
    assert [report.stream for report in stored.each] == [f"s{n}" for n in range(4999, 4999 - EACH, -1)]


@pytest.mark.parametrize(
    "changed",
    [
        {"batch": b"x"},
        {"batch": b'"7"'},
        {"query": None},
        {"each": b"[1]"},
        {"each": b'[{"query": 1}]'},
        {"rows": b"\xff"},
    ],
)
def test_a_malformed_report_is_none(changed: dict[str, bytes | None]) -> None:
    """A malformed report is read as None, and unknown fields are ignored."""
    words = [word.encode() for word in to_fields(summary("q", "i", 3, 12, 100, [_made("s", 1)]))]
    fields: dict[bytes, bytes | None] = dict(zip(words[::2], words[1::2], strict=True))
    assert isinstance(_read({**fields, b"\xff": b"\x01"}), QueryReport)
    assert _read({**fields, **{name.encode(): value for name, value in changed.items()}}) is None


def _read(fields: dict[bytes, bytes | None]) -> QueryReport | None:
    return from_fields([word for name, value in fields.items() if value is not None for word in (name, value)])


def test_options_of_a_read_are_refused() -> None:
    """A monitor accepts only options of a connection, and the error names any other option."""
    with pytest.raises(OptionsError, match="'failOnDataLoss' is for reading, and cannot be given for connecting"):
        StreamMonitor("redis://127.0.0.1:1", failOnDataLoss="false")


def test_a_monitor_in_a_client_of_spark_connect_needs_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """A monitor in a Spark Connect client needs a url, because the client must not start an engine; in the driver it is
    optional.
    """
    monkeypatch.delenv("PYSTREAMS_URL", raising=False)
    added: list[StreamMonitor] = []

    class Session:
        streams = SimpleNamespace(addListener=added.append)

    StreamMonitor.install(Session())  # type: ignore[arg-type]  # no session is needed
    Session.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(OptionsError, match=r"MONITOR_WITHOUT_URL.*Give the monitor the url"):
        StreamMonitor.install(Session())  # type: ignore[arg-type]
    StreamMonitor.install(Session(), url="redis://somewhere")  # type: ignore[arg-type]
    assert len(added) == 2


def test_a_monitor_of_another_server_warns(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """If the monitor's server has none of the query's streams, one warning advises to set the url."""
    site.add("s", 3)
    query = site.query(stream="s")
    query.trigger()
    site.client.rename("s", "elsewhere")
    monitor = StreamMonitor(site.url, stream=None)
    with caplog.at_level(logging.WARNING):
        for batch in range(2):
            monitor.report("q", batch, [(query.log[-2], query.log[-1], 3)], 1000)
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "Query q reads streams that do not exist at redis://" in warning
    assert "Give the monitor the url of the query" in warning


def test_values_that_did_not_parse_are_counted(site: Site) -> None:
    """Malformed values are counted by column over the tasks of the batch; a repeated task counts once."""
    site.add("s", 1)
    query = site.query(stream="s")
    query.trigger()
    for found in (
        Malformed("some-id", 7, "0 s", {"n": 2}),
        Malformed("some-id", 7, "0 s", {"n": 2}),
        Malformed("some-id", 7, "1 s", {"n": 1, "at": 5}),
        Malformed("some-id", 6, "0 s", {"n": 9}),
        Malformed("other", 7, "0 s", {"n": 9}),
    ):
        words = found.to_fields()
        site.client.xadd(MALFORMED_STREAM, dict(zip(words[::2], words[1::2], strict=True)))
    site.client.xadd(MALFORMED_STREAM, {"query": "some-id", "batch": "7", "part": "9", "columns": "[1]"})
    monitor = StreamMonitor(site.url)
    sources = [(query.log[-2], query.log[-1], 1)]
    for batch, counts in ((7, {"n": 3, "at": 5}), (8, {})):
        monitor.report("q", batch, sources, 2000, "some-id")
        assert monitor.latest["q"].malformed == counts
    stored = [
        from_fields([word for pair in fields.items() for word in pair]) for _, fields in site.client.xrange(STREAM)
    ]
    assert [report and report.malformed for report in stored] == [{"n": 3, "at": 5}, {}]
