"""Fuzz test of the parsers (the short form of ``make fuzz``)."""

from __future__ import annotations

import os

from tests.engine.wire.fuzz import GROWTH_MB, fuzz, memory_mb

#: Number of inputs; FUZZ_INPUTS in the environment changes it.
INPUTS = int(os.environ.get("FUZZ_INPUTS", "2500"))


def test_the_parsers_agree_on_every_input() -> None:
    """Random bytes, changed requests and pipelines, whole and in pieces, give one result, no exception and bounded
    memory.
    """
    before = memory_mb()
    fuzz(os.environ.get("FUZZ_SEED", "short"), INPUTS)
    assert memory_mb() - before < GROWTH_MB
