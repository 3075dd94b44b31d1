"""Hostile values of every format, as a short and as a long fuzz test."""

from __future__ import annotations

import pytest

from tests.spark_streams.formats import fuzz


def test_hostile_values_are_decoded_or_refused() -> None:
    """No value raises an unexpected error, affects neighbouring values, or exceeds the limits for time and memory."""
    found = fuzz.run(1200, seed=1)
    assert found.decoded > 100
    assert found.refused > 100


@pytest.mark.long
def test_many_hostile_values_are_decoded_or_refused() -> None:
    """The fuzz test passes with 100,000 values."""
    assert fuzz.run(100_000, seed=2).refused > 10_000
