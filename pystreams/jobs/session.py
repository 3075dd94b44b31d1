"""Spark session of a job: a new session, in the application of the active session if there is one."""

from __future__ import annotations

import os
import sys

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_streams import register

_ZONE, _SHUFFLES = "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"
_REDACTION = "spark.redaction.regex"
_SPARKS_REDACTION = "(?i)secret|password|passphrase|token|access[.]?key"
_LOGIN_IN_URL = "(redis|rediss|unix)([+](sentinel|cluster))?://[^/ ]*@"

_SPARK = "org.apache.spark.sql.execution"
_QUIET = {
    f"{_SPARK}.datasources.DataSourceManager": "ERROR",  # warns of a source that is both found and registered
    f"{_SPARK}.streaming.runtime.MicroBatchExecution": "OFF",  # logs a query's failure, which the job prints itself
}


def session(name: str) -> tuple[SparkSession, bool]:
    """Return a session with `pystreams` registered, and whether a new application was started, which the job must stop.

    Unless the user configures it differently, the time zone is UTC, and a shuffle has as many partitions as there are
    cores, but at least two: Spark's default would cause 200 tasks per batch. Spark's event log and UI do not show
    logins in URLs of the command line.
    """
    active = SparkSession.getActiveSession()
    running = SparkContext._active_spark_context is not None  # also true if the session is active in another thread
    # Workers, and Spark's search for data sources, must use this Python instead of the first python3 on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"pystreams-{name}")
    if not running:
        builder = builder.config(_REDACTION, f"{SparkConf().get(_REDACTION, _SPARKS_REDACTION)}|{_LOGIN_IN_URL}")
    spark = active.newSession() if active is not None else builder.getOrCreate()
    configured = spark.sparkContext.getConf()
    if not configured.contains(_ZONE):
        spark.conf.set(_ZONE, "UTC")
    if not configured.contains(_SHUFFLES):
        spark.conf.set(_SHUFFLES, max(2, spark.sparkContext.defaultParallelism))
    _quiet(spark)
    # Register the source even if only --py-files provides it. With a registration in this session, queries that start
    # at the same moment also do not fail (docs/guides/reading.md).
    register(spark)
    return spark, not running


def _quiet(spark: SparkSession) -> None:
    """Silence log messages of Spark that need no action, or that the job prints itself."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name, level in _QUIET.items():
        log4j.core.config.Configurator.setLevel(name, log4j.Level.toLevel(level))
