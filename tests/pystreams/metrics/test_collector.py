"""Metrics collected from servers, and the cost of collecting them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
import redis

from pystreams.connect import Wanted
from pystreams.metrics import Chosen, Collector
from spark_streams.reports import STREAM, summary, to_fields
from tests import servers
from tests.pystreams.metrics.exposed import Exposed, exposed, value


@pytest.fixture
def collector(client: redis.Redis, instance: servers.Running) -> Iterator[Collector]:
    """A collector for all streams and consumers of the server."""
    made = Collector(Wanted(instance.url), Chosen(consumers=True))
    yield made
    made.close()


def _now(collector: Collector) -> Exposed:
    return exposed(collector.collect())


def test_streams_groups_and_consumers(collector: Collector, client: redis.Redis) -> None:
    """A stream has its length and IDs, a group its position and lag in entries and seconds, and a consumer its pending
    entries.
    """
    for number in (1, 2, 3):
        client.xadd("s", {"n": number}, id=f"{number}000-0")
    client.xgroup_create("s", "g", 0)
    client.xgroup_create("s", "done", 0)
    client.xreadgroup("g", "c", {"s": ">"}, count=1)
    client.xack("s", "done", *[entry for entry, _ in client.xreadgroup("done", "d", {"s": ">"})[0][1]])
    found = _now(collector)
    stream = {"db": "db0", "stream": "s"}
    assert value(found, "redis_up") == 1
    assert value(found, "redis_stream_length", **stream) == 3
    assert value(found, "redis_stream_groups", **stream) == 2
    assert value(found, "redis_stream_first_entry_id", **stream) == 1000
    assert value(found, "redis_stream_last_entry_id", **stream) == 3000
    assert value(found, "pystreams_stream_entries_added_total", **stream) == 3
    group = {**stream, "group": "g"}
    assert value(found, "redis_stream_group_lag", **group) == 2
    assert value(found, "redis_stream_group_entries_read", **group) == 1
    assert value(found, "redis_stream_group_messages_pending", **group) == 1
    assert value(found, "redis_stream_group_last_delivered_id", **group) == 1000
    assert value(found, "redis_stream_group_consumers", **group) == 1
    assert (value(found, "pystreams_group_lag_seconds", **group) or 0) > 1e9
    assert value(found, "redis_stream_group_consumer_messages_pending", **group, consumer="c") == 1
    assert value(found, "redis_stream_group_consumer_idle_seconds", **group, consumer="c") is not None
    client.xreadgroup("g", "c", {"s": ">"}, count=1)
    later = _now(collector)
    assert (value(later, "pystreams_group_delivered_per_second", **group) or 0) > 0
    assert (value(later, "pystreams_group_catch_up_seconds", **group) or 0) > 0
    done = {**stream, "group": "done"}
    assert value(found, "pystreams_group_lag_seconds", **done) == 0
    assert value(found, "pystreams_group_status", **done) == 0
    assert value(found, "redis_exporter_last_scrape_error", err="") == 0


def test_streams_and_consumers_are_selected(client: redis.Redis, instance: servers.Running) -> None:
    """Patterns and a limit select the streams, and consumers are left out by default. The number of streams left out is
    a metric.
    """
    for name in ("a1", "a2", "a3", "b"):
        client.xadd(name, {"n": 1})
        client.xgroup_create(name, "g", 0)
        client.xreadgroup("g", "c", {name: ">"})
    collector = Collector(Wanted(instance.url), Chosen(("a*", "b", "gone"), 10))
    found = _now(collector)
    assert value(found, "pystreams_exporter_streams") == 4
    assert value(found, "pystreams_exporter_streams_left_out") == 0
    assert not any("consumer" in dict(labels) for _, labels in found)
    collector.close()
    few = Collector(Wanted(instance.url), Chosen(("*",), 2))
    found = _now(few)
    assert (value(found, "pystreams_exporter_streams"), value(found, "pystreams_exporter_streams_left_out")) == (2, 1)
    few.close()


def test_any_name_can_be_a_label(collector: Collector, client: redis.Redis) -> None:
    r"""Names with quotes, newlines, backslashes and bytes that are not UTF-8 give well-formed and unique series.

    This includes two names with similar text: `\xff` written out, and the byte.
    """
    hostile = [
        b'"} 1\nredis_up 7',
        b"\xff\xfe",
        rb"\xff",
        rb"\\xff",
        b"\\\xff",
        b"\xff",
        "é\r\u2028".encode(),
        b"\x00",
        b"",
        b"a\\b",
    ]
    for name in hostile:
        client.xadd(name, {"f": "v"})
        for group in hostile:
            client.xgroup_create(name, group, 0)
            client.xgroup_createconsumer(name, group, name)
    found = _now(collector)
    assert value(found, "redis_up") == 1
    lengths = [dict(labels)["stream"] for name, labels in found if name == "redis_stream_length"]
    assert len(lengths) == len(hostile)
    assert {'"} 1\nredis_up 7', "a\\b", "\\xff", "\\\\xff"} <= set(lengths)
    assert len([name for name, _ in found if name == "redis_stream_group_consumer_idle_seconds"]) == len(hostile) ** 2


def test_a_stream_that_disappears_is_left_out(client: redis.Redis, instance: servers.Running) -> None:
    """A key that is deleted or changes its type after the scan is left out."""
    client.xadd("kept", {"n": 1})
    client.xadd("renamed", {"n": 1})
    client.xgroup_create("renamed", "g", 0)
    chosen = Collector(Wanted(instance.url), Chosen(("kept", "renamed", "other")))
    assert value(_now(chosen), "pystreams_exporter_streams") == 2
    client.rename("renamed", "other")
    client.set("renamed", "text")
    found = _now(chosen)
    chosen.close()
    assert value(found, "redis_stream_length", db="db0", stream="other") == 1
    assert value(found, "redis_stream_length", db="db0", stream="renamed") is None
    assert value(found, "redis_exporter_last_scrape_error", err="") == 0


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_no_large_entry_is_sent(collector: Collector, client: redis.Redis) -> None:
    """The engine never sends large entries to the collector, not even for the first scrape."""
    for number in (1, 2, 3):
        client.xadd("s", {"n": b"x" * 300_000}, id=f"{number}-0")
    client.xgroup_create("s", "g", "1-0")
    before = client.info()["total_net_output_bytes"]
    first = _now(collector)
    assert value(_now(collector), "redis_stream_group_lag", db="db0", stream="s", group="g") == 2
    sent = client.info()["total_net_output_bytes"] - before
    assert value(first, "redis_stream_first_entry_id", db="db0", stream="s") == 1
    assert sent < 200_000  # INFO takes about 30 KB, because it lists every command called by earlier tests


def test_metrics_of_spark_queries(collector: Collector, client: redis.Redis) -> None:
    """The last batch of each query is a metric. Malformed reports, and a report key of another type, are ignored."""

    def report(query: str, batch: int, rows: int) -> None:
        words = to_fields(summary(query, f"id of {query}", batch, rows, 500, []))
        client.xadd(STREAM, dict(zip(words[::2], words[1::2], strict=True)))

    report("a", 1, 5)
    report("a", 2, 7)
    client.xadd(STREAM, {"query": b"\xff"})
    report("b", 9, 0)
    first = _now(collector)
    labels = {"query": "a", "id": "id of a"}
    assert value(first, "pystreams_query_batch", **labels) == 2
    assert value(first, "pystreams_query_rows_per_second", **labels) == 14
    assert value(first, "pystreams_query_batch_duration_seconds", **labels) == 0.5
    assert 0 <= (value(first, "pystreams_query_report_age_seconds", **labels) or 0) < 60
    report("a", 3, 1)
    assert value(_now(collector), "pystreams_query_batch", **labels) == 3
    client.delete(STREAM)
    client.set(STREAM, "text")
    assert value(_now(collector), "pystreams_query_batch", query="b", id="id of b") == 9


def test_a_scrape_sends_few_commands_per_stream(collector: Collector, client: redis.Redis) -> None:
    """A scrape of 250 streams sends one XINFO STREAM and one XINFO GROUPS per stream, and few other commands."""
    with client.pipeline(transaction=False) as pipe:
        for number in range(250):
            pipe.xgroup_create(f"s{number}", "g", 0, mkstream=True)
        pipe.execute()
    _now(collector)
    before = client.info("commandstats")
    found = _now(collector)
    after = client.info("commandstats")

    def calls(name: str) -> int:
        return int(after.get(name, {"calls": 0})["calls"]) - int(before.get(name, {"calls": 0})["calls"])

    assert value(found, "pystreams_exporter_streams") == 250
    assert (calls("cmdstat_xinfo|stream"), calls("cmdstat_xinfo|groups")) == (250, 250)
    assert calls("cmdstat_xinfo|consumers") + calls("cmdstat_xpending") == 0
    assert calls("cmdstat_xrange") == 1  # one XRANGE reads the reports of Spark queries
    assert calls("cmdstat_scan") <= 3


def test_a_user_with_few_permissions_gets_some_metrics(client: redis.Redis, instance: servers.Running) -> None:
    """A user without permission for streams gets the metrics of INFO, and the missing permission as a scrape error."""
    client.acl_setuser("poor", enabled=True, passwords=["+hush"], commands=["+echo", "+info"], keys=["*"])
    try:
        collector = Collector(Wanted(instance.url, given={"user": "poor", "password": "hush"}))
        found = _now(collector)
        collector.close()
        assert value(found, "redis_up") == 1
        assert value(found, "redis_connected_clients") is not None
        assert value(found, "redis_exporter_last_scrape_error", err="NOT_PERMITTED") == 1
    finally:
        client.acl_deluser("poor")


def test_an_unreachable_server_and_its_return() -> None:
    """An unreachable server has only `redis_up 0`; the first scrape after its return succeeds."""
    with servers.redis() as server:
        port = server.port
        collector = Collector(Wanted(server.url))
        assert value(_now(collector), "redis_up") == 1
    away = _now(collector)
    assert {name for name, _ in away if not name.startswith("redis_exporter")} == {"redis_up"}
    assert value(away, "redis_up") == 0
    assert value(away, "redis_exporter_last_scrape_error", err="SERVER_UNREACHABLE") == 1
    for _ in range(2):  # before the second scrape, the server was away without any scrape in between
        with servers.redis("--port", str(port)):
            assert value(_now(collector), "redis_up") == 1
    collector.close()


@pytest.mark.parametrize("hangs", [False, True])
def test_the_first_scrape_after_a_failover(hangs: bool) -> None:
    """The first scrape after the master died or hung and a Sentinel announced another one shows the new master."""
    with ExitStack() as stack:
        master, replica = stack.enter_context(ExitStack()), stack.enter_context(servers.redis())
        first = master.enter_context(servers.redis())
        watch = f"sentinel monitor main {first.host} {first.port} 1"
        sentinel = stack.enter_context(servers.sentinel(watch))
        collector = Collector(Wanted(f"redis+sentinel://127.0.0.1:{sentinel.port}/main", seconds=0.5))
        stack.callback(collector.close)
        assert value(_now(collector), "redis_up") == 1
        with redis.Redis(port=sentinel.port) as asked:
            asked.execute_command("SENTINEL", "REMOVE", "main")
            asked.execute_command("SENTINEL", "MONITOR", "main", replica.host, replica.port, 1)
        if hangs:
            first.process.send_signal(signal.SIGSTOP)
            stack.callback(first.process.send_signal, signal.SIGCONT)
        else:
            master.close()
        found = _now(collector)
        assert value(found, "redis_up") == 1
        assert value(found, "redis_exporter_last_scrape_error", err="") == 0


def test_a_hanging_server_does_not_block_scrapes() -> None:
    """If the server hangs, a scrape ends within its timeout, with `redis_up 0`; requests after its return see it."""
    with servers.redis() as server:
        collector = Collector(Wanted(server.url), seconds=0.5)
        assert value(_now(collector), "redis_up") == 1
        server.process.send_signal(signal.SIGSTOP)
        try:
            found = _now(collector)
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert value(found, "redis_up") == 0
        assert (value(found, "redis_exporter_last_scrape_duration_seconds") or 9) < 0.5
        assert value(_now(collector), "redis_up") == 1
        collector.close()


def test_simultaneous_requests_share_one_scrape(client: redis.Redis, instance: servers.Running) -> None:
    """Simultaneous requests, and those soon after, share one scrape."""
    with closing(Collector(Wanted(instance.url), fresh=60)) as collector, ThreadPoolExecutor(8) as threads:
        pages = list(threads.map(lambda _: exposed(collector.samples()), range(8)))
    assert [value(page, "redis_exporter_scrapes_total") for page in pages] == [1] * 8
