"""Execution of the exactly-once protocol on servers: reads the evidence, judges it, and runs `protocol`'s transitions.

This module owns the steps that need several requests: reading the evidence of many streams, numbering a driver, changes
under WATCH. A task's transactions, which also add rows, are in `exactly_once`.

The rows of an attempt fit a stream in two cases. All rows are in the stream, in any order and any partitions. Or each
partition's rows begin with the rows that its fence counts, and the remaining rows can be written. Otherwise the attempt
is refused.

If a stream is deleted, its records remain. These records must not apply to a new stream of that name. A stream counts
the entries that were ever added, which shows the number removed by XTRIM and XDEL. So a stream that lacks entries can
be distinguished from a new stream. If this is uncertain, the stream is treated as the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from spark_streams.config.write import WriteOptions
from spark_streams.errors import fail
from spark_streams.write.protocol import Protocol, State, StreamFence, number_write, retention_ms, state_of
from spark_streams.write.records import (
    FENCE_FIELDS,
    RECORD_FIELDS,
    Account,
    BatchRecord,
    Evidence,
    FenceState,
    RowDigest,
    StreamState,
    TaskRows,
    WriterId,
    driver_number,
    shown,
    writes_key,
)
from streamclient.connection import Command, Connection, change
from streamclient.errors import ResponseError
from streamclient.refusals import Refusal, is_forbidden, refusal_of, refused
from streamwire.stream_id import ZERO, StreamId

# --- Evidence: do the rows of an attempt fit a stream?


def joined(digests: Iterable[RowDigest]) -> RowDigest:
    """Return the digest of all of these rows, regardless of their order."""
    total = RowDigest()
    for digest in digests:
        total = total.joined(digest)
    return total


def is_there(seen: Evidence, task_rows: Sequence[TaskRows]) -> bool:
    """Return whether the batch's rows in the stream are exactly the rows of these tasks, whichever tasks wrote them."""
    written = joined(state.row_digest for state in seen.fences.values())
    return written.same_rows(joined(each.digest for each in task_rows))


def misfit(seen: Evidence, task_rows: Sequence[TaskRows], batch: int) -> int | None:
    """Return a partition whose fence counts rows other than the first rows of its task; None if all rows fit.

    A committed batch accepts no further rows, so for such a batch a partition is always returned.
    """
    again = {each.partition: each.base for each in task_rows if not each.differs}
    for partition, state in sorted(seen.fences.items()):
        if again.get(partition, RowDigest()) != state.row_digest:
            return partition
    for each in task_rows:
        if each.base.rows and each.partition not in seen.fences:
            return each.partition
    is_committed = state_of(seen.record, batch) is State.COMMITTED
    return next(iter(sorted(seen.fences)), 0) if is_committed else None


def is_left(stream: bytes, seen: Evidence, task_rows: Sequence[TaskRows], writer: WriterId, address: object) -> bool:
    """Return whether rows are left to be published.

    Raises REPLAY_DIFFERS if the rows do not fit the stream, and FENCE_BEHIND if rows that this attempt wrote are gone.
    """
    if seen.is_gone:
        return any(each.chunks for each in task_rows)
    if is_there(seen, task_rows):
        return False
    partition = misfit(seen, task_rows, writer.batch)
    if partition is not None:
        _refuse(stream, partition, seen, task_rows, writer, address)
    return True


def _refuse(
    stream: bytes, partition: int, seen: Evidence, task_rows: Sequence[TaskRows], writer: WriterId, address: object
) -> NoReturn:
    fence = StreamFence(stream, replace(writer, partition=partition), address)
    fence.state = seen.fences.get(partition, FenceState())
    task = next((each for each in task_rows if each.partition == partition), None)
    if task is not None and not task.differs and fence.state.rows < task.base.rows:
        found, known = fence.state.rows, task.base.rows
        fail("FENCE_BEHIND", stream=shown(stream), fence=shown(fence.key), rows=found, known=known)
    fence.refuse(state_of(seen.record, writer.batch) is State.COMMITTED)


