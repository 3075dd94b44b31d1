"""Tests that are run by `make test-long` and not by `make test`, which is to stay under ten minutes on two cores.

tests/conftest.py skips them, with that reason.
"""

from __future__ import annotations

import os

import pytest

FULL = os.environ.get("LONG_TESTS") == "1"
long_only = pytest.mark.long
