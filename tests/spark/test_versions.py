"""Features of every supported Spark release; `scripts/test-matrix` runs these tests on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.spark.bench import RELEASE, Bench
from tests.spark.test_streaming import undo_last_batch
from tests.suite.waiting import wait_for

pytestmark = pytest.mark.spark
if RELEASE < (4, 2):  # its py4j leaves sockets open, which Python 3.13 reports
    pytestmark = [pytestmark, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
_OLDER = pytest.mark.skipif(
    RELEASE >= (4, 2), reason="other modules cover later releases, which accept limits and acknowledge the last batch"
)


@_OLDER
def test_all_that_every_spark_can_do(bench: Bench) -> None:
    """Batches are written and read with a filter, and queries are written directly and by
    foreachBatch, each row once.
    """
    options = {"url": bench.url}
    spark = bench.spark
    rows = spark.range(100).selectExpr("id AS n", "TIMESTAMP '2024-05-01 12:00:00' AS at")
    rows.write.format("pystreams").mode("append").options(**options, stream="batch").save()
    read = spark.read.format("pystreams").options(**options, stream="batch")
    found = read.schema("_stream string, n long, at timestamp").load().where(F.col("_stream") == "batch")
    assert sorted((row.n, row.at.year) for row in found.collect()) == [(n, 2024) for n in range(100)]

    directory = bench.checkpoint.parent / "numbers"
    rows.select("n").write.json(str(directory))
    source = spark.readStream.schema("n long").json(str(directory)).repartition(2)

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


def test_spark_imports_pyspark_from_files(bench: Bench) -> None:
    """A worker of Spark does not import pyspark from the zip file (`streamwire.pyspark_files`)."""

    def imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([pyspark.__file__])], ["file"])

    (row,) = bench.spark.range(0, 1, 1, 1).mapInArrow(imported, "file string").collect()
    assert Path(row.file) == Path(pyspark.__file__)


@pytest.mark.parametrize("consume", ["range", "shared"])
@_OLDER
def test_a_query_goes_on_from_its_checkpoint(bench: Bench, consume: str) -> None:
    """With both triggers, over restarts and a repeated batch, each entry is copied once."""
    options = {"stream": "s", "startingOffsets": "earliest", "group": "g", "consume": consume, "minPartitions": 2}

    def frame() -> DataFrame:
        return bench.reader(streaming=True, **options).schema("n int").load()

    bench.add("s", 100)
    bench.run(frame(), stream="out")
    bench.add("s", 50, first=100)
    bench.run(frame(), stream="out")
    assert sorted(bench.numbers("out")) == list(range(150))
    undo_last_batch(bench.checkpoint)
    bench.add("s", 10, first=150)
    bench.run(frame(), stream="out")  # before Spark 4.2 a run ends with the batch that it repeats
    bench.run(frame(), stream="out")
    assert sorted(bench.numbers("out")) == list(range(160))
    for last in (170, 180):
        query = bench.start(frame(), stream="out")
        bench.add("s", 5, first=last - 10)
        wait_for(lambda last=last: len(bench.numbers("out")) == last - 5, "five more rows", 100)
        bench.add("s", 5, first=last - 5)
        wait_for(lambda last=last: len(bench.numbers("out")) == last, "five more rows", 100)
        bench.wait_for_group("s", pending=0, lag=0)
        query.stop()
    assert sorted(bench.numbers("out")) == list(range(180))
    bench.add("s", 5, first=180)
    bench.run(frame(), stream="out")
    assert sorted(bench.numbers("out")) == list(range(185))


@_OLDER
def test_a_limit_is_refused(bench: Bench) -> None:
    """The error names the option and the Spark version."""
    frame = bench.reader(streaming=True, stream="s", maxEntriesPerTrigger=5).schema("n int").load()
    with pytest.raises(PySparkException, match=r"SPARK_TOO_OLD.*'maxEntriesPerTrigger' needs Spark 4\.2"):
        bench.run(frame, stream="out")
