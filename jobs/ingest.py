r"""Files to streams: CSV, JSON or Parquet, including directories that grow.

    spark-submit jobs/ingest.py --from s3a://lake/orders/ --format csv --stream orders \
        --checkpoint s3a://lake/checkpoints/orders

Each row becomes an entry, and each column a field; nulls are omitted. A column `_id` sets the IDs of entries. Without
--schema, values of CSV and JSON stay text, and values of Parquet keep their types. A file is read only once, so move
only finished files into the directory. Each row is written exactly once. Within a batch, rows are written in the order
of file names, and of rows within a file.
"""

from __future__ import annotations

from typing import Any

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.jobs.job import combined, job, pair, query_flags
from pystreams.jobs.run import Run

# A row that does not fit the schema is an error, and so is a header that differs from it. Otherwise fields would be
# missing, or values would go to the wrong columns.
_OPTIONS: dict[str, dict[str, Any]] = {
    "csv": {"header": True, "mode": "FAILFAST", "enforceSchema": False},
    "json": {"primitivesAsString": True, "mode": "FAILFAST"},
    "parquet": {},
}
_FILE, _ROW = "_pystreams_file", "_pystreams_row"  # columns with the file of a row, and its position in the batch


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
    click.option("--from", "source", metavar="URI", required=True, help="Directory or glob."),
    click.option("--format", "form", type=click.Choice(list(_OPTIONS)), required=True, help="Format of the files."),
    click.option(
        "--stream", required=True, metavar="NAME", help="Target stream, or with --partitions the prefix of the streams."
    ),
    click.option(
        "--partitions",
        type=click.IntRange(1),
        metavar="N",
        help="Number of streams NAME:{0}, NAME:{1}, ... over which rows are distributed by --key.",
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
        help="Option of Spark's file reader, such as nullValue=NA or maxFilesPerTrigger=100.",
    ),
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
) -> None:
    """Write each row of files exactly once to streams, including files that arrive later."""
    run.spark.conf.set("spark.sql.streaming.schemaInference", "true")
    reader = run.spark.readStream.format(form).options(**_OPTIONS[form]).options(**dict(map(pair, file_options)))
    rows = (reader if schema is None else reader.schema(schema)).load(source)
    rows = rows.select("*", rows.metadataColumn("_metadata").alias(_FILE))

    def write(batch: DataFrame, _number: int) -> None:
        run.write(_in_order(batch), stream=stream, partitions=partitions, keyColumn=key, retentionMs=retention)

    run.follow(rows.writeStream.foreachBatch(write))


def _in_order(batch: DataFrame) -> DataFrame:
    """Order the rows by file name and position for one writer, regardless of how Spark splits the files."""
    whole = batch.coalesce(1).withColumn(_ROW, F.monotonically_increasing_id())
    ordered = whole.sortWithinPartitions(f"{_FILE}.file_path", f"{_FILE}.file_block_start", _ROW)
    return ordered.drop(_FILE, _ROW)


if __name__ == "__main__":
    ingest()
