"""The Spark data source `pystreams`: Redis streams in batches and micro-batches, read and written.

`register` makes it known to a session, and `options` makes the options of a read or write. `spark_streams.source` is
what Spark calls; `spark_streams.embedded.launcher` is the engine of a driver that names no server.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from spark_streams.builder import options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["options", "register"]


def register(spark: SparkSession) -> None:
    """Make the data source `pystreams` known to this session, of Spark or of Spark Connect.

    Spark finds it by itself where the package was installed before Spark's processes started. It does not where the
    package comes with the application (`--py-files`, `--archives`, `addPyFile`, `addArtifacts`), nor where this program
    runs in another Python than the first `python3` of PATH and PYSPARK_PYTHON is not set, as in a notebook. There
    `format("pystreams")` is DATA_SOURCE_NOT_FOUND until this was called. Calling it again changes nothing.

    Without PYSPARK_PYTHON a local Spark then runs the data source in this program's Python. From now on `load()`,
    `start()` and `toTable()` of this program refuse wrong options of the format by themselves (`preflight`).
    """
    from spark_streams import preflight  # noqa: PLC0415 - the command line has no use for Spark
    from spark_streams.source import PystreamsDataSource  # noqa: PLC0415 - as above

    preflight.install(connect=_is_connect(spark))
    if (
        _is_connect(spark)
        or "PYSPARK_PYTHON" in os.environ
        or not (spark.sparkContext.master or "").startswith("local")
    ):
        _put(spark, PystreamsDataSource)
        return
    context = spark.sparkContext
    default = context.pythonExec  # what Spark notes down with the source, and runs it in
    context.pythonExec = sys.executable
    try:
        _put(spark, PystreamsDataSource)
    finally:
        context.pythonExec = default


def _put(spark: SparkSession, source: type[DataSource]) -> None:
    """Register the source. Spark 4.0 refuses this if it has already found the source itself; both work."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - the command line has no use for Spark

    try:
        spark.dataSource.register(source)
    except AnalysisException as refusal:
        if refusal.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
