"""The writers that Spark calls: a batch, or a streaming query's micro-batches, each task by itself.

Owns the identity of a task. A streaming query's ID comes from its checkpoint and a batch's number from its log, so a
replay has the same identity. A batch write gets a name when it is planned, once for all of its tasks and their retries;
or the user names it (`writeId`), for all repetitions of the whole write. A write from foreachBatch has the query's
identity, and its number among the batch's writes (`spark_streams.write.foreach_batch`). How rows are written is in
`spark_streams.write.exactly_once` and `at_least_once`, and how a batch ends in `publishing`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spark_streams.client.connection import Command, Connection
from spark_streams.client.pool import borrow
from spark_streams.columns.write_schema import WriteSchema
from spark_streams.config.address import Address
from spark_streams.config.write import WriteOptions
from spark_streams.embedded import launcher
from spark_streams.errors import ServerError, fail
from spark_streams.headline import headed
from spark_streams.stream_id import StreamId
from spark_streams.write import foreach_batch
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import EncodedRows, RowEncoder, merged
from spark_streams.write.exactly_once import BATCH_FENCE_MS, ExactlyOnceSender
from spark_streams.write.fence import WriterId
from spark_streams.write.publishing import Publisher
from spark_streams.write.record import StagedRows
from spark_streams.write.trimming import check_policy

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_RUN, _EXECUTION = "spark.jobGroup.id", "spark.sql.execution.id"
_LATE_MS = 600_000
"""How long the fences of a finished batch write are kept, for copies of its tasks that are still running."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has written: its number of rows, the keys of its fences, and each stream's last ID before it.

    The last IDs are there for overwriting alone. `writer` is the task's identity (None: it wrote without fences),
    `streams` those it wrote to, `staged` what the driver is to publish.
    """

    rows: int
    fences: tuple[bytes, ...] = ()
    floors: tuple[tuple[bytes, str], ...] = ()
    writer: WriterId | None = None
    streams: tuple[bytes, ...] = ()
    staged: tuple[StagedRows, ...] = ()


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
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
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
            writer = self.writer_id(connection)
            sender = ExactlyOnceSender(connection, writer, self.options, self._lasts(writer), self.overwrite)
            for chunk in [merged(chunks)] if self.options.mode == "atomic" else chunks:
                sender.submit(chunk)
            fences = sender.finish()
            staged = tuple(sender.staged)
        floors = [(fence.stream, fence.state.floor) for fence in fences if fence.state.floor]
        return Written(
            sum(fence.rows for fence in fences) + sum(each.digest.rows for each in staged),
            tuple(fence.key for fence in fences),
            (*floors, *((each.stream, each.floor) for each in staged if each.floor)),
            writer,
            tuple(fence.stream for fence in fences),
            staged,
        )

    def _lasts(self, writer: WriterId) -> bool:
        """Whether the write may be repeated under this name."""
        return writer.name != self.name or self.options.write_id is not None

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

    def writer_id(self, connection: Connection) -> WriterId:
        """The identity of the task that calls this. NO_BATCH_IDENTITY if Spark does not tell a stream's batch."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        query = context.getLocalProperty(_QUERY) if context is not None else None
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if self.streaming:
            if not query or not batch:
                fail("NO_BATCH_IDENTITY")
            return WriterId(query, int(batch), partition, self.attempt)
        run = context.getLocalProperty(_RUN) if context is not None else None
        execution = context.getLocalProperty(_EXECUTION) if context is not None else None
        if self.options.write_id is not None or not (query and batch and run and execution):
            return WriterId(self.name, 0, partition, self.attempt)
        number = foreach_batch.number_of_write(connection, query, int(batch), run, execution, self.options)
        return WriterId(f"{query}.{number}", int(batch), partition, self.attempt)

    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """All tasks have succeeded: publish what they have staged, and mark the batch as committed."""
        written = [message for message in messages if isinstance(message, Written)]
        writer = next((message.writer for message in written if message.writer is not None), None)
        if writer is None:
            return
        streams = dict.fromkeys(stream for message in written for stream in message.streams)
        staged = [each for message in written for each in message.staged]
        if not streams and not staged:
            return
        with borrow(self.address) as connection:
            fence_ms = self.options.fence_retention if self._lasts(writer) else BATCH_FENCE_MS
            Publisher(connection, writer, self.options, fence_ms).commit(streams, staged)

    def finish(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """All tasks of a batch write have succeeded: commit, remove what it overwrites, and let its fences expire."""
        messages = list(messages)
        self.commit(messages)
        written = [message for message in messages if isinstance(message, Written)]
        commands: list[Command] = []
        if self.overwrite:
            commands += self._removals(written)
        commands += [
            ("PEXPIRE", key, _LATE_MS)
            for message in written
            if message.writer is not None and not self._lasts(message.writer)
            for key in message.fences
        ]
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

    @headed
    def write(self, iterator: Iterator[Any]) -> Written:
        """Write a task's record batches. Called in the worker."""
        return self._sink.write(iterator)

    @headed
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have succeeded. `messages` are what their `write` returned."""
        self._sink.finish(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: a streaming query's writes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    @headed
    def write(self, iterator: Iterator[Any]) -> Written:
        """Write a task's record batches. Called in the worker."""
        return self._sink.write(iterator)

    @headed
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Publish what was staged, and mark the batch as committed; the next batch moves the fences."""
        self._sink.commit(messages)

    @headed
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Rows in the streams stay there; the fences tell the replay. What was staged expires."""


def plan(address: Address, options: WriteOptions, schema: WriteSchema, streaming: bool, overwrite: bool) -> Sink:
    """The sink of a write, made on the driver. Raises STREAM_EXISTS for saveMode=error."""
    skip = False
    if options.mode != "append":
        _check_eviction(address, options, streaming)
    if options.save_mode != "append":
        with borrow(address) as connection:
            exists = connection.command("EXISTS", options.stream or "")
        if exists and options.save_mode == "error":
            fail("STREAM_EXISTS", stream=options.stream, address=address)
        skip = bool(exists)
    name = f"id-{options.write_id}" if options.write_id is not None else uuid.uuid4().hex
    return Sink(address, options, schema, name, streaming=streaming, overwrite=overwrite, skip=skip)


def _check_eviction(address: Address, options: WriteOptions, streaming: bool) -> None:
    """Raise RECORDS_EVICTED if the server may drop the records. It need not answer: the tasks will say so."""
    if options.allow_eviction:
        return
    try:
        with borrow(replace(address, retry_ms=0)) as connection:
            (reply,) = connection.pipeline([("INFO", "memory")])
    except ServerError:
        return
    if not isinstance(reply, bytes):  # not allowed to ask
        return
    facts = dict(line.split(":", 1) for line in reply.decode("utf-8", "replace").splitlines() if ":" in line)
    policy, limit = facts.get("maxmemory_policy", "noeviction"), facts.get("maxmemory", "0")
    expires = options.fence_retention > 0 or not streaming
    if limit != "0" and (policy.startswith("allkeys") or (policy.startswith("volatile") and expires)):
        fail("RECORDS_EVICTED", address=address, policy=policy)
