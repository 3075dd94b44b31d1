"""Ownership of groups: a group belongs to one query, and a takeover has to be requested."""

from __future__ import annotations

import contextlib
import json

import pytest

from spark_streams.config.read import ReadOptions
from spark_streams.errors import StreamError
from spark_streams.read.query.lease import Lease
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.streams.stream_server import open_server
from tests.spark_streams.driver import Site, numbers
from tests.suite.waiting import wait_for


@pytest.mark.parametrize("start", ["earliest", "latest", "group", "3-1"])
def test_a_group_with_other_consumers_is_refused(site: Site, start: str) -> None:
    """A group with another program's consumers is rejected and left unchanged, unless groupTakeover is set."""
    site.add("s", 10)
    site.client.xgroup_create("s", "g", "0")
    site.client.xreadgroup("g", "python", {"s": ">"}, count=5)
    before = site.group()
    query = site.query(stream="s", group="g", startingOffsets=start)
    with pytest.raises(StreamError, match=r"GROUP_IN_USE.*\(python\).*groupTakeover"):
        query.trigger()
    assert site.group() == before
    query.restart(groupTakeover="true")
    first = {"earliest": 0, "3-1": 2}.get(start, 5)
    assert numbers(query.drain()) == list(range(first, 10))


def test_a_group_with_a_position_is_not_rewound(site: Site) -> None:
    """A group that no query created is rejected if it has a position, unless startingOffsets is `group`."""
    site.add("s", 10)
    site.client.xgroup_create("s", "g", "5-1")
    site.client.xgroup_create("s", "free", "0")
    with pytest.raises(StreamError, match=r"GROUP_IN_USE.*last-delivered ID is 5-1"):
        site.query(stream="s", group="g").trigger()
    assert site.group()["last-delivered-id"] == b"5-1"
    assert numbers(site.query(stream="s", group="free").drain()) == list(range(10))
    assert numbers(site.query(stream="s", group="g", startingOffsets="group").drain()) == list(range(5, 10))


@pytest.mark.parametrize("ack", ["commit", "cursor"])
def test_a_query_may_start_again_in_its_group(site: Site, ack: str) -> None:
    """A query's group can be read with a new checkpoint after the query has stopped."""
    site.add("s", 10)
    for _ in range(3):
        query = site.query(stream="s", group="g", ack=ack)
        assert numbers(query.drain()) == list(range(10))
        query.reader.stop()
    assert list(site.client.scan_iter("pystreams:*")) == []


def test_a_checkpoint_that_changes_to_a_used_group_is_refused(site: Site) -> None:
    """A restart with another group is rejected if another program uses that group."""
    site.add("s", 10)
    query = site.query(stream="s", group="g", maxEntriesPerTrigger=5)
    query.trigger()
    site.client.xgroup_create("s", "h", "0")
    site.client.xreadgroup("h", "python", {"s": ">"}, count=5)
    query.restart(group="h")
    with pytest.raises(StreamError, match=r"GROUP_IN_USE.*'h'"):
        query.trigger()


@pytest.mark.parametrize("ack", ["commit", "cursor"])
def test_a_second_query_with_the_same_group_is_refused(site: Site, ack: str) -> None:
    """A second query with the same group fails before it reads or moves anything; the first query continues, also after
    a restart.
    """
    site.add("s", 20)
    first = site.query(stream="s", group="g", ack=ack, maxEntriesPerTrigger=5)
    first.trigger()
    first.trigger()
    before = site.group()
    second = site.query(stream="s", group="g", ack=ack)
    with pytest.raises(StreamError, match=r"GROUP_TAKEN.*groupTakeover"):
        second.trigger()
    assert site.group() == before
    first.restart()
    assert numbers(first.run()) == list(range(5, 10))
    assert numbers(first.drain()) == list(range(10, 20))


