"""The extent of the tests of jobs: one server, or with LONG_TESTS=1 (`make test-long PYTEST_ARGS=tests/jobs`) both."""

from __future__ import annotations

import pytest

from tests.suite.long import FULL


def on(server: str) -> pytest.MarkDecorator:
    """Run the test on this server, or with LONG_TESTS=1 on redis and on the engine."""
    names = ["redis", "engine"] if FULL else [server]
    marks = {"redis": [pytest.mark.redis], "engine": []}
    return pytest.mark.parametrize("jobs", [pytest.param(name, marks=marks[name]) for name in names], indirect=True)
