"""Spark's own limit: a source that yields prepared record batches, and a sink that discards them.

Their rates are the maximum for any source or sink of these columns, in batches and micro-batches. The work consists
only of planning, scheduling, passing batches to the JVM or receiving them from it, and discarding rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

_BATCH = 10_000  # rows, as in Spark's own batches


class CeilingSource(DataSource):
    """`format("ceiling")`, with the options `rows`, `partitions` and, for streams, `rowsPerTrigger`."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return "`sensor-id` int, temperature double"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return CeilingReader(int(self.options["rows"]), int(self.options["partitions"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        words = ("rows", "partitions", "rowsPerTrigger")
        return CeilingStream(*(int(self.options[word]) for word in words))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        return CeilingWriter()


class CeilingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class CeilingReader(DataSourceReader):
    def __init__(self, rows: int, partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return _parts(self._rows, self._partitions)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _batches(partition.value)


class CeilingStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, rows: int, partitions: int, per_trigger: int) -> None:
        self._rows = rows
        self._partitions = partitions
        self._per_trigger = per_trigger

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        return {"rows": min(self._rows, start["rows"] + self._per_trigger)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return _parts(end["rows"] - start["rows"], self._partitions)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _batches(partition.value)


def _parts(rows: int, partitions: int) -> list[InputPartition]:
    return [InputPartition(rows // partitions) for _ in range(partitions)]


def _batches(rows: int) -> Iterator[Any]:
    sensors = np.arange(_BATCH, dtype=np.int32) % 9000 + 1000
    fields = [("sensor-id", pa.int32()), ("temperature", pa.float64())]
    batch = pa.RecordBatch.from_arrays([pa.array(sensors), pa.array(sensors / 10)], schema=pa.schema(fields))
    for _ in range(rows // _BATCH):
        yield batch