def test_a_group_is_taken_by_force_or_when_its_query_has_stopped(site: Site) -> None:
    """groupTakeover takes the group from a running query; a stopped query releases its group."""
    site.add("s", 10)
    first = site.query(stream="s", group="g")
    first.drain()
    second = site.query(stream="s", group="g", groupTakeover="true")
    assert len(second.drain()) == 10
    site.add("s", 1, first=10)
    first.restart()
    with pytest.raises(StreamError, match="GROUP_TAKEN"):
        first.drain()
    assert numbers(second.drain()) == [10]
    second.reader.stop()
    assert numbers(first.drain()) == [10]


def test_a_query_that_died_before_its_first_batch_starts_again(site: Site) -> None:
    """A query that dies before it has planned a batch holds no lease, so it can start again."""
    query = site.query(stream="s", group="g")
    assert query.trigger() is None
    query = site.query(stream="s", group="g")
    site.add("s", 5)
    assert query.plan()
    query.log[0] = "{}"
    query.restart()
    query.log[0] = json.dumps(query.reader.initialOffset())
    assert numbers(query.run()) == list(range(5))
    assert query.trigger() is None


def key_of_lease(site: Site) -> bytes:
    """Return the key of the only lease."""
    (key,) = site.client.scan_iter("pystreams:*:lease:*")
    return bytes(key)


def test_a_group_is_kept_while_its_query_lives_and_not_much_longer(site: Site) -> None:
    """A running query renews its lease between triggers; the lease of a killed query expires."""
    site.add("s", 10)
    options = {"stream": "s", "group": "g", "groupLeaseMs": 1000}
    first = site.query(**options)
    first.drain()
    lease = key_of_lease(site)
    wait_for(lambda: site.client.pttl(lease) < 800, "the lease to grow older")
    wait_for(lambda: site.client.pttl(lease) > 900, "the lease to be renewed")
    second = site.query(**options)
    with pytest.raises(StreamError, match="GROUP_TAKEN"):
        second.trigger()
    del first  # the process is killed
    wait_for(lambda: not site.client.exists(lease), "the lease to expire")
    second = site.query(**options)
    assert numbers(second.drain()) == list(range(10))
    second.reader.stop()


def test_a_copied_checkpoint_does_not_run_twice(site: Site) -> None:
    """If a copy of the checkpoint takes the lease, the earlier run fails and moves nothing."""
    site.add("s", 10)
    original = site.query(stream="s", group="g", maxEntriesPerTrigger=5)
    original.trigger()
    copy = site.query(stream="s", group="g", maxEntriesPerTrigger=5)
    copy.log = list(original.log)
    assert numbers(copy.trigger() or []) == list(range(5, 10))
    before = site.group()
    original.reader.source.lease.beat()  # the lease's thread calls this every ten seconds
    with pytest.raises(StreamError, match="RUN_REPLACED"):
        original.trigger()
    with pytest.raises(StreamError, match="RUN_REPLACED"):
        original.reader.commit(json.loads(original.log[-1]))
    assert site.group() == before
    assert copy.trigger() is None


def lease_of(site: Site, now: list[float]) -> Lease:
    options = ReadOptions(stream="s", group="g", lease=30_000)
    return Lease(options, Address(site.url), lambda: now[0])


def test_a_lease_is_renewed_and_noticed_when_it_is_lost(site: Site, connection: Connection) -> None:
    """An evicted lease is taken again; a query whose lease was taken by another query fails."""
    now = [0.0]
    server = open_server(connection)
    lease = lease_of(site, now)
    lease.hold(server, "one", ["s"])
    key = key_of_lease(site)
    site.client.pexpire(key, 5000)
    now[0] = 14.0
    lease.renew(server)
    assert site.client.pttl(key) <= 5000
    now[0] = 15.5
    lease.renew(server)
    assert site.client.pttl(key) > 25_000
    site.client.flushall()
    lease.beat()
    assert site.client.exists(key)
    lease.renew(server)
    site.client.delete(key)
    other = lease_of(site, now)
    other.hold(server, "two", ["s"])
    lease.beat()
    for _ in range(2):
        with pytest.raises(StreamError, match=r"GROUP_TAKEN.*two"):
            lease.renew(server)
    lease.give_up()
    assert site.client.exists(key)
    other.give_up()
    assert not site.client.exists(key)


