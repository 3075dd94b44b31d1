"""The writers that Spark calls: one for a batch, one for a streaming query's micro-batches.

This module owns the identity of a task. A query's ID comes from its checkpoint and a batch's number from the query's
log, so a replay has the same identity. A batch write gets a name when it is planned, for all of its tasks and their
retries. The user can instead give a name (`writeId`) for all repetitions of the whole write. A write from foreachBatch
has the query's identity and a number among the batch's writes. Spark passes the query, the batch, the run (new for each
attempt of a batch) and the execution (new for each action) to a task. Executions of a run are numbered on the server in
the order of their starts, so the first write of a repeated batch gets the same number again. `exactly_once`
and `at_least_once` write the rows, and `publishing` ends a batch.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from spark_streams import worker
from spark_streams.config.write import WriteOptions
from spark_streams.embedded import drivers
from spark_streams.errors import ServerError, fail, headed
from spark_streams.write.at_least_once import AtLeastOnceSender
from spark_streams.write.encoding import EncodedRows, RowEncoder, WriteSchema
from spark_streams.write.exactly_once import ExactlyOnceSender
from spark_streams.write.executor import number_of_write
from spark_streams.write.protocol import Protocol
from spark_streams.write.publishing import Publisher
from spark_streams.write.records import TaskRows, WriterId
from streamclient.config.address import Address
from streamclient.config.option import refuse
from streamclient.connection import Command, Connection
from streamclient.pool import borrow
from streamclient.reply_maps import info_lines
from streamclient.streams.lag import unfinished
from streamclient.streams.states import checked
from streamwire.stream_id import StreamId

if hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef,misc]
        """Spark 4.0 passes record batches to every DataSourceArrowWriter, also in streaming queries."""


_log = logging.getLogger("spark_streams")
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_TAGS, _EXECUTION = "spark.job.tags", "spark.sql.execution.id"
_RUN_TAG = re.compile(r"spark-session-[0-9a-f-]+-execution-root-id-[0-9]+")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of one task.

    `writer` is the task's identity, or None if it wrote without fences. `task_rows`: its rows for each stream, which
    are in the stream or staged. `floors`: each stream's last ID before a task without fences wrote to it, used only for
    overwriting.
    """

    writer: WriterId | None = None
    task_rows: tuple[TaskRows, ...] = ()
    floors: tuple[tuple[bytes, str], ...] = ()


@dataclass(frozen=True)
class Sink:
    """Destination and mode of a write. It is sent to the workers as part of the writer.

    `name` identifies a batch write; a streaming write's identity comes from the task. `overwrite` (remove existing
    entries) is for batch writes.
    """

    address: Address
    options: WriteOptions
    schema: WriteSchema
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
    streaming: bool = False
    overwrite: bool = False

    def write(self, batches: Iterator[Any]) -> Written:
        """Write a task's record batches. Raises the errors of the senders, and NO_BATCH_IDENTITY."""
        drivers.check_reach(self.address)
        chunks = RowEncoder(self.options, self.schema).chunks(batches)
        with borrow(self.address) as connection:
            if self.options.mode == "append":
                return self._append(connection, chunks)
            writer = self.writer_id(connection)
            sender = ExactlyOnceSender(connection, writer, self.options, self._lasts(writer))
            for chunk in chunks:
                sender.submit(chunk)
            return Written(writer, tuple(sender.finish()))

    def _lasts(self, writer: WriterId) -> bool:
        """Return whether the write may be repeated under the name of `writer`."""
        return writer.name != self.name or self.options.write_id is not None

    def _append(self, connection: Connection, chunks: Iterable[list[EncodedRows]]) -> Written:
        sender = AtLeastOnceSender(connection, self.options, self.overwrite)
        for chunk in chunks:
            sender.submit(chunk)
        sender.finish()
        return Written(floors=tuple(sender.floors.items()))

    def writer_id(self, connection: Connection) -> WriterId:
        """Return the identity of the current task. Raises NO_BATCH_IDENTITY if a streaming task has none."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        query = context.getLocalProperty(_QUERY) if context is not None else None
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if self.streaming:
            if not query or not batch:
                fail("NO_BATCH_IDENTITY")
            return WriterId(query, int(batch), partition, self.attempt)
        run = run_in(context.getLocalProperty(_TAGS) or "") if context is not None else None
        execution = context.getLocalProperty(_EXECUTION) if context is not None else None
        if self.options.write_id is not None or not (query and batch and run and execution):
            return WriterId(self.name, 0, partition, self.attempt)
        number = number_of_write(connection, query, int(batch), run, execution, self.options)
        return WriterId(f"{query}.{number}", int(batch), partition, self.attempt)

    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> dict[bytes, str]:
        """Publish the tasks' staged rows, and mark the batch as committed, after all tasks have succeeded.

        Returns each stream's last ID before the batch.
        """
        written = [message for message in messages if isinstance(message, Written)]
        writer = next((message.writer for message in written if message.writer is not None), None)
        task_rows = [each for message in written for each in message.task_rows]
        if writer is None or not (task_rows or self._lasts(writer)):
            return {}
        with borrow(self.address) as connection:
            return Publisher(connection, writer, self.options, self._lasts(writer)).commit(task_rows)

    def finish(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """End a batch write whose tasks have succeeded: commit, and remove overwritten entries. The records of a write
        that cannot be repeated expire.
        """
        messages = list(messages)
        floors = self.commit(messages)
        written = [message for message in messages if isinstance(message, Written)]
        for message in written:
            for stream, floor in message.floors:
                floors[stream] = str(min(StreamId.parse(floor), StreamId.parse(floors.get(stream, floor))))
        commands: list[Command] = self._removals(floors) if self.overwrite else []
        writer = next((message.writer for message in written if message.writer is not None), None)
        if writer is not None and not self._lasts(writer):
            commands += Protocol(writer).retire([each for message in written for each in message.task_rows])
        if not commands:
            return
        with borrow(self.address) as connection:
            connection.commands(commands)

    def _removals(self, floors: dict[bytes, str]) -> list[Command]:
        """Return the XTRIMs that remove the entries that are older than the write."""
        commands: list[Command] = [
            ("XTRIM", stream, "MINID", str(StreamId.parse(floor).next())) for stream, floor in floors.items()
        ]
        return commands + [("XTRIM", stream, "MAXLEN", 0) for stream in self.named() if stream not in floors]

    def named(self) -> list[bytes]:
        """Return the streams that the options name. Overwriting empties them even if they get no rows."""
        name, count = self.options.stream, self.options.partitions
        if name is None:
            return []
        return [name.encode()] if count is None else [b"%b:{%d}" % (name.encode(), i) for i in range(count)]


class _TaskWriter(worker.TaskCopy):
    """Base class of both writers, with the method that runs in the worker."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    @headed
    def write(self, iterator: Iterator[Any]) -> Written:
        """Write a task's record batches. Called in the worker."""
        return self._sink.write(iterator)


