"""A real cluster: reading, writing, sharing a group and counting writes while slots move from node to node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis

from spark_streams.config.write import WriteOptions
from spark_streams.errors import ServerError
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import RowEncoder
from spark_streams.write.executor import number_of_write
from spark_streams.write.publishing import Publisher
from spark_streams.write.records import WriterId
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.pool import close_all
from streamwire.slots import slot_of
from tests import servers
from tests.servers import topologies
from tests.spark_streams.driver import Query
from tests.spark_streams.driver import numbers as column
from tests.spark_streams.write.test_exactly_once import table
from tests.streamclient.test_topologies import SCHEMA, numbers, write
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.redis


@pytest.fixture(autouse=True)
def _needs_redis(redis_process: servers.Running) -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(scope="module")
def cluster() -> Iterator[topologies.Cluster]:
    """One cluster for all tests of this module; each test uses its own streams."""
    with topologies.cluster() as made:
        yield made


@contextmanager
def moving(cluster: topologies.Cluster, key: bytes, first: str | None = None) -> Iterator[None]:
    """Migrate the key's slot while the block runs, and finish the migration afterwards. `first` is moved before the
    block.
    """
    slot = slot_of(key)
    source, target = cluster.begin_move(slot)
    if first is not None:
        cluster.cli(source, "migrate", target.host, str(target.port), first, "0", "5000")
    yield
    cluster.end_move(slot, source, target)


def while_apart(cluster: topologies.Cluster, key: bytes, first: str | None, action: Callable[[], Any]) -> Any:
    """Return the result of the action, which cannot end before the slot has moved. `first` is moved before the action
    starts.
    """
    with ThreadPoolExecutor(1) as pool:
        with moving(cluster, key, first):
            future = pool.submit(action)
            with pytest.raises(TimeoutError):
                future.result(0.2)
        return future.result(20)


def test_a_cluster_reads_and_writes_where_keys_live(cluster: topologies.Cluster) -> None:
    """Commands, pages and transactions reach the node that has the key, before, during and after a move of its slot."""
    with cluster.client() as client:
        connection = Connection(Address(cluster.url))
        names = [f"s{i}" for i in range(9)]
        assert len({cluster.owner(slot_of(name.encode())).port for name in names}) == 3
        for name in names:
            connection.command("XADD", name, "1-0", "n", "0")
        replies = connection.pipeline([("XLEN", name) for name in names])
        assert replies == [1] * 9
        for name in names:
            buffer, stop = connection.receive(connection.request([("XRANGE", name, "-", "+")]))
            assert bytes(buffer[:stop]).startswith(b"*1\r\n*2\r\n$3\r\n1-0\r\n")
        write(connection, 0, 500, key_column="n", partitions=7).finish()
        assert sorted(n for i in range(7) for n in numbers(client, f"s:{{{i}}}")) == list(range(500))

        write(connection, 0, 200, stream="moving").finish()
        # The stream moves first, then its fence. In between they are on different nodes, and a transaction must wait.
        with closing(Connection(Address(cluster.url))) as other:
            while_apart(cluster, b"moving", "moving", lambda: write(other, 0, 600, stream="moving").finish())
        assert numbers(client, "moving") == list(range(600))
        # This connection still has the old address.
        write(connection, 0, 900, stream="moving").finish()
        assert numbers(client, "moving") == list(range(900))
        assert connection.command("XLEN", "moving") == 900

        slot = slot_of(b"moving")
        source, target = cluster.begin_move(slot)
        options = WriteOptions(stream="moving", chunk_size=50)
        plain = AtLeastOnceSender(connection, options)
        for chunk in RowEncoder(options, SCHEMA).chunks(iter([table(900, 1200)])):
            plain.submit(chunk)
            if int(chunk[0].rows[0]) == 100:
                cluster.end_move(slot, source, target)
        plain.finish()
        assert sorted(numbers(client, "moving")) == list(range(1200))
        connection.close()


def test_a_node_without_a_name_is_known_by_its_ip(cluster: topologies.Cluster) -> None:
    """If hostnames are preferred, a node without one is announced as `?`; it is reached by its IP,
    also after a move.
    """
    clients = [redis.Redis(port=node.port, protocol=2) for node in cluster.masters()]
    streams = [f"named:{number}" for number in range(9)]
    try:
        for client in clients:
            client.config_set("cluster-preferred-endpoint-type", "hostname")
        with closing(Connection(Address(cluster.url))) as connection:
            connection.commands([("XADD", name, "1-0", "n", 0) for name in streams])
            assert len(connection.by_node(streams, str)) == 3
            with moving(cluster, streams[0].encode()):
                pass
            assert connection.pipeline([("XLEN", name) for name in streams]) == [1] * 9
            connection.commands([("DEL", name) for name in streams])
    finally:
        for client in clients:
            client.config_set("cluster-preferred-endpoint-type", "ip")
            client.close()


def test_an_unreachable_announced_address_is_named(cluster: topologies.Cluster) -> None:
    """The error names the unreachable address, and says that the cluster announced it."""
    node = next(each for each in cluster.masters() if str(each.port) not in cluster.url)
    other = cluster.masters()[0]
    with redis.Redis(port=node.port, protocol=2) as client, redis.Redis(port=other.port, protocol=2) as asked:
        client.config_set("cluster-announce-ip", "127.0.0.99")
        try:
            wait_for(lambda: "127.0.0.99" in str(asked.execute_command("CLUSTER", "SLOTS")), "the announcement")
            stream = next(f"s{n}" for n in range(99) if cluster.owner(slot_of(f"s{n}".encode())).port == node.port)
            with pytest.raises(ServerError, match=rf"127\.0\.0\.99:{node.port}.*; the cluster announces this address"):
                Connection(Address(cluster.url, retry_ms=100)).command("XLEN", stream)
        finally:
            client.config_set("cluster-announce-ip", "")
            wait_for(lambda: "127.0.0.99" not in str(asked.execute_command("CLUSTER", "SLOTS")), "the old address")


def test_staged_rows_are_published_while_a_slot_moves(cluster: topologies.Cluster) -> None:
    """Staged rows of streams at all nodes are published in order; rows whose slot is moving wait until it has moved."""
    options: dict[str, Any] = {"stream": "p", "mode": "staged", "key_column": "n", "partitions": 7}
    writer_id = WriterId("published", 0, 0)
    with cluster.client() as client:
        connection = Connection(Address(cluster.url, retry_ms=20_000))
        brought = []
        for part in range(2):
            writer = replace(writer_id, partition=part)
            brought += write(connection, 300 * part, 300 * part + 300, writer, **options).finish()
        assert len({cluster.owner(slot_of(each.stream)).port for each in brought}) == 3
        publisher = Publisher(connection, writer_id, WriteOptions(**options), lasting=True)
        staging = brought[0].key.decode()
        while_apart(cluster, brought[0].stream, staging, lambda: publisher.commit(brought))
        found = {i: numbers(client, f"p:{{{i}}}") for i in range(7)}
        assert sorted(n for rows in found.values() for n in rows) == list(range(600))
        assert all(rows == sorted(rows) for rows in found.values())
        Publisher(connection, replace(writer_id, attempt="again"), WriteOptions(**options), lasting=True).commit(
            brought
        )
        assert {i: numbers(client, f"p:{{{i}}}") for i in range(7)} == found
        assert [key for node in cluster.nodes for key in keys_of(node) if b"staged" in key] == []
        connection.close()


def test_slots_move_under_a_shared_group_and_a_count_of_writes(cluster: topologies.Cluster) -> None:
    """Reading, claiming and counting follow MOVED and ASK, and wait while a slot's keys are at two nodes; nothing is
    lost.
    """
    with cluster.client() as client:

        def add(first: int) -> None:
            for n in range(first, first + 10):
                client.xadd("s", {"n": n}, id=f"{n + 1}-1")

        given = {"stream": "s", "group": "g", "consume": "shared", "startingOffsets": "earliest", "claimIdleMs": 1}
        query = Query(cluster.url, **given)
        query.reader.initialOffset()
        add(0)
        # The ledger does not exist yet, so the old node redirects to the new one, which has no stream.
        assert column(while_apart(cluster, b"s", None, query.trigger)) == list(range(10))
        add(10)
        client.xreadgroup("g", "dead", {"s": ">"}, count=5)
        with moving(cluster, b"s"):
            rows = column(query.trigger() or [])
        assert sorted(rows) == list(range(10, 20))
        add(20)
        client.xreadgroup("g", "dead", {"s": ">"}, count=5)
        rows = while_apart(cluster, b"s", "s", query.drain)
        assert sorted(column(rows)) == list(range(20, 30))
        assert client.xpending("s", "g")["pending"] == 0

        connection = Connection(Address(cluster.url))
        options = WriteOptions(stream="s")

        def count(execution: str) -> int:
            return number_of_write(connection, "q", 1, "run", execution, options)

        assert count("a") == 0
        (key,) = (key for node in cluster.nodes for key in keys_of(node) if b"writes" in key)
        with moving(cluster, key):
            assert count("b") == 1
        assert while_apart(cluster, key, key.decode(), lambda: count("c")) == 2
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes", target_nodes="all")
        assert count("d") == 3
        connection.close()


def keys_of(node: servers.Running) -> list[bytes]:
    """Return the connector's keys at a node."""
    with redis.Redis(port=node.port, protocol=2) as client:
        return list(client.scan_iter("pystreams:*"))
