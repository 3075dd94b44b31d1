"""Streaming reads on Redis and on the engine, with the calls of Spark 4.0 and 4.1."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spark_streams.errors import PystreamsError
from tests.spark_streams.driver import Site, numbers

WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "with a group": {"group": "g"},
    "in parts": {"group": "g", "minPartitions": 3, "maxPartitions": 4},
    "with a cursor": {"group": "g", "ack": "cursor"},
    "shared": {"group": "g", "consume": "shared"},
}


@pytest.fixture(params=WAYS, ids=[way.replace(" ", "-") for way in WAYS])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return WAYS[request.param]


def test_batches_follow_each_other(site: Site, way: dict[str, Any]) -> None:
    """Each entry is in one batch, also after a restart, and an unfinished batch is repeated with the same rows."""
    site.add("s", 100)
    query = site.old_query(stream="s", **way)
    assert numbers(query.trigger() or []) == list(range(100))
    assert query.trigger() is None
    site.add("s", 50, first=100)
    assert numbers(query.trigger() or []) == list(range(100, 150))
    if "group" in way:
        assert site.group()["pending"] == (0 if way.get("ack") == "cursor" else 50)
    query.restart()
    site.add("s", 10, first=150)
    query.goes_on(unfinished=True)
    assert query.batches[-1] == query.batches[-2]
    assert query.partitions[-1] == query.partitions[-2]
    assert numbers(query.trigger() or []) == list(range(150, 160))
    assert query.trigger() is None
    if "group" in way:
        assert (site.group()["pending"], site.group()["lag"]) == (0, 0)


def test_available_now(site: Site, way: dict[str, Any]) -> None:
    """Each availableNow run reads all entries present at its start in one batch; the next run continues after them."""
    site.add("s", 300)
    query = site.old_query(stream="s", **way)
    assert numbers(query.available_now()) == list(range(300))
    query.restart()
    assert query.available_now() == []
    for first in (300, 307):
        site.add("s", 7, first=first)
        query.restart()
        assert numbers(query.available_now()) == list(range(first, first + 7))
    site.add("s", 7, first=314)
    query.restart()
    query.goes_on()
    assert numbers(query.trigger() or []) == list(range(314, 321))
    if "group" in way:
        assert query.trigger() is None
        assert (site.group()["pending"], site.group()["lag"]) == (0, 0)


@pytest.mark.parametrize("ran", [True, False], ids=["it ran", "it was only logged"])
def test_an_interrupted_run_is_repeated(site: Site, way: dict[str, Any], ran: bool) -> None:
    """After an interrupted run, the next run repeats its batch with the same rows and partitions, then reads later
    entries.
    """
    site.add("s", 100)
    query = site.old_query(stream="s", **way)
    query.available_now()
    site.add("s", 50, first=100)
    query.restart()
    query.logs_only = not ran
    query.available_now()
    site.add("s", 20, first=150)
    query.restart()
    query.logs_only = False
    assert numbers(query.available_now(unfinished=True)) == list(range(150, 170))
    assert numbers(query.batches[-2]) == list(range(100, 150))
    if ran:
        assert query.partitions[-2] == query.partitions[-3]


def test_an_interrupted_first_batch_keeps_its_start(site: Site, way: dict[str, Any]) -> None:
    """An interrupted first batch with startingOffsets=latest is repeated from its original start."""
    site.add("s", 5)
    query = site.old_query(stream="s", **{**way, "startingOffsets": "latest"})
    assert query.plan()
    site.add("s", 5, first=5)
    query.restart()
    query.goes_on(unfinished=True)
    assert numbers(query.drain()) == [5, 6, 7, 8, 9]


def test_a_restart_changes_no_group_before_it_knows_the_offset(site: Site) -> None:
    """A restarted query does not change its group before Spark passes the checkpoint's offset."""
    site.add("s", 20)
    query = site.old_query(stream="s", group="g")
    query.available_now()
    site.add("s", 5, first=20)
    before = site.client.xinfo_groups("s")
    query.restart()
    query.old.latestOffset()
    assert site.client.xinfo_groups("s") == before


def test_a_batch_of_many_streams_has_few_tasks(site: Site) -> None:
    """Small streams share tasks, also in the batches of restarted runs."""
    for number in range(60):
        site.add(f"in:{number}", 5)
    query = site.old_query(streamPattern="in:*", maxPartitions=6)
    assert len(query.available_now()) == 300
    for number in range(30):
        site.add(f"in:{number}", 2, first=5)
    query.restart()
    assert sorted(numbers(query.available_now())) == sorted([5, 6] * 30)
    assert max(map(len, query.partitions)) <= 6


