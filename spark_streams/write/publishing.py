"""The driver's end of a batch: it publishes staged rows that fit what is in the streams, and commits the batch.

Rows are staged with writeMode=staged, and wherever a batch is attempted again after tasks had written. Then

1. look at every stream: its record, and the fences of the tasks that have written. All rows may be there already, in
   whatever order and partitions. Otherwise each fence must count rows that the same partition brought again; if not,
   nothing is published and REPLAY_DIFFERS says so;
2. claim every stream: the record names this attempt and what it has staged (`manifest`);
3. publish, once all streams are claimed: each staged chunk is one transaction, behind the fence of its task;
4. mark the records as committed.

Whoever comes after a driver that died finds either a claim on all streams, and finishes what was claimed, or a stream
without it: then nothing was published, and its own rows count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import redis

from spark_streams.client.connection import Command, Connection
from spark_streams.client.refusals import refused
from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError, fail
from spark_streams.write.digest import RowDigest
from spark_streams.write.exactly_once import entries_added, runs
from spark_streams.write.fence import FIELDS, FenceState, StreamFence, WriterId, shown
from spark_streams.write.record import (
    RECORD_FIELDS,
    BatchRecord,
    StagedRows,
    claim,
    commit_mark,
    manifest_of,
    parse_manifest,
    record_key,
    roll_key,
)
from spark_streams.write.slot_transaction import Entry, LinkOwners, SlotTransaction, Terms
from spark_streams.write.staging import unpack_rows


@dataclass(frozen=True)
class Look:
    """What there is at a stream: the record, and the fences of this batch by their partition.

    `is_committed`: this batch is. `added`: entries ever added. `is_gone`: what the fences count was deleted.
    """

    record: BatchRecord
    fences: dict[int, FenceState]
    is_committed: bool = False
    added: int = 0
    is_gone: bool = False


def is_there(look: Look, staged: Sequence[StagedRows]) -> bool:
    """Whether all rows of these tasks are in the stream, whichever tasks wrote them."""
    written = [RowDigest.parse(state.rows, state.digest) or RowDigest() for state in look.fences.values()]
    return bool(written) and _joined(written).same_rows(_joined([each.digest for each in staged]))


def misfit(look: Look, staged: Sequence[StagedRows]) -> int | None:
    """A partition whose fence counts rows that these tasks did not bring again; None if there is none."""
    brought = {each.partition: each.base for each in staged if not each.differs}
    for partition, state in sorted(look.fences.items()):
        if brought.get(partition) != RowDigest.parse(state.rows, state.digest):
            return partition
    return next(iter(sorted(look.fences)), 0) if look.is_committed else None


def _joined(digests: Sequence[RowDigest]) -> RowDigest:
    total = RowDigest()
    for digest in digests:
        total = total.joined(digest)
    return total


class Publisher:
    """Ends one batch of one query. `writer.partition` is of no account; `fence_ms`: see `Terms`."""

    def __init__(self, connection: Connection, writer: WriterId, options: WriteOptions, fence_ms: int) -> None:
        self._connection = connection
        self._writer = writer
        self._options = options
        self._fence_ms = fence_ms

    def commit(self, streams: Iterable[bytes], staged: Sequence[StagedRows]) -> None:
        """Publish what was staged, and mark the batch as committed in all of these streams.

        Errors: REPLAY_DIFFERS, FENCE_AHEAD, ATTEMPT_REPLACED, STAGED_LOST, WRITE_CONTENDED, and a transaction's own.
        """
        attempts = dict.fromkeys(streams, self._writer.attempt)
        if staged:
            try:
                published, earlier = self._publish(staged)
            except PystreamsError as refusal:
                if refusal.condition == "REPLAY_DIFFERS":
                    self._forget(staged)
                raise
            attempts |= published
            staged = [*staged, *earlier]
        self._mark(attempts)
        self._forget(staged)

    def _publish(self, staged: Sequence[StagedRows]) -> tuple[dict[bytes, str], list[StagedRows]]:
        """Bring the staged rows into their streams.

        Returns the attempt that each stream's record names, and the staged rows of an earlier attempt that were needed.
        """
        by_stream: dict[bytes, list[StagedRows]] = {}
        for each in staged:
            by_stream.setdefault(each.stream, []).append(each)
        for _ in range(20):
            looks = {stream: self._look(stream) for stream in by_stream}
            earlier = self._claimed_before(looks)
            if earlier is not None:
                attempt, rows = earlier
                self._write(replace(self._writer, attempt=attempt), rows)
                attempts = {stream: look.record.attempt for stream, look in looks.items()}
                return attempts | {each.stream: attempt for each in rows}, rows
            left = [stream for stream in by_stream if self._is_left(stream, looks[stream], by_stream[stream])]
            if all(self._claim(stream, looks[stream], by_stream[stream], left) for stream in left):
                self._write(self._writer, [each for stream in left for each in by_stream[stream]])
                attempts = {stream: looks[stream].record.attempt for stream in by_stream}
                return attempts | dict.fromkeys(left, self._writer.attempt), []
        return fail("WRITE_CONTENDED", address=self._connection.address)

    def _look(self, stream: bytes) -> Look:
        writer = self._writer
        values, info, roll = self._connection.pipeline(
            [
                ("HMGET", record_key(writer, stream), *RECORD_FIELDS),
                ("XINFO", "STREAM", stream),
                ("HGETALL", roll_key(writer, stream)),
            ]
        )
        for reply in (values, roll):
            self._check(reply)
        record, added = BatchRecord.parse(values), entries_added(info)
        if record.batch > writer.batch:
            key = record_key(writer, stream)
            fail("FENCE_AHEAD", stream=shown(stream), fence=shown(key), found=record.batch, batch=writer.batch)
        names = roll[::2] if isinstance(roll, list) else [*roll]
        partitions = [int(name) for name in names]
        fences = self._connection.pipeline(
            [("HMGET", writer.beside(stream, b"%d" % partition), *FIELDS) for partition in partitions]
        )
        states: dict[int, FenceState] = {}
        for partition, reply in zip(partitions, fences, strict=True):
            self._check(reply)
            state = FenceState.parse(reply)
            if state.batch == writer.batch:
                states[partition] = state
        written = any(state.rows for state in states.values())
        is_gone = written and (-1 < added < record.added or (added == 0 and not isinstance(info, list)))
        is_committed = record.is_committed and record.batch == writer.batch
        return Look(record, states, is_committed, added, is_gone)

    def _check(self, reply: Any) -> None:
        if isinstance(reply, redis.ResponseError):
            raise refused(self._connection.address, "HMGET", reply)

    def _claimed_before(self, looks: dict[bytes, Look]) -> tuple[str, list[StagedRows]] | None:
        """The attempt that has claimed all of its streams and may have begun to publish, and its staged rows."""
        for look in looks.values():
            record = look.record
            if (
                record.batch != self._writer.batch
                or record.stage != "prepared"
                or record.attempt == self._writer.attempt
            ):
                continue
            rows: list[StagedRows] = []
            for stream in parse_manifest(record.manifest)[1]:
                other = looks[stream].record if stream in looks else self._look(stream).record
                if (other.batch, other.attempt, other.stage) != (record.batch, record.attempt, "prepared"):
                    break
                if not other.is_committed:
                    rows += parse_manifest(other.manifest)[0]
            else:
                if rows:
                    return record.attempt, rows
        return None

    def _is_left(self, stream: bytes, look: Look, staged: Sequence[StagedRows]) -> bool:
        """Whether there are rows to publish. Raises REPLAY_DIFFERS if they do not fit what is there."""
        if look.is_gone:
            return True
        if is_there(look, staged):
            return False
        partition = misfit(look, staged)
        if partition is not None:
            fence = StreamFence(stream, replace(self._writer, partition=partition), self._connection.address)
            fence.state = look.fences.get(partition, FenceState())
            fence.differs()
        return True

    def _claim(self, stream: bytes, look: Look, staged: Sequence[StagedRows], streams: Sequence[bytes]) -> bool:
        """Make the stream's record name this attempt; False if something has changed there since the look."""
        writer, record = self._writer, record_key(self._writer, stream)
        fences = {partition: writer.beside(stream, b"%d" % partition) for partition in look.fences}

        def attempt() -> bool | None:
            link = self._connection.link(stream)
            watched = [record, roll_key(writer, stream), *fences.values()]
            reads = [("HMGET", record, *RECORD_FIELDS), *(("HMGET", key, *FIELDS) for key in fences.values())]
            _, values, *states = link.pipeline([("WATCH", *watched), *reads])
            for reply in (values, *states):
                if isinstance(reply, redis.ResponseError):
                    self._connection.learn_from(str(reply), link)
                    return None
            now = BatchRecord.parse(values)
            if now.allows(writer, "prepared"):
                link.pipeline([("UNWATCH",)])
                return True
            if now != look.record or [FenceState.parse(each) for each in states] != [*look.fences.values()]:
                link.pipeline([("UNWATCH",)])
                return False
            commands: list[Command] = []
            if look.is_gone:
                commands += [("PEXPIRE", key, 0) for key in fences.values()]
            commands.append(claim(writer, stream, "prepared", max(look.added, 0), manifest_of(staged, streams)))
            if self._fence_ms:
                commands.append(("PEXPIRE", record, self._fence_ms))
            return link.pipeline([("MULTI",), *commands, ("EXEC",)])[-1] is not None

        return bool(self._connection.retry(attempt, lambda: self._connection.drop(None)))

    def _write(self, writer: WriterId, staged: Sequence[StagedRows]) -> None:
        """Publish stream by stream, partition by partition, in their order."""
        owners = LinkOwners()
        for each in sorted(staged, key=lambda rows: (rows.stream, rows.partition)):
            if not each.chunks:
                continue
            terms = Terms(replace(writer, partition=each.partition), self._options, self._fence_ms, False, "prepared")
            transaction = SlotTransaction(self._connection, terms, owners)
            transaction.enter(each.stream, Entry(done=each.base))
            for number in range(each.chunks):
                (data,) = self._connection.command("HMGET", each.key, number)
                if data is None:
                    fail("STAGED_LOST", stream=shown(each.stream), batch=writer.batch, key=shown(each.key))
                for run in runs([unpack_rows(each.stream, data)]):
                    transaction.finish()
                    transaction.begin(run)
            transaction.finish()
            if self._options.wait_replicas:
                transaction.wait_for_replicas()

    def _mark(self, attempts: dict[bytes, str]) -> None:
        """Note in each stream's record that the batch is complete."""
        infos = self._connection.pipeline([("XINFO", "STREAM", stream) for stream in attempts])
        commands: list[Command] = []
        for (stream, attempt), info in zip(attempts.items(), infos, strict=True):
            record, added = record_key(self._writer, stream), entries_added(info)
            mark = commit_mark(self._writer.batch, attempt)
            commands.append(("HSET", record, "committed", mark, *(("added", added) if added > 0 else ())))
            if self._fence_ms:
                commands.append(("PEXPIRE", record, self._fence_ms))
        self._connection.commands(commands)

    def _forget(self, staged: Sequence[StagedRows]) -> None:
        """Remove staged rows."""
        keys = [each.key for each in staged if each.chunks]
        if keys:
            self._connection.commands([("PEXPIRE", key, 0) for key in keys])
