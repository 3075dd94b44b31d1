"""The data of the main job, and the check of its results against pandas."""

from itertools import pairwise

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pystreams.jobs import flight_check
from pystreams.jobs.flight_check import differences


def _statistics(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame([*rows], columns=flight_check.STATISTICS)


FIGURES = ("JFK", "<1", 3, 1, 1, 0, 20.0, 10.5, None)


@pytest.fixture(scope="module")
def both() -> pd.DataFrame:
    """All departures with their weather."""
    return flight_check.joined()


@pytest.fixture(scope="module")
def departures() -> pa.Table:
    return flight_check.departures()


def test_equal_figures_have_no_difference() -> None:
    """The order of rows, the type of numbers and rounding make no difference."""
    other = ("LGA", *FIGURES[1:])
    found = _statistics(other, ("JFK", "<1", 3.0, 1, 1, 0, 20, 10.5 * (1 + 1e-12), float("nan")))
    assert differences(_statistics(FIGURES, other), found) == []


@pytest.mark.parametrize("column", range(len(FIGURES)))
def test_every_figure_is_compared(column: int) -> None:
    """A changed figure is an unexpected row, and the row without the change is missing."""
    changed = list(FIGURES)
    changed[column] = "EWR" if column < 2 else 7
    lines = differences(_statistics(FIGURES), _statistics(tuple(changed)))
    assert [line.partition(":")[0] for line in lines] == ["missing", "not expected"]


def test_rows_are_compared_as_a_multiset() -> None:
    assert len(differences(_statistics(FIGURES), _statistics(FIGURES, FIGURES))) == 1
    assert len(differences(_statistics(FIGURES, FIGURES), _statistics(FIGURES))) == 1


def test_pandas_counts_every_departure_once(both: pd.DataFrame) -> None:
    """The totals from pandas equal the known totals of the data set, so its join neither loses nor multiplies
    departures.
    """
    figures = flight_check.statistics(both)
    assert figures[["scheduled", "cancelled"]].sum().to_list() == [336_776, 8_255]
    assert figures.query("visibility == 'no reading'")["scheduled"].sum() == 1_556
    assert len(flight_check.alerts(both)) == figures["very_late"].sum() == 3_893
    assert set(both["visibility"]) == set(flight_check.BANDS)


def test_a_limit_takes_the_first_departures_in_order_of_time() -> None:
    first = flight_check.joined(100)
    assert len(first) == 100
    assert set(first["time_hour"].str[:10]) == {"2013-01-01"}


def is_sorted(keys: list[tuple]) -> bool:
    return all(left <= right for left, right in pairwise(keys))


def test_all_departures_are_replayed_in_order_of_their_scheduled_minute(departures: pa.Table) -> None:
    assert departures.num_rows == 336_776
    minutes = zip(departures["time_hour"].to_pylist(), map(int, departures["minute"].to_pylist()), strict=True)
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


def test_departures_that_never_left_have_no_delay(departures: pa.Table) -> None:
    assert departures["dep_delay"].null_count == departures["dep_time"].null_count == 8_255
    assert pc.any(pc.equal(departures["dep_delay"], "NA")).as_py() is False
