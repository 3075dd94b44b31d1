r"""Streams to figures: aggregates over windows of event time, or alerts for entries that meet a condition.

    spark-submit jobs/aggregate.py --stream orders --schema 'customer string, price double, at timestamp' \
        --time at --window 5m --watermark 10m --by customer --agg 'sum(price) as total' --to stream:totals

By default, the figures of a window are written once, when the watermark passes the end of the window. Later entries of
the window are dropped. --sql defines the whole computation as a query of the view `events`. --having keeps only figures
that meet a condition. Without --agg and --sql, the job writes alerts: entries that meet --where go to the target as
they arrive.
"""

from __future__ import annotations

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.jobs.flags import Reading, combined, interval, query_flags, reading_flags
from pystreams.jobs.job import job
from pystreams.jobs.run import Run
from pystreams.jobs.targets import Target, to_flag, work_of


@job(
    "aggregate",
    examples=(
        "aggregate --stream orders --schema 'customer string, price double' --window 5m --by customer \\",
        "    --agg 'count(*) as orders' --agg 'sum(price) as total' --to stream:totals --checkpoint checkpoints/totals",
        "aggregate --stream orders --schema 'price double' --to console --checkpoint checkpoints/sql \\",
        "    --sql 'SELECT window(_timestamp, \"1 hour\") AS hour, avg(price) AS mean FROM events GROUP BY 1'",
        "aggregate --stream orders --schema 'customer string, price double' --where 'price > 1000' \\",
        "    --to stream:alerts --checkpoint checkpoints/alerts --trigger 1s",
        "aggregate --conf aggregate.toml",
    ),
)
@combined(
    to_flag,
    click.option(
        "--time",
        "time_column",
        default="_timestamp",
        show_default=True,
        metavar="COLUMN",
        help="Column with the event time. `_timestamp` is the time in the ID.",
    ),
    click.option("--window", metavar="DURATION", help="Length of a window."),
    click.option("--slide", metavar="DURATION", help="Time between the starts of windows.  [default: --window]"),
    click.option(
        "--watermark", default="10m", show_default=True, metavar="DURATION", help="Maximum lateness of an entry."
    ),
    click.option("--by", multiple=True, metavar="COLUMN", help="Column to group by. Repeatable."),
    click.option(
        "--agg", multiple=True, metavar="SQL", help="Figure to compute, such as 'avg(price) as mean'. Repeatable."
    ),
    click.option("--sql", metavar="QUERY", help="Query of the view `events`, instead of --agg, --window and --by."),
    click.option("--where", metavar="SQL", help="Condition that entries must meet."),
    click.option("--having", metavar="SQL", help="Condition that results must meet."),
    click.option(
        "--output-mode",
        type=click.Choice(("append", "update")),
        default="append",
        show_default=True,
        help="append: only final figures of a window; update: figures at each change.",
    ),
)
@reading_flags
@query_flags
def aggregate(
    run: Run,
    target: Target,
    time_column: str,
    window: str | None,
    slide: str | None,
    watermark: str,
    by: tuple[str, ...],
    agg: tuple[str, ...],
    sql: str | None,
    where: str | None,
    having: str | None,
    output_mode: str,
    reading: Reading,
) -> None:
    """Compute figures of streams by time windows and keys, or write alerts for entries that meet a condition."""
    if sql is not None and (agg or window or slide or by):
        raise click.UsageError("--sql defines the whole computation. Remove --agg, --window, --slide and --by.")
    if agg and window is None and output_mode == "append":
        raise click.UsageError("Figures without --window are never final. Add --window or --output-mode update.")
    if not agg and (window or by or slide):
        raise click.UsageError("Give the figures to compute, such as --agg 'count(*) as n'.")
    if slide is not None and window is None:
        raise click.UsageError("--slide requires --window.")
    if not agg and sql is None and where is None:
        raise click.UsageError("Give a computation (--agg or --sql), or a condition for alerts (--where).")
    events = run.stream_of(reading, own_columns=True)
    if where is not None:
        events = events.where(where)
    if agg or sql is not None:
        events = events.withWatermark(time_column, interval(watermark, "--watermark"))
    if sql is not None:
        events.createOrReplaceTempView("events")
        figures = run.spark.sql(sql)
    elif agg:
        keys = [F.col(name) for name in by]
        if window is not None:
            length = interval(window, "--window")
            keys.insert(0, F.window(time_column, length, interval(slide, "--slide") if slide is not None else length))
        figures = events.groupBy(*keys).agg(*map(F.expr, agg))
    else:
        figures = _alerts(events)
    if having is not None:
        figures = figures.where(having)
    fixed = {"agg": agg, "by": by, "window": window, "slide": slide, "sql": sql}
    run.follow(figures, work_of(run, target), output_mode=output_mode, fixed=fixed)


def _alerts(events: DataFrame) -> DataFrame:
    """Rename `_id` and `_stream`, which would set the alert's ID and stream. Drop `_timestamp` and `_deliveries`."""
    return events.withColumnsRenamed({"_id": "source_id", "_stream": "source_stream"}).drop("_timestamp", "_deliveries")


if __name__ == "__main__":
    aggregate()
