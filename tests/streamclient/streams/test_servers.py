"""`StreamServer`: requests to a server, on a real Redis and on the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
import redis

from spark_streams.errors import StreamError
from streamclient.connection import Connection
from streamclient.link import Link
from streamclient.streams.delivery import Delivery
from streamclient.streams.pages import pages
from streamclient.streams.states import Range, StreamState
from streamclient.streams.stream_server import extended_server, open_server, plain_server
from streamwire.stream_id import LAST, ZERO, StreamId
from tests.spark_streams.driver import add_entries as add


def test_a_key_of_another_kind_is_an_error(client: redis.Redis, connection: Connection) -> None:
    """Requests for pages or states of a key that is not a stream raise an error."""
    client.set("text", "x")
    with pytest.raises(StreamError, match="NOT_A_STREAM"):
        list(pages(connection, "text", ZERO, LAST, 8))
    with pytest.raises(StreamError, match="NOT_A_STREAM"):
        plain_server(connection).states.of(["text"], None)


def test_states(client: redis.Redis, connection: Connection) -> None:
    """A stream's state has its first and last ID, and the group's position and lag; the state of a missing stream is
    None.
    """
    add(client, "s", 10)
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"}, count=4)
    states = plain_server(connection).states.of(["s", "t"], "g")
    state = states["s"]
    assert states["t"] is None
    assert state is not None
    assert state.group is not None
    assert (state.last_id, state.length, state.first_id) == (StreamId(10, 0), 10, StreamId(1, 0))
    assert (state.group.last_delivered_id, state.group.lag, state.group.pending) == (StreamId(4, 0), 6, 4)
    assert state.backlog(StreamId(4, 0)) == (6, True)
    assert state.backlog(StreamId(10, 0)) == (0, True)
    assert state.backlog(ZERO) == (10, True)
    assert state.backlog(StreamId(5, 0))[1] is False


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_large_entries_stay_at_the_engine(client: redis.Redis, connection: Connection) -> None:
    """The engine finds states, counts and cuts of a stream without sending its entries, and gets no scripts."""
    add(client, "s", 30, size=100_000)
    client.xgroup_create("s", "g", "0")
    server, known = open_server(connection), connection.capabilities
    assert (known.may_run_scripts(), known.stops_at_errors()) == (False, True)
    client.config_resetstat()
    assert server.states.of(["s", "none"], "g")["s"] == plain_server(connection).states.of(["s"], "g")["s"]
    before = client.info("stats")["total_net_output_bytes"]
    assert server.states.of(["s", "none"], "g")["none"] is None
    assert server.entries.counts([("s", StreamId(4, 0), StreamId(20, 0))]) == [16]
    (cuts,) = server.entries.splits([(Range("s", ZERO, StreamId(30, 0), 0), 3)], None)
    assert cuts == [(StreamId(10, 0), 10), (StreamId(20, 0), 10), (StreamId(30, 0), 10)]
    assert client.info("stats")["total_net_output_bytes"] - before < 20_000
    assert client.info("errorstats") == {}


def test_changes_of_streams_are_noticed(client: redis.Redis, connection: Connection) -> None:
    """Added and deleted entries and new and missing streams are noticed, and a wait ends with the first entry."""
    add(client, "s", 5)
    server = open_server(connection)

    def seen() -> dict[str, StreamState | None]:
        return server.states.of(["s", "t"], None)

    assert server.streams.changed(seen(), None, 0) == set()
    for stream, change in (
        ("s", lambda: client.xadd("s", {"n": 6})),
        ("s", lambda: client.xdel("s", "2-0")),
        ("t", lambda: client.xadd("t", {"n": 1}, id="1-0")),
        ("s", lambda: client.xtrim("s", maxlen=1, approximate=False)),
        ("s", lambda: client.delete("s")),
    ):
        states = seen()
        assert server.streams.changed(states, None, 0) == set()
        change()
        assert server.streams.changed(states, None, 0) == {stream}
    states = seen()
    adding = threading.Timer(0.05, lambda: client.xadd("s", {"n": 1}))
    adding.start()
    assert server.streams.changed(states, None, 60_000) == {"s"}
    adding.join()
    client.set("u", "x")
    assert server.streams.changed({"u": None}, None, 0) is None


def test_the_nth_entry(client: redis.Redis, connection: Connection) -> None:
    """The result is the ID of the n-th entry after an ID, or the last ID and the number of entries
    if there are fewer.
    """
    add(client, "s", 30)
    server = plain_server(connection)
    assert server.entries.nths([("s", ZERO, 7, LAST)]) == [(StreamId(7, 0), 7)]
    assert server.entries.nths([("s", StreamId(7, 0), 3, StreamId(30, 0))]) == [(StreamId(10, 0), 3)]
    assert server.entries.nths([("s", StreamId(25, 0), 9, StreamId(28, 0))]) == [(StreamId(28, 0), 3)]
    assert server.entries.nths([("s", StreamId(30, 0), 9, LAST)]) == [(LAST, 0)]
    several = [("s", StreamId(n, 0), count, StreamId(28, 0)) for n in (0, 7, 25, 28) for count in (1, 3, 2000)]
    several.append(("missing", ZERO, 3, LAST))
    for kind in (server, open_server(connection)):
        assert kind.entries.nths(several) == [kind.entries.nths([request])[0] for request in several]


@pytest.mark.parametrize("many", [20_000, 5])
def test_acknowledging_up_to_an_id(
    client: redis.Redis, connection: Connection, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only entries of this query's consumers up to the ID are acknowledged, regardless of their number."""
    monkeypatch.setattr(Delivery, "limits", replace(Delivery.limits, deleted=many, acknowledged=4))
    add(client, "s", 30)
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "job-0", {"s": ">"}, count=10)
    client.xreadgroup("g", "other", {"s": ">"}, count=3)
    client.xreadgroup("g", "job-1", {"s": ">"}, count=7)
    server = plain_server(connection)
    server.delivery.acknowledge({"s": StreamId(16, 0)}, "g", "job")
    assert client.xpending("s", "g")["consumers"] == [
        {"name": b"job-1", "pending": 4},
        {"name": b"other", "pending": 3},
    ]
    server.delivery.acknowledge({"s": StreamId(20, 0)}, "g", "job")
    assert client.xpending("s", "g")["consumers"] == [{"name": b"other", "pending": 3}]
    assert server.groups.first_pending_ids(["s"], "g", "job") == {}
    client.xreadgroup("g", "job-x", {"s": ">"}, count=2)
    assert server.groups.first_pending_ids(["s"], "g", "job") == {}
    client.xreadgroup("g", "job-12", {"s": ">"}, count=2)
    client.xreadgroup("g", "job-2", {"s": ">"}, count=2)
    assert server.groups.first_pending_ids(["s"], "g", "job") == {"s": StreamId(23, 0)}
    server.delivery.acknowledge({"s": LAST}, "nobody", "job")
    server.delivery.acknowledge({"nothing": LAST}, "g", "job")


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_both_sets_of_commands_give_the_same_results(client: redis.Redis, connection: Connection) -> None:
    """On the engine, Redis's commands and the engine's own give the same counts, IDs, cuts and deliveries."""
    add(client, "s", 300)
    client.xdel("s", "7-0", "150-0")
    answers = []
    for kind in (plain_server, extended_server):
        server = kind(connection)
        group = kind.__name__
        ids = [StreamId(n, 0) for n in (0, 6, 7, 149, 299, 300)]
        counts = server.entries.counts([("s", after, upto) for after in ids for upto in ids if after <= upto])
        asked = [("s", after, count, StreamId(250, 0)) for after in ids[:-2] for count in (1, 90, 1000)]
        found = [server.entries.nths([request])[0] for request in asked]
        (cuts,) = server.entries.splits([(Range("s", ZERO, LAST, 0), 3)], 100)
        server.groups.create({"s": (ZERO, None)}, group)
        server.delivery.deliver([(Range("s", ZERO, StreamId(30, 0), 0, 29), ZERO)], group, "job")
        pending = server.groups.consumers(["s"], group)
        server.delivery.acknowledge({"s": StreamId(25, 0)}, group, "job")
        answers.append(
            (
                counts,
                found,
                cuts[-1][0],
                sum(count or 0 for _, count in cuts),
                pending,
                server.groups.first_pending_ids(["s"], group, "job"),
            )
        )
    assert answers[0] == answers[1]


