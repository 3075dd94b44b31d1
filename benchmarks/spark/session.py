"""Spark session of the measurements: by default two cores, without log lines, with the sources for comparison."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.spark.ceiling_source import CeilingSource
from benchmarks.spark.naive_source import NaiveSource

CORES = 2
_ROOT = Path(__file__).resolve().parent.parent
# As in conf/spark-defaults.conf: on a local disk the default manager starts twenty processes per trigger.
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(CORES),
}


@functools.cache
def session(cores: int = CORES) -> SparkSession:
    """Return this process's Spark session, started on first use. Before a call with another number of cores, the caller
    must stop the session.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH")) if part)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("benchmarks")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    started.dataSource.register(NaiveSource)
    started.dataSource.register(CeilingSource)
    return started
