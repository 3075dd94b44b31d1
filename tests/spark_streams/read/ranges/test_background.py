"""Background deliveries: tasks do not wait for them, and a restart continues wherever they ended."""

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
dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # as a killed thread does


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a hundred entries is delivered in the background, in five pages or more."""
    monkeypatch.setattr(owned_group, "_MANY", 10)
    monkeypatch.setattr(group_reads, "PAGE", _PAGE)


def query_of(site: Site) -> Query:
    return site.query(stream="s", group="g", minPartitions=2, maxEntriesPerTrigger=_BATCH)


def delivering(monkeypatch: pytest.MonkeyPatch, as_said: Pages) -> None:
    """Put something between the pages of deliveries in the background."""
    pages = GroupReads.pages
    monkeypatch.setattr(GroupReads, "pages", lambda *words: as_said(pages(*words)))


def killed_after(pages: int) -> Pages:
    """Kill the driver after this many delivered pages: its thread does nothing more."""

    def some(delivery: Iterator[None]) -> Iterator[None]:
        for _ in range(pages):
            next(delivery, None)
            yield
        raise SystemExit

    return some


def marks(site: Site) -> list[bytes]:
    return [one["name"] for one in site.client.xinfo_consumers("s", "g") if b"-until-" in one["name"]]


def gone(query: Query) -> None:
    """Wait until the thread of the delivery has ended: a killed driver's ends with all of the process."""
    query.reader._source._group._background.wait()


@dies
@pytest.mark.parametrize("finished", [True, False], ids=["batch finished", "batch unfinished"])
@pytest.mark.parametrize("pages", [0, 2, 6], ids=["before delivery", "half delivered", "delivered"])
def test_a_restart_goes_on_wherever_a_delivery_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch, pages: int, *, finished: bool
) -> None:
    """Each row is read once, all entries are acknowledged, and the group ends at the stream's end, never behind."""
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    rows = numbers(query.trigger() or [])
    gone(query)
    with monkeypatch.context() as patched:
        delivering(patched, killed_after(pages))
        assert query.plan()
        found = numbers(query.run())
        gone(query)
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
def test_a_restart_says_that_it_moves_the_group(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Undelivered entries of a finished batch are skipped, with a warning that says why."""
    site.add("s", 2 * _BATCH)
    query = query_of(site)
    with monkeypatch.context() as patched:
        delivering(patched, killed_after(2))
        query.trigger()
        gone(query)
    query.restart()
    with caplog.at_level(logging.WARNING):
        assert numbers(query.drain()) == list(range(_BATCH, 2 * _BATCH))
    assert ("the driver ended before it had delivered all of its entries" in caplog.text) == (site.kind == "redis")


def test_a_group_that_somebody_has_moved_back_is_still_behind(site: Site) -> None:
    """Only a running delivery explains a group behind the checkpoint: its mark is removed at its end."""
    site.add("s", 3 * _BATCH)
    query = query_of(site)
    query.trigger()
    gone(query)
    site.client.xgroup_setid("s", "g", "50-1")
    query.restart()
    with pytest.raises(StreamError, match=r"GROUP_BEHIND.*50-1"):
        query.trigger()


def test_tasks_do_not_wait_for_a_delivery(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows come while nothing is delivered yet; the next trigger waits, and acknowledges all."""
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
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, b"100-1")
    assert numbers(query.run()) == list(range(_BATCH, 2 * _BATCH))


def test_the_end_of_a_query_ends_its_delivery(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of another query's next batch are left alone, except for a page being delivered."""
    if site.kind != "redis":
        return
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
def test_where_no_mark_can_be_left_all_is_delivered_first(
    site: Site, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """Redis before 6.2 cannot create a consumer without entries, and some users may not: then tasks start later."""
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
        gone(query)
        if site.kind == "redis":
            assert (threading.main_thread().name in threads) == (lacks != "nothing")
        assert (site.group()["pending"], marks(site)) == (_BATCH, [])
    finally:
        query.reader.stop()
        site.client.acl_deluser("limited")


def test_a_delivery_that_fails_fails_the_query(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next trigger raises the error; a restart delivers the rest, or knows why the group is behind."""
    if site.kind != "redis":
        return
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


def test_what_a_failover_takes_away_is_delivered_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is behind at the end of a delivery, although no command failed, gets the missing entries."""
    if site.kind != "redis":
        return
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
    gone(query)
    group = site.group()
    assert moved
    assert (group["pending"], group["last-delivered-id"]) == (_BATCH, b"100-1")
    assert marks(site) == []
