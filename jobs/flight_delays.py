"""New York's departures of 2013 as a stream: delays by airport and visibility, and alerts for long delays.

    spark-submit jobs/flight_delays.py [--url redis://host:port]

The job

1. writes the weather stations' hourly readings to the stream `weather` (a batch write);
2. starts two streaming queries on the stream `flights`, each with its own consumer group. Both join each departure with
   the weather at its airport in that hour (a batch read of `weather`). `delay-statistics` writes the changed statistics
   of each batch to the stream `statistics`. `late-departures` writes departures that left more than three hours late to
   the stream `alerts`;
3. replays all departures into `flights`, in order of time, while the queries run (batch writes);
4. waits until all entries are processed and acknowledged, prints the table, and checks every figure against pandas.

Two queries read the stream, rather than one query with two outputs, so each has its own offsets, group and guarantee.
The statistics are exact even if a batch is repeated: Spark's state counts each entry once, and each figure and alert is
written once.

This module contains the pipeline. `pystreams.jobs.flight_check` has the data and the check by pandas.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.streaming.query import StreamingQuery

from pystreams.errors import Status, fail
from pystreams.jobs import flight_check
from pystreams.jobs.job import combined, job
from pystreams.jobs.run import Run
from pystreams.streams import group_states as of_groups

STREAMS = FLIGHTS, WEATHER, STATISTICS, ALERTS = "flights", "weather", "statistics", "alerts"

# The fields that the job uses. time_hour is the scheduled hour in UTC as text; together with the airport, it is the key
# of a reading.
FLIGHT_SCHEMA = (
    "carrier string, flight int, tailnum string, origin string, dest string, time_hour string, "
    "sched_dep_time int, dep_delay int"
)
WEATHER_SCHEMA = "origin string, time_hour string, visib double"
ALERT_SCHEMA = FLIGHT_SCHEMA + ", visib double, visibility string"
STATISTICS_SCHEMA = (
    "_ms bigint, _seq bigint, origin string, visibility string, scheduled bigint, cancelled bigint, late bigint, "
    "very_late bigint, delay_max int, delay_mean double, delay_stddev double"
)

LATE_MINUTES = 15  # minimum delay that the US Department of Transportation counts as late
VERY_LATE_MINUTES = 180

REPLAY_CHUNK = 50_000  # departures written by one batch write
DEADLINE_SECONDS = 60  # timeout for the acknowledgement of the last batch


# Computation on batch or streaming DataFrames, without I/O.


def visibility_band(miles: Column) -> Column:
    """Return the band of a visibility in miles, by the limits of the US flight categories."""
    return (
        F.when(miles < 1, "<1")
        .when(miles < 3, "1-3")
        .when(miles <= 5, "3-5")
        .when(miles > 5, ">5")
        .otherwise("no reading")
    )


def with_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Add the visibility (or null) at each departure's airport in the scheduled hour, and the visibility's band."""
    readings = F.broadcast(weather.select("origin", "time_hour", "visib"))
    return flights.join(readings, ["origin", "time_hour"], "left").withColumn(
        "visibility", visibility_band(F.col("visib"))
    )


def delay_statistics(departures: DataFrame) -> DataFrame:
    """Aggregate the delays in minutes by airport and visibility band. A null delay means a cancelled departure."""
    delay = F.col("dep_delay")
    return departures.groupBy("origin", "visibility").agg(
        F.count("*").alias("scheduled"),
        F.count_if(delay.isNull()).alias("cancelled"),
        F.count_if(delay >= LATE_MINUTES).alias("late"),
        F.count_if(delay > VERY_LATE_MINUTES).alias("very_late"),
        F.max(delay).alias("delay_max"),
        F.avg(delay).alias("delay_mean"),
        F.stddev_pop(delay).alias("delay_stddev"),
    )


def late_departures(departures: DataFrame) -> DataFrame:
    """Keep the departures that left more than three hours late, with the fields of an alert."""
    return departures.where(F.col("dep_delay") > VERY_LATE_MINUTES).select(*flight_check.ALERTS)


# Reading and writing.


