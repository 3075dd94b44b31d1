"""New York's departures of 2013 as a stream: delays by airport and visibility, and an alert for each one very late.

    spark-submit jobs/flight_delays.py [--url redis://host:port]

What it does:

1. writes the weather stations' hourly readings to the stream `weather` (a batch write);
2. starts two streaming queries on the stream `flights`, each with a consumer group of its own, that join every
   departure with its airport's weather of that hour (a batch read of `weather`): `delay-statistics` keeps running
   statistics, in a hash `delays:<airport>:<visibility>` for each pair, where any client of Redis can watch them;
   `late-departures` writes departures that left more than three hours late to the stream `alerts`;
3. replays all departures into `flights`, in order of time, while the queries run (batch writes);
4. waits until everything is processed and acknowledged, prints the table, and checks every figure against pandas.

One stream feeds two queries, not one query with two outputs: each has its own offsets, its own group and its own
guarantee. The statistics are exact even when a batch is repeated, because Spark's state counts each entry once and a
hash is overwritten with absolute figures; alerts are written at least once.

Owns the pipeline. The data, the second opinion and the table are those of `pystreams.jobs.flights`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import redis
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.streaming.query import StreamingQuery

from pystreams.jobs.flights import check, data, report
from spark_streams.embedded import launcher

FLIGHTS, WEATHER, ALERTS = "flights", "weather", "alerts"
STATISTICS_KEY = "delays:{airport}:{visibility}"
STATISTICS_GROUP, ALERTS_GROUP = "delay-statistics", "late-departures"

# The fields that the job reads; the entries have more. time_hour is the scheduled hour in UTC, as text: with the
# airport, it is the key of a reading.
FLIGHT_SCHEMA = (
    "carrier string, flight int, tailnum string, origin string, dest string, time_hour string, "
    "sched_dep_time int, dep_delay int"
)
WEATHER_SCHEMA = "origin string, time_hour string, visib double"
ALERT_SCHEMA = FLIGHT_SCHEMA + ", visib double, visibility string"

LATE_MINUTES = 15  # what the US Department of Transportation counts as late
VERY_LATE_MINUTES = 180

REPLAY_CHUNK = 50_000  # departures written by one batch write
DEADLINE_SECONDS = 60  # for the acknowledgement of a batch that Spark has finished


# The computation: DataFrames in, DataFrames out, streaming or not.


def visibility_band(miles: Column) -> Column:
    """Name the band of a visibility in miles, by the bounds of the US flight categories."""
    return (
        F.when(miles < 1, "<1")
        .when(miles < 3, "1-3")
        .when(miles <= 5, "3-5")
        .when(miles > 5, ">5")
        .otherwise("no reading")
    )


def with_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Give each departure the visibility at its airport in the scheduled hour (or null), and its band."""
    readings = F.broadcast(weather.select("origin", "time_hour", "visib"))
    return flights.join(readings, ["origin", "time_hour"], "left").withColumn(
        "visibility", visibility_band(F.col("visib"))
    )


def delay_statistics(departures: DataFrame) -> DataFrame:
    """Describe the delays by airport and visibility band, in minutes; a departure without a delay never left."""
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
    return departures.where(F.col("dep_delay") > VERY_LATE_MINUTES).select(*check.ALERT_FIELDS)


# The plumbing: where DataFrames come from and go to.


def read_stream(spark: SparkSession, url: str, group: str) -> DataFrame:
    """Return the departures as a stream that the consumer group reads from its beginning."""
    return (
        spark.readStream.format("pystreams")
        .option("url", url)
        .option("stream", FLIGHTS)
        .option("group", group)
        .option("startingOffsets", "earliest")
        .schema(FLIGHT_SCHEMA)
        .load()
    )


def read_batch(spark: SparkSession, url: str, stream: str, schema: str) -> DataFrame:
    """Return what a stream holds now; nothing if it does not exist yet."""
    reader = spark.read.format("pystreams").option("url", url).option("failOnMissingStream", False)
    return reader.schema(schema).load(stream)


def write_batch(spark: SparkSession, url: str, stream: str, rows: pa.Table) -> None:
    """Append rows to a stream, in their order: a stream has one order of entries, so one task writes them."""
    (
        spark.createDataFrame(rows)
        .coalesce(1)
        .write.format("pystreams")
        .option("url", url)
        .option("stream", stream)
        .mode("append")
        .save()
    )


