"""Tests that run in `make test-long` and not in `make test`, which must take less than ten minutes on two cores.

tests/conftest.py skips them with that reason.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

FULL = os.environ.get("LONG_TESTS") == "1"
long_only = pytest.mark.long


def short_and_long(short: Sequence[Any], long: Sequence[Any]) -> list[Any]:
    """Return the sets of parameters of a test; those of `long` run only in `make test-long`."""
    return [*short, *(pytest.param(*each, marks=long_only) for each in long)]