def read_stream(job: Run, group: str) -> DataFrame:
    """Return the departures as a streaming DataFrame that the consumer group reads from the stream's start."""
    options = job.read_options(group=group, startingOffsets="earliest")
    return job.spark.readStream.format("pystreams").options(**options).schema(FLIGHT_SCHEMA).load(FLIGHTS)


def read_batch(job: Run, stream: str, schema: str) -> DataFrame:
    """Return the current entries of a stream, or none if it does not exist yet."""
    options = job.read_options(failOnMissingStream="false")
    return job.spark.read.format("pystreams").options(**options).schema(schema).load(stream)


def write_batch(job: Run, stream: str, rows: pa.Table) -> None:
    """Append rows to a stream in their order, by one task."""
    job.write(job.spark.createDataFrame(rows).coalesce(1), stream=stream)


def start(
    job: Run, group: str, result: Callable[[DataFrame], DataFrame], mode: str, target: str, checkpoint: str
) -> StreamingQuery:
    """Start a query that reads the departures through a group, joins the weather, and writes its result to a stream."""
    departures = with_weather(read_stream(job, group), read_batch(job, WEATHER, WEATHER_SCHEMA))
    return (
        result(departures)
        .writeStream.queryName(group)
        .foreachBatch(lambda rows, _batch_id: job.write(rows, stream=target))
        .outputMode(mode)
        .option("checkpointLocation", f"{checkpoint}/{group}")
        .start()
    )


# One run of the job.


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: contents of the server after the run, and its duration."""

    statistics: pd.DataFrame
    alerts: pd.DataFrame
    lengths: dict[str, int]  # entries in each stream
    read: dict[str, int]  # entries that each group's query read in this run
    groups: dict[str, tuple[int, int | None]]  # pending count and lag of each group
    seconds: float  # from the first write until the last entry was processed


def run(job: Run, checkpoint: str, limit: int | None) -> Outcome:
    """Write the weather, start the queries, replay the departures, and wait until all entries are acknowledged.

    A run with the checkpoint of an earlier run continues that run, after the entries that are already in the streams.
    """
    # Keep all progress updates, whose entries `Outcome.read` adds up.
    job.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    before = lengths(job)
    began = time.perf_counter()
    weather = flight_check.weather_readings().slice(before[WEATHER])
    if weather.num_rows:
        write_batch(job, WEATHER, weather)
    job.say(f"{WEATHER}: {lengths(job)[WEATHER]:,} readings")
    queries: list[StreamingQuery] = []
    try:
        for query in (
            ("delay-statistics", delay_statistics, "update", STATISTICS),
            ("late-departures", late_departures, "append", ALERTS),
        ):
            queries.append(start(job, *query, checkpoint))
            # Start one query after the other: sources that start simultaneously can corrupt a table inside Spark that
            # all sources share. Then every task of the data source fails as "not serializable".
            queries[-1].processAllAvailable()
        flights = flight_check.departures().slice(0, limit).slice(before[FLIGHTS])
        for offset in range(0, flights.num_rows, REPLAY_CHUNK):
            write_batch(job, FLIGHTS, flights.slice(offset, REPLAY_CHUNK))
            now = lengths(job)
            job.say(f"{FLIGHTS}: {now[FLIGHTS]:,} departures written, {now[ALERTS]:,} alerts")
        for each in queries:
            each.processAllAvailable()
        seconds = time.perf_counter() - began
        return Outcome(
            groups=acknowledged(job),
            statistics=newest_statistics(job),
            alerts=read_batch(job, ALERTS, ALERT_SCHEMA).select(*flight_check.ALERTS).toPandas(),
            lengths=lengths(job),
            read={each.name: sum(progress.numInputRows for progress in each.recentProgress) for each in queries},
            seconds=seconds,
        )
    finally:
        for each in queries:
            each.stop()


def lengths(job: Run) -> dict[str, int]:
    """Return the number of entries in each of the job's streams."""
    with job.connection() as connection:
        return dict(zip(STREAMS, connection.commands([("XLEN", stream) for stream in STREAMS]), strict=True))