class BatchWriter(_TaskWriter, DataSourceArrowWriter):
    """`df.write`: a batch write."""

    @headed
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the write after all tasks have succeeded. `messages`: results of their `write`."""
        self._sink.finish(messages)


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """`df.writeStream`: a streaming query's writes."""

    @headed
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Publish staged rows, and mark the batch as committed. The fences stay until the next batch changes them."""
        self._sink.commit(messages)

    @headed
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: rows in the streams stay, and their fences make a replay skip them. Staged rows expire."""


def run_in(tags: str) -> str | None:
    """Return the run in a job's tags: the session, and the execution of the whole batch.

    Tags are used because, unlike a job group, they are not set by users. A streaming query has a new session at each
    start.
    """
    return next((tag for tag in tags.split(",") if _RUN_TAG.fullmatch(tag)), None)


def plan(address: Address, options: WriteOptions, schema: WriteSchema, streaming: bool, overwrite: bool) -> Sink:
    """Return the sink of a write, made on the driver.

    Raises RECORDS_EVICTED and OVERWRITE_UNREAD.
    """
    if options.mode != "append":
        _check_eviction(address, options, streaming)
    if schema.has_id and not options.keep_ids:
        _log.warning(
            "The column '_id' is not written: with keepIds=false, the server chooses the IDs. To write it as a field, "
            "rename it."
        )
    name = f"id-{options.write_id}" if options.write_id is not None else uuid.uuid4().hex
    sink = Sink(address, options, schema, name, streaming=streaming, overwrite=overwrite)
    if overwrite:
        _check_groups(address, options, sink.named())
    return sink


def _check_groups(address: Address, options: WriteOptions, streams: Sequence[bytes]) -> None:
    """Warn if overwriting removes entries that groups have not read or acknowledged.

    If the option overwriteUnread is false, raise OVERWRITE_UNREAD instead.
    """
    if not options.overwrites_unread and not streams:
        refuse(options, "overwrites_unread", "it needs the option 'stream'")
    questions = [(kind, stream) for stream in streams for kind in ("STREAM", "GROUPS")]
    with borrow(address) as connection:
        replies = connection.pipeline([("XINFO", *question) for question in questions])
        if not options.overwrites_unread:
            replies = [
                checked(connection, stream.decode("utf-8", "replace"), reply, f"XINFO {kind}")
                for (kind, stream), reply in zip(questions, replies, strict=True)
            ]
        found = unfinished(connection, list(zip(streams, replies[::2], replies[1::2], strict=True)))
    for stream in streams:
        listed = ", ".join(str(each) for each in found if each.stream == stream)
        if listed:
            name = stream.decode("utf-8", "replace")
            if not options.overwrites_unread:
                fail("OVERWRITE_UNREAD", stream=name, address=address, groups=listed)
            _log.warning(
                "Overwriting %s removes entries that consumer groups have not read or acknowledged: %s.", name, listed
            )


def _check_eviction(address: Address, options: WriteOptions, streaming: bool) -> None:
    """Raise RECORDS_EVICTED if the server may drop the records. If it does not reply, the tasks will report that."""
    if options.allow_eviction:
        return
    try:
        with borrow(replace(address, retry_ms=0)) as connection:
            (reply,) = connection.pipeline([("INFO", "memory")])
    except ServerError:
        return
    facts = info_lines(reply)
    policy, limit = facts.get("maxmemory_policy", "noeviction"), facts.get("maxmemory", "0")
    expires = options.fence_retention > 0 or not streaming
    if limit != "0" and (policy.startswith("allkeys") or (policy.startswith("volatile") and expires)):
        fail("RECORDS_EVICTED", address=address, policy=policy)