def start_statistics(departures: DataFrame, url: str, checkpoint: Path) -> StreamingQuery:
    """Keep the statistics in hashes: each batch overwrites those that it changed, so repeating one changes nothing."""

    def store(changed: DataFrame, _batch_id: int) -> None:
        with redis.Redis.from_url(url) as client, client.pipeline(transaction=True) as pipeline:
            for row in changed.collect():
                figures = {name: value for name, value in row.asDict().items() if value is not None}
                key = STATISTICS_KEY.format(airport=figures.pop("origin"), visibility=figures.pop("visibility"))
                pipeline.hset(key, mapping=figures)
            pipeline.execute()

    return (
        delay_statistics(departures)
        .writeStream.queryName(STATISTICS_GROUP)
        .foreachBatch(store)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint / STATISTICS_GROUP))
        .start()
    )


def start_alerts(departures: DataFrame, url: str, checkpoint: Path) -> StreamingQuery:
    """Append an entry to the stream of alerts for each departure that left very late."""
    return (
        late_departures(departures)
        .writeStream.queryName(ALERTS_GROUP)
        .format("pystreams")
        .option("url", url)
        .option("stream", ALERTS)
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint / ALERTS_GROUP))
        .start()
    )


# One run.


@dataclass(frozen=True)
class Outcome:
    """What a run left on the server, and what it took."""

    statistics: dict[check.Group, check.Figures]
    alerts: list[check.Alert]
    lengths: dict[str, int]  # entries in each stream
    read: dict[str, int]  # entries that each group's query read in this run
    groups: dict[str, tuple[int, int | None]]  # pending count and lag of each group
    written: int  # entries written in this run
    seconds: float  # from the first write until the last entry was processed


def run(spark: SparkSession, url: str, checkpoint: Path, limit: int | None) -> Outcome:
    """Write, replay, process; return when every entry is processed and acknowledged.

    A run with the checkpoint of an earlier one continues it: the streams' lengths say what is written already.
    """
    with redis.Redis.from_url(url, decode_responses=True) as client:
        before = lengths(client)
        start = time.perf_counter()
        weather = data.weather_readings().slice(before[WEATHER])
        if weather.num_rows:
            write_batch(spark, url, WEATHER, weather)
        print(f"{WEATHER}: {client.xlen(WEATHER):,} readings", flush=True)

        readings = read_batch(spark, url, WEATHER, WEATHER_SCHEMA)
        queries: list[StreamingQuery] = []
        try:
            for start_query, group in ((start_statistics, STATISTICS_GROUP), (start_alerts, ALERTS_GROUP)):
                departures = with_weather(read_stream(spark, url, group), readings)
                queries.append(start_query(departures, url, checkpoint))
                # Sources that start at the same moment can break Spark's table of a format's variables, which they
                # share: after that every task of the format is "not serializable". So one after the other.
                queries[-1].processAllAvailable()
            replay(spark, url, client, data.departures().slice(0, limit).slice(before[FLIGHTS]), start)
            for query in queries:
                query.processAllAvailable()
            seconds = time.perf_counter() - start
            wait_for_acknowledgement(client)
            after = lengths(client)
            return Outcome(
                statistics=stored_statistics(client),
                alerts=stored_alerts(spark, url),
                lengths=after,
                read={query.name: entries_read(query) for query in queries},
                groups=groups(client),
                written=sum(after.values()) - sum(before.values()),
                seconds=seconds,
            )
        finally:
            for query in queries:
                query.stop()


def replay(spark: SparkSession, url: str, client: redis.Redis, flights: pa.Table, start: float) -> None:
    """Write the departures, chunk by chunk, and report how far the queries are."""
    for offset in range(0, flights.num_rows, REPLAY_CHUNK):
        write_batch(spark, url, FLIGHTS, flights.slice(offset, REPLAY_CHUNK))
        counted = sum(int(figures["scheduled"] or 0) for figures in stored_statistics(client).values())
        print(
            f"{time.perf_counter() - start:5.1f} s  {FLIGHTS}: {client.xlen(FLIGHTS):,} departures written, "
            f"{counted:,} in the statistics, {client.xlen(ALERTS):,} alerts",
            flush=True,
        )


def lengths(client: redis.Redis) -> dict[str, int]:
    """Return the number of entries in each of the job's streams."""
    return {stream: client.xlen(stream) for stream in (FLIGHTS, WEATHER, ALERTS)}


def groups(client: redis.Redis) -> dict[str, tuple[int, int | None]]:
    """Return the pending count and the lag of each query's consumer group."""
    states = {str(info["name"]): (info["pending"], info["lag"]) for info in client.xinfo_groups(FLIGHTS)}
    return {group: states[group] for group in (STATISTICS_GROUP, ALERTS_GROUP)}


