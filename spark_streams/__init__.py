"""The Spark data source `pystreams`: Redis streams in batches and micro-batches, read and written.

`register` makes it known to a session. `spark_streams.source` is what Spark calls; `spark_streams.embedded.launcher` is
the engine of a driver that names no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the data source `pystreams` known to this session, of Spark or of Spark Connect.

    Spark finds it by itself where the package was installed before Spark's processes started. It does not where the
    package comes with the application (`--py-files`, `--archives`, `addPyFile`, `addArtifacts`): there
    `format("pystreams")` is DATA_SOURCE_NOT_FOUND until this was called. Calling it again changes nothing.
    """
    from spark_streams.source import PystreamsDataSource  # noqa: PLC0415 - the command line has no use for Spark

    spark.dataSource.register(PystreamsDataSource)
