"""Parquet files that contain each batch of a streaming query exactly once. Small files are merged later.

    ARCHIVE/day=2024-06-01/<query>-b0000000012-00000.parquet   a file of batch 12
    ARCHIVE/day=2024-06-01/<query>-c0000000031-00000.parquet   merged from files of batches up to 31
    ARCHIVE/_staging/<query>/                                  files being written, which readers ignore
    ARCHIVE/_journal/<query>.json                              a merge in progress: its result and its sources

A batch is first written to the staging directory. Then its files are moved into the archive, under names derived from
the batch's number, so a batch that a restart repeats replaces the files of its first attempt. A merged file is also
staged first. Once the journal has been renamed to its final name, the merge is valid: the merged file is moved into the
archive and its sources are removed. The next run of the query finishes interrupted work (`recover`). `read` returns
each row once, even during a merge. Other readers may see the rows of a merge twice while its sources are being removed.
Only files of batches that Spark has committed are merged, so that a repeated batch finds its own files unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.errors import fail
from pystreams.jobs.filesystem import Files, Found

_FILES = ("*.parquet", "*=*/*.parquet")
_OF_PATTERNS = "{}[]*?\\"


def check_directory(directory: str) -> None:
    """Raise FILE_UNUSABLE if Hadoop treats the directory's name as a pattern: its files would not be found again."""
    found = " ".join(each for each in _OF_PATTERNS if each in directory)
    if found:
        fail("FILE_UNUSABLE", file=directory, reason=f"Hadoop treats {found} in a path as a pattern")


class Parquet:
    """The files of one query in a directory, which may also contain files of other queries. `query`: the query's ID."""

    def __init__(self, spark: SparkSession, files: Files, directory: str, query: str) -> None:
        check_directory(directory)
        self._spark = spark
        self._files = files
        self._directory = directory
        self._query = query.replace("-", "")[:12]
        self._staging = f"{directory}/_staging/{self._query}"
        self._journal = f"{directory}/_journal/{self._query}.json"
        self._is_new = True
        self.recover()

    def recover(self) -> None:
        """Finish the interrupted work of an earlier run of the query."""
        if self._files.exists(self._journal):
            self._exchange(json.loads(self._files.read_text(self._journal)))
        self._files.delete(self._staging)

    def add(self, rows: DataFrame, batch: int, partition_by: Sequence[str] = ()) -> None:
        """Add the rows of a batch. The files of the batch are on disk afterwards."""
        name = f"{self._query}-b{batch:010d}"
        if self._is_new:  # remove files of an earlier attempt: only the first batch of a run may repeat a batch
            for pattern in _FILES:
                for left in self._files.matching(f"{self._directory}/{pattern.replace('*.parquet', name)}-*.parquet"):
                    self._files.delete(left.uri)
            self._is_new = False
        staging = f"{self._staging}/{batch}"
        rows.write.mode("overwrite").partitionBy(*partition_by).parquet(staging)
        for number, found in enumerate(found_in(self._files, staging)):
            if not partition_by and not self._count([found.uri]):
                continue
            self._files.rename(found.uri, f"{self._folder(found, staging)}/{name}-{number:05d}.parquet")
        self._files.delete(staging)

    def compact(self, before: int, count: int, size: int) -> int:
        """Merge small files in each directory that has at least `count` small files, but at least two.

        Small files have less than `size` bytes, and belong to batches before `before`, the first batch that Spark has
        not committed. Returns the number of merged files.
        """
        folders: dict[str, list[Found]] = {}
        for found in found_in(self._files, self._directory):
            if found.size < size and found.name.startswith(f"{self._query}-") and _batch_of(found.name) < before:
                folders.setdefault(found.uri.rpartition("/")[0], []).append(found)
        merged = 0
        for folder, some in folders.items():
            if len(some) >= max(2, count):
                merged += self._merge(folder, _up_to(some, size))
        return merged

    def _merge(self, folder: str, some: list[Found]) -> int:
        """Merge files into one, and return their number; 0 for a single file, which stays as it is."""
        if len(some) < 2:
            return 0
        sources = sorted((found.uri for found in some), key=lambda uri: _batch_of(uri.rpartition("/")[2]))
        staging = f"{self._staging}/merged"
        rows = self._spark.read.parquet(*sources).coalesce(1)
        if "_id" in rows.columns:
            rows = rows.sortWithinPartitions("_stream", *in_order_of_ids())
        rows.write.mode("overwrite").parquet(staging)
        (made,) = found_in(self._files, staging)
        if self._count([made.uri]) != self._count(sources):
            fail("ARCHIVE_DIFFERS", directory=folder)
        last = max(_batch_of(found.name) for found in some)
        taken = {found.name for found in self._files.matching(f"{folder}/{self._query}-c*.parquet")}
        number = next(n for n in range(len(taken) + 1) if f"{self._query}-c{last:010d}-{n:05d}.parquet" not in taken)
        target = f"{folder}/{self._query}-c{last:010d}-{number:05d}.parquet"
        self._files.settle(made.uri)
        journal = {"made": made.uri, "target": target, "sources": sources}
        self._files.write_text(self._journal, json.dumps(journal))
        self._exchange(journal)
        return len(sources)

    def _exchange(self, journal: dict[str, Any]) -> None:
        """Move the merged file into the archive and remove its sources. Each step may already have been done."""
        if not self._files.exists(journal["target"]):
            self._files.rename(journal["made"], journal["target"])
        for source in journal["sources"]:
            self._files.delete(source)
        self._files.delete(self._journal)

    def _count(self, uris: list[str]) -> int:
        return self._spark.read.parquet(*uris).count()

    def _folder(self, found: Found, staging: str) -> str:
        return self._directory if found.folder == staging.rpartition("/")[2] else f"{self._directory}/{found.folder}"


