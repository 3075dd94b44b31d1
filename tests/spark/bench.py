"""Tools for a test of Spark: a server, a client of it, the session, and a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark import __version__
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.suite.waiting import DEADLINE, wait_for

#: Release of Spark, such as (4, 3).
RELEASE = tuple(int(part) for part in __version__.split(".")[:2])
#: The real Redis as a parameter of the fixture `bench`, and tests that run on both servers in `make test`, too.
REDIS = pytest.param("redis", marks=pytest.mark.redis)
ON_BOTH = pytest.mark.parametrize("bench", [REDIS, "engine"], indirect=True)
#: Maximum seconds of a query. Only failures take that long.
_QUERY_SECONDS = 180


@dataclass
class Bench:
    """A server without keys, a client of it, Spark, and a directory for a checkpoint."""

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
        """Start a query into the format in `options`, `pystreams` by default, with the test's checkpoint."""
        return self._started(frame, {}, options)

    def run(self, frame: DataFrame, **options: Any) -> StreamingQuery:
        """Run a query, as `start` does, until all present entries are read."""
        query = self._started(frame, {"availableNow": True}, options)
        self.wait(query)
        return query

    def wait(self, query: StreamingQuery) -> None:
        assert query.awaitTermination(_QUERY_SECONDS), "the query did not end"
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
        """Add `count` entries; the field n counts from `first`."""
        pipeline = self.client.pipeline(transaction=False)
        for n in range(first, first + count):
            pipeline.xadd(stream, {"n": n, **more})
        pipeline.execute()

    def numbers(self, stream: str) -> list[int]:
        """Return the field n of all entries of a stream, in order."""
        return [int(fields[b"n"]) for _, fields in self.client.xrange(stream)]

    def group(self, stream: str, name: str = "g") -> dict[str, Any]:
        return next(group for group in self.client.xinfo_groups(stream) if group["name"] == name.encode())

    def wait_for_group(self, stream: str, **expected: Any) -> None:
        wait_for(
            lambda: all(self.group(stream)[name.replace("_", "-")] == value for name, value in expected.items()),
            f"the group of {stream} to have {expected}",
            DEADLINE,
        )
