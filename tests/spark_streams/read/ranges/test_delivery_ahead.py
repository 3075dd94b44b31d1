"""Delivery of the next batch to the group before that batch is planned."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from spark_streams.read.ranges import owned_group, plan
from streamclient.connection import Connection
from streamclient.streams import delivery, group_reads, sampling
from streamclient.streams.group_reads import GroupReads
from streamclient.streams.stream_server import plain_server
from streamwire.stream_id import StreamId
from tests.spark_streams.driver import Query, Site, numbers
from tests.suite.waiting import DEADLINE, wait_for

_BATCH, _PAGE = 100, 20
Pages = Generator[None, None, Any]
pytestmark = pytest.mark.parametrize("instance", ["redis"], indirect=True)  # the engine needs no look-ahead
dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of threads that die


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver batches of a hundred entries ahead, in six pages, and acknowledge them by deleting their consumers."""
    monkeypatch.setattr(plan, "_MANY", 10)
    monkeypatch.setattr(owned_group, "_MANY", 10)
    monkeypatch.setattr(group_reads, "PAGE", _PAGE)
    monkeypatch.setattr(sampling, "_MANY", 100)
    monkeypatch.setattr(delivery, "_MANY_PENDING", 10)


def query_of(site: Site, **options: Any) -> Query:
    options = {"stream": "s", "group": "g", "minPartitions": 2, "maxEntriesPerTrigger": _BATCH, **options}
    return site.query(**{name: value for name, value in options.items() if value is not None})


def delivered(query: Query) -> None:
    """Wait until the next batch is delivered."""
    query.reader._source._lookahead._settle()


def killed(query: Query) -> None:
    """Simulate the death of the driver: wait for its threads to finish their current step."""
    delivered(query)
    query.reader._source._group._background.join()


def pending(site: Site) -> dict[str, int]:
    """Return the number of pending entries of each consumer that has any."""
    found = site.client.xinfo_consumers("s", "g")
    return {consumer["name"].decode(): consumer["pending"] for consumer in found if consumer["pending"]}


