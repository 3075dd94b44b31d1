"""Reads from replicas: the rows are the same, and a replica is read only if it has all of them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest
import redis

from pystreams.testing.proxy import FaultProxy as Proxy
from pystreams.testing.proxy import proxy
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config import options
from spark_streams.errors import OptionsError, ServerError
from spark_streams.read.batch import BatchReader
from spark_streams.read.ranges import task
from streamclient import pool, replicas
from streamclient.config import address
from streamclient.config.address import Address, Endpoint
from streamclient.routing import Topology
from tests import servers
from tests.spark_streams.driver import Query, Site, schema_of
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.redis
STREAMS = ("a", "b", "c")


@dataclass
class Pair:
    """A primary and its replica."""

    master: Site
    replica: Site

    def fill(self, first: int = 0, count: int = 50) -> None:
        for stream in STREAMS:
            self.master.add(stream, count, first)

    def caught_up(self) -> None:
        self.master.client.wait(1, 10_000)

    def follows(self) -> None:
        """Wait until the replica is connected to its primary."""
        wait_for(lambda: self.replica.client.info("replication").get("master_link_status") == "up", "the replica")

    def back(self) -> None:
        """Make the replica follow the primary again."""
        self.replica.client.replicaof(*self.master.url.removeprefix("redis://").split(":"))
        self.follows()
        self.caught_up()

    def query(self, **extra: str) -> Query:
        given = {"streams": ",".join(STREAMS), "startingOffsets": "earliest", "readFrom": "preferReplica", **extra}
        return Query(self.master.url, "_stream string, n int", **given)

    def ranges_read(self) -> tuple[int, int]:
        """Return the number of XRANGE calls of the primary and of the replica since the last call."""
        found = []
        for site in (self.master, self.replica):
            found.append(site.client.info("commandstats").get("cmdstat_xrange", {"calls": 0})["calls"])
            site.client.config_resetstat()
        return found[0], found[1]


@pytest.fixture(scope="module")
def servers_of_pair(redis_process: servers.Running) -> Iterator[tuple[servers.Running, servers.Running]]:
    del redis_process  # skips these tests if there is no redis-server
    with ExitStack() as stack:
        master = stack.enter_context(servers.redis("--repl-diskless-sync-delay", "0"))
        replica = stack.enter_context(servers.redis("--replicaof", f"{master.host} {master.port}"))
        yield master, replica


@pytest.fixture
def pair(servers_of_pair: tuple[servers.Running, servers.Running]) -> Iterator[Pair]:
    master, replica = servers_of_pair
    with (
        redis.Redis(port=master.port, protocol=2) as client,
        redis.Redis(port=replica.port, protocol=2) as other,
    ):
        made = Pair(Site(master.url, client, "redis"), Site(replica.url, other, "redis"))
        made.back()
        client.flushall()
        made.ranges_read()
        replicas.forget()
        yield made
        pool.close_all()


def per_stream(rows: list[dict[str, object]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for row in rows:
        found.setdefault(row["_stream"], []).append(row["n"])
    return found


@pytest.mark.parametrize("extra", [{}, {"group": "g"}, {"group": "g", "minPartitions": "6"}, {"maxPartitions": "1"}])
def test_ranges_are_read_from_a_replica(pair: Pair, extra: dict[str, str]) -> None:
    """The replica sends all rows, and the group is still kept on the primary."""
    pair.fill()
    pair.caught_up()
    query = pair.query(**extra)
    assert query.plan()
    pair.ranges_read()  # planning reads from the primary
    assert per_stream(query.run()) == {stream: list(range(50)) for stream in STREAMS}
    at_master, at_replica = pair.ranges_read()
    assert (at_master > 3, at_replica >= 1) == (False, True)
    if "group" in extra:
        assert pair.master.group("a")["pending"] == 50
        assert query.trigger() is None
        assert pair.master.group("a")["pending"] == 0


@pytest.fixture
def other(redis_process: servers.Running) -> Iterator[servers.Running]:
    """A server with other data, which starts a full synchronization without delay."""
    with redis.Redis(port=redis_process.port, protocol=2) as client:
        delay = client.config_get("repl-diskless-sync-delay")["repl-diskless-sync-delay"]
        client.config_set("repl-diskless-sync-delay", 0)
        yield redis_process
        client.config_set("repl-diskless-sync-delay", delay)


@pytest.fixture
def slow(pair: Pair) -> Iterator[Proxy]:
    """Proxy between the primary and its replica, which stops replication while `flows` is cleared."""
    with proxy(int(pair.master.url.rpartition(":")[2])) as between:
        pair.replica.client.replicaof("127.0.0.1", str(between.port))
        pair.follows()
        yield between


def test_a_replica_that_is_behind_is_not_read(pair: Pair, slow: Proxy) -> None:
    """While the replica lacks entries, the primary is read; after the replica has caught up, it is read again."""
    pair.fill()
    pair.caught_up()
    slow.flows.clear()
    pair.master.add("b", 10, 50)
    query = pair.query()
    lengths = {"a": 50, "b": 60, "c": 50}
    assert per_stream(query.trigger() or []) == {stream: list(range(length)) for stream, length in lengths.items()}
    assert pair.ranges_read()[1] == 0
    slow.flows.set()
    pair.caught_up()
    pair.ranges_read()
    assert len(query.run()) == 160
    assert pair.ranges_read()[1] > 0


def test_a_recreated_stream_is_not_read_from_a_replica_with_the_old_one(pair: Pair, slow: Proxy) -> None:
    """Neither rows of a recreated stream's predecessor nor deleted entries are read from a replica that is behind."""
    pair.fill()
    pair.caught_up()
    slow.flows.clear()
    pair.master.client.delete("a")
    for n in range(10):
        pair.master.client.xadd("a", {"n": 1000 + n}, id=f"{n + 1}-1")
    pair.master.client.xdel("b", "1-1")
    rows = per_stream(pair.query(minPartitions="6").trigger() or [])
    assert rows == {"a": list(range(1000, 1010)), "b": list(range(1, 50)), "c": list(range(50))}
    parsed = options.read_options({"url": pair.master.url, "streams": "a", "readFrom": "preferReplica"})
    schema = ReadSchema.of(schema_of("_stream string, n int"), parsed)
    batch = BatchReader(parsed, schema, address.parse(pair.master.url))
    found = [row for part in batch.partitions() for page in batch.read(part) for row in page.to_pylist()]
    assert [row["n"] for row in found] == list(range(1000, 1010))


