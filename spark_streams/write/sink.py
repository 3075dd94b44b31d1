"""Writes as Spark sees them: a batch, or a query's micro-batches, each task by itself.

What makes writing safe is below (`spark_streams.write.exactly_once`); here is who a task is. A streaming query's ID
comes from its checkpoint and a batch's number from its log, so a replay is the same writer. A batch write gets a name
when it is planned, once for all of its tasks and their repetitions, or from the user, for all repetitions of the whole
write.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import redis
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spark_streams.client.connection import Command, Connection
from spark_streams.client.pool import borrow
from spark_streams.columns.write_schema import WriteSchema
from spark_streams.config.address import Address
from spark_streams.config.write import WriteOptions
from spark_streams.embedded import launcher
from spark_streams.errors import fail
from spark_streams.stream_id import StreamId
from spark_streams.write.at_least_once import PlainSender
from spark_streams.write.encoding import Packer, Parcel
from spark_streams.write.exactly_once import FencedSender
from spark_streams.write.fence import Writer
from spark_streams.write.trimming import check_policy

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_LATE_MS = 600_000
"""For how long a finished write's fences stay, so that a twin of a task that comes late finds them."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has written: its rows, its fences, and where streams ended before (for overwriting)."""

    rows: int
    fences: tuple[bytes, ...] = ()
    floors: tuple[tuple[bytes, str], ...] = ()


@dataclass(frozen=True)
class Sink:
    """Where and how rows are written; it travels to the workers inside the writer.

    `name` is a batch write's; a streaming one's comes from the task. `overwrite` and `idle` (write nothing) are a
    batch's alone.
    """

    address: Address
    options: WriteOptions
    schema: WriteSchema
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    streaming: bool = False
    overwrite: bool = False
    idle: bool = False

    def write(self, batches: Iterator[Any]) -> Written:
        """Write a task's rows."""
        if self.idle:
            return Written(0)
        launcher.check_reach(self.address)
        chunks = Packer(self.options, self.schema).chunks(batches)
        with borrow(self.address) as connection:
            chunks = self._checked(connection, chunks)
            if self.options.mode == "append":
                plain = PlainSender(connection, self.options, self.overwrite)
                rows = 0
                for parcels in chunks:
                    plain.submit(parcels)
                    rows += sum(map(len, parcels))
                plain.finish()
                return Written(rows, (), tuple(plain.floors.items()))
            lasting = self.streaming or self.options.write_id is not None
            sender = FencedSender(connection, self._writer(), self.options, lasting, self.overwrite)
            for parcels in [_merged(chunks)] if self.options.mode == "atomic" else chunks:
                sender.submit(parcels)
            lanes = sender.finish()
        return Written(
            sum(lane.rows for lane in lanes),
            tuple(lane.key for lane in lanes),
            tuple((lane.stream, lane.state.floor) for lane in lanes if lane.state.floor),
        )

    def _checked(self, connection: Connection, chunks: Iterable[list[Parcel]]) -> Iterator[list[Parcel]]:
        """The chunks; before the first one, what can be known beforehand to be refused is."""
        for number, parcels in enumerate(chunks):
            if number == 0:
                check_policy(connection, parcels[0].stream, self.options)
            yield parcels

    def _writer(self) -> Writer:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        if not self.streaming:
            return Writer(self.name, 0, partition)
        query = context.getLocalProperty(_QUERY) if context is not None else None
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if not query or not batch:
            fail("NO_BATCH_IDENTITY")
        return Writer(query, int(batch), partition)

    def finish(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """A batch write is done: remove what it replaces, and let its fences go."""
        written = [message for message in messages if isinstance(message, Written)]
        commands: list[Command] = []
        if self.overwrite:
            commands += self._removals(written)
        if self.options.write_id is None:
            commands += [("PEXPIRE", key, _LATE_MS) for message in written for key in message.fences]
        if not commands:
            return
        with borrow(self.address) as connection:
            for command, reply in zip(commands, connection.pipeline(commands), strict=True):
                if isinstance(reply, redis.ResponseError):
                    fail("SERVER_REFUSED", address=self.address, command=command[0], reason=reply)

    def _removals(self, written: Sequence[Written]) -> list[Command]:
        floors: dict[bytes, StreamId] = {}
        for message in written:
            for stream, text in message.floors:
                floor = StreamId.parse(text)
                floors[stream] = min(floor, floors.get(stream, floor))
        commands: list[Command] = [("XTRIM", stream, "MINID", str(floor.next())) for stream, floor in floors.items()]
        commands += [("XTRIM", stream, "MAXLEN", 0) for stream in self._named() if stream not in floors]
        return commands

    def _named(self) -> list[bytes]:
        """The streams that are written to whatever the rows are."""
        name, count = self.options.stream, self.options.partitions
        if name is None:
            return []
        return [name.encode()] if count is None else [b"%b:{%d}" % (name.encode(), i) for i in range(count)]


def _merged(chunks: Iterable[list[Parcel]]) -> list[Parcel]:
    """All of a task's parcels, as one for each stream."""
    by_stream: dict[bytes, list[Parcel]] = {}
    for parcels in chunks:
        for parcel in parcels:
            by_stream.setdefault(parcel.stream, []).append(parcel)
    merged: list[Parcel] = []
    for stream, parts in by_stream.items():
        sizes = [len(part.commands) for part in parts]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        bounds = [part.bounds[:-1].astype(np.int64) + start for part, start in zip(parts, starts[:-1], strict=True)]
        ids = None if parts[0].ids is None else [each for part in parts for each in part.ids or ()]
        merged.append(
            Parcel(
                stream,
                memoryview(b"".join(part.commands for part in parts)),
                np.concatenate([*bounds, starts[-1:]]),
                np.concatenate([part.rows for part in parts]),
                ids,
            )
        )
    return merged


class BatchWriter(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.finish(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is left to do: rows are in the streams when their task ends, and the next batch moves the fences."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What is in the streams stays there; the fences tell the replay."""


def sink(address: Address, options: WriteOptions, schema: WriteSchema, streaming: bool, overwrite: bool) -> Sink:
    """The sink of a write that is being planned."""
    idle = False
    if options.save_mode != "append":
        with borrow(address) as connection:
            exists = connection.command("EXISTS", options.stream or "")
        if exists and options.save_mode == "error":
            fail("STREAM_EXISTS", stream=options.stream, address=address)
        idle = bool(exists)
    name = f"id-{options.write_id}" if options.write_id is not None else uuid.uuid4().hex
    return Sink(address, options, schema, name, streaming, overwrite, idle)
