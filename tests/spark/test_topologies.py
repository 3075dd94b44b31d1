"""Streaming queries whose servers change: a slot of a cluster moves, or a master dies; and queries over TLS.

`tests/streamclient/test_topologies.py` tests the connection itself. The session tries each task once (`local[2]`), so a
query that continues had no failed task.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from streamwire.slots import slot_of
from tests import servers
from tests.servers import topologies
from tests.servers.certificates import authority
from tests.suite.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.redis]
_PATIENCE = 60


@pytest.fixture(autouse=True)
def _needs_redis(redis_process: servers.Running) -> None:
    """These tests use Debian's redis-server."""


@contextmanager
def copying(spark: SparkSession, checkpoint: Path, url: str, **writer_options: Any) -> Iterator[StreamingQuery]:
    """A running query that copies the stream `in` to `out` through the group g."""
    options = {"url": url, "retryTimeoutMs": 40_000}
    frame = spark.readStream.format("pystreams").options(
        **options, stream="in", group="g", startingOffsets="earliest", maxEntriesPerTrigger=1000
    )
    writer = (
        frame.schema("n long").load().writeStream.format("pystreams").options(**options, stream="out", **writer_options)
    )
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


class Producer(threading.Thread):
    """Adds the numbers 0, 1, ... to the stream `in`, each once: an entry's ID identifies it.

    `connect` returns a client of the current master. `replicas` is the number of replicas that must have an entry
    before it is counted.
    """

    def __init__(self, connect: Any, replicas: int = 0) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._replicas = replicas
        self._ended = threading.Event()
        #: Held from adding an entry until enough replicas have it. A test that holds the lock finds no other entries.
        self.turn = threading.Lock()
        self.count = 0

    def run(self) -> None:
        client = None
        while not self._ended.is_set():
            try:
                client = client or self._connect()
                with self.turn:
                    self._add(client)
                    self.count += self._counts(client)
            except redis.RedisError:
                if client is not None:
                    client.close()
                client = None
            self._ended.wait(0.002)
        if client is not None:
            client.close()

    def _add(self, client: redis.Redis) -> None:
        try:
            client.xadd("in", {"n": self.count}, id=f"{self.count + 1}-1")
        except redis.ResponseError as refusal:
            if "equal or smaller" not in str(refusal):
                raise

    def _counts(self, client: redis.Redis) -> bool:
        """Return whether enough replicas have the entry; wait for them unless the producer is stopping."""
        while self._replicas and client.wait(self._replicas, 500) < self._replicas:
            if self._ended.is_set():
                return False
        return True

    def end(self) -> None:
        self._ended.set()
        self.join(30)

    def __enter__(self) -> Producer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def wait_for_more(client: Any, query: StreamingQuery, more: int = 100) -> None:
    """Wait until the query has written this many more rows."""
    reached = client.xlen("out") + more
    wait_for(lambda: not query.isActive or client.xlen("out") >= reached, "the query to continue", _PATIENCE)
    problem = query.exception()
    assert problem is None, str(problem)


def assert_all_once(client: Any, query: StreamingQuery, count: int) -> None:
    """Assert that every entry is copied once and in order, and that nothing stays pending.

    The producer has counted `count` entries. It may not know yet whether a replica has the last one.
    """
    added = client.xlen("in")
    assert count <= added <= count + 1
    wait_for(lambda: not query.isActive or client.xlen("out") >= added, "all entries to be written", _PATIENCE)
    problem = query.exception()
    assert problem is None, str(problem)
    wait_for(lambda: client.xpending("in", "g")["pending"] == 0, "the last batch to be acknowledged", _PATIENCE)
    assert [int(fields[b"n"]) for _, fields in client.xrange("out")] == list(range(added))
    assert client.xinfo_groups("in")[0]["lag"] == 0


def test_slots_move_while_a_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Every entry is copied once although the slots of a query's streams move to other nodes."""
    with (
        topologies.cluster() as cluster,
        cluster.client() as client,
        Producer(cluster.client) as producer,
        copying(spark, tmp_path, cluster.url) as query,
    ):
        wait_for(lambda: client.exists("out"), "the first batch", _PATIENCE)
        for stream in (b"in", b"out"):
            wait_for_more(client, query)
            slot = slot_of(stream)
            source, target = cluster.begin_move(slot)
            wait_for_more(client, query, 1)
            cluster.end_move(slot, source, target)
            assert cluster.owner(slot) is target
            wait_for_more(client, query)
        producer.end()
        assert_all_once(client, query, producer.count)


def goes_on(client: Any, query: StreamingQuery, rows: int) -> bool:
    """Return whether a query continues until this many rows are written.

    Otherwise the query reports that rows were lost before a replica had them, and that its task must run again. That
    requires a Spark with several attempts per task, or a restart.
    """
    wait_for(lambda: not query.isActive or client.xlen("out") >= rows, "the query to continue", _PATIENCE)
    problem = query.exception()
    assert problem is None or "[FENCE_BEHIND]" in str(problem), str(problem)
    return problem is None


def test_a_master_dies_while_a_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    """After the master is killed and a replica takes over, the query continues or restarts; rows that the replica has
    are written once.
    """
    with (
        topologies.watched(replicas=2) as watched,
        Producer(watched.client, replicas=1) as producer,
        ExitStack() as running,
    ):

        def start() -> StreamingQuery:
            options = {"waitReplicas": 1, "waitTimeoutMs": 40_000}
            return running.enter_context(copying(spark, tmp_path, watched.url, **options))

        query = start()
        with watched.client() as client:
            wait_for(lambda: client.exists("out"), "the first batch", _PATIENCE)
            wait_for_more(client, query)
        before = watched.now_master()
        with producer.turn:
            # A query may read an entry before a replica has it: that entry would be lost, and the query would report
            # that.
            watched.server_at(before).process.send_signal(signal.SIGKILL)
        wait_for(lambda: watched.now_master() != before, "the failover", _PATIENCE)
        with watched.client() as client:
            if not goes_on(client, query, client.xlen("out") + 100):
                query = start()
            producer.end()
            if not goes_on(client, query, client.xlen("in")):
                query = start()
            assert_all_once(client, query, producer.count)


def test_tls_in_a_query(spark: SparkSession, tmp_path: Path) -> None:
    """A query reads and writes with a client's certificate; with an untrusted one, an action fails with the reason."""
    with topologies.encrypted() as server, server.client() as client:
        options = server.options
        spark.range(200).toDF("n").write.format("pystreams").mode("append").options(**options, stream="in").save()
        source = spark.readStream.format("pystreams").options(**options, stream="in", group="g")
        frame = source.option("startingOffsets", "earliest").schema("n long").load()
        writer = frame.writeStream.format("pystreams").options(**options, stream="out")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(_PATIENCE)
        assert sorted(int(fields[b"n"]) for _, fields in client.xrange("out")) == list(range(200))
        stranger = authority(tmp_path, "stranger")
        unknown = {"tls.certFile": str(stranger.certificate), "tls.keyFile": str(stranger.key)}
        with pytest.raises(PySparkException, match=r"SERVER_UNREACHABLE.*rejected this client's TLS.*unknown ca"):
            spark.read.format("pystreams").options(**{**options, **unknown}, stream="in").load().count()
