"""Base classes of partitions, and of the readers whose copies read them in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark_streams.columns.read_schema import ReadSchema
from spark_streams.headline import headed
from spark_streams.worker import TaskCopy


class QueryPartition(InputPartition):
    """A part of a batch. It is pickled on the driver and unpickled in the worker.

    `checks_fields`: whether the task applies `FieldCheck`.
    """

    checks_fields: bool

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """Yield the entries as record batches of that schema."""
        raise NotImplementedError


class TaskReader(TaskCopy):
    """Base class of readers. A task's copy has only the schema, because the partition has all other facts."""

    def __init__(self, schema: ReadSchema) -> None:
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_schema": state["_schema"].in_session()})

    @headed
    def read(self, partition_: InputPartition) -> Iterator[Any]:
        """Yield a partition's rows as record batches. Called in the worker."""
        # Spark passes a placeholder partition when none were planned.
        if isinstance(partition_, QueryPartition):
            yield from partition_.batches(self._schema)
