"""Writing every row exactly once: each chunk is sent in transactions that advance the fences of its streams.

This module decides for each stream whether a task writes its rows, or stages them for the driver to publish. It divides
the rows into transactions: by slot in a cluster, and with rows that have their own IDs separate from other rows.
`tasks.slot_transaction` executes the transactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_streams.config.write import WriteOptions
from spark_streams.write.executor import gone_streams, stream_state
from spark_streams.write.protocol import Event, Protocol, StreamFence, allows
from spark_streams.write.records import (
    FENCE_FIELDS,
    RECORD_FIELDS,
    BatchRecord,
    FenceState,
    StreamState,
    TaskRows,
    WriterId,
)
from spark_streams.write.rows.encoding import EncodedRows, runs
from spark_streams.write.tasks.slot_transaction import Entry, LinkOwners, SlotTransaction, Terms
from spark_streams.write.tasks.staging import Stager
from streamclient.connection import Command, Connection
from streamwire.slots import slot_of


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
