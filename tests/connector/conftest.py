"""Spark, and the servers that the connector's Spark tests run against: a real Redis and the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_streams.client import pool
from tests import servers
from tests.connector.driver import Site
from tests.waiting import DEADLINE, wait_for


@dataclass
class Bench:
    """A server without keys, a client of it, Spark, and a place for a checkpoint."""

    url: str
    client: redis.Redis
    spark: SparkSession
    checkpoint: Path
    queries: list[StreamingQuery]

    def reader(self, streaming: bool = False, **options: Any) -> Any:
        reader = self.spark.readStream if streaming else self.spark.read
        return reader.format("pystreams").options(url=self.url, **options)

    def write(self, frame: DataFrame, **options: Any) -> None:
        frame.write.format("pystreams").mode("append").options(url=self.url, **options).save()

    def start(self, frame: DataFrame, **options: Any) -> StreamingQuery:
        """A running query into the memory table `seen`; the checkpoint is the test's one."""
        return self._started(frame, {}, options)

    def run(self, frame: DataFrame, **options: Any) -> StreamingQuery:
        """All that is there now, into the memory table `seen` or the format that `options` name."""
        query = self._started(frame, {"availableNow": True}, options)
        self.wait(query)
        return query

    def wait(self, query: StreamingQuery) -> None:
        assert query.awaitTermination(60), "the query did not end"
        exception = query.exception()
        if exception is not None:
            raise exception

    def _started(self, frame: DataFrame, trigger: dict[str, Any], options: dict[str, Any]) -> StreamingQuery:
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint))
        if trigger:
            writer = writer.trigger(**trigger)
        if "foreach_batch" in options:
            writer = writer.foreachBatch(options["foreach_batch"])
        else:
            writer = writer.format(options.pop("format", "pystreams")).options(url=self.url, **options)
        query = writer.start()
        self.queries.append(query)
        return query

    def add(self, stream: str, count: int, first: int = 0, **more: str) -> None:
        """`count` entries with the field n counting on from `first`."""
        pipeline = self.client.pipeline(transaction=False)
        for n in range(first, first + count):
            pipeline.xadd(stream, {"n": n, **more})
        pipeline.execute()

    def numbers(self, stream: str) -> list[int]:
        """The field n of all entries of a stream, in order."""
        return [int(fields[b"n"]) for _, fields in self.client.xrange(stream)]

    def group(self, stream: str, name: str = "g") -> dict[str, Any]:
        return next(group for group in self.client.xinfo_groups(stream) if group["name"] == name.encode())

    def wait_for_group(self, stream: str, **expected: Any) -> None:
        wait_for(
            lambda: all(self.group(stream)[name.replace("_", "-")] == value for name, value in expected.items()),
            f"the group of {stream} to have {expected}",
            DEADLINE,
        )


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.redis), "engine"])
def bench(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    """A test's server, Spark and checkpoint."""
    server = request.getfixturevalue(f"spark_{request.param}")
    client = redis.Redis(host=server.host, port=server.port, protocol=2)
    client.flushall()
    made = Bench(server.url, client, spark, tmp_path / "checkpoint", [])
    try:
        yield made
    finally:
        for query in made.queries:
            query.stop()
        client.flushall()
        client.close()


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.redis), "engine"])
def place(request: pytest.FixtureRequest) -> servers.Running:
    """A server's process, for tests without Spark."""
    running: servers.Running = request.getfixturevalue(f"{request.param}_process")
    return running


@pytest.fixture
def client(place: servers.Running) -> Iterator[redis.Redis]:
    """A client of that server, which has no keys before and after the test."""
    with redis.Redis(host=place.host, port=place.port, protocol=2) as made:
        made.flushall()
        try:
            yield made
        finally:
            pool.close_all()
            made.flushall()


@pytest.fixture
def site(place: servers.Running, client: redis.Redis, request: pytest.FixtureRequest) -> Site:
    """The same as an address, a client and the server's kind."""
    return Site(place.url, client, request.node.callspec.params["place"])
