"""Hostile values of every format, as a short and as a long fuzz test."""

from __future__ import annotations

import pytest

from tests.spark_streams.formats import fuzz


def test_no_entry_stops_a_read() -> None:
    """Hostile entries of every format, read as columns of all types, raise no error in PERMISSIVE and DROPMALFORMED,
    and change no other rows.
    """
    assert fuzz.run(150, seed=1) > 50


@pytest.mark.long
def test_no_entry_of_many_stops_a_read() -> None:
    """The fuzz test passes with 20,000 entries."""
    assert fuzz.run(20_000, seed=2) > 10_000
