"""The main job's computation on small DataFrames. test_flight_job runs the whole job."""

import math

import flight_delays
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing.utils import assertDataFrameEqual

from pystreams.jobs import flight_check

pytestmark = pytest.mark.spark

HOUR = "2013-01-01T10:00:00Z"


def departures(spark: SparkSession, *rows: tuple[str, str, int | None]) -> DataFrame:
    """Return a DataFrame of departures from airport, hour and delay."""
    flights = [("UA", 1, "N1", airport, "IAH", hour, 515, delay) for airport, hour, delay in rows]
    return spark.createDataFrame(flights, flight_delays.FLIGHT_SCHEMA)


def readings(spark: SparkSession, *rows: tuple[str, str, float | None]) -> DataFrame:
    """Return a DataFrame of readings from airport, hour and visibility."""
    return spark.createDataFrame(list(rows), flight_delays.WEATHER_SCHEMA)


def test_a_visibility_is_in_its_flight_category(spark: SparkSession) -> None:
    bands = {0.0: "<1", 0.99: "<1", 1.0: "1-3", 2.99: "1-3", 3.0: "3-5", 5.0: "3-5", 5.01: ">5", 10.0: ">5"}
    rows = spark.createDataFrame([(miles,) for miles in [*bands, None]], "visib double")
    found = rows.select("visib", flight_delays.visibility_band(F.col("visib"))).collect()
    assert dict(map(tuple, found)) == {**bands, None: "no reading"}


def test_a_departure_gets_the_reading_of_its_own_airport_and_hour(spark: SparkSession) -> None:
    flights = departures(spark, ("EWR", HOUR, 1), ("JFK", HOUR, 2), ("EWR", "2013-01-01T11:00:00Z", 3))
    joined = flight_delays.with_weather(flights, readings(spark, ("EWR", HOUR, 0.5), ("JFK", HOUR, 10.0)))
    expected = spark.createDataFrame(
        [(1, 0.5, "<1"), (2, 10.0, ">5"), (3, None, "no reading")], "dep_delay int, visib double, visibility string"
    )
    assertDataFrameEqual(joined.select("dep_delay", "visib", "visibility"), expected)


def test_statistics_describe_the_delays_of_an_airport_in_a_band(spark: SparkSession) -> None:
    flights = departures(spark, *(("EWR", HOUR, delay) for delay in (-5, 14, 15, 180, 181, None)), ("JFK", HOUR, None))
    joined = flight_delays.with_weather(flights, readings(spark, ("EWR", HOUR, 0.5)))
    rows = {(row.origin, row.visibility): row for row in flight_delays.delay_statistics(joined).collect()}
    worst = rows["EWR", "<1"]
    assert (worst.scheduled, worst.cancelled, worst.late, worst.very_late, worst.delay_max) == (6, 1, 3, 1, 181)
    assert worst.delay_mean == pytest.approx(77.0)
    assert worst.delay_stddev == pytest.approx(math.sqrt(sum((d - 77) ** 2 for d in (-5, 14, 15, 180, 181)) / 5))
    never_left = rows["JFK", "no reading"]
    assert (never_left.scheduled, never_left.cancelled, never_left.late, never_left.very_late) == (1, 1, 0, 0)
    assert (never_left.delay_max, never_left.delay_mean, never_left.delay_stddev) == (None, None, None)


def test_an_alert_is_a_departure_more_than_three_hours_late(spark: SparkSession) -> None:
    flights = departures(spark, ("EWR", HOUR, 180), ("EWR", HOUR, 181), ("EWR", HOUR, None))
    alerts = flight_delays.late_departures(flight_delays.with_weather(flights, readings(spark, ("EWR", HOUR, 10.0))))
    assert [tuple(row) for row in alerts.collect()] == [
        ("UA", 1, "N1", "EWR", "IAH", HOUR, 515, 181, 10.0, ">5"),
    ]
    assert tuple(alerts.columns) == tuple(flight_check.ALERTS)


def test_spark_and_pandas_put_every_visibility_of_the_data_into_the_same_band(spark: SparkSession) -> None:
    both = flight_check.joined()[["visib", "visibility"]].drop_duplicates()
    rows = [(None if math.isnan(visib) else visib, band) for visib, band in both.itertuples(index=False)]
    bands = spark.createDataFrame(rows, "visib double, band string").withColumn(
        "spark", flight_delays.visibility_band(F.col("visib"))
    )
    assert len(rows) > 20
    assert bands.where("spark != band").collect() == []
