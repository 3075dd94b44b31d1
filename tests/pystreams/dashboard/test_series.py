"""The history in memory: retention and memory limit."""

from __future__ import annotations

from pystreams.dashboard.history import History


def test_values_older_than_the_span_are_dropped() -> None:
    """A series has one value per step, the last one of the step, and values older than the span are dropped."""
    history = History(span_ms=10_000, step_ms=1_000)
    history.add(500, {"gone": 7})
    for at in range(1_000, 30_000, 250):
        history.add(at, {"a": at})
    curve = history.of("a")
    assert len(curve.at) == 10
    assert curve.at[-1] - curve.at[0] < 10_000
    assert curve.values[-1] == 29_750
    assert history.of("gone").at == []
    assert len(history) == 1


def test_missing_values_are_unknown() -> None:
    """A missing value within a series is None, and a series starts at its first value."""
    history = History(span_ms=10_000, step_ms=1_000)
    for at, value in enumerate((None, 1.5, None, 2.0)):
        history.add(at * 1000, {"a": value, "b": 1})
    assert (history.of("a").at, history.of("a").values) == ([1000, 2000, 3000], [1.5, None, 2.0])
    assert history.of("never").at == []


def test_new_series_are_left_out_at_the_limit_of_memory() -> None:
    """At the memory limit, known series go on, and new series are left out."""
    history = History(span_ms=360_000, step_ms=1_000, budget=256 * 360 * 4)
    for at in range(0, 361_000, 1_000):
        history.add(at, dict.fromkeys(range(100), at))
    history.add(361_000, dict.fromkeys(range(1000), 361_000))
    assert history.bytes <= 256 * 360 * 4
    assert (history.of(5).values[-1], history.of(999).at) == (361_000, [])
    assert 100 < len(history) < 1_000


def test_a_clock_that_goes_back_does_not_reorder() -> None:
    """The times of a series never decrease, even if the clock goes back."""
    history = History(span_ms=10_000, step_ms=1_000)
    for at in (5_000, 6_000, 3_000, 7_000):
        history.add(at, {"a": at})
    assert history.of("a").at == [5_000, 6_000, 7_000]
