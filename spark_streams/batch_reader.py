"""Batch reads: both ends are fixed when the query is planned, so every attempt reads the same entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_streams import partition, planning
from spark_streams.address import Address
from spark_streams.connection import borrow
from spark_streams.errors import fail
from spark_streams.facts import StreamState, facts_of
from spark_streams.ids import ZERO, StreamId
from spark_streams.options import ReadOptions
from spark_streams.partition import StreamPartition
from spark_streams.positions import Position
from spark_streams.schema import ReadSchema

_EARLIEST, _LATEST = Position("earliest"), Position("latest")


class BatchReader(DataSourceReader):
    """Reads each stream from its start to its end position. A stream that does not exist is empty."""

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        self._options = options
        self._schema = schema
        self._address = address

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with borrow(self._address) as connection:
            states = facts_of(connection).states(options.streams, options.group)
        starts: dict[str, StreamId] = {}
        ends: dict[str, StreamId] = {}
        for stream, state in states.items():
            starting = options.starting.of(stream) if options.starting is not None else _EARLIEST
            ending = options.ending.of(stream) if options.ending is not None else _LATEST
            starts[stream] = self._resolve(stream, starting, state)
            last = ZERO if state is None else state.last
            ends[stream] = min(self._resolve(stream, ending, state), last)
        return [StreamPartition(self._address, part, options.page_size) for part in planning.ranges(starts, ends)]

    def _resolve(self, stream: str, position: Position, state: StreamState | None) -> StreamId:
        if position.after is not None:
            return position.after
        if position.kind == "group":
            if state is None or state.group is None:
                fail("NOTHING_FROM_GROUP", stream=stream, group=self._options.group)
            return state.group.position
        return ZERO if state is None or position.kind == "earliest" else state.last

    def read(self, partition_: InputPartition) -> Iterator[Any]:
        return partition.read(partition_, self._schema)
