"""Look-ahead: the end of the next batch is counted while the current batch runs, which saves the trigger time and
changes no batch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from spark_streams.read.ranges import plan
from spark_streams.read.ranges.plan import Question
from streamclient.config import address
from streamclient.refusals import refused
from streamclient.streams import sampling
from streamclient.streams.counting import RedisEntries
from streamclient.streams.entries import xrange
from streamclient.streams.entries.xrange import Counting
from streamclient.streams.model import StreamState
from streamwire.stream_id import StreamId
from tests.spark_streams.driver import Query, Site, numbers
from tests.spark_streams.read.ranges.test_losses import LOSSES, lose

_BATCH = 1600  # more entries than the ranges that are counted together with others have (at most 1,000)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the thresholds so that batches of a few entries use look-ahead and its split points."""
    monkeypatch.setattr(plan, "_MANY", 10)
    monkeypatch.setattr(sampling, "_MANY", 100)


def counts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Return a list that collects, for each count, whether a trigger waits for it and the number of entries counted."""
    found: list[tuple[bool, int]] = []
    marks = xrange.marks

    def noted(connection: Any, asked: Sequence[Counting]) -> Any:
        answers = marks(connection, asked)
        waits = threading.current_thread() is threading.main_thread()
        found.extend((waits, total) for _, total in answers)
        return answers

    monkeypatch.setattr(xrange, "marks", noted)
    return found


@pytest.mark.parametrize("group", [None, "g"])
def test_only_the_first_batch_waits_for_its_end(site: Site, monkeypatch: pytest.MonkeyPatch, group: str | None) -> None:
    """Only the first trigger waits for a count; later batches are counted before their trigger and
    have the same sizes.
    """
    counted = counts(monkeypatch)
    site.add("s", 3 * _BATCH + 100)
    options = {} if group is None else {"group": group}
    query = site.query(stream="s", minPartitions=2, maxEntriesPerTrigger=_BATCH, **options)
    query.reader.prepareForTriggerAvailableNow()
    site.add("s", 10, first=3 * _BATCH + 100)  # added after the start of the query, so not read
    assert numbers(query.drain()) == list(range(3 * _BATCH + 100))
    assert [len(batch) for batch in query.batches] == [_BATCH] * 3 + [100]
    assert all(abs(size - _BATCH / 2) <= _BATCH / 100 for sizes in query.partitions[:3] for size in sizes)
    if site.kind == "redis":
        # With a group, the next batch is delivered instead of counted.
        background = [] if group else [(False, _BATCH), (False, _BATCH)]
        assert counted[: 1 + len(background)] == [(True, _BATCH), *background]
        assert sum(total for _, total in counted[1 + len(background) :]) <= 100  # counts that divide the last batch
    if group is not None:
        assert site.group()["pending"] == 0


def looked_ahead(query: Query) -> None:
    """Wait until the end of the next batch was found."""
    query.reader._source._lookahead._settle()


@pytest.mark.parametrize("how", LOSSES)
def test_entries_lost_after_they_were_counted_are_skipped(site: Site, how: str) -> None:
    """With failOnDataLoss=false, entries lost after a count cause another count: the remaining entries are read once,
    within the limit.
    """
    site.add("s", 30)
    query = site.query(stream="s", maxEntriesPerTrigger=10, failOnDataLoss="false", group="g")
    query.trigger()
    looked_ahead(query)
    lose(site, how)
    found = numbers(query.drain())
    left = {"trimmed": range(15, 30), "deleted": [*range(10, 14), *range(16, 30)], "stream recreated": range(100, 105)}
    assert found == list(left.get(how, ()))
    assert max(map(len, query.batches)) == 10


@pytest.mark.parametrize("before", [0, 10], ids=["", "what was read is trimmed"])
def test_a_single_deleted_entry_makes_the_next_batch_reach_further(site: Site, before: int) -> None:
    """If a counted entry is deleted, the next batch reaches further and still has ten entries."""
    site.add("s", 30)
    query = site.query(stream="s", maxEntriesPerTrigger=10, failOnDataLoss="false")
    query.trigger()
    looked_ahead(query)
    site.client.xtrim("s", minid=f"{before + 1}-1", approximate=False)
    site.client.xdel("s", "15-1")
    assert numbers(query.trigger() or []) == [*range(10, 14), *range(15, 21)]


def test_a_failed_look_ahead_is_ignored(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """If look-ahead fails, the trigger counts the next batch itself."""

    def fails(*words: Any) -> Any:
        raise refused(address.parse(site.url), "XRANGE", "ERR no")

    monkeypatch.setattr(RedisEntries, "look_ahead", fails)
    site.add("s", 30)
    query = site.query(stream="s", maxEntriesPerTrigger=10)
    assert numbers(query.drain()) == list(range(30))
    assert [len(batch) for batch in query.batches] == [10, 10, 10]


def test_a_reconnect_discards_the_look_ahead(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reconnect, which may reach another server, the next batch is counted again."""
    site.add("s", 4 * _BATCH)
    query = site.query(stream="s", maxEntriesPerTrigger=_BATCH)
    query.trigger()
    looked_ahead(query)
    counted = counts(monkeypatch)
    site.client.client_kill_filter(_type="normal", skipme=True)
    assert numbers(query.trigger() or []) == list(range(_BATCH, 2 * _BATCH))
    if site.kind == "redis":
        assert (True, _BATCH) in counted


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_stream_recreated_with_the_same_ids_is_counted_again(site: Site, group: str | None, step: int) -> None:
    """A stream recreated with the same IDs is read further in batches within the limit: earlier
    counts are discarded.
    """
    site.add("s", 400)
    options = {} if group is None else {"group": group}
    query = site.query(stream="s", minPartitions=2, maxEntriesPerTrigger=100, **options)
    query.trigger()
    looked_ahead(query)
    site.client.delete("s")
    for n in [*range(100), *range(100, 400, step)]:
        site.add("s", 1, n)
    assert numbers(query.drain()) == list(range(100, 400, step))
    assert max(map(len, query.batches)) == 100


def state(length: int, first: int | None, added: int | None, deleted: int = 0) -> StreamState:
    first_id = None if first is None else StreamId(first, 0)
    return StreamState(StreamId(100, 0), length, first_id, None, added, StreamId(deleted, 0))


@pytest.mark.parametrize(
    ("has_all", "found"),
    [
        (True, state(100, 1, 100)),
        (True, state(100, 1, 101, deleted=10)),
        (False, state(99, 1, 100, deleted=11)),
        (True, state(90, 11, 100)),
        (True, state(90, 11, 100, deleted=5)),
        (False, state(89, 12, 100)),
        (False, state(89, 11, 100, deleted=15)),
        (False, state(0, None, 100)),
        (False, state(100, 1, None)),
        (False, state(89, 1, 89)),
    ],
)
def test_whether_a_stream_has_all_entries_after_a_position(found: StreamState, *, has_all: bool) -> None:
    """`has_all` is false if entries after the position were removed, or if the server has no counters."""
    assert Question("s", StreamId(10, 0), 10, 5, StreamId(100, 0), 90).has_all(found) == has_all
