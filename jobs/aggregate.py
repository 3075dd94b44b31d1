r"""Streams to figures: a query in SQL over entries, such as aggregates of time windows, or alerts.

    spark-submit jobs/aggregate.py --stream orders --schema 'customer string, price double, at timestamp' --time at \
        --sql "SELECT window(at, '5 minutes') AS window, customer, sum(price) AS total FROM events GROUP BY 1, 2" \
        --to totals --checkpoint checkpoints/totals

The view `events` has the columns of --schema, `_id`, `_stream`, `_timestamp`, `_ms` and `_seq`. By default, the figures
of a window are written once, when the watermark passes the end of the window; later entries of the window are dropped.
"""

from __future__ import annotations

from typing import Any

import click

from pystreams.jobs.job import combined, job, query_flags, reading_flags, watermark_flag
from pystreams.jobs.run import Run, to_flag, to_stream


@job(
    "aggregate",
    examples=(
        "aggregate --stream orders --schema 'customer string, price double' --to totals \\",
        "    --sql \"SELECT window(_timestamp, '5 minutes') AS window, customer, sum(price) AS total\" \\",
        '          "FROM events GROUP BY 1, 2" --checkpoint checkpoints/totals',
        "aggregate --stream orders --schema 'customer string, price double' --to alerts \\",
        "    --sql 'SELECT * FROM events WHERE price > 1000' --checkpoint checkpoints/alerts --trigger 1s",
        "aggregate --conf aggregate.toml",
    ),
)
@combined(
    to_flag,
    click.option("--sql", required=True, metavar="QUERY", help="Query of the view `events`."),
    click.option(
        "--time",
        "time_column",
        default="_timestamp",
        show_default=True,
        metavar="COLUMN",
        help="Column with the event time. `_timestamp` is the time in the ID.",
    ),
    watermark_flag,
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
    run: Run, target: str, sql: str, time_column: str, watermark: str, output_mode: str, **reading: Any
) -> None:
    """Compute figures of streams by a query in SQL, or write alerts for entries that meet a condition."""
    events = run.read_stream(**reading)
    events.withWatermark(time_column, watermark).createOrReplaceTempView("events")
    figures = run.spark.sql(sql)
    run.follow(figures.writeStream.outputMode(output_mode).foreachBatch(to_stream(run, target)))


if __name__ == "__main__":
    aggregate()
