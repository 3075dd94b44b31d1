"""A simple source as a baseline for the connector's source: redis-py, Python objects, tuples.

It reads a whole stream as a batch, in one partition, with only the columns of the measurements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

_PAGE = 10_000


class NaiveSource(DataSource):
    """`format("naive")`, with the options `url` and `stream`."""

    @classmethod
    def name(cls) -> str:
        return "naive"

    def schema(self) -> str:
        return "`sensor-id` int, temperature double"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return NaiveReader(self.options["url"], self.options["stream"])


class NaiveReader(DataSourceReader):
    def __init__(self, url: str, stream: str) -> None:
        self._url = url
        self._stream = stream

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002 - Spark's signature
        import redis

        client = redis.Redis.from_url(self._url, protocol=2)
        start = "-"
        while entries := client.xrange(self._stream, min=start, count=_PAGE):
            for _, fields in entries:
                yield int(fields[b"sensor-id"]), float(fields[b"temperature"])
            start = "(" + entries[-1][0].decode()
        client.close()
