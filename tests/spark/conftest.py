"""The fixture ``bench``: Spark with a server.

What differs between servers is below Spark, and tests/spark_streams runs it on each. So a test runs on a real Redis in
`make test` and on the engine in `make test-long`, unless it names its servers itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from tests.spark.bench import REDIS, Bench
from tests.suite.long import long_only


@pytest.fixture(params=[REDIS, pytest.param("engine", marks=long_only)])
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
