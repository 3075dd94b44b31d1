"""The data of the main job: complete, as text, and in order of time."""

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from pystreams.jobs import flight_check


def is_sorted(keys: list[tuple]) -> bool:
    return all(left <= right for left, right in pairwise(keys))


def test_all_departures_are_replayed_in_order_of_their_scheduled_minute() -> None:
    table = flight_check.departures()
    assert table.num_rows == 336_776
    minutes = zip(table["time_hour"].to_pylist(), map(int, table["minute"].to_pylist()), strict=True)
    assert is_sorted(list(minutes))


def test_all_readings_are_replayed_in_order_of_their_hour() -> None:
    table = flight_check.weather_readings()
    assert table.num_rows == 26_115
    assert is_sorted([(hour,) for hour in table["time_hour"].to_pylist()])


def test_an_airport_has_one_reading_an_hour() -> None:
    """Each airport has at most one reading per UTC hour, so the join cannot multiply departures. Local hours are not
    unique.
    """
    table = flight_check.weather_readings()
    assert table.group_by(["origin", "time_hour"]).aggregate([]).num_rows == table.num_rows
    assert table.group_by(["origin", "month", "day", "hour"]).aggregate([]).num_rows == table.num_rows - 3


def test_values_are_the_text_of_the_file_and_na_is_missing() -> None:
    table = flight_check.read_text_table(b"a,b,c\n007,1.50,NA\nNA,,x\n")
    assert table.to_pylist() == [{"a": "007", "b": "1.50", "c": None}, {"a": None, "b": "", "c": "x"}]
    assert set(table.schema.types) == {pa.string()}


def test_departures_that_never_left_have_no_delay() -> None:
    table = flight_check.departures()
    assert table["dep_delay"].null_count == table["dep_time"].null_count == 8_255
    assert pc.any(pc.equal(table["dep_delay"], "NA")).as_py() is False
