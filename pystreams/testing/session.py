"""Spark sessions for tests: small and quiet, without a UI, with this Python; and their queries.

A test runs a query over existing data, and compares a stream with rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import __version__
from pyspark.sql import SparkSession

from pystreams.testing.servers import START_DEADLINE
from pystreams.testing.streams import Server
from spark_streams import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


# On a local disk, Spark's default checkpoint file manager starts about twenty processes per trigger. The manager
# that is set below starts four.
_PACKAGE = "" if __version__.startswith("4.0.") else "checkpointing."
SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    f"{_PACKAGE}FileSystemBasedCheckpointFileManager",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session(
    warehouse: Path, settings: Mapping[str, str] | None = None, *, url: str | None = None, registers: bool = True
) -> Iterator[SparkSession]:
    """Run a session on two cores within a `with` block. At the end of the block, the JVM ends as well.

    ``url``: server of queries that do not name a server. ``registers``: whether to call `register`; otherwise Spark
    finds the data source by itself, if it is installed. If a session is active, it is used instead and not stopped.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        with _ready(active, url):
            yield active
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("pystreams-tests")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse), **(settings or {})}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    gateway = made.sparkContext._gateway
    try:
        if registers:
            with _ready(made, url):
                yield made
        else:
            yield made
    finally:
        made.stop()
        _end(gateway)


@contextmanager
def _ready(spark: SparkSession, url: str | None) -> Iterator[None]:
    """Register the data source while PYSTREAMS_URL is set to `url`.

    Spark saves the variable with the source, so its worker processes get the URL.
    """
    environment = spark.sparkContext.environment
    if url is not None:
        environment["PYSTREAMS_URL"] = url
    register(spark)
    try:
        yield
    finally:
        environment.pop("PYSTREAMS_URL", None)


def _end(gateway: object) -> None:
    """End the JVM, which would otherwise run until this Python process ends."""
    gateway.shutdown()  # type: ignore[attr-defined]
    process = gateway.proc  # type: ignore[attr-defined]
    process.stdin.close()
    process.wait(30)


def run_available_now(writer: DataStreamWriter, deadline: float = START_DEADLINE) -> StreamingQuery:
    """Start the query, let it process all existing data, and return it after its end.

    Raises the query's failure. After `deadline` seconds, stops the query and raises TimeoutError.
    """
    query = writer.trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(int(deadline)):
            raise TimeoutError(f"the query did not end within {deadline:g} s: {query.status}")
    finally:
        query.stop()
    return query


def assert_stream_equal(server: Server, stream: str, expected: DataFrame, **options: Any) -> None:
    """Check that a stream, read with the schema of ``expected``, has the same rows in any order.

    ``options`` are options of pyspark's `assertDataFrameEqual`. Raises AssertionError with actual and expected rows.
    """
    from pyspark.testing.utils import assertDataFrameEqual  # noqa: PLC0415 - slow to import

    reader = expected.sparkSession.read.format("pystreams").options(**server.options(stream)).schema(expected.schema)
    assertDataFrameEqual(reader.load(), expected, **{"rtol": 0.0, "atol": 0.0, **options})
