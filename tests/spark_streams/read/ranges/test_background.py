"""Background deliveries: tasks do not wait for them, and a restart continues an interrupted one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_streams.errors import ServerError, StreamError, error
from spark_streams.read.ranges import owned_group
from streamclient.streams import group_reads
from streamclient.streams.group_reads import GroupReads
from streamclient.streams.groups import Groups
from tests.spark_streams.driver import Query, Site, numbers
from tests.suite.waiting import DEADLINE

_BATCH, _PAGE = 100, 20
Pages = Callable[[Iterator[None]], Iterator[None]]
dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of threads that die
on_redis = pytest.mark.parametrize("instance", ["redis"], indirect=True)  # the engine delivers without pages


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver batches of a hundred entries in the background, in five pages or more."""
    monkeypatch.setattr(owned_group, "_MANY", 10)
    monkeypatch.setattr(group_reads, "PAGE", _PAGE)


def query_of(site: Site) -> Query:
    return site.query(stream="s", group="g", minPartitions=2, maxEntriesPerTrigger=_BATCH)


def delivering(monkeypatch: pytest.MonkeyPatch, wrapper: Pages) -> None:
    """Replace the iterator over the pages of a background delivery by `wrapper(pages)`."""
    pages = GroupReads.pages
    monkeypatch.setattr(GroupReads, "pages", lambda *words: wrapper(pages(*words)))


def killed_after(pages: int) -> Pages:
    """Return a wrapper that ends the delivery's thread after this many pages, like the death of the driver."""

    def some(delivery: Iterator[None]) -> Iterator[None]:
        for _ in range(pages):
            next(delivery, None)
            yield
        raise SystemExit

    return some


def marks(site: Site) -> list[bytes]:
    return [consumer["name"] for consumer in site.client.xinfo_consumers("s", "g") if b"-until-" in consumer["name"]]


def wait_for_delivery(query: Query) -> None:
    """Wait until the thread of the delivery has ended."""
    query.reader._source._group._background.wait()


@dies
@pytest.mark.parametrize("finished", [True, False], ids=["batch finished", "batch unfinished"])
@pytest.mark.parametrize("pages", [0, 2, 6], ids=["before delivery", "half delivered", "delivered"])
def test_a_restart_continues_an_interrupted_delivery(
    site: Site, monkeypatch: pytest.MonkeyPatch, pages: int, *, finished: bool
) -> None:
    """A restart after an interrupted delivery reads each row once, acknowledges all entries, and leaves the group at
    the end of the stream.
    """
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    rows = numbers(query.trigger() or [])
    wait_for_delivery(query)
    with monkeypatch.context() as patched:
        delivering(patched, killed_after(pages))
        assert query.plan()
        found = numbers(query.run())
        wait_for_delivery(query)
    if site.kind == "redis":
        assert marks(site) == [b"spark-until-200-1"]
    query.restart()
    rows += found if finished else numbers(query.run())
    rows += numbers(query.drain())
    assert rows == list(range(3 * _BATCH))
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, b"300-1")
    assert (group["entries-read"], group["lag"]) == (3 * _BATCH, 0)
    assert marks(site) == []


