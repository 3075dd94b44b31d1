"""The Spark session of the tests: one for each process of a run, small, without a UI, and quiet.

tests/conftest.py imports the fixture, for all tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark import __version__
from pyspark.sql import SparkSession

from tests import ROOT

# As in conf/spark-defaults.conf: on a local disk the default starts twenty processes for each trigger.
_PACKAGE = "" if __version__.startswith("4.0.") else "checkpointing."
_CHECKPOINTS = f"org.apache.spark.sql.execution.streaming.{_PACKAGE}FileSystemBasedCheckpointFileManager"
_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores; its workers run this Python and import the checkout."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    warehouse = tmp_path_factory.mktemp("warehouse")
    builder = SparkSession.builder.master("local[2]").appName("pystreams-tests")
    for name, value in {**_SETTINGS, "spark.sql.warehouse.dir": str(warehouse)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    _end(gateway)


def _end(gateway: object) -> None:
    """End the JVM, which would otherwise live as long as this Python."""
    gateway.shutdown()  # type: ignore[attr-defined]
    process = gateway.proc  # type: ignore[attr-defined]
    process.stdin.close()
    process.wait(30)