def is_gone(record: BatchRecord, stream: StreamState, rows: int = 0, has_last: bool = True) -> bool:
    """Return whether the stream to which the record's batch was written has been deleted.

    `rows`: number of rows counted by fences. `has_last`: whether the stream still has the entry that was its last when
    the record was written.
    """
    written = rows if record.stage == "direct" and not record.is_committed else 0
    if -1 < stream.added < record.added + written:
        return True
    if stream.added == 0:
        return record.stage == "direct"
    last = last_recorded(record, stream)
    if last is None:
        return False
    if stream.last < last:
        return True
    removed = stream.added - stream.length
    if not stream.length or last < stream.first:  # if it is the same stream, the first `added` entries are removed
        return removed < record.added
    return not has_last and not removed


def last_recorded(record: BatchRecord, stream: StreamState) -> StreamId | None:
    """Return the stream's last ID at the time when `record.added` entries had been added.

    None if it is unknown or there were no entries.
    """
    if record.added <= 0 or stream.added < 0 or not record.last:
        return None
    return StreamId.parse(record.last)


# --- Requests

#: Maximum number of streams, or fences, in one request.
_AT_ONCE = 500


def stream_state(connection: Connection, info: object) -> StreamState:
    """Return the state in a reply to XINFO STREAM; an unknown state for a key of another type.

    Raises SERVER_REFUSED and NOT_PERMITTED.
    """
    if not isinstance(info, list):
        if refusal_of(info) is not Refusal.ROW:
            raise refused(connection.address, "XINFO", info)
        return StreamState(added=0 if "no such key" in str(info) else -1)
    found = dict(zip(info[::2], info[1::2], strict=True))
    first = found.get(b"first-entry")
    return StreamState(
        int(found.get(b"entries-added", -1)),
        int(found[b"length"]),
        StreamId.parse(first[0]) if first else ZERO,
        StreamId.parse(found[b"last-generated-id"]),
    )


def gone_streams(
    connection: Connection, seen: Mapping[bytes, tuple[BatchRecord, StreamState, int]], attempt: str
) -> set[bytes]:
    """Return the streams that were deleted after their rows were written.

    `seen`: record, state and number of rows counted by fences, for each stream. The recorded last entry is requested if
    another attempt has written the record. If the user may not read, the entry counts as present. Raises
    SERVER_REFUSED.
    """
    wanted: list[bytes] = []
    commands: list[Command] = []
    for stream, (record, state, _) in seen.items():
        last = last_recorded(record, state)
        if record.attempt != attempt and last is not None and state.length and state.first <= last <= state.last:
            wanted.append(stream)
            commands.append(("XRANGE", stream, str(last), str(last)))
    replies = connection.pipeline(commands) if commands else []
    for reply in replies:
        if isinstance(reply, ResponseError) and not is_forbidden(reply):
            raise refused(connection.address, "XRANGE", reply)
    has_last = dict(zip(wanted, map(bool, replies), strict=True))  # an error counts as present
    return {
        stream
        for stream, (record, state, rows) in seen.items()
        if is_gone(record, state, rows, has_last.get(stream, True))
    }


def close_ledger(connection: Connection, protocol: Protocol, streams: Iterable[bytes]) -> Account:
    """Close the ledger at the end of the batch, and return its value. Raises BATCH_COMMITTED."""
    if not protocol.has_ledger:
        return Account(tuple(streams))
    streams, number, is_recorded = [*streams], 1, False
    while not is_recorded:
        found: list[bytes] = connection.commands(protocol.close(streams, number))[-1]
        number, is_recorded = driver_number(found, protocol.writer)
    return protocol.account(found)


def collect_evidence(connection: Connection, protocol: Protocol, streams: Sequence[bytes]) -> dict[bytes, Evidence]:
    """Seal these streams, and read the streams and their records. Raises FENCE_AHEAD, SERVER_REFUSED."""
    found: dict[bytes, Evidence] = {}
    for at in range(0, len(streams), _AT_ONCE):
        found |= _collect(connection, protocol, streams[at : at + _AT_ONCE])
    return found


