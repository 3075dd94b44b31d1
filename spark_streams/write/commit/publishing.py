"""The driver's end of a batch: it publishes staged rows that fit what is in the streams, and commits the batch.

Rows are staged with writeMode=staged, and wherever a batch is attempted again after tasks may have written. Then

1. stop the tasks of all attempts, and find every stream that any of them touched (`records.ledger`);
2. look at all of these streams, and judge what was brought (`commit.inventory`). If rows of one stream do not fit, or
   rows of an earlier attempt were not brought again, nothing is published anywhere, and an error says so;
3. claim every stream that rows are left for: its record names this attempt and what it has staged (`manifest`), and
   then the ledger says that all are claimed;
4. publish: each staged chunk is one transaction, behind the fence of its task. The server moves the rows itself
   (`commit.mover`), or they pass through here, a chunk at a time;
5. mark the records and the ledger as committed, and remove what was staged, by whichever attempt.

Whoever comes after a driver that died finds that all streams were claimed, and finishes what was claimed; or it does
not, then nothing was published, and its own rows count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError, fail
from spark_streams.write.commit.inventory import Look, is_left, joined, look_at
from spark_streams.write.commit.mover import Mover
from spark_streams.write.records.batch_record import (
    RECORD_FIELDS,
    BatchRecord,
    TaskRows,
    claim,
    commit_mark,
    manifest_of,
    parse_manifest,
    record_key,
    roll_key,
)
from spark_streams.write.records.fence import FIELDS, FenceState, StreamFence, WriterId, shown
from spark_streams.write.records.ledger import Account, Ledger, has_ledger, kept_ms
from spark_streams.write.records.stream_state import StreamState
from spark_streams.write.rows.digest import RowDigest
from spark_streams.write.rows.own_ids import runs
from spark_streams.write.tasks.slot_transaction import Entry, LinkOwners, SlotTransaction, Terms
from spark_streams.write.tasks.staging import parse_states, states_of, unpack_rows
from streamclient.compare_and_set import change
from streamclient.connection import Command, Connection
from streamwire.stream_id import StreamId

_log = logging.getLogger("spark_streams")
_ATTEMPTS = 20


class Publisher:
    """Ends one batch of one query. `writer.partition` is of no account; `lasting`: see `ExactlyOnceSender`."""

    def __init__(self, connection: Connection, writer: WriterId, options: WriteOptions, lasting: bool) -> None:
        self._connection = connection
        self._writer = writer
        self._options = options
        self._keep_ms = kept_ms(options, lasting)
        self._ledger = Ledger(connection, writer, self._keep_ms) if has_ledger(options, lasting) else None

    def commit(self, brought: Sequence[TaskRows]) -> dict[bytes, str]:
        """Publish what was staged, and mark the batch as committed. Returns each stream's last ID before the batch.

        Errors: REPLAY_DIFFERS, FENCE_AHEAD, FENCE_BEHIND, ATTEMPT_REPLACED, STAGED_LOST, WRITE_CONTENDED, and a
        transaction's own.
        """
        own: dict[bytes, list[TaskRows]] = {}
        for each in brought:
            own.setdefault(each.stream, []).append(each)
        account = Account(tuple(own)) if self._ledger is None else self._ledger.close(own)
        staged = {*account.staged, *(each.key for each in brought if each.chunks)}
        mine = joined(each.digest for each in brought)
        is_over = account.is_committed and self._options.mode == "staged"
        if account.rows is not None and not account.rows.same_rows(mine):
            if not is_over or self._options.write_id is not None:  # a user may give two writes one name by mistake
                self._refuse(account.rows, account.streams, brought)
            self._warn(account.rows.rows, mine.rows)
        rows = account.rows if is_over else mine
        is_whole = account.is_committed or account.prepared in ("", self._writer.attempt)
        looks = None if is_whole else self._finish_other(account)
        if looks is None:
            try:
                looks = self._publish_own(account, own, is_over)
            except PystreamsError as refusal:
                if refusal.condition == "REPLAY_DIFFERS":
                    self._forget(each.key for each in brought if each.chunks)
                raise
        else:
            rows = None  # they are the other attempt's
        self._mark(account, looks, rows)
        self._forget(staged)
        batch = self._writer.batch
        return {stream: look.record.floor for stream, look in looks.items() if look.record.batch == batch}

    def _warn(self, published: int, rows: int) -> None:
        _log.warning(
            "Batch %d was published before, with %d rows, and comes again with %d, or with others: those are left out.",
            self._writer.batch,
            published,
            rows,
        )

    def _publish_own(self, account: Account, own: dict[bytes, list[TaskRows]], is_over: bool) -> dict[bytes, Look]:
        """Bring this attempt's rows into all streams, or into none. Returns what the streams' records say then.

        `is_over`: a committed batch comes again, with whatever rows; those of streams that were deleted are left.
        """
        address, streams = self._connection.address, account.streams
        for _ in range(_ATTEMPTS):
            looks = look_at(self._connection, self._writer, streams, seals=self._ledger is not None)
            left = [
                stream
                for stream in streams
                if (looks[stream].is_gone or not is_over)
                and is_left(stream, looks[stream], own.get(stream, ()), self._writer, address)
            ]
            claims = {stream: self._claim(account, stream, looks[stream], own[stream]) for stream in left}
            if None in claims.values():
                continue
            if left:
                if self._ledger is not None:
                    self._ledger.prepared(account)
                self._write(self._writer, [each for stream in left for each in own[stream]])
                looks |= self._after(looks, claims)
            return looks
        return fail("WRITE_CONTENDED", address=address)

    def _finish_other(self, account: Account) -> dict[bytes, Look] | None:
        """Publish what another attempt has claimed all streams for, and had perhaps begun to publish.

        None if what it staged is gone: then this attempt's rows are judged by what is in the streams.
        """
        other = replace(self._writer, attempt=account.prepared)
        looks = look_at(self._connection, self._writer, account.streams, seals=True)
        for stream, look in looks.items():
            self._check_driver(account, stream, look.record)
        claims = {stream: look.record for stream, look in looks.items() if look.record.allows(other, "prepared")}
        try:
            self._write(other, [each for record in claims.values() for each in parse_manifest(record.manifest)])
        except PystreamsError as refusal:
            if refusal.condition == "STAGED_LOST":
                return None
            raise
        return looks | self._after(looks, claims)

    def _after(self, looks: dict[bytes, Look], claims: Mapping[bytes, BatchRecord | None]) -> dict[bytes, Look]:
        """The looks at streams that were published to, as they are now."""
        infos = self._connection.pipeline([("XINFO", "STREAM", stream) for stream in claims])
        return {
            stream: replace(looks[stream], record=record, state=StreamState.parse(self._connection, info))
            for (stream, record), info in zip(claims.items(), infos, strict=True)
            if record is not None
        }

    def _check_driver(self, account: Account, stream: bytes, record: BatchRecord) -> None:
        """Raise ATTEMPT_REPLACED if a later driver of the batch has claimed the stream."""
        if record.batch == self._writer.batch and record.driver > account.driver:
            fail("ATTEMPT_REPLACED", stream=shown(stream), batch=self._writer.batch)

    def _claim(self, account: Account, stream: bytes, look: Look, staged: Sequence[TaskRows]) -> BatchRecord | None:
        """Make the stream's record name this attempt. None if something has changed there since the look.

        Raises ATTEMPT_REPLACED.
        """
        writer, record = self._writer, record_key(self._writer, stream)
        fences = {partition: writer.beside(stream, b"%d" % partition) for partition in look.fences}
        again = look.record.batch == writer.batch and not look.is_gone
        floor = look.record.floor if again else str(_floor(look, staged))
        manifest = manifest_of(staged)

        watched = [record, roll_key(writer, stream), *fences.values()]
        claimed: BatchRecord | None = None

        def decide(replies: list[Any]) -> list[Command]:
            nonlocal claimed
            values, *states = replies
            now = BatchRecord.parse(values)
            if now.allows(writer, "prepared"):
                claimed = now
                return []
            self._check_driver(account, stream, now)
            if now != look.record or [FenceState.parse(each) for each in states] != [*look.fences.values()]:
                claimed = None
                return []
            commands: list[Command] = []
            if look.is_gone:
                commands += [("PEXPIRE", key, 0) for key in fences.values()]
            added, last = max(look.state.added, 0), look.state.last
            commands.append(claim(writer, stream, "prepared", added, last, floor, manifest, account.driver))
            if self._keep_ms:
                commands.append(("PEXPIRE", record, self._keep_ms))
            claimed = replace(
                now,
                batch=writer.batch,
                attempt=writer.attempt,
                stage="prepared",
                is_committed=False,
                floor=floor,
                manifest=manifest,
                driver=account.driver,
            )
            return commands

        reads = [("HMGET", record, *RECORD_FIELDS), *(("HMGET", key, *FIELDS) for key in fences.values())]
        change(self._connection, watched, reads, decide)
        return claimed

    def _write(self, writer: WriterId, staged: Sequence[TaskRows]) -> None:
        """Publish stream by stream, partition by partition, in their order."""
        owners = LinkOwners()
        for each in sorted(staged, key=lambda rows: (rows.stream, rows.partition)):
            if not each.chunks:
                continue
            states = parse_states(self._connection.command(*states_of(each)))
            if states is None:
                fail("STAGED_LOST", stream=shown(each.stream), batch=writer.batch, key=shown(each.key))
            terms = Terms(replace(writer, partition=each.partition), self._options, self._keep_ms, "prepared")
            mover = Mover(self._connection, terms, each)
            for number, state in enumerate(states):
                if mover.move(number, state):
                    continue
                transaction = SlotTransaction(self._connection, terms, owners)
                transaction.enter(each.stream, Entry(done=mover.done))
                self._send(transaction, each, number)
                mover.done = state.digest
            if self._options.wait_replicas:
                mover.wait_for_replicas()

    def _send(self, transaction: SlotTransaction, staged: TaskRows, number: int) -> None:
        """Publish a chunk by way of the driver."""
        commands, index = self._connection.command("HMGET", staged.key, number, f"{number}:index")
        if commands is None or index is None:
            fail("STAGED_LOST", stream=shown(staged.stream), batch=self._writer.batch, key=shown(staged.key))
        for run in runs([unpack_rows(staged.stream, commands, index)]):
            transaction.finish()
            transaction.begin(run)
        transaction.finish()

    def _refuse(self, rows: RowDigest, streams: Sequence[bytes], brought: Sequence[TaskRows]) -> NoReturn:
        """The batch was committed, and this attempt brought more rows, less or others."""
        self._forget(each.key for each in brought if each.chunks)
        stream = streams[0] if streams else b""
        fence = StreamFence(stream, self._writer, self._connection.address)
        fence.state = FenceState(self._writer.batch, rows.rows)
        fence.differs()

    def _mark(self, account: Account, looks: dict[bytes, Look], rows: RowDigest | None) -> None:
        """Note in each stream's record, and then in the ledger, that the batch is complete."""
        commands: list[Command] = []
        for stream, look in looks.items():
            record, state = record_key(self._writer, stream), look.state
            if look.record.batch == self._writer.batch:
                mark = commit_mark(self._writer.batch, look.record.attempt)
                mark_state = ("added", state.added, "last", str(state.last)) if state.added > 0 else ()
                commands.append(("HSET", record, "committed", mark, *mark_state))
            if self._keep_ms:
                commands.append(("PEXPIRE", record, self._keep_ms))
        if self._ledger is not None:
            commands += self._ledger.committing(account, rows)
        self._connection.commands(commands)

    def _forget(self, keys: Iterable[bytes]) -> None:
        """Remove staged rows."""
        commands: list[Command] = [("PEXPIRE", key, 0) for key in keys]
        if commands:
            self._connection.commands(commands)


def _floor(look: Look, staged: Sequence[TaskRows]) -> StreamId:
    """The stream's last ID before any of these tasks came to it."""
    return min((StreamId.parse(each.floor) for each in staged if each.floor), default=look.state.last)
