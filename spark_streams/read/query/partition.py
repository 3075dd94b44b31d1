"""Base class of a query's partitions, which tasks read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark_streams.columns.read_schema import ReadSchema


class QueryPartition(InputPartition):
    """A part of a batch. It is pickled on the driver and unpickled in the worker.

    `checks_fields`: whether the task applies `FieldCheck`.
    """

    checks_fields: bool

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """Yield the entries as record batches of that schema."""
        raise NotImplementedError