def test_no_partition_has_more_than_its_limit(site: Site) -> None:
    """No partition exceeds maxEntriesPerPartition, in the first batch and in those of restarted runs."""
    site.add("s", 100)
    query = site.old_query(stream="s", maxEntriesPerPartition=30)
    query.available_now()
    site.add("s", 100, first=100)
    query.restart()
    assert numbers(query.available_now()) == list(range(100, 200))
    assert all(max(parts) <= 30 for parts in query.partitions)


@pytest.mark.parametrize("now", [True, False], ids=["available now", "triggers"])
def test_a_recreated_stream_is_a_loss(site: Site, now: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A recreated stream is a loss; with failOnDataLoss=false it is read from its first entry, also in a repeated
    batch.
    """
    site.add("s", 20)
    query = site.old_query(stream="s")
    query.available_now()
    site.client.delete("s")
    site.add("s", 5, first=50, ids="1-{n}")
    query.restart()
    if now:
        with pytest.raises(PystreamsError, match="STREAM_LOST"):
            query.available_now()
        query.restart(failOnDataLoss="false")
        with caplog.at_level(logging.WARNING):
            query.goes_on(unfinished=True)
        assert numbers(query.batches[-1]) == list(range(50, 55))
    else:
        query.goes_on()
        with pytest.raises(PystreamsError, match="STREAM_LOST"):
            query.trigger()
        query.restart(failOnDataLoss="false")
        query.goes_on()
        with caplog.at_level(logging.WARNING):
            assert numbers(query.trigger() or []) == list(range(50, 55))
    assert "STREAM_LOST" in caplog.text


def test_entries_trimmed_before_they_were_read_are_a_loss(site: Site, way: dict[str, Any]) -> None:
    """Entries trimmed before they were read are a loss, although the batch is planned without its start."""
    site.add("s", 20)
    query = site.old_query(stream="s", **way)
    query.available_now()
    site.add("s", 20, first=20)
    site.client.xtrim("s", minid="31-1", approximate=False)
    query.restart()
    with pytest.raises(PystreamsError, match="ENTRIES_LOST"):
        query.available_now()


def test_a_lost_shared_group_is_an_error(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A missing shared group is an error; with failOnDataLoss=false it is recreated, with a warning."""
    site.add("s", 20)
    query = site.old_query(stream="s", group="g", consume="shared")
    query.available_now()
    site.client.xgroup_destroy("s", "g")
    query.restart()
    with pytest.raises(PystreamsError, match="GROUP_LOST"):
        query.available_now()
    query.restart(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        query.goes_on(unfinished=True)
    assert numbers([*query.batches[-1], *query.drain()]) == list(range(20))
    assert "was lost" in caplog.text


@pytest.mark.parametrize("consume", ["range", "shared"])
def test_a_second_query_with_the_same_options_is_refused(site: Site, consume: str) -> None:
    """A second query with the same options is rejected while the first query runs; a later run of the first query gets
    its group immediately.
    """
    site.add("s", 20)
    first = site.old_query(stream="s", group="g", consume=consume)
    assert first.trigger()
    second = site.old_query(stream="s", group="g", consume=consume)
    site.add("s", 20, first=20)
    with pytest.raises(PystreamsError, match=r"GROUP_TAKEN|CONSUMERS_TAKEN"):
        second.trigger()
    assert numbers(first.trigger() or []) == list(range(20, 40))
    later = site.old_query(stream="s", group="g", consume=consume)
    later.log = first.log[-1:]
    later.goes_on()
    site.add("s", 1, first=40)
    assert numbers(later.trigger() or []) == [40]


@pytest.mark.parametrize("option", ["maxEntriesPerTrigger", "minEntriesPerTrigger"])
def test_limits_that_cannot_be_kept_are_refused(site: Site, option: str) -> None:
    """Limits per trigger are rejected, because Spark's calls do not tell triggers apart."""
    with pytest.raises(PystreamsError, match=rf"SPARK_TOO_OLD.*'{option}' needs Spark 4\.2"):
        site.old_query(stream="s", **{option: 10})


def test_trimming(site: Site) -> None:
    """Finished entries are trimmed, except those that a repeated batch reads."""
    site.add("s", 20)
    query = site.old_query(stream="s", group="g", trimOnCommit="true")
    query.available_now()
    site.add("s", 5, first=20)
    query.restart()
    assert numbers(query.available_now()) == list(range(20, 25))
    assert site.client.xlen("s") == 5
    query.restart()
    site.add("s", 5, first=25)
    assert numbers(query.available_now(unfinished=True)) == list(range(25, 30))
    assert numbers(query.batches[-2]) == list(range(20, 25))
    assert site.client.xlen("s") == 5