def test_a_replica_that_is_promoted_or_follows_another_primary(pair: Pair, other: servers.Running) -> None:
    """A promoted replica is still read; a replica that follows another primary is not read, or no longer read."""
    pair.fill(count=200)
    pair.caught_up()
    query = pair.query(maxPartitions="1", pageSize="70")
    assert query.plan()
    pair.ranges_read()
    assert len(query.run()) == 600
    assert pair.ranges_read()[0] <= len(STREAMS)
    begin, end = (json.loads(each) for each in query.log[-2:])
    for where, from_master in ((("no", "one"), False), ((other.host, str(other.port)), True)):
        (task,) = query.reader.partitions(begin, end)
        pair.replica.client.replicaof(*where)
        if from_master:
            pair.follows()
        pair.ranges_read()
        assert len([row for page in query.reader.read(task) for row in page.to_pylist()]) == 600
        assert (pair.ranges_read()[0] > 0) == from_master
    pair.back()
    (task,) = query.reader.partitions(begin, end)
    pages = query.reader.read(task)
    rows = next(iter(pages)).to_pylist()
    pair.replica.client.replicaof(other.host, str(other.port))
    pair.follows()
    rows += [row for page in pages for row in page.to_pylist()]
    assert per_stream(rows) == {stream: list(range(200)) for stream in STREAMS}


def test_a_replica_that_loads_is_not_read(pair: Pair) -> None:
    """While the replica loads a full synchronization, the primary returns the rows."""
    pair.fill()
    pair.caught_up()
    query = pair.query(maxPartitions="1")
    assert query.plan()
    begin, end = (json.loads(each) for each in query.log[-2:])
    (task,) = query.reader.partitions(begin, end)
    for name, value in (("key-load-delay", "300000"), ("loading-process-events-interval-bytes", "1024")):
        pair.replica.client.config_set(name, value)
    try:
        pair.replica.client.replicaof("no", "one")
        pair.replica.client.xadd("x", {"of": "another history"})
        pair.replica.client.replicaof(pair.master.url.split("//")[1].split(":")[0], pair.master.url.rpartition(":")[2])
        wait_for(lambda: pair.replica.client.info("persistence")["loading"] == 1, "the replica to load")
        rows = [row for page in query.reader.read(task) for row in page.to_pylist()]
        assert per_stream(rows) == {stream: list(range(50)) for stream in STREAMS}
    finally:
        pair.replica.client.config_set("key-load-delay", "0")
    pair.follows()


def test_an_unreachable_replica_is_tried_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one task tries an unreachable replica; the other tasks read the primary immediately."""
    pair.fill()
    pair.caught_up()
    closed = Endpoint("127.0.0.1", servers.free_port())
    monkeypatch.setattr(Topology, "replicas", lambda topology, node: [closed])
    tried: list[Address] = []
    lend = task.borrow
    monkeypatch.setattr(task, "borrow", lambda address: tried.append(address) or lend(address))
    query = pair.query(minPartitions="6")
    assert len(query.trigger() or []) == 150
    assert len(query.partitions[0]) == 6
    assert sum(str(closed) in address.url for address in tried) == 1


def test_a_hanging_replica_delays_a_read_briefly(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a replica that accepts connections and does not answer, a read takes less than 30 seconds."""
    pair.fill()
    pair.caught_up()
    found = replicas.of_node
    monkeypatch.setattr(
        replicas, "of_node", lambda *asked: [replace(each, answer_seconds=0.2) for each in found(*asked)]
    )
    with proxy(int(pair.replica.url.rpartition(":")[2])) as between:
        endpoint = Endpoint("127.0.0.1", between.port)
        monkeypatch.setattr(Topology, "replicas", lambda topology, node: [endpoint])
        between.flows.clear()
        started = time.monotonic()
        rows = pair.query(minPartitions="6").trigger()
        assert rows is not None
        assert per_stream(rows) == {stream: list(range(50)) for stream in STREAMS}
        assert time.monotonic() - started < 30


