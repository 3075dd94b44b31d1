"""The data of the main job, its table, and the check of its results against pandas."""

from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pystreams.jobs import flight_check
from pystreams.jobs.flight_check import differences

FIGURES = {
    "scheduled": 3,
    "cancelled": 1,
    "late": 1,
    "very_late": 0,
    "delay_max": 20,
    "delay_mean": 10.5,
    "delay_stddev": 9.5,
}
GROUP = ("JFK", "<1")
ALERT = ("UA", 1545, "N14228", "EWR", "IAH", "2013-01-01T10:00:00Z", 515, 200, 0.25, "<1")


def test_equal_figures_have_no_difference() -> None:
    assert differences({GROUP: FIGURES}, {GROUP: dict(FIGURES)}, Counter([ALERT]), [ALERT]) == []


@pytest.mark.parametrize("name", [*flight_check.COUNTS, *flight_check.MEASURES])
def test_every_figure_is_compared(name: str) -> None:
    lines = differences({GROUP: FIGURES}, {GROUP: {**FIGURES, name: FIGURES[name] + 1}}, Counter(), [])
    assert lines == [f"JFK <1: {name} is {FIGURES[name] + 1}, pandas says {FIGURES[name]}"]


@pytest.mark.parametrize("name", [*flight_check.COUNTS, *flight_check.MEASURES])
def test_a_figure_that_is_absent_is_a_difference(name: str) -> None:
    measured = {key: value for key, value in FIGURES.items() if key != name}
    assert len(differences({GROUP: FIGURES}, {GROUP: measured}, Counter(), [])) == 1


def test_measures_may_differ_by_rounding_and_counts_may_not() -> None:
    assert differences({GROUP: FIGURES}, {GROUP: {**FIGURES, "delay_mean": 10.5 * (1 + 1e-12)}}, Counter(), []) == []
    assert differences({GROUP: FIGURES}, {GROUP: {**FIGURES, "late": 1 + 1e-12}}, Counter(), []) != []


def test_a_group_too_many_and_a_group_missing_are_differences() -> None:
    lines = differences({GROUP: FIGURES}, {("LGA", ">5"): FIGURES}, Counter(), [])
    assert lines == ["LGA >5: pandas has no such group", "JFK <1: missing"]


def test_alerts_are_compared_as_a_multiset() -> None:
    other = (*ALERT[:-1], "1-3")
    assert differences({}, {}, Counter([ALERT, other]), [other, ALERT]) == []
    assert differences({}, {}, Counter([ALERT]), [ALERT, ALERT]) == [f"unexpected alert: {ALERT}"]
    assert differences({}, {}, Counter([ALERT, other]), [ALERT]) == [f"missing alert: {other}"]


def test_pandas_counts_every_departure_once() -> None:
    """The totals from pandas equal the known totals of the data set, so its join neither loses nor multiplies
    departures.
    """
    both = flight_check.joined()
    figures = flight_check.statistics(both)
    assert sum(group["scheduled"] for group in figures.values()) == 336_776
    assert sum(group["cancelled"] for group in figures.values()) == 8_255
    assert sum(group["scheduled"] for (_, band), group in figures.items() if band == "no reading") == 1_556
    assert flight_check.alerts(both).total() == sum(group["very_late"] for group in figures.values()) == 3_893


def test_a_limit_takes_the_first_departures_in_order_of_time() -> None:
    both = flight_check.joined(100)
    assert len(both) == 100
    assert set(both["time_hour"].str[:10]) == {"2013-01-01"}


def test_the_table_has_a_row_for_each_airport_and_band() -> None:
    """Rows are ordered by airport and visibility, and a missing figure is a dash."""
    missing = {name: value for name, value in FIGURES.items() if not name.startswith("delay")}
    groups = {("LGA", "<1"): missing, ("EWR", "no reading"): FIGURES, ("EWR", ">5"): FIGURES}
    found = flight_check.rows(groups)
    assert found[0] == ["EWR", ">5", "3", "1", "1", "0", "10.5", "9.5", "20"]
    assert [row[:2] for row in found[1:]] == [["EWR", "no reading"], ["LGA", "<1"]]
    assert found[2][2:] == ["3", "1", "1", "0", "-", "-", "-"]
    assert set(flight_check.joined()["visibility"]) == set(flight_check.BANDS)


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