def _collect(connection: Connection, protocol: Protocol, streams: Sequence[bytes]) -> dict[bytes, Evidence]:
    writer, commands = protocol.writer, list[Command]()
    for stream in streams:
        commands += protocol.seal(stream)
        commands += [
            ("HMGET", writer.record_key(stream), *RECORD_FIELDS),
            ("XINFO", "STREAM", stream),
            ("HGETALL", writer.roll_key(stream)),
        ]
    replies = connection.pipeline(commands)
    each = len(commands) // len(streams)
    seen: dict[bytes, Evidence] = {}
    wanted: list[tuple[bytes, int]] = []
    for number, stream in enumerate(streams):
        *sealed, values, info, roll = replies[number * each : (number + 1) * each]
        requested = commands[number * each : (number + 1) * each]
        connection.check([*requested[:-2], requested[-1]], [*sealed, values, roll])
        record = BatchRecord.parse(values)
        protocol.check_order(stream, record)
        seen[stream] = Evidence(record, {}, stream_state(connection, info), roll=protocol.enrolled(roll))
        wanted += [(stream, partition) for partition in sorted(seen[stream].roll)]
    for at in range(0, len(wanted), _AT_ONCE):
        part = wanted[at : at + _AT_ONCE]
        states = connection.commands([("HMGET", writer.fence_key(*fence), *FENCE_FIELDS) for fence in part])
        for (stream, partition), values in zip(part, states, strict=True):
            state = FenceState.parse(values)
            if state.batch == writer.batch and state.rows:
                seen[stream].fences[partition] = state
    # Without a ledger the streams are not sealed. Their fences may count rows that were added after the stream was
    # read, so these counts are not used.
    counts = protocol.has_ledger
    written = {
        stream: (
            found.record,
            found.stream,
            sum(state.rows_in(writer.batch) for state in found.fences.values()) if counts else 0,
        )
        for stream, found in seen.items()
        if found.record.batch == writer.batch
    }
    deleted = gone_streams(connection, written, writer.attempt)
    return seen | {stream: replace(seen[stream], is_gone=True) for stream in deleted}


def claim(
    connection: Connection,
    protocol: Protocol,
    stream: bytes,
    seen: Evidence,
    account: Account,
    staged: Sequence[TaskRows],
) -> BatchRecord | None:
    """Claim the stream, and return its record. None if the record has changed since the evidence was read.

    Raises ATTEMPT_REPLACED.
    """
    writer = protocol.writer
    fences = [writer.fence_key(stream, partition) for partition in seen.fences]
    record, roll = writer.record_key(stream), writer.roll_key(stream)
    claimed: BatchRecord | None = None

    def decide(replies: list[Any]) -> list[Command]:
        nonlocal claimed
        commands, claimed = protocol.claim(stream, seen, account, staged, replies)
        return commands

    reads: list[Command] = [("HMGET", record, *RECORD_FIELDS), ("HGETALL", roll)]
    reads += [("HMGET", key, *FENCE_FIELDS) for key in fences]
    change(connection, [record, roll, *fences], reads, decide)
    return claimed


def prepare(connection: Connection, protocol: Protocol, account: Account) -> None:
    """Record that all streams are claimed. Raises ATTEMPT_REPLACED."""
    if protocol.has_ledger:
        reads = [protocol.ledger_reads(account)]
        change(connection, [protocol.writer.ledger_key], reads, lambda replies: protocol.prepare(account, replies[0]))


def commit(
    connection: Connection,
    protocol: Protocol,
    seen: Mapping[bytes, Evidence],
    account: Account,
    rows: RowDigest | None,
) -> None:
    """Mark the batch as complete, in the records of its streams and then in the ledger. Raises ATTEMPT_REPLACED."""
    connection.commands(protocol.commit(seen))
    if protocol.has_ledger:
        reads, ledger = [protocol.ledger_reads(account)], protocol.writer.ledger_key
        change(connection, [ledger], reads, lambda replies: protocol.finish(account, rows, replies[0]))


def number_of_write(
    connection: Connection, query: str, batch: int, run: str, execution: str, options: WriteOptions
) -> int:
    """Return the number of this execution among the executions that write in this batch and run, from 0.

    Raises ATTEMPT_REPLACED if a later batch has begun, and WRITE_CONTENDED.
    """
    key, keep_ms = writes_key(query), retention_ms(options, lasting=True)
    number = 0

    def decide(replies: list[Any]) -> list[Command]:
        nonlocal number
        number, commands = number_write(query, batch, run, execution, keep_ms, replies[0])
        return commands

    change(connection, [key], [("HGETALL", key)], decide)
    return number
