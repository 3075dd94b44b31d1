"""Batches in Parquet files: a repeated batch replaces its own files, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from archive import write_files
from pyspark.sql import SparkSession

from pystreams.jobs.run import Run

pytestmark = pytest.mark.spark
_QUERY = "sql.streaming.queryId"


@pytest.fixture
def run(spark: SparkSession) -> Iterator[Run]:
    with closing(Run("archive", url="redis://localhost:1", options={})) as made:
        yield made
    spark.sparkContext.setLocalProperty(_QUERY, None)  # type: ignore[arg-type] # None removes a property


def write(run: Run, query: str, number: int, directory: Path, *rows: tuple[str, str]) -> None:
    """Write the rows (ID and day) as a batch of a query."""
    run.spark.sparkContext.setLocalProperty(_QUERY, query)
    write_files(run, run.spark.createDataFrame(rows, "_id string, day string"), number, str(directory))


def stored(directory: Path) -> list[str]:
    """Return the IDs that a reader of the files finds, which does not depend on Spark."""
    return sorted(
        text
        for file in directory.glob("day=*/batch=*/*.parquet")
        for text in pq.read_table(file, partitioning=None)["_id"].to_pylist()
    )


def test_a_repeated_batch_is_stored_once(run: Run, tmp_path: Path) -> None:
    """A batch whose first attempt ended early is complete after its repetition, and the files of another query's batch
    with the same number are unchanged.
    """
    batch = [("1-1", "2013-01-01"), ("1-2", "2013-01-02")]
    write(run, "0f7d6a4e-3c1b", 1, tmp_path, batch[0])
    write(run, "9a571f2f-4e0a", 1, tmp_path, ("2-1", "2013-01-01"))
    write(run, "0f7d6a4e-3c1b", 1, tmp_path, *batch)
    assert stored(tmp_path) == ["1-1", "1-2", "2-1"]
