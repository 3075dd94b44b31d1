"""What is measured through Spark: the connector reading and writing on each server.

Owns the Spark session of the measurements. A case includes what Spark spends on planning and scheduling one job.
"""

from __future__ import annotations

import functools
import os
import sys

from pyspark.sql import SparkSession

from benchmarks.cases import KEY, READ_ENTRIES, Case, expect_length, fill, flush, nothing
from benchmarks.client import Connection
from benchmarks.naive_source import NaiveSource

WRITE_ROWS = 100_000


@functools.cache
def session() -> SparkSession:
    """Return this process's Spark, started when the first case needs it: in a repetition that does not count."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    started = (
        SparkSession.builder.master("local[*]")
        .appName("benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    started.dataSource.register(NaiveSource)
    return started


def spark_cases() -> list[Case]:
    """Return the cases in the order in which they are run and shown."""
    return [
        read("Spark read, naive source", None, kind="naive"),
        read("Spark read, columns", "`sensor-id` int, temperature double"),
        read("Spark read, map", None),
        write("Spark write"),
    ]


def read(name: str, schema: str | None, kind: str = "pystreams") -> Case:
    """Read a whole stream as a batch and throw the rows away."""

    def work(connection: Connection) -> None:
        source = session().read.format(kind).option("url", connection.url).option("stream", KEY)
        if schema is not None:
            source = source.schema(schema)
        source.load().write.format("noop").mode("overwrite").save()

    return Case(name, READ_ENTRIES, fill, work, nothing, repetitions=3)


def write(name: str) -> Case:
    """Append rows to a stream, from as many tasks as there are cores."""

    def work(connection: Connection) -> None:
        rows = session().range(WRITE_ROWS).selectExpr("1000 + id % 9000 AS `sensor-id`", "id % 200 / 10 AS temperature")
        rows.write.format("pystreams").option("url", connection.url).option("stream", KEY).mode("append").save()

    return Case(name, WRITE_ROWS, flush, work, expect_length(WRITE_ROWS), repetitions=3)
