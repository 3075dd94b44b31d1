"""New York's departures of 2013 as a stream: delays by airport and visibility, and alerts for long delays.

    spark-submit jobs/flight_delays.py [--url redis://host:port]

The job

1. writes the weather stations' hourly readings to the stream `weather` (a batch write);
2. starts two streaming queries on the stream `flights`, each with its own consumer group. Both join each departure with
   the weather at its airport in that hour (a batch read of `weather`). `delay-statistics` updates a hash
   `delays:<airport>:<visibility>` for each pair, which any Redis client can read. `late-departures` writes departures
   that left more than three hours late to the stream `alerts`;
3. replays all departures into `flights`, in order of time, while the queries run (batch writes);
4. waits until all entries are processed and acknowledged, prints the table, and checks every figure against pandas.

Two queries read the stream, rather than one query with two outputs, so each has its own offsets, group and guarantee.
The statistics are exact even if a batch is repeated: Spark's state counts each entry once, and hashes are overwritten
with absolute figures. Each alert is written once.

This module contains the pipeline. `pystreams.jobs.flight_check` has the data, the check by pandas and the table.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.streaming.query import StreamingQuery

from pystreams import output
from pystreams.errors import Status, fail
from pystreams.jobs import flight_check
from pystreams.jobs.job import combined, job
from pystreams.jobs.run import Run
from pystreams.streams import group_states as of_groups
from streamclient import reply_maps
from streamclient.connection import Command

FLIGHTS, WEATHER, ALERTS = "flights", "weather", "alerts"
AIRPORTS = ("EWR", "JFK", "LGA")
STATISTICS_KEY = "delays:{airport}:{visibility}"
STATISTICS_GROUP, ALERTS_GROUP = "delay-statistics", "late-departures"

# The fields that the job uses. time_hour is the scheduled hour in UTC as text; together with the airport, it is the key
# of a reading.
FLIGHT_SCHEMA = (
    "carrier string, flight int, tailnum string, origin string, dest string, time_hour string, "
    "sched_dep_time int, dep_delay int"
)
WEATHER_SCHEMA = "origin string, time_hour string, visib double"
ALERT_SCHEMA = FLIGHT_SCHEMA + ", visib double, visibility string"

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
    return departures.where(F.col("dep_delay") > VERY_LATE_MINUTES).select(*flight_check.ALERT_FIELDS)


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


def start_statistics(job: Run, departures: DataFrame, checkpoint: str) -> StreamingQuery:
    """Start the query that stores the statistics in hashes. Batches write absolute figures, so they can be repeated."""

    def store(changed: DataFrame, _batch_id: int) -> None:
        commands: list[Command] = []
        for row in changed.collect():
            figures = {name: value for name, value in row.asDict().items() if value is not None}
            key = STATISTICS_KEY.format(airport=figures.pop("origin"), visibility=figures.pop("visibility"))
            commands.append(("HSET", key, *(word for name, value in figures.items() for word in (name, str(value)))))
        with job.connection() as connection:
            connection.commands(commands)

    return (
        delay_statistics(departures)
        .writeStream.queryName(STATISTICS_GROUP)
        .foreachBatch(store)
        .outputMode("update")
        .option("checkpointLocation", f"{checkpoint}/{STATISTICS_GROUP}")
        .start()
    )


def start_alerts(job: Run, departures: DataFrame, checkpoint: str) -> StreamingQuery:
    """Start the query that appends an alert to a stream for each departure that left more than three hours late."""
    return (
        late_departures(departures)
        .writeStream.queryName(ALERTS_GROUP)
        .foreachBatch(lambda rows, _batch_id: job.write(rows, stream=ALERTS))
        .option("checkpointLocation", f"{checkpoint}/{ALERTS_GROUP}")
        .start()
    )


# One run of the job.


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: contents of the server after the run, and its duration."""

    statistics: dict[flight_check.Group, flight_check.Figures]
    alerts: list[flight_check.Alert]
    lengths: dict[str, int]  # entries in each stream
    read: dict[str, int]  # entries that each group's query read in this run
    groups: dict[str, tuple[int, int | None]]  # pending count and lag of each group
    written: int  # entries written in this run
    seconds: float  # from the first write until the last entry was processed


