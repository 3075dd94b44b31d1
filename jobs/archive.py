"""Streams to Parquet files by day. Archived entries can be removed from the stream.

    spark-submit jobs/archive.py --stream orders --to s3a://lake/orders --trigger 1h --trim-behind

Each entry becomes a row with its ID, its stream, the time in its ID, and its fields (a map, or columns with --schema).
Each row is stored exactly once, below the directory of the UTC day of that time: ARCHIVE/day=2024-06-01/. With
--trim-behind, the connector removes entries from the stream after their batch is stored and committed. It keeps entries
that another group has yet to read, and entries of a batch that a restart would repeat. Delta and Iceberg tables are
written by Spark sinks, whose packages the session must have.
"""

from __future__ import annotations

from typing import Any

import click
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.errors import error
from pystreams.jobs.job import combined, job, query_flags, reading_flags
from pystreams.jobs.run import Run

_DAY_MS = 86_400_000


@job(
    "archive",
    examples=(
        "archive --stream orders --to archive/orders",
        "archive --pattern 'sensors:*' --to s3a://lake/sensors --trigger 1h --trim-behind",
        "archive --stream orders --schema 'customer string, price double' --to lake/orders",
        "archive --conf archive.toml",
    ),
)
@combined(
    click.option(
        "--to",
        "target",
        metavar="URI",
        required=True,
        help="Directory of the archive. For Iceberg: CATALOG.DB.TABLE.",
    ),
    click.option(
        "--format",
        "form",
        default="parquet",
        show_default=True,
        help="Table format. The formats delta and iceberg need their packages.",
    ),
    click.option("--trim-behind", is_flag=True, help="Remove entries from the streams after they have been archived."),
    click.option(
        "--binary", is_flag=True, help="Store fields as bytes, which also preserves fields that are not text."
    ),
)
@reading_flags
@query_flags
def archive(
    run: Run,
    target: str,
    form: str,
    trim_behind: bool,
    binary: bool,
    schema: str | None,
    group: str | None,
    **reading: Any,
) -> None:
    """Write each entry of streams exactly once to files by day."""
    if schema is not None and (trim_behind or binary):
        raise click.UsageError(
            "--schema stores only the fields that it names. Remove it, or --trim-behind and --binary, which preserve "
            "all fields."
        )
    target = target.rstrip("/")
    if form != "iceberg":  # an Iceberg target is a table in a catalog, not a directory
        run.checkpoint = run.checkpoint or f"{target}/_checkpoint"
    entries = run.read_stream(
        **reading,
        schema=schema,
        group=group or ("archive" if trim_behind else None),
        trimOnCommit="true" if trim_behind else None,
        fieldsType="binary" if schema is None else None,
        mode="FAILFAST",  # otherwise entries whose values became null would be trimmed
    )
    if schema is None and not binary:
        entries = entries.withColumn("fields", _texts())
    day = F.date_add(F.lit("1970-01-01").cast("date"), F.floor(F.unix_millis("_timestamp") / _DAY_MS).cast("int"))
    rows = entries.select("*", day.alias("day"))
    if form == "parquet":
        run.follow(rows.writeStream.foreachBatch(lambda batch, number: write_files(run, batch, number, target)))
    elif form == "iceberg":  # the rows of a batch are not sorted by day, as Iceberg requires without fan-out
        run.follow(rows.writeStream.format(form).option("fanout-enabled", "true").partitionBy("day"), table=target)
    else:
        run.follow(rows.writeStream.format(form).option("path", target).partitionBy("day"))


def write_files(run: Run, rows: DataFrame, number: int, directory: str) -> None:
    """Write a batch to Parquet files in directories of its own: DIRECTORY/day=<day>/batch=<query>-<number>/.

    A repeated batch replaces these directories, so that each row is stored once.
    """
    query = str(run.spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
    whole = rows.select("*", F.lit(f"{query[:8]}-{number:010d}").alias("batch"))
    whole.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("day", "batch").parquet(
        directory
    )


def _texts() -> Column:
    """Return the fields as text. A name or value that is not UTF-8 stops the job: otherwise it would be stored as null,
    and the entry would be trimmed.
    """
    words = F.concat(F.map_keys("fields"), F.map_values("fields"))
    refusal = F.raise_error(F.format_string(str(error("ARCHIVE_NOT_TEXT", entry="%s", stream="%s")), "_id", "_stream"))
    whole = F.forall(words, lambda word: F.is_valid_utf8(word.cast("string")))
    return F.when(whole, F.col("fields").cast("map<string,string>")).otherwise(refusal.cast("map<string,string>"))


if __name__ == "__main__":
    archive()
