"""Fuzz test of the parsers (the short form of ``make fuzz``)."""

from __future__ import annotations

import os

from tests.engine.wire.fuzz import GROWTH_MB, Inputs, fuzz, memory_mb

#: Number of inputs; FUZZ_INPUTS in the environment changes it.
INPUTS = int(os.environ.get("FUZZ_INPUTS", "2500"))


def test_the_parsers_agree_on_every_input() -> None:
    """Random bytes, changed requests and pipelines, whole and in pieces, give one result, no exception and bounded
    memory.
    """
    before = memory_mb()
    fuzz(os.environ.get("FUZZ_SEED", "short"), INPUTS)
    assert memory_mb() - before < GROWTH_MB


def test_a_seed_and_a_number_identify_an_input() -> None:
    """The same seed and number always give the same input."""
    assert Inputs("a").make(7)[0] == Inputs("a").make(7)[0]
    assert len({Inputs("a").make(number)[0] for number in range(100)}) > 90
