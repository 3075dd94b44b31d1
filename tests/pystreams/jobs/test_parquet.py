"""Batches in Parquet files: each row is stored once, whatever step is interrupted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from pystreams.jobs.filesystem import Files
from pystreams.jobs.parquet import Parquet, read
from spark_streams.errors import PystreamsError
from tests.jobs.choice import FULL

pytestmark = pytest.mark.spark
QUERY = "0f7d6a4e-3c1b-4e0a-9a57-1f2f0e5d8c11"


class KilledError(BaseException):
    """The simulated end of the process."""


class Mortal(Files):
    """Files of a process that is killed before the change with the number `last`. `changes` counts the changes."""

    def __init__(self, spark: SparkSession, last: int | None = None) -> None:
        super().__init__(spark)
        self._last = last
        self.changes = 0

    def _one(self) -> None:
        if self.changes == self._last:
            raise KilledError
        self.changes += 1

    def rename(self, source: str, target: str) -> None:
        self._one()
        super().rename(source, target)

    def delete(self, uri: str) -> None:
        self._one()
        super().delete(uri)

    def write_text(self, uri: str, text: str) -> None:
        self._one()
        super().write_text(uri, text)


def batch(spark: SparkSession, number: int) -> DataFrame:
    """Return a DataFrame of four entries on two days."""
    rows = [(f"{number}-{n}", "s", f"2013-01-0{1 + n % 2}") for n in range(4)]
    return spark.createDataFrame(rows, "_id string, _stream string, day string").coalesce(1)


def seen(directory: Path) -> Counter[str]:
    """Return the IDs found by an ordinary Parquet reader, with their counts."""
    files = [file for file in directory.glob("day=*/*.parquet") if not file.name.startswith((".", "_"))]
    return Counter(text for file in files for text in pq.read_table(file, partitioning=None)["_id"].to_pylist())


BATCHES = 4 if FULL else 3


def work(spark: SparkSession, files: Files, directory: Path, committed: list[int]) -> None:
    """Write the uncommitted batches, each followed by a merge, as a query does."""
    parquet = Parquet(spark, files, str(directory), QUERY)
    for number in range(len(committed), BATCHES):
        parquet.add(batch(spark, number), number, ["day"])
        parquet.compact(number, 2, 1 << 20)
        committed.append(number)
    parquet.compact(BATCHES, 2, 1 << 20)


def found(spark: SparkSession, directory: Path) -> Counter[str]:
    """Return the IDs found by the archive's reader, with their counts."""
    return Counter(row["_id"] for row in read(spark, Files(spark), str(directory)).collect())


def wanted(upto: int) -> Counter[str]:
    return Counter(f"{number}-{n}" for number in range(upto) for n in range(4))


def test_each_row_is_stored_once_wherever_the_query_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """A query killed before any of its changes and restarted stores each row once. Without
    LONG_TESTS=1, only one kill, amid a merge, is tested.

    After the kill, the archive's reader finds each committed row once, and other readers find it at least once.
    """
    steps = [15]
    if FULL:
        whole = Mortal(spark)
        work(spark, whole, tmp_path / "whole", [])
        assert seen(tmp_path / "whole") == wanted(BATCHES)
        steps = list(range(whole.changes))
    for step in steps:
        directory = tmp_path / f"killed-{step}"
        committed: list[int] = []
        with pytest.raises(KilledError):
            work(spark, Mortal(spark, step), directory, committed)
        assert FULL or list(directory.glob("_journal/*.json"))
        some = wanted(len(committed))
        if committed:
            assert some <= found(spark, directory) <= wanted(len(committed) + 1), step
        assert some <= seen(directory), step
        work(spark, Files(spark), directory, committed)
        assert seen(directory) == found(spark, directory) == wanted(BATCHES), step


def test_a_merge_that_would_lose_rows_fails_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = Parquet(spark, Files(spark), str(tmp_path), QUERY)
    for number in range(2):
        parquet.add(batch(spark, number), number, ["day"])
    monkeypatch.setattr(parquet, "_count", len)
    with pytest.raises(PystreamsError, match="ARCHIVE_DIFFERS"):
        parquet.compact(2, 2, 1 << 20)
    assert seen(tmp_path) == wanted(2)


def test_an_archive_without_files_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PystreamsError, match="ARCHIVE_MISSING"):
        read(spark, Files(spark), str(tmp_path))
