"""How much of the tests of jobs runs: all with LONG_TESTS=1 (`make test-jobs`), else each on one server."""

from __future__ import annotations

import pytest

from tests.suite.long import FULL


def on(server: str) -> pytest.MarkDecorator:
    """The test runs on that server; in the full form on redis and engine."""
    names = ["redis", "engine"] if FULL else [server]
    marks = {"redis": [pytest.mark.redis], "engine": []}
    return pytest.mark.parametrize("jobs", [pytest.param(name, marks=marks[name]) for name in names], indirect=True)
