"""The table of measures: formats of values for people, programs and metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pystreams import measures
from pystreams.measures import GroupRow, Measure, StreamRow, View
from pystreams.metrics import OF_STREAMS
from pystreams.streams.group_states import Group, Status
from pystreams.streams.inventory import Stream
from streamwire.stream_id import ZERO, StreamId

_NOW = 1_700_000_000_000
_AT = StreamId(_NOW - 90_000, 0)
_STREAM = Stream(_AT, 10, _AT, None, 12, ZERO, name=b"s", last_entry=_AT, groups=1, bytes=4096, rate=0.0001)


def _group(**given: Any) -> GroupRow:
    known = Group(_STREAM, b"g", _AT, 5, True, 7, 2, 1, _NOW, 1500)
    return GroupRow(replace(known, **given), Status.OK)


def _of(view: View[Any], name: str) -> Measure[Any]:
    (found,) = (each for each in view if each.name == name)
    return found


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(_NOW - 5, 5), (_NOW, 0), (_NOW + 50, 0), (_NOW + 3_600_000, None), (1000, None)],
)
def test_an_age_is_known_if_the_id_is_a_time(ms: int, expected: int | None) -> None:
    """An entry newer than the clock has the age zero, and an ID far from the clock has no age."""
    assert measures.age(StreamId(ms, 0), _NOW) == expected


def test_an_estimate_has_its_own_mark_bounds_and_metrics() -> None:
    """An exact lag and an estimated lag are different metrics; an estimate is also marked and has bounds."""
    lag = _of(measures.GROUP, "lag")
    exact, estimated = _group(), _group(exact=False, least=3, most=9)
    assert (lag.text(exact), lag.text(estimated)) == ("5", "~5")
    assert measures.document((lag,), exact) == {"lag": 5, "lag_exact": True, "lag_min": 5, "lag_max": 5}
    assert measures.document((lag,), estimated) == {"lag": 5, "lag_exact": False, "lag_min": 3, "lag_max": 9}
    assert list(lag.samples(exact)) == [("redis_stream_group_lag", 5)]
    names = ("pystreams_group_lag_estimate", "pystreams_group_lag_min", "pystreams_group_lag_max")
    assert list(lag.samples(estimated)) == list(zip(names, (5, 3, 9), strict=True))


def test_a_value_has_a_unit_for_each_format() -> None:
    """Durations are seconds in JSON and metrics, and have units in text. Small rates are not rounded to zero."""
    behind, rate = _of(measures.GROUP, "behind"), _of(measures.STREAM, "rate")
    assert (behind.json_key, behind.text(_group()), behind.json(_group())) == ("lag_seconds", "1.5s", 1.5)
    assert list(behind.samples(_group())) == [("pystreams_group_lag_seconds", 1.5)]
    row = StreamRow(_STREAM, _NOW)
    assert (rate.text(row), rate.json(row)) == ("0.36/h", 0.0001)
    assert _of(measures.STREAM, "newest").json(row) == 90


@pytest.mark.parametrize("view", [measures.STREAM, measures.GROUP, measures.CONSUMER])
def test_names_keys_and_metrics_are_unique(view: View[Any]) -> None:
    """The names and JSON keys of measures are unique, and every metric is documented."""
    assert len({each.name for each in view}) == len({each.json_key for each in view}) == len(view)
    assert {name for each in view for name, _ in each.metrics} <= OF_STREAMS.keys()
    assert all(text for each in view for _, text in each.metrics)


def test_unknown_values() -> None:
    """An unknown value is null in JSON, a dash in text, absent from metrics, and sorted below zero."""
    row = StreamRow(Stream(ZERO, 0, None, None, name=b"s", last_entry=None, groups=0), _NOW)
    for name in ("bytes", "rate", "oldest", "newest", "added", "removed", "first", "lag", "behind"):
        found = _of(measures.STREAM, name)
        assert (found.text(row), found.json(row), list(found.samples(row))) == ("-", None, []), name
    assert _of(measures.STREAM, "bytes").sorted_by(row) == -1
