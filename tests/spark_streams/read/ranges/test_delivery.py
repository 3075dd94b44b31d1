"""Delivery of a batch to the group: it does not depend on how much of the batch Spark reads."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from spark_streams.errors import PystreamsError
from streamclient.streams.delivery import Delivery
from tests.spark_streams.driver import Query, Site, numbers

_BATCH, _PAGE = 100, 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver batches of a hundred entries in pages, and acknowledge them by deleting their consumers."""
    monkeypatch.setattr(Delivery, "limits", replace(Delivery.limits, page=_PAGE, deleted=10, found=10))


def query_of(site: Site, **options: Any) -> Query:
    options = {"stream": "s", "group": "g", "minPartitions": 2, "maxEntriesPerTrigger": _BATCH, **options}
    return site.query(**{name: value for name, value in options.items() if value is not None})


def pending(site: Site) -> dict[str, int]:
    """Return the number of pending entries of each consumer that has any."""
    found = site.client.xinfo_consumers("s", "g")
    return {consumer["name"].decode(): consumer["pending"] for consumer in found if consumer["pending"]}


def finished(site: Site, end: int) -> None:
    """Assert that the group has read everything up to `end`, with no pending entries and no lag."""
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, f"{end}-1".encode())
    assert (group["entries-read"], group["lag"]) == (end, 0)


@pytest.mark.parametrize("start", ["earliest", "50-1"])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("reads", [0, 1, 2], ids=["never planned", "planned", "planned twice"])
def test_a_batch_that_is_not_read_is_delivered_and_acknowledged(site: Site, start: str, parts: int, reads: int) -> None:
    """A batch whose tasks never run, as with an early return in foreachBatch, an empty plan or a union of a stream with
    itself, is pending until it has finished, also after a restart.
    """
    site.add("s", 3 * _BATCH)
    offset = start if start == "earliest" else json.dumps({"s": f"({start}"})
    query = query_of(site, startingOffsets=offset, minPartitions=parts)
    begin = 0 if start == "earliest" else 50
    for batch in (1, 2):
        assert query.plan()
        for _ in range(reads):
            query.reader.partitions(*map(json.loads, query.log[-2:]))
        group = site.group()
        assert (group["pending"], group["last-delivered-id"]) == (_BATCH, f"{begin + batch * _BATCH}-1".encode())
        assert pending(site) == {"spark-0": _BATCH}
    query.restart()
    assert numbers(query.drain()) == list(range(begin + 2 * _BATCH, 3 * _BATCH))
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, f"{3 * _BATCH}-1".encode())
    assert (group["lag"] or 0) == 0


@pytest.mark.parametrize("ack", ["commit", "cursor"])
def test_a_group_may_follow_an_asynchronous_checkpoint(site: Site, ack: str) -> None:
    """With asynchronous progress tracking, which commits batches late, the group is not taken for a moved one."""
    site.add("s", 4 * _BATCH)
    query = query_of(site, ack=ack)
    query.log.append(json.dumps(query.reader.initialOffset()))
    rows: list[int] = []
    for _ in range(4):
        start = json.loads(query.log[-1])
        query.log.append(json.dumps(query.reader.latestOffset(start, query.reader.getDefaultReadLimit())))
        rows += numbers(query.run())
    assert rows == list(range(4 * _BATCH))
    query.reader.commit(json.loads(query.log[-1]))
    finished(site, 4 * _BATCH)


@pytest.mark.parametrize("lacks", ["xgroup|setid", "xinfo|consumers", "client|reply"])
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
        query.reader.stop()
        running = site.client.xpending_range("s", "g", f"{_BATCH + 1}-0", f"{2 * _BATCH}-1", 2 * _BATCH)
        assert len(running) == _BATCH
        assert site.group()["last-delivered-id"] == b"200-1"
        query.restart()
        assert rows + numbers(query.drain()) == list(range(5 * _BATCH))
        finished(site, 5 * _BATCH)
    finally:
        site.client.acl_deluser("limited")