@dies
def test_a_restart_reports_that_it_moves_the_group(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A restart moves the group past undelivered entries of a finished batch, and on Redis a warning reports it."""
    site.add("s", 2 * _BATCH)
    query = query_of(site)
    with monkeypatch.context() as patched:
        delivering(patched, killed_after(2))
        query.trigger()
        wait_for_delivery(query)
    query.restart()
    with caplog.at_level(logging.WARNING):
        assert numbers(query.drain()) == list(range(_BATCH, 2 * _BATCH))
    assert ("the driver ended before it had delivered all of its entries" in caplog.text) == (site.kind == "redis")


def test_a_group_that_was_moved_back_is_an_error(site: Site) -> None:
    """A group that was moved behind the checkpoint after a delivery has ended is an error."""
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    query.trigger()
    wait_for_delivery(query)
    site.client.xgroup_setid("s", "g", "50-1")
    query.restart()
    with pytest.raises(StreamError, match=r"GROUP_BEHIND.*50-1"):
        query.trigger()


def test_tasks_do_not_wait_for_a_delivery(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks return their rows before the delivery; the next trigger waits for the delivery and acknowledges all
    entries.
    """
    site.add("s", 2 * _BATCH)
    free = threading.Event()

    def when_free(delivery: Iterator[None]) -> Iterator[None]:
        assert free.wait(DEADLINE)
        yield from delivery

    delivering(monkeypatch, when_free)
    query = query_of(site)
    assert numbers(query.trigger() or []) == list(range(_BATCH))
    if site.kind == "redis":
        assert site.group()["pending"] == 0
    free.set()
    assert query.plan()
    wait_for_delivery(query)
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (_BATCH, b"200-1")
    assert numbers(query.run()) == list(range(_BATCH, 2 * _BATCH))


@on_redis
def test_stopping_a_query_ends_its_delivery(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping a query ends its delivery after the current page."""
    site.add("s", _BATCH)
    query = query_of(site)
    begun = threading.Event()

    def until_the_end(delivery: Iterator[None]) -> Iterator[None]:
        next(delivery)
        begun.set()
        assert query.reader._source._group._background._ended.wait(DEADLINE)
        yield
        yield from delivery

    delivering(monkeypatch, until_the_end)
    query.trigger()
    assert begun.wait(DEADLINE)
    query.reader.stop()
    assert site.group()["pending"] == _PAGE


@pytest.mark.parametrize("lacks", ["nothing", "the command", "the permission to create", "the permission to delete"])
def test_delivery_comes_first_if_consumers_cannot_be_created_or_deleted(
    site: Site, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """Without the command or the permission to create or delete consumers, the delivery ends before the tasks start."""
    if lacks == "the command":
        monkeypatch.setattr(Groups, "create_consumers", lambda *_: set())
    rule = {"the permission to create": "-xgroup|createconsumer", "the permission to delete": "-xgroup|delconsumer"}
    site.client.acl_setuser("limited", enabled=True, passwords=["+pw"], commands=["+@all"], keys=["*"], reset=True)
    site.client.execute_command("ACL", "SETUSER", "limited", rule.get(lacks, "+@all"))
    threads: set[str] = set()

    def noted(delivery: Iterator[None]) -> Iterator[None]:
        threads.add(threading.current_thread().name)
        yield from delivery

    delivering(monkeypatch, noted)
    site.add("s", _BATCH)
    query = query_of(site)
    query.restart(url=site.url.replace("redis://", "redis://limited:pw@"))
    try:
        assert numbers(query.trigger() or []) == list(range(_BATCH))
        wait_for_delivery(query)
        if site.kind == "redis":
            assert (threading.main_thread().name in threads) == (lacks != "nothing")
        assert (site.group()["pending"], marks(site)) == (_BATCH, [])
    finally:
        query.reader.stop()
        site.client.acl_deluser("limited")


@on_redis
def test_a_failed_delivery_fails_the_query(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a delivery is raised by the next trigger; a restart reads each remaining row once."""
    site.add("s", 2 * _BATCH)
    query = query_of(site)

    def refused(delivery: Iterator[None]) -> Iterator[None]:
        next(delivery)
        yield
        raise error("SERVER_UNREACHABLE", address="it", reason="it is gone")

    with monkeypatch.context() as patched:
        delivering(patched, refused)
        assert numbers(query.trigger() or []) == list(range(_BATCH))
        with pytest.raises(ServerError, match="it is gone"):
            query.trigger()
    query.restart()
    assert numbers(query.drain()) == list(range(_BATCH, 2 * _BATCH))
    assert site.group()["pending"] == 0


@on_redis
def test_deliveries_lost_in_a_failover_are_repeated(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a failover moves the group back during a delivery, the missing entries are delivered again."""
    site.add("s", _BATCH)
    query = query_of(site)
    moved: list[Any] = []

    def taken_away(delivery: Iterator[None]) -> Iterator[None]:
        yield from delivery
        if not moved:
            moved.append(site.client.xgroup_setid("s", "g", "30-1"))
            site.client.xgroup_delconsumer("s", "g", "spark-1")

    delivering(monkeypatch, taken_away)
    query.trigger()
    wait_for_delivery(query)
    group = site.group()
    assert moved
    assert (group["pending"], group["last-delivered-id"]) == (_BATCH, b"100-1")
    assert marks(site) == []
