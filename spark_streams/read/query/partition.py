"""Partitions of ranges, and the base classes of all partitions and of the readers whose copies read them in tasks.

Spark accepts no metrics from a Python data source. So a task of a streaming query adds its counts of malformed values
to the stream `MALFORMED_STREAM` of `spark_streams.reports`, and a `StreamMonitor` sums them for each batch. A task
without malformed values sends nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from spark_streams.columns.read_schema import FieldCheck, Origin, ReadSchema
from spark_streams.embedded import drivers
from spark_streams.errors import PystreamsError, first_of, headed
from spark_streams.read.query.loss import Known, Read, find_missing
from spark_streams.reports import MALFORMED_STREAM, MAXLEN, Malformed
from spark_streams.worker import TaskCopy
from streamclient.codec.reply import Page
from streamclient.config.address import Address
from streamclient.connection import BROKEN, Command, Connection
from streamclient.pool import borrow
from streamclient.streams.pages import pages_of
from streamclient.streams.states import Range, StreamState
from streamclient.streams.stream_server import open_server
from streamwire.stream_id import StreamId

#: A page, the streams of its entries, their numbers of deliveries (None: not requested), and a boolean array of the
#: rows to keep (None: all).
Delivered = tuple[Page, Origin, Any, Any]


class QueryPartition(InputPartition):
    """A part of a batch. It is pickled on the driver and unpickled in the worker, which has no other facts of the plan.

    `checks_fields`: whether the task applies `FieldCheck`.
    """

    address: Address
    checks_fields: bool

    @property
    def streams(self) -> list[str]:
        """The streams of the entries."""
        raise NotImplementedError

    def pages(self, connection: Connection, schema: ReadSchema) -> Iterator[Delivered]:
        """Yield the entries page by page. Losses are raised or logged."""
        raise NotImplementedError

    def batches(self, schema: ReadSchema) -> Iterator[Any]:
        """Yield the entries as record batches of that schema.

        Raises STREAM_LOST, ENTRIES_LOST and GROUP_LOST, and the errors of `ReadSchema.batch` and `FieldCheck`.
        """
        drivers.check_reach(self.address)
        check = FieldCheck(schema) if self.checks_fields else None
        counts: Counter[str] = Counter()
        with borrow(self.address) as connection:
            for page, origin, deliveries, mask in self.pages(connection, schema):
                for part, batch in schema.batches(page, origin, deliveries, mask, counts):
                    if check is not None:
                        check.see(part, batch)
                    if batch.num_rows:
                        yield batch
            _report_malformed(connection, self.streams, counts)
        if check is not None:
            check.finish(self.streams)


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


_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_log = logging.getLogger("spark_streams")
_warned: set[str] = set()


def _report_malformed(connection: Connection, streams: Sequence[str], counts: Counter[str]) -> None:
    """Log the counts once for each column and process, and add them to the stream. A refusal is only logged."""
    if not counts:
        return
    for column, count in counts.items():
        if column not in _warned:
            _warned.add(column)
            _log.warning(
                "Column '%s' of %s: %d values did not parse. Add a string column _rescued to the schema to see their "
                "text.",
                column,
                ", ".join(streams[:3]),
                count,
            )
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context is not None else None
    if context is None or query is None:
        return
    batch = int(context.getLocalProperty(_BATCH) or 0)
    part = f"{context.partitionId()} {' '.join(streams)}"[:200]
    made = Malformed(query, batch, part, dict(counts))
    command: Command = ("XADD", MALFORMED_STREAM, "MAXLEN", "~", MAXLEN, "*", *made.to_fields())
    try:
        connection.command(*command)
    except (PystreamsError, *BROKEN) as problem:
        if str(problem) not in _warned:
            _warned.add(str(problem))
            _log.warning("Counts of values that did not parse cannot be written to %s: %s", MALFORMED_STREAM, problem)


@dataclass(frozen=True)
class RangePartition(QueryPartition):
    """Entries of `ranges`, read from `address` in pages of at most `page_size` entries.

    `fails`: whether lost entries are an error rather than a warning. `checks_fields`: see `FieldCheck`. `known`: facts
    of the streams when the ranges were planned.
    """

    address: Address
    ranges: tuple[Range, ...]
    page_size: int
    fails: bool = True
    checks_fields: bool = False
    known: Mapping[str, Known] = field(default_factory=dict)

    @property
    def streams(self) -> list[str]:
        return list(dict.fromkeys(part.stream for part in self.ranges))

    def pages(self, connection: Connection, schema: ReadSchema) -> Iterator[Delivered]:
        progress = {part: Read() for part in self.ranges}
        for page, parts in pages_of(connection, self.ranges, self.page_size, schema.needed_fields()):
            at = 0
            ids = page.ids() if any(part.count is None for part, _ in parts) else None
            for part, count in parts:
                progress[part].entries += count
                at += count
                if ids is not None and part.count is None and count:
                    read_state = partial(_state, connection, part.stream)
                    progress[part].follow(partial(_id, ids), at - count, at - 1, read_state)
            if page.count:
                origin = [(part.stream, count) for part, count in parts]
                yield page, origin if len(origin) > 1 else origin[0][0], None, None
        problems = [*self._losses(connection, progress)]
        if problems and self.fails:
            raise first_of(dict(problems))
        for _, problem in problems:
            _log.warning("%s", problem)

    def _losses(self, connection: Connection, progress: Mapping[Range, Read]) -> Iterator[tuple[str, PystreamsError]]:
        """Yield each stream that has lost entries of a range, with the error."""
        states = open_server(connection).states.of([*dict.fromkeys(part.stream for part in progress)], None)
        for part, found in progress.items():
            stream = part.stream
            loss = find_missing(part, self.known.get(stream, Known(part.upto)), states[stream], found)
            if loss is not None:
                yield stream, loss.error(stream, self.address)


def _id(ids: Any, at: int) -> StreamId:
    return StreamId.parse(ids[at].as_py())


def _state(connection: Connection, stream: str) -> StreamState | None:
    return open_server(connection).states.of([stream], None)[stream]
