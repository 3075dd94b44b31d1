"""End of a batch on the driver: publishes staged rows that fit the contents of the streams, and commits the batch.

Rows are staged with writeMode=staged, and also when a batch is repeated after tasks may have written. Every batch ends
with steps 1, 2 and 5; steps 3 and 4 are for staged rows. The driver must

1. stop the tasks of all attempts, and find every stream that any of these tasks used;
2. read all of these streams, and check the tasks' rows (`executor`). If rows of one stream do not fit, or rows of
   an earlier attempt are missing, nothing is published in any stream, and an error is raised;
3. claim every stream with remaining rows: the stream's record then names this attempt and the attempt's staged rows
   (`manifest`). When all are claimed, the ledger records this;
4. publish: each staged chunk is one transaction with the fence of its task. The server moves the rows itself
   (`Mover`), or the driver sends them, a chunk at a time;
5. mark the records and the ledger as committed, and remove the staged rows of all attempts.

If a driver dies after it has claimed all streams, its successor publishes the claimed rows. If a driver dies earlier,
nothing was published, and the successor uses its own rows.

If the server moves a chunk, the rows do not pass through the driver. This is one transaction, and the fence of its task
counts the rows, like all other rows:

    WATCH fence record staged; HMGET fence; HMGET record; HEXISTS staged
    MULTI; add the rows, HSET fence, HDEL staged; XTRIM...; PEXPIRE fence...; EXEC

EXEC alone would advance the fence even if the rows were refused. On the engine, PS.APPEND adds all rows or none, and
PS.EXEC in place of EXEC ends the transaction if they are refused. On Redis, a script adds the rows one by one and then
advances the fence. It tests the user's permissions before it adds the first row. If a later row is refused, it records
the refusal in the fence. If the server cannot move rows in either way, or the user lacks a permission, nothing is
changed and the caller sends the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from spark_streams.config.write import WriteOptions
from spark_streams.errors import PystreamsError, fail
from spark_streams.write.encoding import runs, trim_commands
from spark_streams.write.exactly_once import Entry, SlotTransaction, Terms, unpack_rows, wait_for_replicas
from spark_streams.write.executor import (
    claim,
    close_ledger,
    collect_evidence,
    commit,
    is_left,
    joined,
    prepare,
    stream_state,
)
from spark_streams.write.protocol import Event, Protocol, StreamFence, allows
from spark_streams.write.records import (
    FENCE_FIELDS,
    RECORD_FIELDS,
    Account,
    BatchRecord,
    ChunkState,
    Evidence,
    FenceState,
    RowDigest,
    TaskRows,
    Values,
    WriterId,
    parse_manifest,
    parse_states,
    shown,
    staged_states,
)
from streamclient.connection import Command, Connection, Link, change
from streamclient.errors import ResponseError
from streamclient.refusals import Refusal, reason_of, refusal_of, row_refused

_log = logging.getLogger("spark_streams")
_ATTEMPTS = 20  # attempts to claim all streams while other clients change them


class Publisher:
    """Ends one batch of one query. `writer.partition` is ignored. `lasting`: see `ExactlyOnceSender`."""

    def __init__(self, connection: Connection, writer: WriterId, options: WriteOptions, lasting: bool) -> None:
        self._connection = connection
        self._writer = writer
        self._options = options
        self._protocol = Protocol.of(writer, options, lasting)

    def commit(self, task_rows: Sequence[TaskRows]) -> dict[bytes, str]:
        """Publish the staged rows, and mark the batch as committed. Returns each stream's last ID before the batch.

        Raises REPLAY_DIFFERS, FENCE_AHEAD, FENCE_BEHIND, ATTEMPT_REPLACED, STAGED_LOST and WRITE_CONTENDED, and the
        errors of a transaction.
        """
        by_stream: dict[bytes, list[TaskRows]] = {}
        for each in task_rows:
            by_stream.setdefault(each.stream, []).append(each)
        account = close_ledger(self._connection, self._protocol, by_stream)
        staged = {*account.staged, *(each.key for each in task_rows if each.chunks)}
        digest = joined(each.digest for each in task_rows)
        is_done = account.is_committed and self._options.mode == "staged"
        if account.rows is not None and not account.rows.same_rows(digest):
            if not is_done or self._options.write_id is not None:  # one name may be used for two writes by mistake
                self._refuse(account.rows, account.streams, task_rows)
            _log.warning(
                "Batch %d was already published with %d rows. It was repeated with different rows (%d), which are "
                "ignored.",
                self._writer.batch,
                account.rows.rows,
                digest.rows,
            )
        rows = account.rows if is_done else digest
        is_whole = account.is_committed or account.prepared in ("", self._writer.attempt)
        seen = None if is_whole else self._finish_other(account)
        if seen is None:
            try:
                seen = self._publish_own(account, by_stream, is_done)
            except PystreamsError as refusal:
                if refusal.condition == "REPLAY_DIFFERS":
                    self._drop_staged(each.key for each in task_rows if each.chunks)
                raise
        else:
            rows = None  # the rows of the other attempt were published
        commit(self._connection, self._protocol, seen, account, rows)
        self._drop_staged(staged)
        batch = self._writer.batch
        return {stream: each.record.floor for stream, each in seen.items() if each.record.batch == batch}

    def _publish_own(
        self, account: Account, by_stream: dict[bytes, list[TaskRows]], is_done: bool
    ) -> dict[bytes, Evidence]:
        """Publish this attempt's rows if they fit all streams. Returns the evidence in the streams afterwards.

        `is_done`: whether the batch is already committed and may be repeated with any rows. Then only rows for streams
        that were deleted are published.
        """
        address, streams = self._connection.address, account.streams
        for _ in range(_ATTEMPTS):
            seen = self._evidence(account)
            left = [
                stream
                for stream in streams
                if (seen[stream].is_gone or not is_done)
                and is_left(stream, seen[stream], by_stream.get(stream, ()), self._writer, address)
            ]
            claims = {
                stream: claim(self._connection, self._protocol, stream, seen[stream], account, by_stream[stream])
                for stream in left
            }
            if None in claims.values():
                continue
            if left:
                prepare(self._connection, self._protocol, account)
                self._write(self._protocol, [each for stream in left for each in by_stream[stream]])
                seen |= self._after(seen, claims)
            return seen
        return fail("WRITE_CONTENDED", address=address)

    def _finish_other(self, account: Account) -> dict[bytes, Evidence] | None:
        """Publish the rows of another attempt that has claimed all streams and may have begun to publish.

        Returns None if its staged rows are gone. Then this attempt's rows are checked against the contents of the
        streams.
        """
        other = replace(self._writer, attempt=account.prepared)
        seen = self._evidence(account)
        claims = {stream: each.record for stream, each in seen.items() if allows(each.record, other, Event.PUBLISH)}
        try:
            self._write(
                replace(self._protocol, writer=other),
                [each for record in claims.values() for each in parse_manifest(record.manifest)],
            )
        except PystreamsError as refusal:
            if refusal.condition == "STAGED_LOST":
                return None
            raise
        return seen | self._after(seen, claims)

    def _evidence(self, account: Account) -> dict[bytes, Evidence]:
        """Return the evidence in all streams. Raises ATTEMPT_REPLACED if a later driver has claimed one."""
        seen = collect_evidence(self._connection, self._protocol, account.streams)
        for stream, each in seen.items():
            self._protocol.check_driver(account, stream, each.record)
        return seen

    def _after(self, seen: dict[bytes, Evidence], claims: Mapping[bytes, BatchRecord | None]) -> dict[bytes, Evidence]:
        """Return the current evidence in the streams with published rows."""
        infos = self._connection.pipeline([("XINFO", "STREAM", stream) for stream in claims])
        return {
            stream: replace(seen[stream], record=record, stream=stream_state(self._connection, info))
            for (stream, record), info in zip(claims.items(), infos, strict=True)
            if record is not None
        }

    def _write(self, protocol: Protocol, staged: Sequence[TaskRows]) -> None:
        """Publish the rows in the order of streams and partitions."""
        owners: dict[Link, SlotTransaction] = {}
        for each in sorted(staged, key=lambda rows: (rows.stream, rows.partition)):
            if not each.chunks:
                continue
            states = parse_states(self._connection.command(*staged_states(each)))
            if states is None:
                fail("STAGED_LOST", stream=shown(each.stream), batch=self._writer.batch, key=shown(each.key))
            terms = Terms(protocol.of_partition(each.partition), self._options, Event.PUBLISH)
            mover = Mover(self._connection, terms, each)
            for number, state in enumerate(states):
                if mover.move(number, state):
                    continue
                transaction = SlotTransaction(self._connection, terms, owners)
                transaction.enter(each.stream, Entry(done=mover.fence.digest))
                self._send(transaction, each, number)
                mover.fence.digest = state.digest
            if self._options.wait_replicas:
                mover.wait_for_replicas()

    def _send(self, transaction: SlotTransaction, staged: TaskRows, number: int) -> None:
        """Publish a chunk through the driver."""
        commands, index = self._connection.command("HMGET", staged.key, number, f"{number}:index")
        if commands is None or index is None:
            fail("STAGED_LOST", stream=shown(staged.stream), batch=self._writer.batch, key=shown(staged.key))
        for run in runs([unpack_rows(staged.stream, commands, index)]):
            transaction.finish()
            transaction.send(run)
        transaction.finish()

    def _refuse(self, rows: RowDigest, streams: Sequence[bytes], task_rows: Sequence[TaskRows]) -> NoReturn:
        """Remove this attempt's staged rows and raise REPLAY_DIFFERS: the batch was committed with other rows."""
        self._drop_staged(each.key for each in task_rows if each.chunks)
        stream = streams[0] if streams else b""
        fence = StreamFence(stream, self._writer, self._connection.address)
        fence.state = FenceState(self._writer.batch, rows.rows)
        fence.refuse(is_committed=True)

    def _drop_staged(self, keys: Iterable[bytes]) -> None:
        """Remove staged rows."""
        commands: list[Command] = [("PEXPIRE", key, 0) for key in keys]
        if commands:
            self._connection.commands(commands)


