"""The job under test: entries of the stream `in`, through a group, into the stream `out`; a failed query is restarted.

Run it as `python -m tests.chaos.job URL CHECKPOINT MODE REPLICAS PARALLELISM`. MODE is the `writeMode`; with `staged`
the rows are shuffled, so that each start has another plan. REPLICAS is `waitReplicas`, and PARALLELISM is
`spark.default.parallelism`. The job ends when it is killed, or when its standard input is closed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.chaos.held import HeldDataSource


def copy(
    spark: SparkSession,
    url: str,
    checkpoint: str,
    ended: threading.Event,
    failed: Callable[[str], None],
    *,
    sink: str = "pystreams",
    mode: str = "exactlyOnce",
    replicas: str = "0",
) -> None:
    """Copy until `ended` is set and the query is stopped; report the error of a query to `failed`, and restart it."""
    # A failover takes longer than a restart.
    patience = 20_000 if int(replicas) else 5000
    while not ended.is_set():
        source = (
            spark.readStream.format("pystreams")
            .options(url=url, stream="in", group="g", startingOffsets="earliest", maxEntriesPerTrigger=400)
            .options(minPartitions=2, retryTimeoutMs=patience)
            .schema("n long, text string")
            .load()
        )
        rows = source.repartition("n") if mode == "staged" else source
        writer = rows.writeStream.format(sink).options(url=url, stream="out", chunkSize=100, writeMode=mode)
        writer = writer.options(retryTimeoutMs=patience, waitReplicas=replicas)
        try:
            writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        except PySparkException as failure:
            words = str(failure).replace("\n", " ")
            at = max(words.find("[" + name) for name in ("SERVER", "STREAM", "REPLAY", "FENCE", "ROW", "GROUP", "ENTR"))
            failed(words[at : at + 300] if at >= 0 else words[:300])


def main() -> None:
    url, checkpoint, mode, replicas, parallelism = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.default.parallelism", parallelism)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(HeldDataSource)
    print("started", os.getpid(), flush=True)  # noqa: T201 - the harness reads it
    stop = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        stop.set()
        for query in spark.streams.active:
            query.stop()

    def say(words: str) -> None:
        print("again", words, flush=True)  # noqa: T201 - the harness reads it

    threading.Thread(target=watch, daemon=True).start()
    copy(spark, url, checkpoint, stop, say, sink="pystreams-held", mode=mode, replicas=replicas)
    spark.stop()


if __name__ == "__main__":
    main()
