"""Queries of many streams: a few tasks read all of them, and a replay has the same tasks."""

from __future__ import annotations

import json
import pickle
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pytest

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.errors import StreamError
from spark_streams.read.batch import BatchReader
from spark_streams.source import PystreamsDataSource
from streamclient.config import address
from streamclient.link import Link
from tests.spark_streams.driver import Query, Site, schema_of
from tests.suite.waiting import wait_for

SCHEMA = "_stream string, _id string, n int"
COUNT = 40


def fill(site: Site, first: int = 0, entries: int = 5) -> None:
    """Add `entries` or more entries to each of the streams in:00 to in:39; some have additional fields."""
    for number in range(COUNT):
        site.add(f"in:{number:02}", entries + number % 3, first, **({"other": "x" * number} if number % 4 == 0 else {}))


def query_of(site: Site, **extra: object) -> Query:
    return Query(site.url, SCHEMA, **{"streamPattern": "in:*", "startingOffsets": "earliest", **extra})


def by_stream(rows: list[dict[str, object]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for row in rows:
        found.setdefault(row["_stream"], []).append(row["n"])
    return found


def expected(first: int = 0, entries: int = 5) -> dict[object, list[object]]:
    return {f"in:{number:02}": list(range(first, first + entries + number % 3)) for number in range(COUNT)}


def test_a_batch_read_shares_tasks(site: Site) -> None:
    """A batch read of many streams has few tasks with all rows."""
    fill(site)
    parsed = options.read_options({"url": site.url, "streamPattern": "in:*", "maxPartitions": "4"})
    reader = BatchReader(parsed, ReadSchema.of(schema_of(SCHEMA), parsed), address.parse(site.url))
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions()]
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert len(parts) == 4
    assert by_stream(rows) == expected()


@pytest.mark.parametrize("how", ["trimmed", "deleted", "another key"])
def test_a_loss_in_one_stream_of_a_task_is_noticed(site: Site, how: str) -> None:
    """A loss in one stream of a task is an error that names the stream; with failOnDataLoss=false the remaining entries
    are read.
    """
    fill(site)
    query = query_of(site, maxPartitions=2)
    query.plan()
    start, end = (json.loads(text) for text in query.log[-2:])
    parts = query.reader.partitions(start, end)
    if how == "trimmed":
        site.client.xtrim("in:07", maxlen=2, approximate=False)
    else:
        site.client.delete("in:07")
    if how == "another key":
        site.client.set("in:07", "x")
    condition = {"trimmed": "ENTRIES_LOST", "deleted": "STREAM_LOST"}.get(how, "NOT_A_STREAM")
    with pytest.raises(StreamError, match=rf"{condition}.*in:07"):
        deque(batch for part in parts for batch in query.reader.read(part))
    if how == "trimmed":
        query.restart(failOnDataLoss="false")
        found = by_stream(query.run())
        assert found == expected() | {"in:07": [4, 5]}


@pytest.mark.parametrize("extra", [{}, {"group": "g", "consume": "shared"}], ids=["ranges", "shared"])
def test_an_error_says_in_how_many_streams_entries_are_lost(site: Site, extra: dict[str, str]) -> None:
    """The error for losses in many streams names some of them and their number."""
    fill(site)
    query = query_of(site, maxPartitions=1, **extra)
    query.trigger()
    fill(site, 100, 3)
    if not extra:
        query.plan()
        (part,) = query.reader.partitions(*(json.loads(text) for text in query.log[-2:]))
    for number in range(COUNT):
        if number != 7:
            site.client.xtrim(f"in:{number:02}", maxlen=1, approximate=False)
    number = f"'in:00'.* in {COUNT - 2} more streams: 'in:01', 'in:02', 'in:03', \\.\\.\\.$"
    if not extra:
        with pytest.raises(StreamError, match=rf"ENTRIES_LOST.*{number}"):
            deque(query.reader.read(part))
        query.restart()
        with pytest.raises(StreamError, match=rf"ENTRIES_LOST.*{number}"):
            query.run()
    with pytest.raises(StreamError, match=rf"ENTRIES_LOST.*{number}"):
        query.reader.latestOffset(json.loads(query.log[1]), query.reader.getDefaultReadLimit())


def test_a_shared_task_reads_its_streams_in_few_transactions(site: Site) -> None:
    """A task reads its streams in few transactions, and every attempt has the same rows, even if a group is missing."""
    fill(site)
    query = query_of(site, group="g", consume="shared", maxPartitions=2, failOnDataLoss="false")
    query.plan()
    start, end = (json.loads(text) for text in query.log[-2:])
    first, second = query.reader.partitions(start, end)
    alone = replace(first, tasks=first.tasks[3:4])
    site.client.xgroup_destroy("in:38", "g")
    attempts = []
    transactions = [0]
    for parts in ([alone], [first, second], [second, first]):
        attempts.append([row for part in parts for batch in query.reader.read(part) for row in batch.to_pylist()])
        transactions.append(site.client.info("commandstats")["cmdstat_exec"]["calls"])
    assert by_stream(attempts[0]) == {"in:03": expected()["in:03"]}
    whole = {stream: rows for stream, rows in expected().items() if stream != "in:38"}
    assert by_stream(attempts[1]) == by_stream(attempts[2]) == whole
    assert transactions[2] - transactions[1] <= 12
    assert site.client.xpending("in:03", "g")["pending"] == 5


def test_the_size_of_a_task_does_not_grow_with_the_streams() -> None:
    """The serialized size of a task does not grow with the number of the query's streams."""
    given = {"url": "redis://127.0.0.1", "streams": ",".join(f"sensors:{number:05}" for number in range(10_000))}
    source = PystreamsDataSource(given)
    for reader in (source.streamReader(schema_of(SCHEMA)), source.reader(schema_of(SCHEMA))):
        assert len(pickle.dumps(reader)) < 1000
    needs = options.for_read(options.read_options(given), address.parse(given["url"]))
    assert needs.startswith("~sensors:0* +")


def _in_others_groups(site: Site, streams: int) -> None:
    """Let another query create the group and leave two entries pending in each stream."""
    for number in range(streams):
        name = f"in:{number:02}"
        site.client.xgroup_create(name, "g", "0")
        site.client.xgroup_createconsumer(name, "g", "x-query")
        site.client.xreadgroup("g", "x-0", {name: ">"}, count=2)


def _claimable(site: Site, streams: int) -> None:
    """Leave an entry of each stream pending for another consumer of the group."""
    for number in range(streams):
        name = f"in:{number:02}"
        site.client.xgroup_create(name, "g", "0")
        site.client.xreadgroup("g", "other", {name: ">"}, count=1)


def _behind(site: Site, streams: int) -> None:
    for number in range(streams):
        site.client.xgroup_setid(f"in:{number:02}", "g", "1-1")


def _without_group(site: Site, streams: int) -> None:
    for number in range(streams):
        site.client.xgroup_destroy(f"in:{number:02}", "g")


def _trimmed(site: Site, streams: int) -> None:
    for number in range(streams):
        site.client.xtrim(f"in:{number:02}", maxlen=1, approximate=False)


def _recreated(site: Site, streams: int) -> None:
    for number in range(streams):
        site.client.delete(f"in:{number:02}")
        site.add(f"in:{number:02}", 3)


def _more_streams(site: Site, streams: int) -> None:
    for number in range(streams):
        site.add(f"in:new{number:02}", 3)


@pytest.mark.parametrize(
    ("before", "meanwhile", "extra"),
    [
        (_in_others_groups, None, {"group": "g", "consumer": "x"}),
        (_in_others_groups, None, {"group": "g", "consumer": "x", "startingOffsets": "group"}),
        (_claimable, None, {"group": "g", "consume": "shared", "trimOnCommit": "true", "claimIdleMs": "1"}),
        (None, None, {"group": "g", "ack": "cursor", "trimOnCommit": "true"}),
        (None, None, {"group": "g", "startingOffsets": "2-1"}),
        (None, None, {"minPartitions": "150"}),
        (None, None, {"group": "g", "maxEntriesPerPartition": "2"}),
        (None, None, {"maxEntriesPerTrigger": "100"}),
        (None, None, {"minEntriesPerTrigger": "1000", "startingOffsets": "2-1"}),
        (None, _without_group, {"group": "g"}),
        (None, _behind, {"group": "g"}),
        (None, _trimmed, {"group": "g"}),
        (None, _recreated, {"group": "g"}),
        (None, _more_streams, {"group": "g"}),
        (None, _trimmed, {"group": "g", "consume": "shared"}),
        (None, _without_group, {"group": "g", "consume": "shared"}),
        (None, _more_streams, {"group": "g", "consume": "shared"}),
        (None, None, {"group": "g", "consume": "shared", "startingOffsets": "2-1"}),
    ],
)
def test_round_trips_of_planning_do_not_grow_with_the_streams(
    site: Site,
    before: Callable[[Site, int], None] | None,
    meanwhile: Callable[[Site, int], None] | None,
    extra: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The round trips of planning and commits do not grow with the number of streams, whatever their state."""
    sent: list[int] = []
    send = Link.send

    def count(link: Link, commands: object) -> None:
        if len(link._due) < 2:  # a request sent while other replies are due needs no separate round trip
            sent.append(1)
        send(link, commands)

    monkeypatch.setattr(Link, "send", count)

    def round_trips(streams: int) -> int:
        site.client.flushall()
        for number in range(streams):
            site.add(f"in:{number:02}", 5)
        if before is not None:
            before(site, streams)
        query = query_of(site, **{"failOnDataLoss": "false", "streamPatternRefreshMs": "0", **extra})
        start = len(sent)
        query.plan()
        query.reader.partitions(*(json.loads(text) for text in query.log[-2:]))
        for number in range(streams):
            site.add(f"in:{number:02}", 2, 100)
        if meanwhile is not None:
            meanwhile(site, streams)
        query.plan()
        query.reader.partitions(*(json.loads(text) for text in query.log[-2:]))
        query.reader.commit(json.loads(query.log[-1]))
        spent = len(sent) - start
        query.reader.stop()
        return spent

    few = round_trips(9)
    assert round_trips(18) <= few + 2


@pytest.mark.parametrize(
    "extra",
    [
        {"claimIdleMs": "1"},
        {"claimIdleMs": "1", "maxDeliveries": "1", "deadLetterStream": "dead"},
    ],
    ids=["claims", "dead letters"],
)
def test_a_shared_task_claims_in_all_its_streams_together(
    site: Site, extra: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task claims pending entries of many streams together with new ones, exactly and in few requests."""
    sent: list[int] = []
    send = Link.send
    monkeypatch.setattr(Link, "send", lambda link, commands: sent.append(1) or send(link, commands))
    fill(site)
    for number in range(COUNT):
        name = f"in:{number:02}"
        site.client.xgroup_create(name, "g", "0")
        site.client.xreadgroup("g", "lost", {name: ">"}, count=2)
        site.client.xreadgroup("g", "gone", {name: ">"}, count=1)
    query = query_of(site, group="g", consume="shared", maxPartitions=2, **extra)
    wait_for(
        lambda: site.client.xpending_range("in:39", "g", "-", "+", 9)[-1]["time_since_delivered"] > 1, "an idle entry"
    )
    assert query.plan()
    parts = query.reader.partitions(*(json.loads(text) for text in query.log[-2:]))
    before = len(sent)
    rows = [row for part in parts for batch in query.reader.read(part) for row in batch.to_pylist()]
    spent = len(sent) - before
    dead = [int(fields[b"n"]) for _, fields in site.client.xrange("dead")]
    if "maxDeliveries" in extra:
        assert sorted(dead) == sorted([0, 1, 2] * COUNT)  # delivered to another consumer first, then claimed
        rows += [
            {"_stream": fields[b"_original_stream"].decode(), "n": int(fields[b"n"])}
            for _, fields in site.client.xrange("dead")
        ]
    else:
        assert not dead
        assert spent < COUNT
    found = by_stream(rows)
    assert {stream: sorted(numbers) for stream, numbers in found.items()} == expected()
    again = [row for part in parts for batch in query.reader.read(part) for row in batch.to_pylist()]
    assert len(again) + len(dead) == len(rows)


def test_repeated_reads_of_a_shared_task_have_their_rows_in_the_same_order(site: Site) -> None:
    """Rows are in the order of streams and IDs, also if a stream has pending entries of two consumers."""
    site.add("in:00", 4)
    site.client.xgroup_create("in:00", "g", "0")
    for number in range(4):
        site.client.xreadgroup("g", f"c-0-{number % 2}", {"in:00": ">"}, count=1)
    site.add("in:00", 2, 4)
    site.add("in:01", 3)
    query = query_of(site, group="g", consume="shared", consumer="c", maxPartitions=1)
    rows = query.trigger() or []
    assert [(row["_stream"], row["n"]) for row in rows] == [
        *(("in:00", number) for number in range(6)),
        *(("in:01", number) for number in range(3)),
    ]
    assert query.run() == rows
    query.restart()
    assert query.run() == rows


@pytest.mark.parametrize("extra", [{}, {"claimIdleMs": "60000"}], ids=["plain", "claims"])
def test_a_shared_task_of_large_entries_reads_few_streams_at_a_time(
    site: Site, extra: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a task with large entries does not grow with the number of its streams."""
    sizes: list[int] = []
    receive = Link.receive

    def measured(link: Link, token: bytes) -> tuple[bytearray, int]:
        buffer, stop = receive(link, token)
        sizes.append(stop)
        return buffer, stop

    for number in range(12):
        site.add(f"in:{number:02}", 1, payload="x" * 400_000)
        if extra:
            site.client.xgroup_create(f"in:{number:02}", "g", "0")
            site.client.xreadgroup("g", "other", {f"in:{number:02}": ">"})
            site.add(f"in:{number:02}", 1, 1, payload="x" * 400_000)
    query = query_of(site, group="g", consume="shared", maxPartitions=1, **extra)
    query.plan()
    monkeypatch.setattr(Link, "receive", measured)
    assert len(query.run()) == 12
    assert max(sizes) < 9 * 400_000  # the first reply of any task has at most eight entries
    assert sorted(sizes)[-2] < 3 * 400_000
