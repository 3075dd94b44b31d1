"""Delivering the next batch to the group before it is planned: every row is read once, the group's state is right."""

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
pytestmark = pytest.mark.parametrize("place", ["redis"], indirect=True)  # the engine counts without reading
dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # as a killed thread does


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a hundred entries is delivered ahead, in six pages, and acknowledged by deleting its consumers."""
    monkeypatch.setattr(plan, "_MANY", 10)
    monkeypatch.setattr(owned_group, "_MANY", 10)
    monkeypatch.setattr(group_reads, "PAGE", _PAGE)
    monkeypatch.setattr(sampling, "_MANY", 100)
    monkeypatch.setattr(delivery, "_MANY_PENDING", 10)


def query_of(site: Site, **said: Any) -> Query:
    said = {"stream": "s", "group": "g", "minPartitions": 2, "maxEntriesPerTrigger": _BATCH, **said}
    return site.query(**{name: value for name, value in said.items() if value is not None})


def delivered(query: Query) -> None:
    """Wait until the next batch is delivered."""
    query.reader._source._lookahead._settle()


def killed(query: Query) -> None:
    """Kill the driver; its threads finish their present step."""
    delivered(query)
    query.reader._source._group._background.join()


def pending(site: Site) -> dict[str, int]:
    """Entries pending for each consumer that has any."""
    found = site.client.xinfo_consumers("s", "g")
    return {one["name"].decode(): one["pending"] for one in found if one["pending"]}


def between_pages(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Call `act` after each page of a delivery ahead, with its number from 1 on."""
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
    """All rows; between pages something is done, though not before the first batch is read."""
    has_read = threading.Event()

    def wait(number: int) -> None:
        assert has_read.wait(DEADLINE)
        act(number)

    between_pages(monkeypatch, wait)
    rows = numbers(query.trigger() or [])
    has_read.set()
    return rows + numbers(query.drain())


def finished(site: Site, end: int) -> None:
    """The group ends there, and nothing is left to be done."""
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, f"{end}-1".encode())
    assert (group["entries-read"], group["lag"]) == (end, 0)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_the_next_batch_is_pending_while_this_one_runs(site: Site, parts: int) -> None:
    """Each batch has separate consumers, one for each part, and is acknowledged when it has finished."""
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


def test_a_query_that_is_stopped_gives_back_what_no_batch_has(site: Site) -> None:
    """The group is at the end of the last planned batch, and only that is pending; a restart continues."""
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