def between_pages(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Call `act` with the page number, from 1, after each page of a delivery ahead."""
    ahead = GroupReads.ahead

    def acting(*words: Any) -> Pages:
        pages = ahead(*words)
        number = 0
        while True:
            try:
                next(pages)
            except StopIteration as end:
                return end.value
            number += 1
            act(number)
            yield

    monkeypatch.setattr(GroupReads, "ahead", acting)


def drained(query: Query, monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> list[int]:
    """Return all rows; call `act` after each page of a delivery ahead that follows the first batch."""
    has_read = threading.Event()

    def wait(number: int) -> None:
        assert has_read.wait(DEADLINE)
        act(number)

    between_pages(monkeypatch, wait)
    rows = numbers(query.trigger() or [])
    has_read.set()
    return rows + numbers(query.drain())


def finished(site: Site, end: int) -> None:
    """Assert that the group has read everything up to `end`, with no pending entries and no lag."""
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, f"{end}-1".encode())
    assert (group["entries-read"], group["lag"]) == (end, 0)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_the_next_batch_is_pending_while_this_one_runs(site: Site, parts: int) -> None:
    """While a batch runs, the next batch is pending for separate consumers, one per partition; a finished batch is
    acknowledged.
    """
    site.add("s", 5 * _BATCH + 50)
    query = query_of(site, minPartitions=parts)
    rows: list[int] = []
    for batch in range(5):
        rows += numbers(query.trigger() or [])
        delivered(query)
        group = site.group()
        reached = min(5, batch + 2) * _BATCH
        ahead_of_it = reached - (batch + 1) * _BATCH
        assert (group["last-delivered-id"], group["lag"]) == (f"{reached}-1".encode(), 5 * _BATCH + 50 - reached)
        held = pending(site)
        assert sum(held.values()) == _BATCH + ahead_of_it
        assert len(held) == parts * (2 if ahead_of_it else 1)
        assert max(query.partitions[-1]) - min(query.partitions[-1]) <= 1
        assert set(held) <= {f"spark-{number}" for number in range(2 * parts)}
    assert rows + numbers(query.drain()) == list(range(5 * _BATCH + 50))
    finished(site, 5 * _BATCH + 50)


def test_a_stopped_query_returns_entries_delivered_ahead(site: Site) -> None:
    """Stopping a query returns entries delivered ahead to the group; only the last planned batch stays pending, and a
    restart continues.
    """
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    rows = numbers(query.trigger() or [])
    delivered(query)
    query.reader.stop()
    group = site.group()
    assert (group["pending"], group["last-delivered-id"], group["lag"]) == (_BATCH, b"100-1", 2 * _BATCH)
    assert set(pending(site)) == {"spark-0", "spark-1"}
    query.restart()
    assert rows + numbers(query.drain()) == list(range(3 * _BATCH))
    finished(site, 3 * _BATCH)


def test_a_query_stopped_during_a_delivery_leaves_nothing_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query stopped during a delivery finishes the current page, then leaves no thread, no connection, and no pending
    entries of unplanned batches.
    """
    site.add("s", 3 * _BATCH)
    others = len(site.client.client_list(_type="normal"))
    query = query_of(site)
    source = query.reader._source
    begun = threading.Event()

    def wait(number: int) -> None:
        if number == 2:
            begun.set()
            assert source._lookahead._background._ended.wait(DEADLINE)

    between_pages(monkeypatch, wait)
    query.trigger()
    assert begun.wait(DEADLINE)
    thread = source._lookahead._background._thread
    query.reader.stop()
    assert not thread.is_alive()
    group = site.group()
    assert (group["pending"], group["last-delivered-id"], group["lag"]) == (_BATCH, b"100-1", 2 * _BATCH)
    wait_for(lambda: len(site.client.client_list(_type="normal")) <= others, "the query's connections to end")
    query.restart()
    assert numbers(query.drain()) == list(range(_BATCH, 3 * _BATCH))
    finished(site, 3 * _BATCH)


@pytest.mark.parametrize("how", ["moved", "taken by another query", "gone"])
def test_a_stopped_query_leaves_a_changed_group_alone(site: Site, how: str) -> None:
    """A stopped query leaves a group alone that was moved, recreated or taken by another query."""
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    query.trigger()
    delivered(query)
    if how == "moved":
        site.client.xgroup_setid("s", "g", "250-1")
    elif how == "taken by another query":
        (lease,) = site.client.scan_iter("pystreams:*:lease:*")
        site.client.set(lease, "other:run")
    elif how == "gone":
        site.client.xgroup_destroy("s", "g")
        site.client.xgroup_create("s", "g", "150-1")
    before = site.group()
    query.reader.stop()
    assert site.group() == before


@pytest.mark.parametrize("lacks", ["xgroup|delconsumer", "xgroup|setid", "xinfo|consumers", "client|reply"])
def test_a_user_without_a_permission_reads_each_row_once(site: Site, lacks: str) -> None:
    """A user without one of the permissions for deliveries reads each row once; the running batch stays pending until
    it has finished.
    """
    site.add("s", 5 * _BATCH)
    query = query_of(site)
    site.client.acl_setuser("limited", enabled=True, passwords=["+pw"], commands=["+@all"], keys=["*"], reset=True)
    site.client.execute_command("ACL", "SETUSER", "limited", f"-{lacks}")
    try:
        query.restart(url=site.url.replace("redis://", "redis://limited:pw@"))
        rows = numbers(query.trigger() or []) + numbers(query.trigger() or [])
        delivered(query)
        query.reader.stop()
        running = site.client.xpending_range("s", "g", f"{_BATCH + 1}-0", f"{2 * _BATCH}-1", 2 * _BATCH)
        assert len(running) == _BATCH
        assert site.group()["last-delivered-id"] == (b"300-1" if "setid" in lacks else b"200-1")
        query.restart()
        assert rows + numbers(query.drain()) == list(range(5 * _BATCH))
        finished(site, 5 * _BATCH)
    finally:
        site.client.acl_deluser("limited")


@pytest.mark.parametrize("limit", [_BATCH, _BATCH // 4, 3 * _BATCH])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("is_finished", [True, False], ids=["batch finished", "batch unfinished"])
def test_a_killed_driver_loses_and_repeats_nothing(
    site: Site, caplog: pytest.LogCaptureFixture, limit: int, parts: int, *, is_finished: bool
) -> None:
    """A restart after the driver's death, with any limits, reads each row once, acknowledges all entries, and does not
    report a moved group.
    """
    site.add("s", 5 * _BATCH)
    query = query_of(site)
    rows = numbers(query.trigger() or [])
    rows += numbers(query.trigger() or []) if is_finished else []
    if not is_finished:
        assert query.plan()
        query.reader.partitions(*map(json.loads, query.log[-2:]))
    killed(query)
    query.restart(maxEntriesPerTrigger=limit, minPartitions=parts)
    with caplog.at_level(logging.WARNING):
        if not is_finished:
            rows += numbers(query.run())
        rows += numbers(query.drain())
    assert rows == list(range(5 * _BATCH))
    assert max(map(len, query.batches)) <= max(limit, _BATCH)
    assert "was moved" not in caplog.text
    finished(site, 5 * _BATCH)


@dies
@pytest.mark.parametrize("pages", [1, 3, 5])
def test_a_restart_continues_a_partial_delivery(site: Site, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """If the driver is killed after the first, third or fifth page of a delivery, a restart reads each row once."""
    site.add("s", 3 * _BATCH)
    query = query_of(site)

    def die(number: int) -> None:
        if number == pages:
            raise SystemExit

    with monkeypatch.context() as patched:
        between_pages(patched, die)
        rows = numbers(query.trigger() or [])
        killed(query)
    assert sum(pending(site).values()) == _BATCH + sum([20, 20, 10, 20, 20, 10][:pages])
    query.restart()
    rows += numbers(query.drain())
    assert rows == list(range(3 * _BATCH))
    finished(site, 3 * _BATCH)


def test_a_program_that_reads_from_the_group_takes_nothing_from_the_query(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that another program reads from the group are still in the query's batches, which keep their limit."""
    site.add("s", 4 * _BATCH)
    query = query_of(site)

    def read(number: int) -> None:
        if number == 2:
            site.client.xreadgroup("g", "python", {"s": ">"}, count=7)

    between_pages(monkeypatch, read)
    assert numbers(query.drain()) == list(range(4 * _BATCH))
    assert [len(batch) for batch in query.batches] == [_BATCH] * 4
    assert set(pending(site)) == {"python"}
    site.client.xgroup_delconsumer("s", "g", "python")


@pytest.mark.parametrize("page", [1, 6])
@pytest.mark.parametrize("state", ["read", "delivered", "not yet delivered"])
def test_entries_deleted_during_a_delivery_are_skipped(
    site: Site, monkeypatch: pytest.MonkeyPatch, state: str, page: int
) -> None:
    """With failOnDataLoss=false, a deletion during a delivery leaves the other entries to be read once, in batches
    within the limit.
    """
    site.add("s", 4 * _BATCH)
    query = query_of(site, failOnDataLoss="false")
    at = {"read": 50, "delivered": 105, "not yet delivered": 250}[state]
    done: list[int] = []

    def delete(number: int) -> None:
        if number == page and not done:
            done.append(site.client.xdel("s", f"{at}-1"))

    found = drained(query, monkeypatch, delete)
    assert done == [1]
    lost = {at - 1} if at > _BATCH else set()
    assert found == [n for n in range(4 * _BATCH) if n not in lost]
    assert max(map(len, query.batches)) == _BATCH
    assert site.group()["pending"] == 0


def test_a_stream_replaced_during_a_delivery_is_read_from_its_start(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("s", 3 * _BATCH)
    site.add("new", 2 * _BATCH, first=1000, ids="{n}-5")
    query = query_of(site, failOnDataLoss="false")

    def recreate(number: int) -> None:
        if number == 3 and site.client.xlen("s") == 3 * _BATCH:
            site.client.rename("new", "s")

    found = drained(query, monkeypatch, recreate)
    assert found == [*range(_BATCH), *range(1000, 1000 + 2 * _BATCH)]


def test_a_broken_connection_repeats_no_entry(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery whose connection breaks is abandoned, and no entry is read twice."""
    site.add("s", 4 * _BATCH)
    query = query_of(site)

    def cut(number: int) -> None:
        if number == 3:
            site.client.client_kill_filter(_type="normal", skipme=True)

    between_pages(monkeypatch, cut)
    assert numbers(query.drain()) == list(range(4 * _BATCH))
    finished(site, 4 * _BATCH)


@pytest.mark.parametrize("more", [0, 1, _BATCH])
def test_available_now_delivers_only_what_it_reads(site: Site, more: int) -> None:
    """An availableNow query delivers only entries that it reads, even if producers continue."""
    site.add("s", 2 * _BATCH + more)
    query = query_of(site)
    query.reader.prepareForTriggerAvailableNow()
    site.add("s", 3 * _BATCH, first=2 * _BATCH + more)
    assert numbers(query.drain()) == list(range(2 * _BATCH + more))
    killed(query)
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, f"{2 * _BATCH + more}-1".encode())


@pytest.mark.parametrize("options", [{"ack": "cursor"}, {"ack": "none"}, {"maxBytesPerTrigger": 5000}])
def test_other_acknowledgements_deliver_nothing_ahead(site: Site, options: dict[str, Any]) -> None:
    """With other acknowledgement modes or a limit in bytes, no batch is delivered before it is planned."""
    site.client.xgroup_create("s", "g", "0", mkstream=True)
    site.add("s", 3 * _BATCH)
    query = query_of(site, **options)
    query.trigger()
    killed(query)
    assert site.group()["pending"] <= _BATCH
    assert numbers(query.batches[0] + query.drain()) == list(range(3 * _BATCH))


def test_a_new_checkpoint_starts_with_the_pending_entries(site: Site) -> None:
    """A new checkpoint with startingOffsets=group starts with the pending entries, including those that were only
    delivered ahead.
    """
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    query.trigger()
    killed(query)
    site.client.delete(*site.client.scan_iter("pystreams:*:lease:*"))
    other = query_of(site, startingOffsets="group")
    assert numbers(other.drain()) == list(range(3 * _BATCH))
    finished(site, 3 * _BATCH)


def test_a_second_stream_that_gets_entries_shares_the_limit(site: Site) -> None:
    """If a second stream gets entries, the batch delivered ahead is divided into two, and each row is read once."""
    site.add("s", 4 * _BATCH)
    site.add("t", 1)
    query = query_of(site, stream=None, streams="s,t")
    rows = numbers(query.trigger() or []) + numbers(query.trigger() or [])
    delivered(query)
    assert sum(pending(site).values()) == 2 * _BATCH
    site.add("t", 2 * _BATCH, first=10_000)
    rows += numbers(query.drain())
    assert sorted(rows) == sorted([*range(4 * _BATCH), 0, *range(10_000, 10_000 + 2 * _BATCH)])
    assert max(map(len, query.batches)) <= _BATCH
    finished(site, 4 * _BATCH)
    assert site.group("t")["pending"] == 0


def test_nothing_is_delivered_ahead_without_the_groups_counter(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the server does not know the number of entries a group has read, nothing is delivered ahead."""
    site.add("s", 4 * _BATCH)
    query = query_of(site)
    query.trigger()
    killed(query)
    site.client.xgroup_setid("s", "g", f"{2 * _BATCH}-1")  # without ENTRIESREAD
    rows = query.batches[0] + (query.trigger() or [])
    killed(query)
    assert site.group()["last-delivered-id"] == b"200-1"
    assert numbers(rows + query.drain()) == list(range(4 * _BATCH))
    assert site.group()["pending"] == 0


def test_acknowledging_keeps_entries_after_the_id(site: Site, connection: Connection) -> None:
    """A consumer with entries after the acknowledged ID keeps them; other consumers are deleted."""
    site.add("s", 60)
    site.client.xgroup_create("s", "g", "0")
    for consumer in ("spark-0", "spark-1", "spark-2"):
        site.client.xreadgroup("g", consumer, {"s": ">"}, count=20)
    plain_server(connection).delivery.acknowledge({"s": StreamId(30, 1)}, "g", "spark")
    assert pending(site) == {"spark-1": 10, "spark-2": 20}
