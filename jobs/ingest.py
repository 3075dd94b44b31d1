"""Files to streams: CSV, JSON or Parquet, including directories that grow.

    spark-submit jobs/ingest.py --from s3a://lake/orders/ --format csv --stream orders --checkpoint
    s3a://lake/checkpoints/orders

Each row becomes an entry, and each column a field; nulls are omitted. A column `_id` sets the IDs of entries. Without
--schema, values of CSV and JSON stay text, and values of Parquet keep their types. A file is read only once, so move
only finished files into the directory. Each row is written exactly once. Within a batch, rows are written in the order
of file names, and of rows within a file. --parallel uses several writers and does not keep this order.
"""

from __future__ import annotations

import json
from typing import Any

import click
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StructType

from pystreams.errors import fail
from pystreams.jobs.flags import combined, query_flags
from pystreams.jobs.job import job
from pystreams.jobs.run import Run

# A row that cannot be read or does not fit the schema is an error. Otherwise fields would be missing.
_TEXTS: dict[str, dict[str, Any]] = {
    "csv": {"header": True, "mode": "FAILFAST"},
    "json": {"primitivesAsString": True, "mode": "FAILFAST"},
    "parquet": {},
}
# A header that differs from the schema is an error. Otherwise values would go to the wrong columns.
_CHECKED: dict[str, dict[str, Any]] = {**_TEXTS, "csv": {**_TEXTS["csv"], "enforceSchema": False}}

#: Additional column with the file of a row.
_FILE = "_pystreams_file"
#: Additional column with the position of a row in its file.
_ROW = "_pystreams_row"


@job(
    "ingest",
    examples=(
        "ingest --from landing/ --format csv --stream orders --checkpoint checkpoints/orders",
        "ingest --from landing/ --format json --stream orders --partitions 8 --key customer --retention 7d \\",
        "    --checkpoint checkpoints/orders --trigger 30s   # a batch of new files every 30 seconds",
        "ingest --conf ingest.toml",
    ),
)
@combined(
    click.option("--from", "source", metavar="URI", required=True, help="File, directory or glob."),
    click.option("--format", "form", type=click.Choice(list(_TEXTS)), required=True, help="Format of the files."),
    click.option(
        "--stream", required=True, metavar="NAME", help="Target stream, or with --partitions the prefix of the streams."
    ),
    click.option(
        "--partitions",
        type=click.IntRange(1),
        metavar="N",
        help="Number of streams NAME:{0}, NAME:{1}, ... over which rows are distributed.",
    ),
    click.option("--key", metavar="COLUMN", help="Column that determines the partition of a row."),
    click.option(
        "--retention", metavar="DURATION", help="Maximum age of entries, such as 7d. Older entries are removed."
    ),
    click.option("--schema", metavar="DDL", help="Columns of the files, such as 'customer string, price double'."),
    click.option(
        "--file-option",
        "file_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Option of Spark's file reader, such as nullValue=NA.",
    ),
    click.option("--max-files", type=click.IntRange(1), metavar="N", help="Maximum number of files in a batch."),
    click.option("--parallel", is_flag=True, help="Use several writers, which do not preserve the order of rows."),
)
@query_flags
def ingest(
    run: Run,
    source: str,
    form: str,
    stream: str,
    partitions: int | None,
    key: str | None,
    retention: str | None,
    schema: str | None,
    file_options: tuple[str, ...],
    max_files: int | None,
    parallel: bool,
) -> None:
    """Write each row of files exactly once to streams, including files that arrive later."""
    if (partitions is None) != (key is None):
        raise click.UsageError("--partitions and --key require each other.")
    given = dict(_pair(word) for word in file_options)
    columns = schema if schema is not None else _columns(run, source, form, given)
    reader = run.spark.readStream.format(form).options(**{**_CHECKED[form], **given}).schema(columns)
    if max_files is not None:
        reader = reader.option("maxFilesPerTrigger", max_files)
    folder, _, name = source.rpartition("/")
    if run.files.is_file(source):  # read the file through its directory: file streams accept only directories and globs
        reader, source = reader.option("pathGlobFilter", name), folder or "."
    rows = reader.load(source)
    if not parallel:
        rows = rows.select("*", rows.metadataColumn("_metadata").alias(_FILE))

    def write(batch: DataFrame, _number: int) -> None:
        run.write(
            batch if parallel else _in_order(batch),
            stream=stream,
            partitions=partitions,
            keyColumn=key,
            retentionMs=retention,
        )

    run.follow(rows, write)


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise click.BadParameter("write NAME=VALUE", param_hint="--file-option")
    return name, value


def _columns(run: Run, source: str, form: str, options: dict[str, Any]) -> StructType:
    """Return the columns that the first run recorded in the checkpoint, or else those of the existing files.

    Raises NO_COLUMNS if no file has columns.
    """
    note = f"{run.claim_checkpoint()}/_ingest/columns.json"
    if run.files.exists(note):
        return StructType.fromJson(json.loads(run.files.read_text(note)))
    try:
        found = run.spark.read.format(form).options(**{**_TEXTS[form], **options}).load(source).schema
    except AnalysisException as refusal:
        if refusal.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise
        found = StructType()
    if not found:
        fail("NO_COLUMNS", source=source)
    run.files.write_text(note, found.json())
    return found


def _in_order(batch: DataFrame) -> DataFrame:
    """Order the rows by file name and position for one writer, regardless of how Spark splits the files."""
    whole = batch.coalesce(1).withColumn(_ROW, F.monotonically_increasing_id())
    ordered = whole.sortWithinPartitions(f"{_FILE}.file_path", f"{_FILE}.file_block_start", _ROW)
    return ordered.drop(_FILE, _ROW)


if __name__ == "__main__":
    ingest()
