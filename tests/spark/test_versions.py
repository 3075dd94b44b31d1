"""What works on every Spark that the connector supports: `scripts/test-matrix` runs it on each."""

from __future__ import annotations

import pytest
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.spark.bench import Bench

pytestmark = pytest.mark.spark
RELEASE = tuple(int(part) for part in __version__.split(".")[:2])
if RELEASE < (4, 2):  # the sockets of its py4j, where Python 3.13 notices
    pytestmark = [pytestmark, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


def test_all_that_every_spark_can_do(bench: Bench) -> None:
    """Batches are written and read with a filter, queries are written directly and by foreachBatch, all once.

    A streaming read works from 4.2 on; before, it is refused, and the error says which Spark can do it.
    """
    options = {"url": bench.url}
    spark = bench.spark
    rows = spark.range(100).selectExpr("id AS n", "TIMESTAMP '2024-05-01 12:00:00' AS at")
    rows.write.format("pystreams").mode("append").options(**options, stream="batch").save()
    read = spark.read.format("pystreams").options(**options, stream="batch")
    found = read.schema("_stream string, n long, at timestamp").load().where(F.col("_stream") == "batch")
    assert sorted((row.n, row.at.year) for row in found.collect()) == [(n, 2024) for n in range(100)]

    place = bench.checkpoint.parent / "numbers"
    rows.select("n").write.json(str(place))
    source = spark.readStream.schema("n long").json(str(place)).repartition(2)

    def each(batch: object, number: int) -> None:
        writer = batch.write.format("pystreams").mode("append")  # type: ignore[attr-defined]
        writer.options(**options, stream="each").save()

    for name, query in (
        ("direct", source.writeStream.format("pystreams").options(**options, stream="direct")),
        ("each", source.writeStream.foreachBatch(each)),
    ):
        running = query.option("checkpointLocation", f"{bench.checkpoint}-{name}").trigger(availableNow=True).start()
        assert running.awaitTermination(100)
        back = spark.read.format("pystreams").options(**options, stream=name).schema("n long").load()
        assert sorted(row.n for row in back.collect()) == list(range(100))

    stream = spark.readStream.format("pystreams").options(**options, stream="batch", startingOffsets="earliest")
    query = stream.schema("n long").load().writeStream.format("noop")
    if RELEASE >= (4, 2):
        running = query.trigger(availableNow=True).start()
        assert running.awaitTermination(100)
        assert sum(progress.numInputRows for progress in running.recentProgress) == 100
    else:
        running = query.start()
        with pytest.raises(PySparkException, match=r"SPARK_TOO_OLD.*need Spark 4\.2"):
            running.awaitTermination(100)
