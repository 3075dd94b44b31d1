"""Entries removed before a query has read them: an error, or a warning with `failOnDataLoss=false`."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from spark_streams.errors import StreamError
from tests.spark_streams.driver import Query, Site, numbers

LOSSES = ["trimmed", "deleted", "stream deleted", "stream recreated", "server empty"]


def lose(site: Site, how: str) -> None:
    """Remove unread entries of a query that has read ten of thirty entries."""
    if how == "trimmed":
        site.client.xtrim("s", minid="16-1", approximate=False)
    elif how == "deleted":
        site.client.xdel("s", "15-1", "16-1")
    elif how == "stream deleted":
        site.client.delete("s")
    elif how == "stream recreated":
        site.client.delete("s")
        site.add("s", 5, first=100)
    else:
        site.client.flushall()


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("group", [{}, {"group": "g"}], ids=str)
def test_lost_data_is_an_error_or_skipped(
    site: Site, how: str, group: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Entries removed before they were read fail the query with an error that names the stream and the option. With
    failOnDataLoss=false, a loss is a warning, the remaining entries are read once in batches within the limit, and the
    offset counts the trimmed entries.
    """
    site.add("s", 30)
    query = site.query(stream="s", maxEntriesPerTrigger=10, **group)
    query.trigger()
    lose(site, how)
    with pytest.raises(StreamError, match=r"'s'.*failOnDataLoss") as caught:
        query.trigger()
    assert caught.value.condition == ("ENTRIES_LOST" if how in ("trimmed", "deleted") else "STREAM_LOST")
    if how == "trimmed":
        assert "5 entries after 10-1, up to 16-0" in str(caught.value)
    if how == "deleted" and site.kind == "engine":
        assert "2 entries after 10-1" in str(caught.value)
    query.restart(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "spark_streams"):
        found = numbers(query.drain())
        if how in ("stream deleted", "server empty"):
            assert found == []
            site.add("s", 5, first=100)
            found = numbers(query.drain())
    left = {"trimmed": range(15, 30), "deleted": [*range(10, 14), *range(16, 30)]}.get(how, range(100, 105))
    assert found == list(left)
    assert max(map(len, query.batches)) == 10
    assert "LOST" in caplog.text
    if how == "trimmed":
        assert query.offset("lost") == {"s": 5}
    caplog.clear()
    site.add("s", 3, first=200)
    assert numbers(query.drain()) == [200, 201, 202]
    assert "LOST" not in caplog.text


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("group", [{}, {"group": "g"}], ids=str)
@pytest.mark.parametrize(
    "division", [{}, {"minPartitions": 3}, {"maxEntriesPerPartition": 4}, {"maxEntriesPerTrigger": 9}], ids=str
)
def test_a_deleted_entry_is_noticed_however_a_batch_is_divided(
    site: Site, division: dict[str, Any], group: dict[str, str], fails: str
) -> None:
    """An unread entry that is deleted between two batches is a loss, although a later entry was deleted before the
    query started, however the next batches are divided.
    """
    site.add("s", 30)
    site.client.xdel("s", "25-1")
    options = {"stream": "s", "failOnDataLoss": fails, **group}
    query = site.query(**options, maxEntriesPerTrigger=10)
    rows = numbers(query.trigger() or [])
    site.client.xdel("s", "15-1")
    del query.options["maxEntriesPerTrigger"]
    query.restart(**division)
    if fails == "true":
        with pytest.raises(StreamError, match=r"ENTRIES_LOST.*1 entries"):
            query.drain()
        return
    rows += numbers(query.drain())
    assert rows == [n for n in range(30) if n not in (14, 24)]
    if division.keys() & {"minPartitions", "maxEntriesPerPartition"}:
        assert query.offset("lost") == {"s": 1}


@pytest.mark.parametrize("before", [0, 10], ids=["", "what was read is trimmed"])
def test_a_single_deleted_entry_makes_the_next_batch_reach_further(site: Site, before: int) -> None:
    """If an entry after the last batch is deleted, the next batch reaches further and still has ten entries."""
    site.add("s", 30)
    query = site.query(stream="s", maxEntriesPerTrigger=10, failOnDataLoss="false")
    query.trigger()
    site.client.xtrim("s", minid=f"{before + 1}-1", approximate=False)
    site.client.xdel("s", "15-1")
    assert numbers(query.trigger() or []) == [*range(10, 14), *range(15, 21)]


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_stream_recreated_with_the_same_ids_is_read_in_batches(site: Site, group: str | None, step: int) -> None:
    """A stream recreated with the same IDs is read further in batches within the limit."""
    site.add("s", 400)
    options = {} if group is None else {"group": group}
    query = site.query(stream="s", minPartitions=2, maxEntriesPerTrigger=100, **options)
    query.trigger()
    site.client.delete("s")
    for n in [*range(100), *range(100, 400, step)]:
        site.add("s", 1, n)
    assert numbers(query.drain()) == list(range(100, 400, step))
    assert max(map(len, query.batches)) == 100


