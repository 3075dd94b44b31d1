"""The writers that Spark calls: a batch, or a streaming query's micro-batches, each task by itself.

Owns the identity of a task. A streaming query's ID comes from its checkpoint and a batch's number from its log, so a
replay has the same identity. A batch write gets a name when it is planned, once for all of its tasks and their retries;
or the user names it (`writeId`), for all repetitions of the whole write. How rows are written is in
`spark_streams.write.exactly_once` and `at_least_once`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import EncodedRows, RowEncoder, merged
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.fence import WriterId
from spark_streams.write.trimming import check_policy

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_LATE_MS = 600_000
"""How long the fences of a finished batch write are kept, for copies of its tasks that are still running."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has written: its number of rows, the keys of its fences, and each stream's last ID before it.

    The last IDs are there for overwriting alone.
    """

    rows: int
    fences: tuple[bytes, ...] = ()
    floors: tuple[tuple[bytes, str], ...] = ()


@dataclass(frozen=True)
class Sink:
    """Where and how rows are written. It is pickled into the workers within the writer.

    `name` identifies a batch write; a streaming write's identity comes from the task. `overwrite` (remove what was
    there) and `skip` (write nothing) are for batch writes.
    """

    address: Address
    options: WriteOptions
    schema: WriteSchema
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    streaming: bool = False
    overwrite: bool = False
    skip: bool = False

    def write(self, batches: Iterator[Any]) -> Written:
        """Write a task's record batches. Raises the errors of the senders, and NO_BATCH_IDENTITY."""
        if self.skip:
            return Written(0)
        launcher.check_reach(self.address)
        chunks = RowEncoder(self.options, self.schema).chunks(batches)
        with borrow(self.address) as connection:
            chunks = self._checked(connection, chunks)
            if self.options.mode == "append":
                return self._append(connection, chunks)
            lasting = self.streaming or self.options.write_id is not None
            sender = ExactlyOnceSender(connection, self.writer_id(), self.options, lasting, self.overwrite)
            for chunk in [merged(chunks)] if self.options.mode == "atomic" else chunks:
                sender.submit(chunk)
            fences = sender.finish()
        return Written(
            sum(fence.rows for fence in fences),
            tuple(fence.key for fence in fences),
            tuple((fence.stream, fence.state.floor) for fence in fences if fence.state.floor),
        )

    def _append(self, connection: Connection, chunks: Iterable[list[EncodedRows]]) -> Written:
        sender = AtLeastOnceSender(connection, self.options, self.overwrite)
        rows = 0
        for chunk in chunks:
            sender.submit(chunk)
            rows += sum(map(len, chunk))
        sender.finish()
        return Written(rows, (), tuple(sender.floors.items()))

    def _checked(self, connection: Connection, chunks: Iterable[list[EncodedRows]]) -> Iterator[list[EncodedRows]]:
        """The chunks. Before the first one, the server is asked whether it knows the options' trimming policy."""
        for number, chunk in enumerate(chunks):
            if number == 0:
                check_policy(connection, chunk[0].stream, self.options)
            yield chunk

    def writer_id(self) -> WriterId:
        """The identity of the task that calls this. NO_BATCH_IDENTITY if Spark does not tell a stream's batch."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        if not self.streaming:
            return WriterId(self.name, 0, partition)
        query = context.getLocalProperty(_QUERY) if context is not None else None
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if not query or not batch:
            fail("NO_BATCH_IDENTITY")
        return WriterId(query, int(batch), partition)

    def finish(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """All tasks of a batch write have succeeded: remove what it overwrites, and let its fences expire."""
        written = [message for message in messages if isinstance(message, Written)]
        commands: list[Command] = []
        if self.overwrite:
            commands += self._removals(written)
        if self.options.write_id is None:
            commands += [("PEXPIRE", key, _LATE_MS) for message in written for key in message.fences]
        if not commands:
            return
        with borrow(self.address) as connection:
            connection.commands(commands)

    def _removals(self, written: Sequence[Written]) -> list[Command]:
        """The XTRIMs that remove the entries from before the write."""
        floors: dict[bytes, StreamId] = {}
        for message in written:
            for stream, text in message.floors:
                floor = StreamId.parse(text)
                floors[stream] = min(floor, floors.get(stream, floor))
        commands: list[Command] = [("XTRIM", stream, "MINID", str(floor.next())) for stream, floor in floors.items()]
        commands += [("XTRIM", stream, "MAXLEN", 0) for stream in self._named() if stream not in floors]
        return commands

    def _named(self) -> list[bytes]:
        """The streams that the options name. Overwriting empties them even if no row goes there."""
        name, count = self.options.stream, self.options.partitions
        if name is None:
            return []
        return [name.encode()] if count is None else [b"%b:{%d}" % (name.encode(), i) for i in range(count)]


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: a batch write."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write a task's record batches. Called in the worker."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have succeeded. `messages` are what their `write` returned."""
        self._sink.finish(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: a streaming query's writes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write a task's record batches. Called in the worker."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is left to do: rows are in the streams when their task ends, and the next batch moves the fences."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Rows in the streams stay there; the fences tell the replay."""


def plan(address: Address, options: WriteOptions, schema: WriteSchema, streaming: bool, overwrite: bool) -> Sink:
    """The sink of a write, made on the driver. Raises STREAM_EXISTS for saveMode=error."""
    skip = False
    if options.save_mode != "append":
        with borrow(address) as connection:
            exists = connection.command("EXISTS", options.stream or "")
        if exists and options.save_mode == "error":
            fail("STREAM_EXISTS", stream=options.stream, address=address)
        skip = bool(exists)
    name = f"id-{options.write_id}" if options.write_id is not None else uuid.uuid4().hex
    return Sink(address, options, schema, name, streaming, overwrite, skip)
