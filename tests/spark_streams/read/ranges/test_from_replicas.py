"""Reading from replicas: the same rows, from another server, and only where that has them all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
import redis

from spark_streams.client import pool, replicas
from spark_streams.client.routing import Topology
from spark_streams.config import options
from spark_streams.config.address import Endpoint
from spark_streams.errors import OptionsError, ServerError
from tests import servers
from tests.chaos.proxy import proxy
from tests.spark_streams.driver import Query, Site
from tests.waiting import wait_for

pytestmark = pytest.mark.redis
STREAMS = ("a", "b", "c")


@dataclass
class Pair:
    """A master, and its replica."""

    master: Site
    replica: Site

    def fill(self, first: int = 0, count: int = 50) -> None:
        for stream in STREAMS:
            self.master.add(stream, count, first)

    def caught_up(self) -> None:
        self.master.client.wait(1, 10_000)

    def query(self, **said: str) -> Query:
        given = {"streams": ",".join(STREAMS), "startingOffsets": "earliest", "readFrom": "preferReplica", **said}
        return Query(self.master.url, "_stream string, n int", **given)

    def ranges_read(self) -> tuple[int, int]:
        """How many XRANGEs the master and the replica have answered since the last call."""
        found = []
        for site in (self.master, self.replica):
            found.append(site.client.info("commandstats").get("cmdstat_xrange", {"calls": 0})["calls"])
            site.client.config_resetstat()
        return found[0], found[1]


@pytest.fixture(scope="module")
def servers_of_pair(redis_process: servers.Running) -> Iterator[tuple[servers.Running, servers.Running]]:
    del redis_process  # where there is no redis-server these tests are skipped
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
        other.replicaof(master.host, master.port)
        wait_for(lambda: other.info("replication").get("master_link_status") == "up", "the replica to follow")
        client.flushall()
        made = Pair(Site(master.url, client, "redis"), Site(replica.url, other, "redis"))
        made.ranges_read()
        replicas._found.clear()
        replicas._zones.clear()
        yield made
        pool.close_all()


def per_stream(rows: list[dict[str, object]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for row in rows:
        found.setdefault(row["_stream"], []).append(row["n"])
    return found


@pytest.mark.parametrize("said", [{}, {"group": "g"}, {"group": "g", "minPartitions": "6"}, {"maxPartitions": "1"}])
def test_ranges_are_read_from_a_replica(pair: Pair, said: dict[str, str]) -> None:
    """The rows are those of the primary, which sends none of them; a group is kept there all the same."""
    pair.fill()
    pair.caught_up()
    query = pair.query(**said)
    assert query.plan()
    pair.ranges_read()  # planning is the primary's
    assert per_stream(query.run()) == {stream: list(range(50)) for stream in STREAMS}
    at_master, at_replica = pair.ranges_read()
    assert (at_master > 3, at_replica >= 1) == (False, True)
    if "group" in said:
        assert pair.master.group("a")["pending"] == 50
        assert query.trigger() is None
        assert pair.master.group("a")["pending"] == 0


def test_a_replica_that_is_behind_is_not_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose end has not arrived there is read from the primary; the others from the replica."""
    pair.fill()
    pair.caught_up()
    pair.replica.client.replicaof("no", "one")
    endpoint = Endpoint("127.0.0.1", int(pair.replica.url.rpartition(":")[2]))
    monkeypatch.setattr(Topology, "replicas", lambda topology, node: [endpoint])
    pair.master.add("b", 10, 50)
    query = pair.query(maxPartitions="1")
    assert query.plan()
    pair.ranges_read()
    lengths = {"a": 50, "b": 60, "c": 50}
    assert per_stream(query.run()) == {stream: list(range(length)) for stream, length in lengths.items()}
    assert all(pair.ranges_read())
    pair.replica.client.flushall()
    pair.fill(60)
    pair.ranges_read()
    assert len(query.trigger() or []) == 150
    assert pair.ranges_read()[1] == 0


def test_a_replica_that_breaks_off_costs_no_entry(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its connection is cut, the primary gives the rest, each entry once."""
    pair.fill(count=200)
    pair.caught_up()
    with proxy(int(pair.replica.url.rpartition(":")[2])) as between:
        endpoint = Endpoint("127.0.0.1", between.port)
        monkeypatch.setattr(Topology, "replicas", lambda topology, node: [endpoint])
        query = pair.query(maxPartitions="1", pageSize="70")
        assert query.plan()
        for count in (200, 8000, 12_000):
            between.cut_after(count)
            rows = query.run()
            assert per_stream(rows) == {stream: list(range(200)) for stream in STREAMS}
            pool.close_all()
        assert between.cuts == 3


def test_zones(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With readFrom=az a replica is read in the task's zone alone: the option's, else the executor's environment's."""
    pair.fill()
    pair.caught_up()
    monkeypatch.setattr(replicas, "zone_of", lambda connection: "eu-1b")
    for said, environment, expected in (
        ({"availabilityZone": "eu-1b"}, "", True),
        ({}, "eu-1b", True),
        ({"availabilityZone": "eu-1a"}, "eu-1b", False),
        ({}, "", False),
    ):
        monkeypatch.setenv("PYSTREAMS_AVAILABILITY_ZONE", environment)
        query = pair.query(**{"readFrom": "az", **said})
        assert query.plan()
        pair.ranges_read()
        assert len(query.run()) == 150
        assert (pair.ranges_read()[1] > 0) == expected


def test_a_server_without_replicas_is_read_itself(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is said about it. Where a user may not ask which replicas there are, that is an error, with the rule."""
    pair.fill()
    pair.replica.client.replicaof("no", "one")
    wait_for(lambda: not pair.master.client.execute_command("ROLE")[2], "the replica to be gone")
    with caplog.at_level(logging.WARNING):
        assert len(pair.query().drain()) == 150
    assert not caplog.records
    pair.master.client.execute_command("ACL", "SETUSER", "job", "on", ">pw", "~*", "+@all", "-role")
    replicas._found.clear()
    query = pair.query(user="job", password="pw")
    with pytest.raises(ServerError, match=r"NO_REPLICAS_TOLD.*ROLE.*set readFrom to primary"):
        query.trigger()


def test_options_that_do_not_go_together() -> None:
    """A shared group is on the primary, and a zone is for az."""
    with pytest.raises(OptionsError, match="readFrom"):
        options.read_options({"stream": "s", "group": "g", "consume": "shared", "readFrom": "preferReplica"})
    with pytest.raises(OptionsError, match="availabilityZone"):
        options.read_options({"stream": "s", "availabilityZone": "a"})
