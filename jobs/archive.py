"""Streams to Parquet files by day. Archived entries can be removed from the stream.

    spark-submit jobs/archive.py --stream orders --to s3a://lake/orders --trigger 30s --trim-behind

Each entry becomes a row with its ID, its stream, the time in its ID, and its fields (a map, or columns with --schema).
Each row is stored exactly once, in the directory of the UTC day of that time: ARCHIVE/day=2024-06-01/. Small files of a
day are merged (--compact). With --trim-behind, the job removes entries from the stream after their batch is stored and
committed. It keeps entries that another group has yet to read, and entries of a batch that a restart would repeat.
Delta and Iceberg tables are written by Spark sinks, whose packages the session must have.
"""

from __future__ import annotations

from dataclasses import replace

import click
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.errors import error
from pystreams.jobs.flags import Reading, combined, query_flags, reading_flags
from pystreams.jobs.job import job
from pystreams.jobs.parquet import Parquet, check_directory
from pystreams.jobs.run import Run

_DAY_MS = 86_400_000


@job(
    "archive",
    examples=(
        "archive --stream orders --to archive/orders",
        "archive --pattern 'sensors:*' --to s3a://lake/sensors --trigger 30s --trim-behind",
        "archive --stream orders --schema 'customer string, price double' --to lake/orders",
        "archive --conf archive.toml",
    ),
)
@combined(
    click.option(
        "--to",
        "directory",
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
    click.option(
        "--compact",
        type=click.IntRange(0),
        default=20,
        show_default=True,
        metavar="N",
        help="Number of small files of a day that triggers a merge; 0 to disable.",
    ),
    click.option(
        "--file-size",
        type=click.IntRange(1),
        default=128,
        show_default=True,
        metavar="MIB",
        help="Size in MiB below which a file counts as small.",
    ),
)
@reading_flags
@query_flags
def archive(
    run: Run,
    directory: str,
    form: str,
    trim_behind: bool,
    binary: bool,
    compact: int,
    file_size: int,
    reading: Reading,
) -> None:
    """Write each entry of streams exactly once to files by day."""
    schema = reading.schema
    if trim_behind and schema is not None:
        raise click.UsageError(
            "--trim-behind would lose fields that --schema does not name. Remove one of the two options."
        )
    if binary and schema is not None:
        raise click.UsageError(
            "--binary and --schema exclude each other: --binary stores a map of fields, --schema columns."
        )
    directory = directory.rstrip("/")
    check_directory(directory)
    if form != "iceberg":  # an Iceberg target is a table in a catalog, not a directory
        run.checkpoint = run.checkpoint or f"{directory}/_checkpoint"
    entries = run.stream_of(
        replace(reading, group=reading.group or ("archive" if trim_behind else None)),
        own_columns=True,
        trimOnCommit="true" if trim_behind else None,
        fieldsType="binary" if schema is None else None,
        mode="FAILFAST",  # otherwise entries whose values became null would be trimmed
    )
    if "day" in map(str.lower, entries.columns):
        raise click.UsageError(
            "The archive uses the column 'day' itself. Read the field 'day' in the map of fields, without --schema."
        )
    if schema is None and not binary:
        entries = entries.withColumn("fields", _texts())
    day = F.date_add(F.lit("1970-01-01").cast("date"), F.floor(F.unix_millis("_timestamp") / _DAY_MS).cast("int"))
    rows = entries.withColumn("day", day)
    if form != "parquet":
        run.follow_sink(rows, form, directory, partition_by="day")
        return
    files: list[Parquet] = []

    def keep(batch: DataFrame, number: int) -> None:
        if not files:
            files.append(Parquet(run.spark, run.files, directory, run.query_id()))
        files[0].add(batch, number, ["day"])
        if compact:
            files[0].compact(number, compact, file_size << 20)

    run.follow(rows, keep)
    if files and compact and not run.stop.requested.is_set():
        files[0].compact(run.committed + 1, compact, file_size << 20)


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
