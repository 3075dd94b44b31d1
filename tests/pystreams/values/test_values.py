"""Parsing and formatting of values for people."""

from __future__ import annotations

import time

import pytest

from pystreams.values import times
from pystreams.values.times import Position
from spark_streams.errors import PystreamsError
from streamwire.stream_id import StreamId


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("90s", 90_000), ("1h30m", 5_400_000), ("250ms", 250), ("2", 2000), ("1.5d", 129_600_000)],
)
def test_durations(text: str, milliseconds: int) -> None:
    """A duration may combine units, and a bare number means seconds."""
    assert times.duration(text, "--x") == milliseconds


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, "-"), (-5, "0s"), (1234, "1.2s"), (59_400, "59s"), (3_600_000, "1h"), (90_061_000, "1d 1h")],
)
def test_durations_are_shown_in_two_units(milliseconds: int | None, text: str) -> None:
    assert times.shown(milliseconds) == text


def test_ids_beyond_the_calendar_have_no_time() -> None:
    assert (times.iso(0), times.iso(2**63)) == ("1970-01-01T00:00:00.000Z", None)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("start", Position("start")),
        ("$", Position("end")),
        ("5-1", Position("id", StreamId(5, 1))),
        ("(5-1", Position("id", StreamId(5, 2))),
        ("5", Position("id", StreamId(5, 0))),
        ("15m", Position("ago", ago=900_000)),
        ("-10", Position("entries", entries=-10)),
        ("+3", Position("entries", entries=3)),
        ("1970-01-01T00:00:01Z", Position("id", StreamId(1000, 0))),
        ("1971", Position("id", StreamId(31_536_000_000, 0))),
        ("1971-01", Position("id", StreamId(31_536_000_000, 0))),
        ("19710101", Position("id", StreamId(31_536_000_000, 0))),
    ],
)
def test_positions(text: str, position: Position) -> None:
    """A position is a word, an ID, a time, a duration, or a signed number."""
    assert times.position(text, "--to", signs="+10, -10") == position


def test_a_time_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time without a zone is in UTC, whatever the local time zone."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = [times.moment(text) for text in ("1970-01-02", "1970-01-02 00:00:01", "1970-01-02T09:00+09:00")]
        assert found == [86_400_000, 86_401_000, 86_400_000]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "yesterday", "5-x", "2024-13-01", "+3", "-" + "9" * 5000])
def test_an_invalid_position_is_rejected_with_the_valid_forms(text: str) -> None:
    with pytest.raises(PystreamsError, match=r"\[INVALID_VALUE\] --from is .*start, end, an ID"):
        times.position(text, "--from")


@pytest.mark.parametrize("text", ["9" * 400 + "w", "99999999999999w", "36501d"])
def test_a_duration_has_a_maximum(text: str) -> None:
    """A duration above a hundred years is rejected."""
    with pytest.raises(PystreamsError, match="at most a hundred years"):
        times.duration(text, "--over")
