"""The Spark data source `pystreams`: batch and streaming reads and writes of Redis streams.

`register` registers it in a session, and `options` builds the options of a read or write. Spark calls
`spark_streams.source`. `spark_streams.embedded.launcher` starts the engine for a driver that names no server.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from spark_streams.builder import options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["options", "register"]


def register(spark: SparkSession) -> None:
    """Register the data source `pystreams` in a session of Spark or Spark Connect.

    Spark finds the data source without this call if the package was installed before Spark's processes started. The
    call is needed if the package comes with the application (`--py-files`, `--archives`, `addPyFile`, `addArtifacts`).
    It is also needed if PYSPARK_PYTHON is not set and this program's Python is not the first `python3` of PATH, as in a
    notebook. In these cases `format("pystreams")` fails with DATA_SOURCE_NOT_FOUND without the call. Repeated calls
    change nothing.

    After the call, a local Spark without PYSPARK_PYTHON runs the data source in this program's Python. Calls of
    `load()`, `start()` and `toTable()` in this program then check the format's options before Spark does, and may be
    made in any thread (`preflight`).
    """
    from spark_streams import preflight  # noqa: PLC0415 - the command line imports this package without Spark
    from spark_streams.source import PystreamsDataSource  # noqa: PLC0415 - as above

    preflight.install(connect=_is_connect(spark))
    if not _is_connect(spark):
        _silence(spark)
    if (
        _is_connect(spark)
        or "PYSPARK_PYTHON" in os.environ
        or not (spark.sparkContext.master or "").startswith("local")
    ):
        _put(spark, PystreamsDataSource)
        return
    context = spark.sparkContext
    default = context.pythonExec  # the Python that Spark records with the source, and in which it runs the source
    context.pythonExec = sys.executable
    try:
        _put(spark, PystreamsDataSource)
    finally:
        context.pythonExec = default


def _silence(spark: SparkSession) -> None:
    """Suppress the warnings of Spark that a source which it has found by itself is replaced. It logs them at each start
    of a query.
    """
    jvm: Any = spark._jvm
    jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(
        "org.apache.spark.sql.execution.datasources.DataSourceManager", jvm.org.apache.logging.log4j.Level.ERROR
    )


def _put(spark: SparkSession, source: type[DataSource]) -> None:
    """Register the source. Ignore the error that Spark 4.0 raises if it has already found the source itself."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - the command line imports this package without Spark

    try:
        spark.dataSource.register(source)
    except AnalysisException as refusal:
        if refusal.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