# --- Moving staged rows within the server

#: Adds the rows of a chunk, which are XADD commands in RESP. Keys: the stream, the staged rows, the fence. Arguments:
#: the chunk's number, the number of the task's rows before the chunk, the fence's fields.
_SCRIPT = r"""
local match, sub, call = string.match, string.sub, redis.call
local data = call('HMGET', KEYS[2], ARGV[1])[1]
-- A user without one of these rights is refused here, before anything is added.
call('HSET', KEYS[2], 'moving', ARGV[1])
call('HDEL', KEYS[2], 'moving')
local at, rows = 1, 0

while at <= #data do
  local row, words, start = {}, match(data, '^.(%d+)\r\n()', at)
  for i = 1, words do
    local size, first = match(data, '^.(%d+)\r\n()', start)
    start = first + size + 2
    row[i] = sub(data, first, start - 3)
  end
  at, row[2] = start, KEYS[1]
  local reply = redis.pcall(unpack(row))
  if type(reply) == 'table' and reply.err then
    if rows > 0 then call('HSET', KEYS[3], 'refused', (ARGV[2] + rows) .. ' ' .. reply.err) end
    return reply
  end
  rows = rows + 1
end
call('HSET', KEYS[3], unpack(ARGV, 3))
call('HDEL', KEYS[2], ARGV[1], ARGV[1] .. ':index')
return 1
"""


