"""The jobs `aggregate` and `join`: their results equal those of pandas."""

from __future__ import annotations

import flight_delays
import pandas as pd
import pyarrow as pa
import pytest
from aggregate import aggregate
from join import join

from tests.jobs.conftest import Jobs, on

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCHEMA = "origin string, time_hour timestamp, dep_delay int, flight int"


def load(jobs: Jobs, stream: str, table: pa.Table) -> None:
    """Add the rows of a table to a stream, one entry per row."""
    pipeline = jobs.client.pipeline(transaction=False)
    for row in table.to_pylist():
        pipeline.xadd(stream, {name: value for name, value in row.items() if value is not None})
    pipeline.execute()


def frame(table: pa.Table) -> pd.DataFrame:
    found = table.to_pandas()
    found["time_hour"] = pd.to_datetime(found["time_hour"])
    found["dep_delay"] = pd.to_numeric(found["dep_delay"])
    return found


@on("redis")
def test_alerts_are_the_entries_that_fulfil_the_condition(jobs: Jobs, departures: pa.Table) -> None:
    load(jobs, "flights", departures)
    jobs.run(
        aggregate, "--stream", "flights", "--schema", "flight int, dep_delay int", "--to", "alerts",
        "--sql", "SELECT * FROM events WHERE dep_delay > 60", "--checkpoint", jobs.path("checkpoint"),
        "--group", "alerts",
    )  # fmt: skip
    late = frame(departures).query("dep_delay > 60")
    assert [int(row["flight"]) for row in jobs.rows("alerts")] == [int(flight) for flight in late["flight"]]
    entries = dict(jobs.entries("flights"))
    assert all(entries[row["source_id"]]["flight"] == row["flight"] for row in jobs.rows("alerts"))


@on("engine")
def test_a_join_of_two_streams_equals_pandas(jobs: Jobs, departures: pa.Table) -> None:
    """The join of departures and weather readings within an hour equals the join in pandas."""
    weather = flight_delays.weather_readings().head(200)[["origin", "time_hour", "visib"]]
    load(jobs, "flights", departures.slice(0, 600))
    load(jobs, "weather", pa.Table.from_pandas(weather, preserve_index=False))
    jobs.run(
        join, "--left", "flights", "--left-schema", SCHEMA, "--left-time", "time_hour", "--right", "weather",
        "--right-schema", "origin string, time_hour timestamp, visib double", "--right-time", "time_hour",
        "--on", "origin", "--within", "1h", "--watermark", "1h", "--to", "both",
        "--checkpoint", jobs.path("checkpoint"),
    )  # fmt: skip
    left = frame(departures.slice(0, 600))
    right = weather.assign(time_hour=lambda rows: pd.to_datetime(rows["time_hour"]))
    both = left.merge(right, on="origin")
    both = both[(both["time_hour_x"] - both["time_hour_y"]).abs() <= pd.Timedelta(hours=1)]
    expected = sorted(zip(both["origin"], both["flight"], both["visib"].astype(float), strict=True))
    found = sorted((row["origin"], row["flight"], float(row["visib"])) for row in jobs.rows("both"))
    assert len(expected) > 500
    assert found == expected
