"""Short chaos runs; `python -m tests.chaos` kills three hundred times."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests import servers
from tests.chaos import harness
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.redis]


def test_every_entry_is_copied_once_despite_kills(redis_process: servers.Running, spark: SparkSession) -> None:
    """Every entry is copied once, and none is pending, after kills of a connection, the server and a worker."""
    report = harness.run("redis", ["connection", "server", "worker"], seed=11, spark=spark)
    assert sum(report.kills.values()) == 3
    assert report.entries > 0


@long_only
@pytest.mark.slow
def test_every_entry_is_copied_once_despite_kills_of_drivers(redis_process: servers.Running) -> None:
    """The same holds after kills of the driver, at any moment and in its commit."""
    report = harness.run("redis", ["commit", "driver"], seed=11)
    assert sum(report.kills.values()) == 2
    assert report.entries > 0