def wait_for_acknowledgement(client: redis.Redis) -> None:
    """Wait until no group has pending entries: Spark tells a source that a batch is finished at the next trigger."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while any(state != (0, 0) for state in groups(client).values()) and time.monotonic() < deadline:
        time.sleep(0.02)


def stored_statistics(client: redis.Redis) -> dict[check.Group, check.Figures]:
    """Read the hashes back."""
    statistics: dict[check.Group, check.Figures] = {}
    for key in client.scan_iter(STATISTICS_KEY.format(airport="*", visibility="*")):
        _, airport, visibility = key.split(":")
        statistics[airport, visibility] = {str(name): float(value) for name, value in client.hgetall(key).items()}
    return statistics


def stored_alerts(spark: SparkSession, url: str) -> list[check.Alert]:
    """Read the alerts back, each as a tuple of its fields."""
    rows = read_batch(spark, url, ALERTS, ALERT_SCHEMA).select(*check.ALERT_FIELDS).collect()
    return [tuple(row) for row in rows]


def entries_read(query: StreamingQuery) -> int:
    """Return how many entries a query has read since it started."""
    return sum(progress.numInputRows for progress in query.recentProgress)


def problems(outcome: Outcome, limit: int | None) -> list[str]:
    """Say, one line each, what in a run's outcome is not as it must be; an empty list means that all is well."""
    expected = check.joined(limit)
    expected_alerts = check.alerts(expected)
    wanted = {FLIGHTS: len(expected), WEATHER: check.weather_rows(), ALERTS: expected_alerts.total()}
    return [
        *check.differences(check.statistics(expected), outcome.statistics, expected_alerts, outcome.alerts),
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
    print(report.table(outcome.statistics))
    print()
    print(", ".join(f"{stream} {length:,}" for stream, length in outcome.lengths.items()), "entries")
    for group, (pending, lag) in outcome.groups.items():
        print(f"group {group}: {outcome.read[group]:,} entries read, {pending} pending, lag {lag}")
    print(
        f"{outcome.written:,} entries written and {read:,} read in {outcome.seconds:.1f} s: "
        f"{(outcome.written + read) / outcome.seconds:,.0f} entries per second"
    )


def verdict(wrong: list[str]) -> int:
    """Print what is wrong, or that nothing is; return the job's exit code."""
    for problem in wrong:
        print("WRONG:", problem)
    if not wrong:
        print("Every figure and every alert equals what pandas computes.")
    return 1 if wrong else 0


@contextmanager
def checkpoint_directory(given: str | None, url: str) -> Iterator[Path]:
    """Yield the directory that was given, or a temporary one; refuse to mix a new run with an old one's streams."""
    continued = given is not None and Path(given).is_dir() and any(Path(given).iterdir())
    with redis.Redis.from_url(url, decode_responses=True) as client:
        leftovers = [key for key in (FLIGHTS, WEATHER, ALERTS) if client.exists(key)]
        leftovers += sorted(client.scan_iter(STATISTICS_KEY.format(airport="*", visibility="*")))
    if leftovers and not continued:
        raise SystemExit(
            f"The server already has {', '.join(leftovers)}, and this run has no checkpoint that belongs to them.\n"
            f"Continue with the --checkpoint of the run that wrote them, or delete them:\n"
            f"  {shlex.join(['redis-cli', 'DEL', *leftovers])}"
        )
    if given is not None:
        yield Path(given)
    else:
        with tempfile.TemporaryDirectory(prefix="flight-delays-") as directory:
            yield Path(directory)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="flight_delays.py", description="Delays of New York's departures of 2013, live."
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("PYSTREAMS_URL"),
        help="the server with the streams (default: $PYSTREAMS_URL, else an embedded engine for this run)",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep the queries' progress in DIR; the next run with it continues this one",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="replay the first N departures only")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the job; return 0 where every figure is right."""
    options = arguments(argv)
    # Workers, and Spark's search for data sources, must use this Python; without this it is the first python3 on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.appName("flight_delays")
        .config("spark.sql.shuffle.partitions", "2")  # fifteen groups need no 200 tasks
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")  # all: they count the entries read
        .getOrCreate()
    )
    try:
        url = options.url or launcher.url()
        with checkpoint_directory(options.checkpoint, url) as checkpoint:
            outcome = run(spark, url, checkpoint, options.limit)
        show(outcome)
        return verdict(problems(outcome, options.limit))
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
