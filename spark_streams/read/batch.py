"""Batch reads: start and end are fixed when the query is planned, so every attempt of a task reads the same entries.

`infer_schema` reads the first entries of the streams for `inferSchema`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_streams.columns import inference
from spark_streams.columns.inference import Entry
from spark_streams.columns.read_schema import ReadSchema
from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.errors import fail, headed
from spark_streams.read.query import planning
from spark_streams.read.query.loss import Known
from spark_streams.read.query.partition import RangePartition, TaskReader
from spark_streams.read.query.selection import check_exist, streams_of
from streamclient.codec.reply import Page
from streamclient.config.address import Address
from streamclient.pool import borrow
from streamclient.streams.pages import pages
from streamclient.streams.states import Range, StreamState, last_id_of
from streamclient.streams.stream_server import open_server
from streamwire.stream_id import LAST, ZERO, StreamId

_EARLIEST, _LATEST = Position("earliest"), Position("latest")


class BatchReader(TaskReader, DataSourceReader):
    """Reads each stream from its start to its end position.

    Raises STREAM_MISSING if a stream is missing and the options do not allow this. Raises NOTHING_FROM_GROUP if the
    start is a group that the stream does not have.
    """

    def __init__(self, options: ReadOptions, schema: ReadSchema, address: Address) -> None:
        super().__init__(schema)
        self._options = options
        self._address = address
        self._only: set[str] | None = None
        self._after, self._upto = ZERO, LAST

    def narrow(self, only: set[str] | None, after: StreamId, upto: StreamId) -> None:
        """Restrict the read to the streams `only` (any stream if it is None) and to IDs in (after, upto]. Several calls
        restrict the read to the intersection.
        """
        if only is not None:
            self._only = only if self._only is None else self._only & only
        self._after, self._upto = max(self._after, after), min(self._upto, upto)

    @headed
    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions. Large streams are split if the options require it, and small streams share a
        partition.
        """
        options = self._options
        with borrow(self._address) as connection:
            server = open_server(connection)
            streams = streams_of(options, server)
            if self._only is not None:
                streams = [stream for stream in streams if stream in self._only]
            states = server.states.of(streams, options.group)
            if options.fails_missing is not False and (states or self._only is None):
                check_exist(options, states, self._address)
            starts: dict[str, StreamId] = {}
            ends: dict[str, StreamId] = {}
            for stream, state in states.items():
                start, end = options.starting.get(stream, _EARLIEST), options.ending.get(stream, _LATEST)
                starts[stream] = max(self._resolve(stream, start, state), self._after)
                ends[stream] = min(self._resolve(stream, end, state), last_id_of(state), self._upto)
            wholes = [
                Range(stream, starts[stream], ends[stream], 0, about=state.backlog(starts[stream])[0])
                for stream, state in sorted(states.items())
                if state is not None and ends[stream] > starts[stream]
            ]
            parts = planning.expect(planning.split(wholes, options, server.entries), states, server.entries)
            tasks = planning.by_task(parts, planning.tasks(parts, options, os.cpu_count() or 1))
        known = {stream: Known.of(state) for stream, state in states.items() if state is not None}
        return [
            RangePartition(
                self._address,
                task,
                options.page_size,
                fails=options.fails,
                checks_fields=True,
                known={part.stream: known[part.stream] for part in task},
            )
            for task in tasks
        ]

    def _resolve(self, stream: str, position: Position, state: StreamState | None) -> StreamId:
        """Return the current ID of a position in this stream."""
        if position.after is not None:
            return position.after
        if position.kind == "group":
            if state is None or state.group is None:
                fail("NOTHING_FROM_GROUP", stream=stream, group=self._options.group)
            return state.group.last_delivered_id
        return ZERO if position.kind == "earliest" else last_id_of(state)


def infer_schema(options: ReadOptions, address: Address) -> StructType:
    """Return the schema of the first `samplingSize` entries of each stream.

    Raises CANNOT_INFER_SCHEMA if there are no entries.
    """
    entries: list[Entry] = []
    with borrow(address) as connection:
        streams = streams_of(options, open_server(connection))
        for stream in streams:
            for page in pages(connection, stream, ZERO, LAST, options.page_size, limit=options.samples or 0):
                entries += _entries(page)
    if not entries:
        fail("CANNOT_INFER_SCHEMA", streams=options.pattern or ", ".join(streams))
    return inference.schema(entries, options.row_field, options.null_value)


def _entries(page: Page) -> list[Entry]:
    offsets, names, texts = (part.to_pylist() for part in page.fields())
    return [dict(zip(names[first:last], texts[first:last], strict=True)) for first, last in itertools.pairwise(offsets)]