def acknowledged(job: Run) -> dict[str, tuple[int, int | None]]:
    """Wait until no group has pending or unread entries, or until the timeout. Return both numbers of each group.

    Spark commits a batch to its source only at the next trigger, so the entries of the last batch stay pending until
    then.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        with job.connection() as connection:
            states = of_groups.groups(connection, [FLIGHTS.encode()], 0)
            found = {state.name.decode(): (state.pending, state.lag) for state in states}
        if all(state == (0, 0) for state in found.values()) or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def newest_statistics(job: Run) -> pd.DataFrame:
    """Return the last figures of each airport and visibility band."""
    rows = pd.DataFrame(read_batch(job, STATISTICS, STATISTICS_SCHEMA).toPandas()).sort_values(["_ms", "_seq"])
    return rows.drop_duplicates(["origin", "visibility"], keep="last")[flight_check.STATISTICS]


def problems(outcome: Outcome, both: pd.DataFrame) -> list[str]:
    """Return a message for each error in the outcome of a run. `both`: all replayed departures with their weather."""
    wanted = {FLIGHTS: len(both), WEATHER: flight_check.weather_readings().num_rows}
    return [
        *flight_check.differences(flight_check.statistics(both), outcome.statistics),
        *flight_check.differences(flight_check.alerts(both), outcome.alerts),
        *(
            f"stream {stream} has {outcome.lengths[stream]:,} entries instead of {length:,}"
            for stream, length in wanted.items()
            if outcome.lengths[stream] != length
        ),
        *(
            f"group {group} has {pending} pending entries and a lag of {lag}"
            for group, (pending, lag) in outcome.groups.items()
            if (pending, lag) != (0, 0)
        ),
    ]


def show(outcome: Outcome) -> None:
    """Print the outcome of a run."""
    table = outcome.statistics.assign(visibility=pd.Categorical(outcome.statistics["visibility"], flight_check.BANDS))
    table = table.sort_values(["origin", "visibility"]).rename(columns={"visibility": "miles"})
    print()
    print(
        table.to_string(index=False, na_rep="-", formatters={"scheduled": "{:,}".format}, float_format="{:,.1f}".format)
    )
    print()
    print(", ".join(f"{stream} {length:,}" for stream, length in outcome.lengths.items()), "entries")
    for group, (pending, lag) in outcome.groups.items():
        print(f"group {group}: {outcome.read[group]:,} entries read, {pending} pending, lag {lag}")
    read = sum(outcome.read.values())
    print(f"{read:,} entries read in {outcome.seconds:.1f} s: {read / outcome.seconds:,.0f} entries per second")


@contextmanager
def checkpoint_directory(job: Run) -> Iterator[str]:
    """Yield the directory of the checkpoints: --checkpoint, or a temporary directory for a run on a server without the
    streams of another run. Raises LEFTOVERS.
    """
    if job.checkpoint is not None:
        yield job.checkpoint
        return
    if leftovers := [stream for stream, length in lengths(job).items() if length]:
        fail("LEFTOVERS", names=" ".join(leftovers), address=job.address())
    with tempfile.TemporaryDirectory(prefix="flight-delays-") as directory:
        yield directory


@job(
    "flight_delays",
    examples=(
        "flight_delays                                  # on an embedded engine",
        "flight_delays --url redis://localhost:6379 --checkpoint checkpoints/flights",
    ),
    embedded=True,
)
@combined(
    click.option(
        "--checkpoint", metavar="URI", help="Directory of the queries' checkpoints. Give it again to continue a run."
    ),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Maximum number of departures to replay."),
)
def flight_delays(job: Run, limit: int | None) -> None:
    """Stream New York's departures of 2013, compute statistics of delays, and check every figure against pandas."""
    with checkpoint_directory(job) as checkpoint:
        outcome = run(job, checkpoint, limit)
    show(outcome)
    wrong = problems(outcome, flight_check.joined(limit))
    for problem in wrong:
        print("WRONG:", problem)
    if wrong:
        click.get_current_context().exit(Status.FAILED)
    print("Every figure and every alert equals the result from pandas.")


if __name__ == "__main__":
    flight_delays()
