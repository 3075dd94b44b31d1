"""Writing every row exactly once: each chunk is sent in transactions that advance the fences of its streams.

This module decides for each stream whether a task writes its rows, or stages them for the driver to publish. It divides
the rows into transactions: by slot in a cluster, and with rows that have their own IDs separate from other rows.
`slot_transaction` executes the transactions.

Staged rows wait in a hash next to their stream until the driver publishes them. The hash is in the stream's slot and
expires, so rows that are never published disappear. The rows are in numbered chunks, and each chunk is published as one
transaction. A chunk has the rows as commands, the task's fence as it is once the rows are added, and an index for a
driver that must send the rows itself.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError
from spark_streams.write.encoding import EncodedRows, runs
from spark_streams.write.executor import gone_streams, stream_state
from spark_streams.write.protocol import Event, Protocol, StreamFence, allows
from spark_streams.write.records import (
    FENCE_FIELDS,
    RECORD_FIELDS,
    BatchRecord,
    ChunkState,
    FenceState,
    StreamState,
    TaskRows,
    WriterId,
    staged_chunk,
)
from spark_streams.write.slot_transaction import Entry, LinkOwners, SlotTransaction, Terms
from streamclient.connection import Command, Connection
from streamwire.slots import slot_of
from streamwire.stream_id import StreamId

# Publishing a chunk of this size blocks the server's other clients only for milliseconds.
#: Maximum rows of a chunk.
_STAGED_ROWS = 500
#: Maximum bytes of a chunk.
_STAGED_BYTES = 1 << 19

_HEADER = struct.Struct("<QQ")  # number of rows, size of the IDs in bytes


def pack_index(rows: EncodedRows) -> bytes:
    """Return the index that `unpack_rows` needs to restore encoded rows from their bytes."""
    ids = b"" if rows.ids is None else json.dumps([each and each.decode() for each in rows.ids]).encode()
    numbers = b"".join(np.asarray(each, "<i8").tobytes() for each in (rows.bounds, rows.rows, rows.hashes.view("<i8")))
    return b"".join((_HEADER.pack(len(rows), len(ids)), numbers, ids))


def unpack_rows(stream: bytes, commands: bytes, index: bytes) -> EncodedRows:
    """Return encoded rows from their bytes and their index."""
    count, ids_length = _HEADER.unpack_from(index)
    bounds = np.frombuffer(index, "<i8", count + 1, _HEADER.size)
    at = _HEADER.size + bounds.nbytes
    rows = np.frombuffer(index, "<i8", count, at)
    at += rows.nbytes
    hashes = np.frombuffer(index, "<u8", count, at)
    at += hashes.nbytes
    ids = [each and each.encode() for each in json.loads(index[at : at + ids_length])] if ids_length else None
    return EncodedRows(stream, rows, ids, lambda: hashes, encoded=(memoryview(commands), bounds))


class Stager:
    """Stages one task's rows for one stream, except the rows that the fence counts.

    `keeps`: whether rows are stored, not only counted. `whole`: whether each call of `add` stages one chunk. `last`:
    the stream's last ID.
    """

    def __init__(self, fence: StreamFence, keeps: bool, whole: bool, last: StreamId) -> None:
        self._fence = fence
        self._floor = str(last)
        self._keeps = keeps
        self._whole = whole
        self._chunks = 0
        self._differs = False
        self.key = fence.writer.staged_key(fence.stream, uuid.uuid4().hex)

    def add(self, rows: EncodedRows) -> list[Command]:
        """Return the commands that stage the rows, except the rows that the fence counts."""
        fence, done = self._fence, len(rows)
        try:
            done = fence.count_written(rows.hashes)
        except PystreamsError:  # other rows than the fence counts; the driver checks whether the stream has them
            self._differs = True
        if self._differs or not self._keeps:
            done = len(rows)
        if done:
            fence.advance(rows.hashes[:done])
        commands: list[Command] = []
        for part in self._chunks_of(rows.part(done, len(rows)) if done else rows):
            fence.advance(part.hashes)
            state = ChunkState(fence.digest, part.ids is None and _are_short(part))
            commands += staged_chunk(self.key, self._chunks, bytes(part.commands), state, pack_index(part))
            self._chunks += 1
        return commands

    def _chunks_of(self, rows: EncodedRows) -> Iterator[EncodedRows]:
        if self._whole and len(rows):
            yield rows
            return
        first = 0
        while first < len(rows):
            most = int(rows.bounds[first]) + _STAGED_BYTES
            end = int(np.searchsorted(rows.bounds, most, "right")) - 1
            end = min(max(end, first + 1), first + _STAGED_ROWS, len(rows))
            yield rows.part(first, end)
            first = end

    @property
    def is_empty(self) -> bool:
        """Whether nothing was staged."""
        return not self._chunks

    def finish(self) -> TaskRows:
        """Return the task's rows for the stream: their digest, and the key of the staged rows."""
        fence = self._fence
        base = fence.state.row_digest
        differs = self._differs or base.rows > fence.rows
        partition, chunks = fence.writer.partition, self._chunks
        return TaskRows(fence.stream, partition, fence.digest, base, self.key, chunks, differs, self._floor)