@pytest.mark.parametrize("limit", [_BATCH, _BATCH // 20])
def test_a_query_goes_on_after_its_user_lost_the_permission_to_deliver(site: Site, limit: int) -> None:
    """A query whose user loses XREADGROUP while it runs fails before the next batch, and a restart with the permission
    reads each row once.
    """
    site.add("s", 3 * _BATCH)
    query = query_of(site, maxEntriesPerTrigger=limit)
    rule = "-ps.deliver" if site.kind == "engine" else "-xreadgroup"
    site.client.acl_setuser("limited", enabled=True, passwords=["+pw"], commands=["+@all"], keys=["*"], reset=True)
    try:
        query.restart(url=site.url.replace("redis://", "redis://limited:pw@"))
        rows = numbers(query.trigger() or [])
        site.client.execute_command("ACL", "SETUSER", "limited", rule)
        with pytest.raises(PystreamsError, match="NOT_PERMITTED"):
            query.trigger()
        site.client.execute_command("ACL", "SETUSER", "limited", "+@all")
        query.restart()
        assert rows + numbers(query.drain()) == list(range(3 * _BATCH))
        finished(site, 3 * _BATCH)
    finally:
        site.client.acl_deluser("limited")


@pytest.mark.parametrize("limit", [_BATCH, _BATCH // 4, 3 * _BATCH])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("until", ["batch finished", "batch unfinished", "offset unwritten"])
def test_a_killed_driver_loses_and_repeats_nothing(
    site: Site, caplog: pytest.LogCaptureFixture, limit: int, parts: int, until: str
) -> None:
    """A restart after the driver's death, with any limits, reads each row once, acknowledges all entries, and does not
    report a moved group.
    """
    site.add("s", 5 * _BATCH)
    query = query_of(site)
    rows = numbers(query.trigger() or [])
    rows += numbers(query.trigger() or []) if until == "batch finished" else []
    if until != "batch finished":
        assert query.plan()
        query.reader.partitions(*map(json.loads, query.log[-2:]))
    if until == "offset unwritten":
        query.log.pop()
    query.restart(maxEntriesPerTrigger=limit, minPartitions=parts)
    with caplog.at_level(logging.WARNING):
        if until == "batch unfinished":
            rows += numbers(query.run())
        rows += numbers(query.drain())
    assert rows == list(range(5 * _BATCH))
    assert max(map(len, query.batches)) <= max(limit, _BATCH)
    assert "moved" not in caplog.text
    finished(site, 5 * _BATCH)


def test_a_batch_whose_entries_and_group_are_gone_is_delivered(site: Site) -> None:
    """With failOnDataLoss=false, a repeated batch without entries is empty, and its missing group is created again."""
    site.add("s", _BATCH)
    start = json.dumps({"s": "(50-1"})
    query = query_of(site, startingOffsets=start, minPartitions=1, maxEntriesPerTrigger=None, failOnDataLoss=False)
    assert query.plan()
    site.client.xgroup_destroy("s", "g")
    site.client.xtrim("s", maxlen=0, approximate=False)
    query.restart()
    assert query.run() == []
    assert site.group()["last-delivered-id"] == b"50-1"
    site.add("s", _BATCH, first=_BATCH)
    assert numbers(query.drain()) == list(range(_BATCH, 2 * _BATCH))


def test_a_program_that_reads_from_the_group_takes_nothing_from_the_query(site: Site) -> None:
    """Entries that another program reads from the group are still in the query's batches, which keep their limit."""
    site.add("s", 4 * _BATCH)
    query = query_of(site)
    rows = numbers(query.trigger() or [])
    site.client.xreadgroup("g", "python", {"s": ">"}, count=7)
    assert rows + numbers(query.drain()) == list(range(4 * _BATCH))
    assert [len(batch) for batch in query.batches] == [_BATCH] * 4
    assert set(pending(site)) == {"python"}
    site.client.xgroup_delconsumer("s", "g", "python")


@pytest.mark.parametrize("more", [0, 1, _BATCH])
def test_available_now_delivers_only_what_it_reads(site: Site, more: int) -> None:
    """An availableNow query delivers only entries that it reads, even if producers continue."""
    site.add("s", 2 * _BATCH + more)
    query = query_of(site)
    query.reader.prepareForTriggerAvailableNow()
    site.add("s", 3 * _BATCH, first=2 * _BATCH + more)
    assert numbers(query.drain()) == list(range(2 * _BATCH + more))
    group = site.group()
    assert (group["pending"], group["last-delivered-id"]) == (0, f"{2 * _BATCH + more}-1".encode())