def run(job: Run, checkpoint: str, limit: int | None) -> Outcome:
    """Write the weather, start the queries, replay the departures, and wait until all entries are acknowledged.

    A run with the checkpoint of an earlier run continues that run, after the entries that are already in the streams.
    """
    # Keep all progress updates: `entries_read` adds up the entries that they count.
    job.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    before = lengths(job)
    start = time.perf_counter()
    weather = flight_check.weather_readings().slice(before[WEATHER])
    if weather.num_rows:
        write_batch(job, WEATHER, weather)
    job.say(f"{WEATHER}: {lengths(job)[WEATHER]:,} readings")

    readings = read_batch(job, WEATHER, WEATHER_SCHEMA)
    queries: list[StreamingQuery] = []
    try:
        for start_query, group in ((start_statistics, STATISTICS_GROUP), (start_alerts, ALERTS_GROUP)):
            departures = with_weather(read_stream(job, group), readings)
            queries.append(start_query(job, departures, checkpoint))
            # Start one query after the other: sources that start simultaneously can corrupt a table inside Spark that
            # all sources share. Then every task of the data source fails as "not serializable".
            queries[-1].processAllAvailable()
        replay(job, flight_check.departures().slice(0, limit).slice(before[FLIGHTS]), start)
        for query in queries:
            query.processAllAvailable()
        seconds = time.perf_counter() - start
        wait_for_acknowledgement(job)
        after = lengths(job)
        return Outcome(
            statistics=stored_statistics(job),
            alerts=stored_alerts(job),
            lengths=after,
            read={query.name: entries_read(query) for query in queries},
            groups=groups(job),
            written=sum(after.values()) - sum(before.values()),
            seconds=seconds,
        )
    finally:
        for query in queries:
            query.stop()


def replay(job: Run, flights: pa.Table, start: float) -> None:
    """Write the departures in chunks, and report the progress of the queries."""
    for offset in range(0, flights.num_rows, REPLAY_CHUNK):
        write_batch(job, FLIGHTS, flights.slice(offset, REPLAY_CHUNK))
        counted = sum(int(figures["scheduled"] or 0) for figures in stored_statistics(job).values())
        now = lengths(job)
        job.say(
            f"{time.perf_counter() - start:5.1f} s  {FLIGHTS}: {now[FLIGHTS]:,} departures written, "
            f"{counted:,} in the statistics, {now[ALERTS]:,} alerts"
        )


def lengths(job: Run) -> dict[str, int]:
    """Return the number of entries in each of the job's streams."""
    streams = (FLIGHTS, WEATHER, ALERTS)
    with job.connection() as connection:
        return dict(zip(streams, connection.commands([("XLEN", stream) for stream in streams]), strict=True))


def groups(job: Run) -> dict[str, tuple[int, int | None]]:
    """Return the pending count and the lag of each query's consumer group."""
    with job.connection() as connection:
        states = of_groups.groups(connection, [FLIGHTS.encode()], 0)
        return {state.name.decode(): (state.pending, state.lag) for state in states}