#: Commands that only moving needs. If the server refuses one of them, the driver sends the rows.
_MOVING = ("EVAL", "PS.APPEND", "PS.EXEC")


class Mover:
    """Moves the rows of one task into their stream, a chunk at a time.

    Raises STAGED_LOST, ATTEMPT_REPLACED, REPLAY_DIFFERS, ROW_REFUSED, SERVER_REFUSED, NOT_A_STREAM, WRITE_CONTENDED,
    NOT_REPLICATED, and the errors of `StreamFence`.
    """

    def __init__(self, connection: Connection, terms: Terms, rows: TaskRows) -> None:
        self._connection = connection
        self._terms = terms
        self._rows = rows
        #: The task's fence, with the digest of its rows that are in the stream.
        self.fence = StreamFence(rows.stream, terms.protocol.writer, connection.address, rows.base)

    def move(self, number: int, state: ChunkState) -> bool:
        """Move one chunk, if it is not in the stream yet. Returns False without any effect if the server cannot move
        it.
        """
        fence, stream, known = self.fence, self._rows.stream, self._connection.capabilities
        stops = known.stops_at_errors()
        may_move = state.movable and known.moves_rows
        may_move = may_move and (stops or known.may_run_scripts())
        record = fence.writer.record_key(stream)
        is_there, commands = False, list[Command]()

        def decide(replies: list[Any]) -> list[Command]:
            nonlocal is_there, commands
            is_there = self._is_there(state, *replies)
            commands = self._commands(number, state, stops=stops) if may_move and not is_there else []
            return commands

        reads: list[Command] = [
            ("HMGET", fence.key, *FENCE_FIELDS),
            ("HMGET", record, *RECORD_FIELDS),
            ("HEXISTS", self._rows.key, number),
        ]
        try:
            done = change(
                self._connection, [fence.key, record, self._rows.key], reads, decide, partial=True, stops=stops
            )
        except PystreamsError as refusal:
            reason = str(refusal.parameters.get("reason", ""))
            if refusal.parameters.get("command") in _MOVING and refusal_of(reason) is Refusal.SERVER:
                return self._by_driver(reason)
            raise
        if not done:
            return is_there
        adding = 2 if stops else 1
        for reply in done[:adding]:
            if isinstance(reply, ResponseError):
                return self._not_moved(reply)
        self._connection.check(commands[adding : len(done)], done[adding:])
        fence.state, fence.digest = fence.state.after(state.digest), state.digest
        return True

    def wait_for_replicas(self) -> None:
        """Wait until the replicas have the moved rows."""
        if self.fence.rows > self._rows.base.rows:
            wait_for_replicas(self._connection, [self.fence], self._terms.options, None)

    def _is_there(self, state: ChunkState, values: Values, record: Values, is_staged: int) -> bool:
        """Return whether the chunk is in the stream. Raises an error if it is neither there nor staged, or if the fence
        does not allow it.
        """
        fence, rows, found = self.fence, self._rows, BatchRecord.parse(record)
        self._terms.protocol.is_open(rows.stream, self._terms.event, found, found)
        fence.update(values)
        if fence.state.rows >= state.digest.rows:
            fence.digest = state.digest
            return True
        if fence.state.rows != fence.rows or (fence.rows and fence.state.digest != fence.digest.text):
            fence.refuse()
        if not is_staged:
            fail("STAGED_LOST", stream=shown(rows.stream), batch=fence.writer.batch, key=shown(rows.key))
        return False

    def _commands(self, number: int, state: ChunkState, *, stops: bool) -> list[Command]:
        stream, key, fence = self._rows.stream, self._rows.key, self.fence
        after = fence.state.after(state.digest)
        if stops:
            commands: list[Command] = [
                ("HSET", key, "moving", number),  # a user without this right is refused before anything is added
                ("PS.APPEND", stream, key, number),
                after.command(fence.key),
                ("HDEL", key, "moving", number, f"{number}:index"),
            ]
        else:
            words = (number, fence.rows, *after.command(fence.key)[2:])
            commands = [("EVAL", _SCRIPT, 3, stream, key, fence.key, *words)]
        commands += trim_commands(stream, self._terms.options)
        return [*commands, *self._terms.protocol.publish(stream, after)]

    def _not_moved(self, refusal: ResponseError) -> bool:
        """Handle the refusal of a command that adds the rows.

        If the refusal is not about a row, nothing was changed, and the driver sends the rows. The refusal of the
        driver's transaction then names the command that the user may not call or the server cannot execute.
        """
        if str(refusal).startswith("WRONGTYPE"):
            fail("NOT_A_STREAM", stream=shown(self._rows.stream), address=self._connection.address)
        if refusal_of(refusal) is not Refusal.ROW:
            return self._by_driver(str(refusal))
        fence = self.fence
        (known,) = self._connection.command("HMGET", fence.key, "refused")
        mark = f"{fence.rows} {refusal}" if not known else known.decode("utf-8", "replace")
        self._connection.command("HSET", fence.key, "refused", mark)
        row, _, reason = mark.partition(" ")
        raise row_refused(self._connection.address, int(row), reason)

    def _by_driver(self, reason: str) -> bool:
        if not reason_of(reason).startswith(("OOM", "MISCONF")):  # temporary refusals
            self._connection.capabilities.moves_rows = False
        return False