def test_a_query_that_is_stopped_while_it_delivers_leaves_nothing_behind(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread, no connection, and nothing pending that no batch has; the page that is under way is the last one."""
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
def test_what_was_delivered_stays_if_the_group_is_not_the_querys_any_more(site: Site, how: str) -> None:
    """If the group was moved, taken or destroyed meanwhile, nothing is returned to it."""
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
def test_a_user_who_may_not_all_reads_all(site: Site, lacks: str) -> None:
    """The batch that runs stays pending until it has finished, then nothing does, and each row comes once."""
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
    """A restart, with the same or other limits, reads each row once, acknowledges all, and does not report a moved
    group.
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
def test_a_delivery_that_ends_half_way_is_gone_on_with(site: Site, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """Wherever the driver is killed while it delivers, each row comes once."""
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
    """Entries delivered elsewhere in between are still in the batch, which is then counted."""
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
@pytest.mark.parametrize("what", ["read", "delivered", "not yet delivered"])
def test_entries_deleted_while_they_are_delivered_are_passed_over(
    site: Site, monkeypatch: pytest.MonkeyPatch, what: str, page: int
) -> None:
    """With failOnDataLoss=false the remaining entries are read once, in batches within the limits."""
    site.add("s", 4 * _BATCH)
    query = query_of(site, failOnDataLoss="false")
    at = {"read": 50, "delivered": 105, "not yet delivered": 250}[what]
    done: list[int] = []

    def delete(number: int) -> None:
        if number == page and not done:
            done.append(site.client.xdel("s", f"{at}-1"))

    found = drained(query, monkeypatch, delete)
    assert done == [1]
    gone = {at - 1} if at > _BATCH else set()
    assert found == [n for n in range(4 * _BATCH) if n not in gone]
    assert max(map(len, query.batches)) == _BATCH
    assert site.group()["pending"] == 0


def test_a_stream_made_anew_while_it_is_delivered_is_a_loss(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries found in the old stream are not attributed to the new one, which is read from its start."""
    site.add("s", 3 * _BATCH)
    site.add("new", 2 * _BATCH, first=1000, ids="{n}-5")
    query = query_of(site, failOnDataLoss="false")

    def anew(number: int) -> None:
        if number == 3 and site.client.xlen("s") == 3 * _BATCH:
            site.client.rename("new", "s")

    found = drained(query, monkeypatch, anew)
    assert found == [*range(_BATCH), *range(1000, 1000 + 2 * _BATCH)]


def test_a_broken_connection_delivers_no_page_twice(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The delivery is given up, and its entries are not delivered again."""
    site.add("s", 4 * _BATCH)
    query = query_of(site)

    def cut(number: int) -> None:
        if number == 3:
            site.client.client_kill_filter(_type="normal", skipme=True)

    between_pages(monkeypatch, cut)
    assert numbers(query.drain()) == list(range(4 * _BATCH))
    finished(site, 4 * _BATCH)


@pytest.mark.parametrize("more", [0, 1, _BATCH])
def test_a_run_that_ends_leaves_nothing_delivered_that_it_did_not_read(site: Site, more: int) -> None:
    """Trigger.AvailableNow delivers only what it reads, even if producers continue."""
    site.add("s", 2 * _BATCH + more)
    query = query_of(site)
    query.reader.prepareForTriggerAvailableNow()
    site.add("s", 3 * _BATCH, first=2 * _BATCH + more)
    assert numbers(query.drain()) == list(range(2 * _BATCH + more))
    killed(query)
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, f"{2 * _BATCH + more}-1".encode())


@pytest.mark.parametrize("said", [{"ack": "cursor"}, {"ack": "none"}, {"maxBytesPerTrigger": 5000}])
def test_where_nothing_is_to_be_pending_nothing_is(site: Site, said: dict[str, Any]) -> None:
    """Other ways to acknowledge, and limits in bytes, deliver nothing before its batch is planned."""
    site.client.xgroup_create("s", "g", "0", mkstream=True)
    site.add("s", 3 * _BATCH)
    query = query_of(site, **said)
    query.trigger()
    killed(query)
    assert site.group()["pending"] <= _BATCH
    assert numbers(query.batches[0] + query.drain()) == list(range(3 * _BATCH))


def test_a_query_without_its_checkpoint_begins_with_what_is_pending(site: Site) -> None:
    """A killed run's batches, that which was only delivered included, are read again from the group's position."""
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    query.trigger()
    killed(query)
    site.client.delete(*site.client.scan_iter("pystreams:*:lease:*"))
    other = query_of(site, startingOffsets="group")
    assert numbers(other.drain()) == list(range(3 * _BATCH))
    finished(site, 3 * _BATCH)


def test_a_second_stream_that_gets_entries_shares_the_limit(site: Site) -> None:
    """Entries delivered for a whole batch are then read in two, each row once."""
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


def test_a_server_that_does_not_count_what_a_group_reads_is_not_trusted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Redis 7, and after deletions, the end of the next batch is counted, and nothing is delivered ahead."""
    site.add("s", 4 * _BATCH)
    query = query_of(site)
    query.trigger()
    killed(query)
    site.client.xgroup_setid("s", "g", f"{2 * _BATCH}-1")  # without ENTRIESREAD
    rows = query.batches[0] + (query.trigger() or [])
    killed(query)
    wait_for(lambda: site.group()["last-delivered-id"] == b"200-1", "nothing to be delivered")
    assert numbers(rows + query.drain()) == list(range(4 * _BATCH))
    assert site.group()["pending"] == 0


def test_a_part_of_a_consumers_entries_is_acknowledged_one_by_one(site: Site, connection: Connection) -> None:
    """A consumer is deleted for those that it has up to the ID only if it has no others."""
    site.add("s", 60)
    site.client.xgroup_create("s", "g", "0")
    for consumer in ("spark-0", "spark-1", "spark-2"):
        site.client.xreadgroup("g", consumer, {"s": ">"}, count=20)
    plain_server(connection).delivery.acknowledge({"s": StreamId(30, 1)}, "g", "spark")
    assert pending(site) == {"spark-1": 10, "spark-2": 20}
