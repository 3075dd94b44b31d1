"""Writes: every row one XADD, sent in chunks, every reply read.

Batch and streaming writes are one thing here. Chunks are encoded while the server works on the one before; what has
been sent and not yet answered is at most two chunks. Rows are written at least once: a task that Spark repeats writes
its rows again. An error in any reply fails the task with the row's position among the task's rows and the server's
words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hiredis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.wire import arrow
from spark_streams import embedded
from spark_streams.address import Address
from spark_streams.connection import Connection, borrow
from spark_streams.errors import fail
from spark_streams.options import WriteOptions
from spark_streams.schema import ID, STREAM, WriteSchema

_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has written."""

    rows: int


@dataclass(frozen=True)
class Sink:
    """Where and how rows are written; it travels to the workers inside the writer."""

    address: Address
    options: WriteOptions
    schema: WriteSchema

    def write(self, batches: Iterator[Any]) -> Written:
        """Write a task's rows."""
        embedded.check_reach(self.address)
        rows = 0
        with borrow(self.address) as connection:
            waiting: tuple[bytes, int, int] | None = None  # the word to wait for, its first row, its number of rows
            for chunk in self._chunks(batches):
                data = self._commands(chunk, rows)
                word = connection.send_raw(data)
                if waiting is not None:
                    self._check(connection, *waiting)
                waiting = (word, rows, chunk.num_rows)
                rows += chunk.num_rows
            if waiting is not None:
                self._check(connection, *waiting)
        return Written(rows)

    def _chunks(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
            step = max(1, min(self.options.chunk_size, _CHUNK_BYTES // row_bytes))
            for at in range(0, batch.num_rows, step):
                yield batch.slice(at, step)

    def _commands(self, chunk: Any, row: int) -> memoryview:
        """The chunk's commands as they go over the wire."""
        keys: Any
        if self.options.stream is not None:
            keys = self.options.stream.encode()
        else:
            keys = pc.cast(chunk.column(STREAM), pa.binary())
            if keys.null_count:
                fail("NO_STREAM_FOR_ROW", row=row + pc.index(keys.is_null(), True).as_py())
        ids = pc.cast(chunk.column(ID), pa.binary()) if self.schema.has_id else None
        commands = arrow.encode_adds(
            keys, ids, self.schema.columns(chunk), self.schema.pairs(chunk), self._words(), chunk.num_rows
        )
        if commands.null_count:
            fail("NO_FIELDS", row=row + pc.index(commands.is_null(), True).as_py())
        return _data_of(commands)

    def _words(self) -> list[bytes]:
        words = [b"NOMKSTREAM"] if self.options.nomkstream else []
        if self.options.maxlen is not None:
            words += [b"MAXLEN", b"~" if self.options.approximate else b"=", b"%d" % self.options.maxlen]
        return words

    def _check(self, connection: Connection, word: bytes, first: int, count: int) -> None:
        buffer, stop = connection.receive(word)
        if _all_added(buffer, stop, count):
            return
        reader = hiredis.Reader()
        reader.feed(bytes(buffer[:stop]))
        for row in range(first, first + count):
            reply = reader.gets()
            if isinstance(reply, Exception):
                fail("ROW_REFUSED", row=row, address=self.address, reason=reply)
            if reply is None:
                stream = self.options.stream or "the row's"
                fail("ROW_REFUSED", row=row, address=self.address, reason=f"the stream {stream} does not exist.")


def _data_of(commands: Any) -> memoryview:
    _, offsets, data = commands.buffers()
    bounds = np.frombuffer(offsets, np.int32)
    begin, end = bounds[commands.offset], bounds[commands.offset + len(commands)]
    return memoryview(data)[begin:end] if data is not None else memoryview(b"")


def _all_added(buffer: bytearray, stop: int, count: int) -> bool:
    """Whether the replies are `count` IDs: two lines each, of which the first begins with `$` and a digit."""
    ends = np.flatnonzero(np.frombuffer(buffer, np.uint8, stop) == 10)
    if ends.size != 2 * count:
        return False
    starts = np.concatenate(([0], ends[1:-1:2] + 1))
    data = np.frombuffer(buffer, np.uint8, stop)
    return bool(np.all(data[starts] == 36) and np.all(data[starts + 1] != 45))


class BatchWriter(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._sink.write(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is left to do: rows are written when their task ends."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing can be taken back."""
