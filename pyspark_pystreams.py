"""Lets Spark find the data source `pystreams` by itself.

Spark imports every top-level module whose name begins with `pyspark_` and registers its `DefaultSource`.
"""

from spark_streams.source import PystreamsDataSource as DefaultSource

__all__ = ["DefaultSource"]
