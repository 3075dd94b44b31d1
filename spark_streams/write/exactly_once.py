"""Writing every row exactly once: chunks become transactions that advance the fences of the streams they go to.

Owns how a task begins at a stream (write there, or stage for the driver to publish), and how its rows are divided into
transactions: by slot where there is a cluster, and rows with IDs of their own apart from rows without.
`spark_streams.write.slot_transaction` executes them, `spark_streams.write.fence` counts rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import redis

from spark_streams.client.connection import Command, Connection
from spark_streams.client.refusals import refused
from spark_streams.client.slots import slot_of
from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.stream_id import ZERO, StreamId
from spark_streams.write.encoding import EncodedRows
from spark_streams.write.fence import FIELDS, StreamFence, WriterId, shown
from spark_streams.write.record import RECORD_FIELDS, BatchRecord, StagedRows, record_key, roll_key
from spark_streams.write.slot_transaction import Entry, LinkOwners, SlotTransaction, Terms
from spark_streams.write.staging import Stager

BATCH_FENCE_MS = 86_400_000  # a batch write's fences are removed when it is finished; if it never is, a day later


class ExactlyOnceSender:
    """Sends a task's rows.

    `lasting`: the fences are kept as long as the option fenceRetentionMs says. `overwrite`: the fences note where each
    stream ended before this write. Errors: those of `SlotTransaction` and `StreamFence`.
    """

    def __init__(
        self, connection: Connection, writer: WriterId, options: WriteOptions, lasting: bool, overwrite: bool = False
    ) -> None:
        self._connection = connection
        self._stagers: dict[bytes, Stager] = {}
        self._entries: dict[bytes, Entry] = {}
        self._terms = Terms(writer, options, options.fence_retention if lasting else BATCH_FENCE_MS, overwrite)
        self._owners = LinkOwners()
        self._transactions: dict[int, SlotTransaction] = {}

    def submit(self, chunk: Sequence[EncodedRows]) -> None:
        """Send a chunk. When this returns, the chunk before is in the streams; this one may not be yet."""
        new = [rows.stream for rows in chunk if rows.stream not in self._entries]
        if new:
            self._enter(new)
        by_slot: dict[int, list[EncodedRows]] = {}
        for rows in chunk:
            stager = self._stagers.get(rows.stream)
            if stager is not None:
                stager.add(rows)
                continue
            slot = slot_of(rows.stream) if self._connection.topology.is_cluster else 0
            by_slot.setdefault(slot, []).append(rows)
        for slot, together in by_slot.items():
            transaction = self._transactions.get(slot)
            if transaction is None:
                transaction = SlotTransaction(self._connection, self._terms, self._owners)
                self._transactions[slot] = transaction
            for rows in together:
                transaction.enter(rows.stream, self._entries[rows.stream])
            for run in runs(together):
                transaction.finish()
                transaction.begin(run)

    def settle(self) -> None:
        """Wait until everything that was submitted is in the streams."""
        for transaction in self._transactions.values():
            transaction.finish()

    def finish(self) -> list[StreamFence]:
        """The task has no more rows: wait for all of them, and for the replicas. Returns the fences that it wrote."""
        self.settle()
        fences = [fence for transaction in self._transactions.values() for fence in transaction.fences]
        for fence in fences:
            fence.finish()
        if self._terms.options.wait_replicas:
            for transaction in self._transactions.values():
                transaction.wait_for_replicas()
        return fences

    @property
    def staged(self) -> list[StagedRows]:
        """What is left for the driver to publish."""
        return [stager.finish() for stager in self._stagers.values()]

    def _enter(self, streams: Sequence[bytes]) -> None:
        """Look at these streams, and decide for each whether its rows are written or staged."""
        writer, staging = self._terms.writer, self._terms.options.mode == "staged"
        for stream, entry, fence in entries(self._connection, writer, streams):
            self._entries[stream] = entry
            record = entry.record
            if record.batch > writer.batch:
                key = record_key(writer, stream)
                fail("FENCE_AHEAD", stream=shown(stream), fence=shown(key), found=record.batch, batch=writer.batch)
            if not staging and (
                record.batch < writer.batch or entry.is_gone or record.allows(writer, self._terms.stage)
            ):
                continue
            found = StreamFence(stream, writer, self._connection.address)
            if not entry.is_gone:
                found.update(fence)
            floor = str(entry.last) if self._terms.overwrite else ""
            is_there = record.is_committed and record.batch == writer.batch and not entry.is_gone
            self._stagers[stream] = Stager(self._connection, found, not is_there, floor)


def entries(
    connection: Connection, writer: WriterId, streams: Sequence[bytes]
) -> list[tuple[bytes, Entry, list[bytes | None]]]:
    """What there is of this query at each stream, and the task's fence there. Raises SERVER_REFUSED."""
    commands: list[Command] = []
    for stream in streams:
        commands += [
            ("HMGET", record_key(writer, stream), *RECORD_FIELDS),
            ("HMGET", writer.key(stream), *FIELDS),
            ("XINFO", "STREAM", stream),
        ]
    replies = connection.pipeline(commands)
    found = []
    for at, stream in enumerate(streams):
        values, fence, info = replies[3 * at : 3 * at + 3]
        for reply in (values, fence):
            if isinstance(reply, redis.ResponseError):
                raise refused(connection.address, "HMGET", reply)
        record, added = BatchRecord.parse(values), entries_added(info)
        is_gone = record.batch == writer.batch and (
            -1 < added < record.added or (added == 0 and record.stage == "direct" and not isinstance(info, list))
        )
        gone = tuple(connection.command("HKEYS", roll_key(writer, stream))) if is_gone else ()
        found.append((stream, Entry(record, added, is_gone, gone, last=_last_id(info)), fence))
    return found


def _last_id(info: object) -> StreamId:
    return StreamId.parse(info[info.index(b"last-generated-id") + 1]) if isinstance(info, list) else ZERO


def entries_added(info: object) -> int:
    """How many entries were ever added, by the reply to XINFO STREAM: 0 without the stream, -1 if it is not known."""
    if isinstance(info, list):
        return int(info[info.index(b"entries-added") + 1]) if b"entries-added" in info else -1
    return 0 if "no such key" in str(info) else -1


def runs(together: Sequence[EncodedRows]) -> list[list[EncodedRows]]:
    """Separate rows with IDs of their own from rows without: IDs behind those the server chooses cannot be checked."""
    if all(rows.ids is None for rows in together):
        return [list(together)]
    found: list[list[EncodedRows]] = []
    for rows in together:
        if rows.ids is None:
            found.append([rows])
            continue
        chosen = [each is not None and each != b"*" for each in rows.ids]
        cuts = [0, *(i for i in range(1, len(chosen)) if chosen[i] != chosen[i - 1]), len(chosen)]
        for first, end in pairwise(cuts):
            part = rows.part(first, end)
            if not chosen[first]:
                part = EncodedRows(part.stream, part.commands, part.bounds, part.rows, None)
            found.append([part])
    return found
