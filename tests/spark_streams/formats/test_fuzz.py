"""Hostile values of every format, as a short and as a long fuzz test."""

from __future__ import annotations

import pytest

from tests.spark_streams.formats import fuzz


def test_hostile_values_are_decoded_or_refused() -> None:
    """No value raises an unexpected error, affects neighbouring values, or exceeds the limits for time and memory."""
    found = fuzz.run(500, seed=1)
    assert found.decoded > 40
    assert found.refused > 40


@pytest.mark.long
def test_many_hostile_values_are_decoded_or_refused() -> None:
    """The fuzz test passes with 100,000 values."""
    assert fuzz.run(100_000, seed=2).refused > 10_000


def test_no_entry_stops_a_read() -> None:
    """Hostile entries of every format, read as columns of all types, raise no error in PERMISSIVE and DROPMALFORMED,
    and change no other rows.
    """
    assert fuzz.run_rows(150, seed=1) > 50


@pytest.mark.long
def test_no_entry_of_many_stops_a_read() -> None:
    """The fuzz test of rows passes with 20,000 entries."""
    assert fuzz.run_rows(20_000, seed=2) > 10_000
