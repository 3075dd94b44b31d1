"""A short chaos run; `python -m tests.chaos` kills three hundred times."""

from __future__ import annotations

import pytest

from tests import servers
from tests.chaos import harness


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.redis
def test_every_entry_is_copied_once_despite_kills(redis_process: servers.Running) -> None:
    """Every entry is copied once, and none is pending, after kills of a connection, the server, a worker, and the
    driver in its commit.
    """
    report = harness.run("redis", ["connection", "server", "worker", "commit"], seed=11)
    assert sum(report.kills.values()) == 4
    assert report.entries > 0