def test_a_broken_replica_connection_loses_no_row(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the replica's connection breaks during a read, the primary sends the rest, and each row is read once."""
    pair.fill(count=200)
    pair.caught_up()
    with proxy(int(pair.replica.url.rpartition(":")[2])) as between:
        endpoint = Endpoint("127.0.0.1", between.port)
        monkeypatch.setattr(Topology, "replicas", lambda topology, node: [endpoint])
        query = pair.query(maxPartitions="1", pageSize="70")
        assert query.plan()
        for count in (200, 8000, 12_000):
            between.cut_after(count)
            replicas.forget()
            rows = query.run()
            assert per_stream(rows) == {stream: list(range(200)) for stream in STREAMS}
            pool.close_all()
        assert between.cuts == 3


def test_availability_zones(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With readFrom=az, only a replica in the task's zone is read: the zone of the option, or of the executor's
    environment.
    """
    pair.fill()
    pair.caught_up()
    monkeypatch.setattr(replicas, "zone_of", lambda connection: "eu-1b")
    for extra, environment, expected in (
        ({"availabilityZone": "eu-1b"}, "", True),
        ({}, "eu-1b", True),
        ({"availabilityZone": "eu-1a"}, "eu-1b", False),
        ({}, "", False),
        ({}, None, False),
    ):
        if environment is None:  # a server without a zone does not match a task without a zone
            monkeypatch.setattr(replicas, "zone_of", lambda connection: "")
        monkeypatch.setenv("PYSTREAMS_AVAILABILITY_ZONE", environment or "")
        query = pair.query(**{"readFrom": "az", **extra})
        assert query.plan()
        pair.ranges_read()
        assert len(query.run()) == 150
        assert (pair.ranges_read()[1] > 0) == expected


def test_a_server_without_replicas_is_read_itself(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """A server without replicas is read without a message; a user who may not list the replicas gets an error with the
    rule.
    """
    pair.fill()
    pair.replica.client.replicaof("no", "one")
    wait_for(lambda: not pair.master.client.execute_command("ROLE")[2], "the primary to drop its replica")
    with caplog.at_level(logging.WARNING):
        assert len(pair.query().drain()) == 150
    assert not caplog.records
    pair.master.client.execute_command("ACL", "SETUSER", "job", "on", ">pw", "~*", "+@all", "-role")
    replicas.forget()
    query = pair.query(user="job", password="pw")
    with pytest.raises(ServerError, match=r"NO_REPLICAS_TOLD.*ROLE.*set readFrom to primary"):
        query.trigger()


def test_a_server_without_a_replication_offset_is_read_itself(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the server's INFO has no replication offset, the primary is read, with one warning."""
    pair.fill()
    pair.caught_up()
    with monkeypatch.context() as patch:
        patch.setattr(replicas, "info_lines", lambda _: {})
        assert [len(pair.query().drain()) for _ in range(2)] == [150, 150]
    (record,) = caplog.records
    address = pair.master.url.removeprefix("redis://")
    assert f"{address} does not report its replication offset" in record.getMessage()
    assert "no role and no master_replid. This server is read instead of its replicas" in record.getMessage()
    assert pair.ranges_read()[1] == 0


def test_a_replica_without_permission_for_info_is_not_read(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """If the user may not call INFO on the replica, the primary is read, and one warning contains
    the replica's error.
    """
    pair.fill()
    for site, rules in ((pair.master, ["+@all"]), (pair.replica, ["+@all", "-info"])):
        site.client.execute_command("ACL", "SETUSER", "job", "on", ">pw", "~*", *rules)
    pair.caught_up()
    pair.ranges_read()
    query = pair.query(user="job", password="pw", minPartitions="6")
    assert len(query.drain()) == 150
    (record,) = caplog.records
    address = pair.replica.url.removeprefix("redis://")
    assert f"{address} does not report its replication offset" in record.getMessage()
    assert (
        "no permissions to run the 'info' command). The primary is read instead of this replica" in record.getMessage()
    )
    assert pair.ranges_read()[1] == 0


def test_options_that_do_not_go_together() -> None:
    """A shared group cannot be read from replicas, and availabilityZone requires readFrom=az."""
    with pytest.raises(OptionsError, match="readFrom"):
        options.read_options({"stream": "s", "group": "g", "consume": "shared", "readFrom": "preferReplica"})
    with pytest.raises(OptionsError, match="availabilityZone"):
        options.read_options({"stream": "s", "availabilityZone": "a"})