MIDDLE = [
    {},
    {"maxEntriesPerTrigger": 10},
    {"minPartitions": 2},
    {"group": "g"},
    {"group": "g", "minPartitions": 2},
]


@pytest.mark.parametrize("options", MIDDLE, ids=str)
@pytest.mark.parametrize("when", ["planned", "planned, then the driver restarts", "about to be read", "read once"])
@pytest.mark.parametrize("earlier", ["", "5-1", "20-1", "30-1"])
def test_a_deleted_entry_after_a_start_in_the_middle_is_noticed(
    site: Site, options: dict[str, Any], when: str, earlier: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Deleting one entry of a planned batch with XDEL is an error, whatever was deleted before the batch was planned,
    except for a documented limitation.
    """
    site.add("s", 30)
    if earlier:
        site.client.xdel("s", earlier)
    query = site.query(stream="s", startingOffsets="12-1", **options)
    query.plan()
    if when.endswith("restarts"):
        query.restart()
    start, end = (json.loads(text) for text in query.log[-2:])
    first = "21-1" if earlier == "20-1" else "20-1"
    if "maxEntriesPerTrigger" in options:
        first = "14-1"
    hidden = site.kind == "redis" and earlier == "30-1" and (not options or options == {"group": "g"})
    parts = query.reader.partitions(start, end) if "read" in when else []
    if when == "read once":
        assert sum(batch.num_rows for part in parts for batch in query.reader.read(part)) in (10, 18, 19)
        assert "LOST" not in caplog.text
    site.client.xdel("s", first)

    def again() -> int:
        planned = parts or query.reader.partitions(start, end)
        return sum(batch.num_rows for part in planned for batch in query.reader.read(part))

    if hidden and earlier > first:  # documented limitation: of an uncounted range only the largest deleted ID is known
        assert again() == 17
        return
    with pytest.raises(StreamError, match="ENTRIES_LOST"):
        again()


@pytest.mark.parametrize("limit", [{}, {"maxEntriesPerTrigger": 10}], ids=str)
def test_deletions_before_a_pattern_finds_a_stream_are_no_loss(site: Site, limit: dict[str, Any]) -> None:
    """Entries deleted from a stream before its pattern found the stream are no loss."""
    site.add("a1", 3)
    query = site.query(streamPattern="a*", **limit)
    query.drain()
    site.add("a2", 30)
    site.client.xdel("a2", "5-1", "15-1", "30-1")
    query.restart()
    assert len(query.drain()) == 27


def test_entries_removed_before_the_query_starts_are_no_loss(site: Site) -> None:
    site.add("s", 30)
    site.client.xtrim("s", maxlen=20, approximate=False)
    site.client.xdel("s", "25-1")
    query = site.query(stream="s", maxEntriesPerTrigger=7)
    assert len(query.drain()) == 19
    later = Query(site.url, stream="s", startingOffsets="12-1")
    assert len(later.drain()) == 18


def test_a_group_that_is_behind_is_an_error(site: Site) -> None:
    """A group whose last delivered ID is before the checkpoint is an error, unless failOnDataLoss is false."""
    site.add("s", 30)
    query = site.query(stream="s", group="g", maxEntriesPerTrigger=10)
    query.trigger()
    site.client.xgroup_setid("s", "g", "3-1")
    with pytest.raises(StreamError, match=r"GROUP_BEHIND.*'g'.*3-1"):
        query.trigger()
    query.restart(failOnDataLoss="false")
    assert numbers(query.trigger() or []) == list(range(10, 20))
    site.client.xgroup_setid("s", "g", "3-1")
    query.restart(failOnDataLoss="true")
    with pytest.raises(StreamError, match=r"GROUP_BEHIND.*'g'.*3-1"):
        query.run()
    query.restart(failOnDataLoss="false")
    assert numbers(query.run()) == list(range(10, 20))
