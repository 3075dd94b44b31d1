"""Spark's own ceiling: a source that yields record batches which are ready already, and does nothing else.

What any source of these columns could reach at best: planning, scheduling, handing batches to the JVM, throwing rows
away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

_BATCH = 10_000  # as many rows as Spark itself puts into one


class CeilingSource(DataSource):
    """`format("ceiling")`, with the options `rows` and `partitions`."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return "`sensor-id` int, temperature double"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return CeilingReader(int(self.options["rows"]), int(self.options["partitions"]))


class CeilingReader(DataSourceReader):
    def __init__(self, rows: int, partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._rows // self._partitions) for _ in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        sensors = np.arange(_BATCH, dtype=np.int32) % 9000 + 1000
        fields = [("sensor-id", pa.int32()), ("temperature", pa.float64())]
        batch = pa.RecordBatch.from_arrays([pa.array(sensors), pa.array(sensors / 10)], schema=pa.schema(fields))
        for _ in range(partition.value // _BATCH):
            yield batch