def _are_short(rows: EncodedRows) -> bool:
    """Return whether all rows have fewer than a thousand words: Lua limits the number of arguments."""
    # A row begins with its number of words, as in *13\r\n. The fifth byte is a digit if there are four digits or more.
    fifth = np.frombuffer(rows.commands, np.uint8)[np.asarray(rows.bounds[:-1]) + 4]
    return not bool(np.any((fifth >= ord("0")) & (fifth <= ord("9"))))


class ExactlyOnceSender:
    """Sends a task's rows.

    `lasting`: whether the write may be repeated under its name. Raises the errors of `SlotTransaction` and
    `StreamFence`.
    """

    def __init__(self, connection: Connection, writer: WriterId, options: WriteOptions, lasting: bool) -> None:
        self._connection = connection
        self._stagers: dict[bytes, Stager] = {}
        self._entries: dict[bytes, Entry] = {}
        self._protocol = Protocol.of(writer, options, lasting)
        self._terms = Terms(self._protocol, options)
        self._owners = LinkOwners()
        self._transactions: dict[int, SlotTransaction] = {}

    def submit(self, chunk: Sequence[EncodedRows]) -> None:
        """Send a chunk.

        When this method returns, earlier rows of the same slots are in the streams, but this chunk may not be.
        """
        new = [rows.stream for rows in chunk if rows.stream not in self._entries]
        if new:
            self._enter(new)
        by_slot: dict[int, list[EncodedRows]] = {}
        staging: list[Command] = []
        for rows in chunk:
            stager = self._stagers.get(rows.stream)
            if stager is not None:
                staging += self._stage(stager, rows)
                continue
            slot = slot_of(rows.stream) if self._connection.topology.is_cluster else 0
            by_slot.setdefault(slot, []).append(rows)
        if staging:
            self._connection.commands(staging)
        for slot, together in by_slot.items():
            transaction = self._transactions.get(slot)
            if transaction is None:
                transaction = SlotTransaction(self._connection, self._terms, self._owners)
                self._transactions[slot] = transaction
            for rows in together:
                transaction.enter(rows.stream, self._entries[rows.stream])
            for run in runs(together):
                transaction.finish()
                transaction.send(run)

    def _stage(self, stager: Stager, rows: EncodedRows) -> list[Command]:
        is_first = stager.is_empty
        commands = stager.add(rows)
        return [*self._protocol.stage(stager.key), *commands] if commands and is_first else commands

    def settle(self) -> None:
        """Wait until all submitted rows are in the streams."""
        for transaction in self._transactions.values():
            transaction.finish()

    def finish(self) -> list[TaskRows]:
        """End the task: wait for all rows and for the replicas.

        Returns the rows that the task has written or staged.
        """
        self.settle()
        fences = [fence for transaction in self._transactions.values() for fence in transaction.fences]
        for fence in fences:
            fence.finish()
        if self._terms.options.wait_replicas:
            for transaction in self._transactions.values():
                transaction.wait_for_replicas()
        partition = self._protocol.writer.partition
        written = [TaskRows(fence.stream, partition, fence.digest, fence.digest) for fence in fences]
        return [*written, *(stager.finish() for stager in self._stagers.values())]

    def _enter(self, streams: Sequence[bytes]) -> None:
        """Register these streams, and decide for each stream whether its rows are written or staged."""
        writer, commands = self._protocol.writer, list[Command]()
        for stream in streams:
            commands += [
                ("HMGET", writer.record_key(stream), *RECORD_FIELDS),
                ("HMGET", writer.fence_key(stream), *FENCE_FIELDS),
                ("XINFO", "STREAM", stream),
            ]
        reads = len(commands)
        writes = self._terms.options.mode != "staged"
        if writes:
            commands += self._protocol.enter(streams)
        replies = self._connection.pipeline(commands)
        if writes:
            self._connection.check(commands[reads:], replies[reads:])
            writes = self._protocol.may_write(replies[-1] if len(replies) > reads else None)
        fences: dict[bytes, list[bytes | None]] = {}
        for at, stream in enumerate(streams):
            values, fence, info = replies[3 * at : 3 * at + 3]
            self._connection.check(commands[3 * at : 3 * at + 2], (values, fence))
            entry = Entry(BatchRecord.parse(values), stream_state(self._connection, info))
            self._entries[stream] = entry
            self._protocol.check_order(stream, entry.record)
            if not (writes and allows(entry.record, writer, Event.WRITE)):
                fences[stream] = fence
        self._stage_at(fences)

    def _stage_at(self, fences: Mapping[bytes, list[bytes | None]]) -> None:
        """Stage the rows of these streams. A fence is taken into account if its stream is still the same."""
        writer = self._protocol.writer
        written: dict[bytes, tuple[BatchRecord, StreamState, int]] = {}
        for stream, values in fences.items():
            entry = self._entries[stream]
            if entry.record.batch == writer.batch:
                written[stream] = entry.record, entry.state, FenceState.parse(values).rows_in(writer.batch)
        deleted = gone_streams(self._connection, written, writer.attempt)
        for stream, values in fences.items():
            entry = self._entries[stream]
            found = StreamFence(stream, writer, self._connection.address)
            if stream not in deleted:
                found.update(values)
            is_there = stream in written and entry.record.is_committed and stream not in deleted
            is_whole = self._terms.options.mode == "atomic"
            self._stagers[stream] = Stager(found, not is_there, is_whole, entry.state.last)
