"""The submitted program: writes numbers in a batch, copies them in a streaming query until it is stopped, and counts
them.

It does not import the checkout. Its argument is JSON: `url`, `rows` (number of numbers), `batch` (entries per trigger),
`write` (options of the query's write), `stop` (a file whose existence stops the query), `checkpoint`.
"""

# ruff: noqa: T201 - it reports on stdout

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import spark_streams


def say(word: str, **values: Any) -> None:
    print(word, json.dumps(values), flush=True)


def locations(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield, for each row, the working directory of its task's process and the location of the connector there."""
    for batch in batches:
        location = f"{Path.cwd()};{Path(spark_streams.__file__).absolute().parents[1]}"
        yield batch.from_pydict({"location": [location] * batch.num_rows})


def without_url(spark: SparkSession) -> str:
    """Return the error of a read without a server."""
    try:
        spark.read.format("pystreams").load("in").count()
    except PySparkException as error:
        return str(error)
    return "no error"


def start(spark: SparkSession, arguments: dict[str, Any]) -> StreamingQuery:
    options = {"url": arguments["url"], "retryTimeoutMs": 40_000}
    source = spark.readStream.format("pystreams").options(**options, streamPattern="in:*", group="copy")
    frame = source.option("startingOffsets", "earliest").option("maxEntriesPerTrigger", arguments["batch"])
    frame = frame.schema("n long, key string").load()
    writer = frame.writeStream.format("pystreams").options(**options, **arguments["write"], stream="out")
    writer = writer.option("keyColumn", "key").option("partitions", 6)
    return writer.option("checkpointLocation", arguments["checkpoint"]).start()


def main() -> None:
    arguments = json.loads(sys.argv[1])
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark_streams.register(spark)
    seen = spark.range(0, 8, 1, 8).mapInArrow(locations, "location string").distinct().collect()
    say("tasks", locations=sorted(row.location for row in seen), without_url=without_url(spark))
    numbers: DataFrame = (
        spark.range(arguments["rows"]).selectExpr("id AS n", "CAST(id % 97 AS STRING) AS key").repartition(4)
    )
    numbers.write.format("pystreams").mode("append").options(
        url=arguments["url"], **arguments["write"], stream="in", keyColumn="key", partitions=6
    ).save()
    query = start(spark, arguments)
    say("running")
    restarts = []
    while True:
        try:
            if Path(arguments["stop"]).exists():
                query.processAllAvailable()
                break
            query.awaitTermination(1)
        except PySparkException as error:
            if "[FENCE_BEHIND]" not in str(error) or len(restarts) == 3:
                raise
            restarts.append(str(error).splitlines()[0])
            query = start(spark, arguments)
    query.stop()
    read = spark.read.format("pystreams").options(url=arguments["url"], streamPattern="out:*").schema("n long").load()
    say("ended", rows=read.count(), restarts=restarts)
    spark.stop()


if __name__ == "__main__":
    main()
