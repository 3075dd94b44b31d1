"""Tests that run in `make test-long` and not in `make test`, which must take less than ten minutes on two cores.

tests/conftest.py skips them with that reason.
"""

from __future__ import annotations

import os

import pytest

FULL = os.environ.get("LONG_TESTS") == "1"
long_only = pytest.mark.long