@pytest.mark.parametrize(
    ("refuse", "accept"),
    [
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("ACL SETUSER default -set -pexpire", "ACL SETUSER default +@all"),
    ],
    ids=["replica", "rights"],
)
def test_a_lease_is_requested_again_after_a_rejection(
    site: Site, refuse: str, accept: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A query that continues without its lease requests it again, and fails if another query holds it by then."""
    now = [0.0]
    lease = lease_of(site, now)
    with contextlib.closing(Connection(Address(site.url, retry_ms=0))) as connection:
        server = open_server(connection)
        lease.hold(server, "one", ["s"])
        try:
            site.client.execute_command(*refuse.split())
            for now[0] in (16.0, 17.0, 32.0):
                lease.renew(server)
        finally:
            site.client.execute_command(*accept.split())
        assert caplog.text.count("without a lease") == 1
        site.client.delete(key_of_lease(site))  # it expires
        other = lease_of(site, now)
        other.hold(server, "two", ["s"])
        now[0] = 48.0
        with pytest.raises(StreamError, match=r"GROUP_TAKEN.*two"):
            lease.renew(server)
        other.give_up()
        lease.give_up()


def test_a_full_server_keeps_a_lease(site: Site, connection: Connection) -> None:
    """A server at maxmemory still extends existing leases, which keep other queries out."""
    now = [0.0]
    server = open_server(connection)
    lease, other = lease_of(site, now), lease_of(site, now)
    lease.hold(server, "one", ["s"])
    key = key_of_lease(site)
    site.client.pexpire(key, 5000)
    try:
        site.client.config_set("maxmemory", 1)
        with pytest.raises(StreamError, match=r"GROUP_TAKEN.*one"):
            other.hold(server, "two", ["s"])
        now[0] = 16.0
        lease.renew(server)
    finally:
        site.client.config_set("maxmemory", 0)
    assert site.client.pttl(key) > 25_000
    lease.give_up()


def test_of_two_queries_that_start_together_one_continues(site: Site, connection: Connection) -> None:
    """A query that gets the leases of only some streams releases them for the query that holds the others."""
    server = open_server(connection)
    first, second = lease_of(site, [0.0]), lease_of(site, [0.0])
    first.hold(server, "one", ["b"])
    with pytest.raises(StreamError, match=r"GROUP_TAKEN.*'b'"):
        second.hold(server, "other", ["a", "b"])
    first.hold(server, "one", ["a", "b"])
    first.give_up()


def test_a_user_who_may_not_write_the_lease_reads_without_it(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A user who may not write the lease's key reads all entries without a lease, with one warning."""
    site.add("s", 10)
    site.client.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "+@all", "~s")
    try:
        url = site.url.replace("redis://", "redis://limited:pw@")
        query = site.query(stream="s", group="g")
        query.restart(url=url)
        assert numbers(query.drain()) == list(range(10))
        assert caplog.text.count("without a lease") == 1
    finally:
        site.client.execute_command("ACL", "DELUSER", "limited")


@pytest.mark.parametrize("consume", ["range", "shared"])
def test_keys_of_deleted_streams_do_not_accumulate(site: Site, consume: str) -> None:
    """A query that reads many streams, each for a short time, leaves neither leases nor ledgers of deleted streams, and
    the ledgers of other streams expire.
    """
    site.add("in:stays", 1)
    query = site.query(streamPattern="in:*", streamPatternRefreshMs=0, group="g", consume=consume, groupLeaseMs="5m")
    for number in range(5):
        site.add(f"in:{number}", 2)
        assert query.drain()
        site.client.delete(f"in:{number}")
    site.add("in:stays", 1, first=1)
    query.drain()
    keys = sorted(site.client.scan_iter("pystreams:*"))
    assert all(b"in:stays" in key for key in keys)
    assert len(keys) == (2 if consume == "shared" else 1)
    assert all(site.client.pttl(key) > 0 for key in keys)