def wait_for_acknowledgement(job: Run) -> None:
    """Wait until no group has pending or unread entries, or until the timeout.

    Spark commits a batch to its source only at the next trigger, so the entries of the last batch stay pending until
    then.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while any(state != (0, 0) for state in groups(job).values()) and time.monotonic() < deadline:
        time.sleep(0.02)


def stored_statistics(job: Run) -> dict[flight_check.Group, flight_check.Figures]:
    """Return the statistics that the hashes contain."""
    pairs = [(airport, band) for airport in AIRPORTS for band in flight_check.BANDS]
    with job.connection() as connection:
        commands: list[Command] = [("HGETALL", STATISTICS_KEY.format(airport=a, visibility=b)) for a, b in pairs]
        found = zip(pairs, map(reply_maps.pairs, connection.commands(commands)), strict=True)
    return {
        pair: {name.decode(): float(value) for name, value in figures.items()} for pair, figures in found if figures
    }


def stored_alerts(job: Run) -> list[flight_check.Alert]:
    """Return the alerts, each as a tuple of its fields."""
    rows = read_batch(job, ALERTS, ALERT_SCHEMA).select(*flight_check.ALERT_FIELDS).collect()
    return [tuple(row) for row in rows]


def entries_read(query: StreamingQuery) -> int:
    """Return the number of entries that a query has read since it started."""
    return sum(progress.numInputRows for progress in query.recentProgress)


def problems(outcome: Outcome, limit: int | None) -> list[str]:
    """Return a message for each error in the outcome of a run."""
    expected = flight_check.joined(limit)
    expected_alerts = flight_check.alerts(expected)
    wanted = {
        FLIGHTS: len(expected),
        WEATHER: flight_check.weather_readings().num_rows,
        ALERTS: expected_alerts.total(),
    }
    return [
        *flight_check.differences(
            flight_check.statistics(expected), outcome.statistics, expected_alerts, outcome.alerts
        ),
        *(
            f"stream {stream} has {outcome.lengths[stream]:,} entries instead of {wanted[stream]:,}"
            for stream in wanted
            if outcome.lengths[stream] != wanted[stream]
        ),
        *(
            f"group {group} has {pending} pending entries and a lag of {lag}"
            for group, (pending, lag) in outcome.groups.items()
            if (pending, lag) != (0, 0)
        ),
    ]


def show(outcome: Outcome) -> None:
    """Print the outcome of a run."""
    read = sum(outcome.read.values())
    print()
    columns = [
        output.Column("AIRPORT"),
        *(output.Column(title, right=True) for title in ("MILES", *flight_check.TITLES.values())),
    ]
    output.Output().table(columns, flight_check.rows(outcome.statistics))
    print()
    print(", ".join(f"{stream} {length:,}" for stream, length in outcome.lengths.items()), "entries")
    for group, (pending, lag) in outcome.groups.items():
        print(f"group {group}: {outcome.read[group]:,} entries read, {pending} pending, lag {lag}")
    print(
        f"{outcome.written:,} entries written and {read:,} read in {outcome.seconds:.1f} s: "
        f"{(outcome.written + read) / outcome.seconds:,.0f} entries per second"
    )


def verdict(wrong: list[str]) -> int:
    """Print the errors, or a message of success. Return the job's exit status."""
    for problem in wrong:
        print("WRONG:", problem)
    if not wrong:
        print("Every figure and every alert equals the result from pandas.")
    return 1 if wrong else 0


@contextmanager
def checkpoint_directory(job: Run) -> Iterator[str]:
    """Yield the directory of the checkpoints: --checkpoint, or a temporary directory for a run on a server without the
    keys of another run. Raises LEFTOVERS.
    """
    if job.checkpoint is not None:
        yield job.checkpoint
        return
    pairs = ((airport, band) for airport in AIRPORTS for band in flight_check.BANDS)
    keys = [FLIGHTS, WEATHER, ALERTS, *(STATISTICS_KEY.format(airport=a, visibility=b) for a, b in pairs)]
    with job.connection() as connection:
        there = connection.commands([("EXISTS", key) for key in keys])
    leftovers = [key for key, found in zip(keys, there, strict=True) if found]
    if leftovers:
        fail("LEFTOVERS", names=shlex.join(leftovers), address=job.address())
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
    if verdict(problems(outcome, limit)):
        click.get_current_context().exit(Status.FAILED)


if __name__ == "__main__":
    flight_delays()
