"""A few kills of everything around a streaming job; `make chaos` does three hundred."""

from __future__ import annotations

import pytest

from tests import servers
from tests.chaos import harness


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.redis
def test_every_entry_comes_out_once_whatever_is_killed(redis_process: servers.Running) -> None:
    """Connection, server, worker, and the driver in its commit are killed: all entries come out once, none pending."""
    report = harness.run("redis", ["connection", "server", "worker", "commit"], seed=11)
    assert sum(report.kills.values()) == 4
    assert report.entries > 0
