"""Independent check of the job `flight_delays`: the same figures, computed by pandas from the files alone.

This module shares the names of the figures with the job, but no computation, so that a mistake in either computation
shows. It depends only on the results of a run, not on Spark.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from pystreams.jobs.flights import data

# The figures of one airport in one visibility band. COUNTS must be equal; MEASURES, in minutes of departure delay, may
# differ by rounding.
COUNTS = ("scheduled", "cancelled", "late", "very_late", "delay_max")
MEASURES = ("delay_mean", "delay_stddev")
# Fields of an alert, in this order.
ALERT_FIELDS = (
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "time_hour",
    "sched_dep_time",
    "dep_delay",
    "visib",
    "visibility",
)

Group = tuple[str, str]  # airport and visibility band
Figures = Mapping[str, float | None]
Alert = tuple[Any, ...]


def joined(limit: int | None = None) -> pd.DataFrame:
    """Return the first `limit` departures (None: all) in order of time, each with its airport's weather."""
    directory = data.data_directory()
    flights = pd.read_csv(directory / data.FLIGHTS_FILE)
    flights = flights.sort_values(["time_hour", "minute"], kind="stable").head(len(flights) if limit is None else limit)
    weather = pd.read_csv(directory / data.WEATHER_FILE)
    both = flights.merge(
        weather[["origin", "time_hour", "visib"]], on=["origin", "time_hour"], how="left", validate="m:1"
    )
    # US flight categories by visibility in statute miles: [0, 1), [1, 3), [3, 5], (5, ...).
    just_over_5 = math.nextafter(5, 6)
    bands = pd.cut(both["visib"], [0, 1, 3, just_over_5, math.inf], right=False, labels=["<1", "1-3", "3-5", ">5"])
    both["visibility"] = bands.astype(object).where(both["visib"].notna(), "no reading")
    return both


def weather_rows() -> int:
    """Return the number of hourly readings."""
    return len(pd.read_csv(data.data_directory() / data.WEATHER_FILE, usecols=["origin"]))


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
