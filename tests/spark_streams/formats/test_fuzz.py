"""Hostile values of every format: a short form of the fuzz test, and the long one."""

from __future__ import annotations

import pytest

from tests.spark_streams.formats import fuzz


def test_hostile_values_are_decoded_or_refused() -> None:
    """No bytes raise another error, disturb their neighbours, or cost more time and memory than the bounds allow."""
    found = fuzz.run(1200, seed=1)
    assert found.decoded > 100
    assert found.refused > 100


@pytest.mark.long
def test_many_hostile_values_are_decoded_or_refused() -> None:
    """The same with 100,000 values."""
    assert fuzz.run(100_000, seed=2).refused > 10_000
