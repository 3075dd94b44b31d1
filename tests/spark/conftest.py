"""The fixture ``bench``: Spark on a real Redis and on the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from tests.spark.bench import Bench


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
