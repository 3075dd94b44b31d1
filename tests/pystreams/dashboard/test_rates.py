"""Rates of added and delivered entries, as measured by the sampler."""

from __future__ import annotations

import pytest

from pystreams.dashboard.sampler import pause_after
from pystreams.streams.sampling import Rates


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
