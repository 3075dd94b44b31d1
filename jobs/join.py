r"""Two streams to one: entries with equal keys whose times are close together.

    spark-submit jobs/join.py --left orders --left-schema 'order string, price double' \
        --right payments --right-schema 'order string, amount double' --on order --within 10m \
        --to paid --checkpoint checkpoints/paid

Results contain each key column once. Other columns that both streams have are called `left_...` and `right_...`. With
--kind left, an unmatched entry of the left stream is written alone, as soon as the watermark rules out a match. Until
then, Spark keeps the entries of both streams.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.jobs.job import Decorator, Duration, combined, job, progress_flags, query_flags, watermark_flag
from pystreams.jobs.run import Run, to_flag, to_stream


def _side(name: str, position: str) -> Decorator:
    """Return the options of one of the two streams."""
    return combined(
        click.option(f"--{name}", required=True, metavar="NAME", help=f"{position.capitalize()} stream."),
        click.option(f"--{name}-schema", required=True, metavar="DDL", help=f"Columns of the {position} stream."),
        click.option(
            f"--{name}-time",
            default="_timestamp",
            show_default=True,
            metavar="COLUMN",
            help=f"Column with the event time in the {position} stream.",
        ),
    )


@job(
    "join",
    examples=(
        "join --left orders --left-schema 'order string, price double' --right payments \\",
        "    --right-schema 'order string, amount double' --on order --within 10m \\",
        "    --to paid --checkpoint checkpoints/paid",
        "join --conf join.toml",
    ),
)
@combined(
    to_flag,
    _side("left", "first"),
    _side("right", "second"),
    click.option(
        "--on",
        "keys",
        multiple=True,
        required=True,
        metavar="COLUMN",
        help="Column that must be equal in both streams. Repeatable.",
    ),
    click.option("--within", type=Duration(), required=True, help="Maximum difference between the two event times."),
    watermark_flag,
    click.option(
        "--kind",
        type=click.Choice(("inner", "left")),
        default="inner",
        show_default=True,
        help="inner: only matching entries; left: also unmatched entries of the first stream.",
    ),
    progress_flags,
)
@query_flags
def join(
    run: Run,
    target: str,
    left: str,
    left_schema: str,
    left_time: str,
    right: str,
    right_schema: str,
    right_time: str,
    keys: tuple[str, ...],
    within: str,
    watermark: str,
    kind: str,
    **reading: Any,
) -> None:
    """Join entries of two streams that have equal keys and close event times."""

    def side(stream: str, schema: str, time_column: str, prefix: str) -> DataFrame:
        """Return the entries of a stream, with the prefix in front of each column name."""
        # idleWaitMs is short, because a source that waits for new entries delays the other source.
        rows = run.read_stream(streams=(stream,), pattern=None, schema=schema, idleWaitMs=10, **reading)
        rows = rows.withWatermark(time_column, watermark)
        return rows.select(*(F.col(f"`{name}`").alias(f"{prefix}{name}") for name in rows.columns))

    first, second = side(left, left_schema, left_time, "left_"), side(right, right_schema, right_time, "right_")
    at, limit = f"`left_{left_time}`", f"INTERVAL {within}"
    close = F.expr(f"`right_{right_time}` BETWEEN {at} - {limit} AND {at} + {limit}")
    equal = (F.col(f"`left_{key}`") == F.col(f"`right_{key}`") for key in keys)
    how = "inner" if kind == "inner" else "left_outer"
    joined = first.join(second, functools.reduce(operator.and_, equal, close), how)
    run.follow(_named(joined, keys).writeStream.foreachBatch(to_stream(run, target)))


def _named(joined: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return the keys once, the IDs of both entries, and the fields of both.

    A column keeps its prefix only if both streams have a column of that name.
    """
    sides = {
        prefix: [name.removeprefix(prefix) for name in joined.columns if name.startswith(prefix)]
        for prefix in ("left_", "right_")
    }
    columns = [F.col(f"`left_{key}`").alias(key) for key in keys]
    columns += [F.col("left__id").alias("left_id"), F.col("right__id").alias("right_id")]
    for prefix, other in (("left_", "right_"), ("right_", "left_")):
        columns += [
            F.col(f"`{prefix}{name}`").alias(f"{prefix}{name}" if name in sides[other] else name)
            for name in sides[prefix]
            if name not in keys and name not in ("_id", "_stream", "_timestamp", "_ms", "_seq")
        ]
    return joined.select(*columns)


if __name__ == "__main__":
    join()
