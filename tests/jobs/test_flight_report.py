"""The main job's table: each value in its column, and a dash for a missing value."""

from pystreams.jobs import flight_check

FIGURES = {
    "scheduled": 111229.0,
    "cancelled": 2490.0,
    "late": 26741.0,
    "very_late": 1299.0,
    "delay_max": 1126.0,
    "delay_mean": 14.344,
    "delay_stddev": 40.215,
}


def test_a_line_holds_every_figure_of_its_group() -> None:
    (line,) = flight_check.table({("EWR", ">5"): FIGURES}).splitlines()[2:]
    assert line.split() == ["EWR", ">5", "111,229", "2,490", "26,741", "1,299", "14.3", "40.2", "1,126"]


def test_a_missing_figure_is_a_dash() -> None:
    counts = {"scheduled": 1.0, "cancelled": 1.0, "late": 0.0, "very_late": 0.0}
    (line,) = flight_check.table({("JFK", "<1"): counts}).splitlines()[2:]
    assert line.split() == ["JFK", "<1", "1", "1", "0", "0", "-", "-", "-"]


def test_lines_are_in_order_of_airport_then_visibility() -> None:
    groups = [("LGA", "<1"), ("EWR", "no reading"), ("EWR", ">5"), ("EWR", "<1")]
    lines = flight_check.table(dict.fromkeys(groups, FIGURES)).splitlines()[2:]
    assert [tuple(line.split()[:2]) for line in lines] == [
        ("EWR", "<1"),
        ("EWR", ">5"),
        ("EWR", "no"),
        ("LGA", "<1"),
    ]


def test_lines_are_as_wide_as_the_header() -> None:
    lines = flight_check.table({("EWR", "no reading"): FIGURES}).splitlines()
    assert len({len(line) for line in lines[:3]}) == 1


def test_every_band_of_the_data_is_in_the_table() -> None:
    assert set(flight_check.joined()["visibility"]) == set(flight_check.BANDS)
