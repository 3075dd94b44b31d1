"""The sampler: rates, its pauses, the history in memory, and a server that hangs."""

from __future__ import annotations

import signal
import time

import pytest

from pystreams.dashboard.sampler import History, Sampler, pause_after
from pystreams.streams.sampling import Rates
from tests import servers
from tests.pystreams.dashboard.conftest import address_of
from tests.suite.waiting import wait_for


def test_a_rate_is_over_the_last_seconds() -> None:
    """Rates cover the last seconds. The first sample has none, a decrease gives zero, and a clock that goes back
    restarts them.
    """
    rates: Rates[str] = Rates()
    seen = [(1_000, 10), (2_000, 30), (3_000, 30), (12_000, 30), (13_000, 1), (500, 99), (1_500, 109)]
    assert [rates.add("a", at, count) for at, count in seen] == [None, 20.0, 10.0, 0.0, 0.0, None, 10.0]


def test_many_commands_make_the_pause_longer() -> None:
    """The pause after a sample keeps the average below 250 commands per second."""
    assert pause_after(0.1, 100) == pytest.approx(0.4)
    assert pause_after(0.1, 2_000) == pytest.approx(8.0)


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


def test_new_series_are_left_out_at_the_limit() -> None:
    """At the limit, known series go on, and new series are left out."""
    history = History(most=100)
    history.add(0, dict.fromkeys(range(90), 1))
    history.add(5_000, dict.fromkeys(range(1000), 2))
    assert (history.of(5).values, history.of(99).values, history.of(999).at) == ([1, 2], [2], [])
    assert len(history) == 100


def test_a_clock_that_goes_back_does_not_reorder() -> None:
    """The times of a series never decrease, even if the clock goes back."""
    history = History(span_ms=10_000, step_ms=1_000)
    for at in (5_000, 6_000, 3_000, 7_000):
        history.add(at, {"a": at})
    assert history.of("a").at == [5_000, 6_000, 7_000]


def test_a_hanging_server_is_reported() -> None:
    """A server that stops replying is reported, with the time since its last reply, until it replies again."""
    with servers.redis() as server:
        sampler = Sampler(address_of(server.url), 0.05)
        sampler.start()
        try:
            wait_for(lambda: sampler.state.problem is None, "the first sample")
            server.process.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            wait_for(lambda: sampler.state.problem is not None, "the problem to be reported")
            silent = round((time.monotonic() - stopped) * 1000)
            assert sampler.state.age_ms >= silent >= 1000
        finally:
            server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: sampler.state.problem is None, "the server to be back")
        sampler.stop()