@pytest.mark.parametrize("count", [None, 50])
@pytest.mark.parametrize(("position", "delivered"), [(0, 50), (20, 30), (50, 0)])
@pytest.mark.parametrize("skips", [True, False])
def test_delivery_fills_the_pending_list(
    client: redis.Redis,
    connection: Connection,
    position: int,
    delivered: int,
    count: int | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    skips: bool,
) -> None:
    """Entries of a range that were not yet delivered become pending, whether or not they were counted and whether or
    not replies can be suppressed; later entries do not.
    """
    add(client, "s", 60)
    client.xgroup_create("s", "g", f"{position}-0")
    monkeypatch.setattr(Link, "can_skip_replies", lambda _: skips)
    part = Range("s", ZERO, StreamId(50, 0), 0, count)
    open_server(connection).delivery.deliver([(part, StreamId(position, 0))], "g", "c")
    (group,) = client.xinfo_groups("s")
    assert (group["pending"], group["last-delivered-id"]) == (delivered, b"50-0")


@pytest.mark.parametrize(
    "change", ["none", "xadd", "xdel", "xtrim", "xreadgroup", "xgroup setid", "xgroup destroy", "connection lost"]
)
def test_a_delivery_finds_the_end_of_a_batch(
    client: redis.Redis, connection: Connection, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end and the cuts of a batch are found without reading its entries, unless another client changes the stream
    or the group meanwhile; then the entries are counted.
    """
    monkeypatch.setattr(Delivery, "limits", replace(Delivery.limits, page=8, found=10))
    add(client, "s", 60)
    client.xgroup_create("s", "g", "0", entries_read=0)
    server = plain_server(connection)
    states = server.states.of(["s"], "g")

    def hold(streams: Iterable[str]) -> None:
        assert [*streams] == ["s"]
        changes: dict[str, Callable[[], object]] = {
            "xadd": lambda: client.xadd("s", {"n": 61}, id="61-0"),
            "xdel": lambda: client.xdel("s", "5-0", "50-0"),
            "xtrim": lambda: client.xtrim("s", maxlen=55, approximate=False),
            "xreadgroup": lambda: client.xreadgroup("g", "other", {"s": ">"}, count=7),
            "xgroup setid": lambda: client.xgroup_setid("s", "g", "9-0"),
            "xgroup destroy": lambda: client.xgroup_destroy("s", "g"),
            "connection lost": lambda: client.client_kill_filter(skipme=True),
        }
        changes.get(change, lambda: None)()

    found = server.delivery.entries(states, "g", "job", hold)
    asked = [("s", ZERO, 40, StreamId(60, 0))]
    client.config_resetstat()
    ((end, count),) = found.ends(asked)
    (cuts,) = found.splits([(Range("s", ZERO, end, 0), 3)], None)
    read = client.info("commandstats").get("cmdstat_xrange", {"calls": 0})["calls"]
    assert [(end, count)] == server.entries.nths(asked)
    spans = [("s", after, upto) for (after, _), (upto, _) in pairwise([(ZERO, 0), *cuts])]
    assert (cuts[-1][0], [size for _, size in cuts]) == (end, server.entries.counts(spans))
    assert max(size or 0 for _, size in cuts) <= 14
    group = client.xinfo_groups("s")
    assert str(found.reached["s"]).encode() == (group[0]["last-delivered-id"] if group else b"0-0")
    assert read == 0 or change not in ("none", "xadd")


def test_a_delivery_that_is_refused_in_one_stream_is_made_in_the_others(
    client: redis.Redis, connection: Connection
) -> None:
    """Ranges of many streams are delivered in one request; a key of another type among them affects no other stream."""
    server = plain_server(connection)
    for stream in ("a", "b", "c"):
        add(client, stream, 10)
        server.groups.create({stream: (ZERO, None)}, "g")
    client.delete("b")
    client.set("b", "x")
    parts = [Range(stream, ZERO, StreamId(7, 0), 0, 7) for stream in ("a", "b", "c")]
    with pytest.raises(StreamError, match=r"NOT_A_STREAM.*\bb\b"):
        server.delivery.deliver([(part, ZERO) for part in parts], "g", "job")
    assert server.groups.consumers(["a", "c"], "g") == {"a": [(b"job-0", 7)], "c": [(b"job-0", 7)]}