def in_order_of_ids() -> list[Column]:
    """Return the sort columns for the order of the column `_id`: its time, then its sequence number."""
    parts = F.split(F.col("_id"), "-")
    return [parts[0].cast("decimal(20,0)"), parts[1].cast("decimal(20,0)")]


def found_in(files: Files, directory: str) -> list[Found]:
    """Return the Parquet files of a directory and its partitions."""
    return [
        found
        for pattern in _FILES
        for found in files.matching(f"{directory}/{pattern}")
        if not found.folder.startswith(("_", ".")) and not found.name.startswith(("_", "."))
    ]


def read(spark: SparkSession, files: Files, directory: str) -> DataFrame:
    """Return the rows of an archive, each once, even if a merge is running or was interrupted.

    Raises ARCHIVE_MISSING if there are no files.
    """
    check_directory(directory)
    while True:
        before = _journals(files, directory)
        found = [each.uri for each in found_in(files, directory)]
        if before == _journals(files, directory):
            break
    replaced: set[str] = set()
    for journal in before.values():
        merge = json.loads(journal)
        if merge["target"] in found:
            replaced.update(merge["sources"])
    left = [uri for uri in found if uri not in replaced]
    if not left:
        fail("ARCHIVE_MISSING", directory=directory)
    return spark.read.option("basePath", directory).parquet(*left)


def _journals(files: Files, directory: str) -> dict[str, str]:
    return {found.uri: files.read_text(found.uri) for found in files.matching(f"{directory}/_journal/[!.]*.json")}


def _batch_of(name: str) -> int:
    """Return the batch number in a file's name. For a merged file, it is the number of the last batch."""
    return int(name.rpartition(".")[0].rsplit("-", 2)[-2][1:])


def _up_to(some: list[Found], size: int) -> list[Found]:
    """Return the oldest files, with at most twice `size` bytes in total, but at least one file."""
    chosen: list[Found] = []
    for found in sorted(some, key=lambda each: _batch_of(each.name)):
        if chosen and sum(each.size for each in chosen) + found.size > 2 * size:
            break
        chosen.append(found)
    return chosen
