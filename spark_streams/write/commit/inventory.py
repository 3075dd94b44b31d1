"""What is in the streams of a batch, and whether the rows that an attempt brings fit it.

A look at a stream shuts it for tasks (`BatchRecord.sealed`), so that what was seen stays true. Then either all rows are
there, in whatever order and partitions; or each fence counts rows that the same partition brought again, and the rest
can be written; or the rows are others, and the attempt is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from spark_streams.errors import fail
from spark_streams.write.records.batch_record import RECORD_FIELDS, BatchRecord, TaskRows, record_key, roll_key
from spark_streams.write.records.fence import FIELDS, FenceState, StreamFence, WriterId, shown
from spark_streams.write.records.stream_state import StreamState, gone_streams
from spark_streams.write.rows.digest import RowDigest
from streamclient.connection import Command, Connection

#: So many streams, or fences, are asked for in one request.
_AT_ONCE = 500


@dataclass(frozen=True)
class Look:
    """What there is at a stream: the record, and the fences of this batch by their partition.

    `is_committed`: this batch is. `is_gone`: the stream that the fences count rows of was deleted.
    """

    record: BatchRecord = field(default_factory=BatchRecord)
    fences: dict[int, FenceState] = field(default_factory=dict)
    is_committed: bool = False
    state: StreamState = field(default_factory=StreamState)
    is_gone: bool = False


def is_there(look: Look, brought: Sequence[TaskRows]) -> bool:
    """Whether all rows of these tasks are in the stream, whichever tasks wrote them, and no others of the batch."""
    written = [_digest(state) for state in look.fences.values()]
    return joined(written).same_rows(joined([each.digest for each in brought]))


def misfit(look: Look, brought: Sequence[TaskRows]) -> int | None:
    """A partition whose fence counts rows that these tasks did not bring again; None if there is none."""
    again = {each.partition: each.base for each in brought if not each.differs}
    for partition, state in sorted(look.fences.items()):
        if again.get(partition, RowDigest()) != _digest(state):
            return partition
    for each in brought:
        if each.base.rows and each.partition not in look.fences:
            return each.partition
    return next(iter(sorted(look.fences)), 0) if look.is_committed else None


def _digest(state: FenceState) -> RowDigest:
    return RowDigest.parse(state.rows, state.digest) or RowDigest()


def joined(digests: Iterable[RowDigest]) -> RowDigest:
    """Of all of these rows, in no order."""
    total = RowDigest()
    for digest in digests:
        total = total.joined(digest)
    return total


def is_left(stream: bytes, look: Look, brought: Sequence[TaskRows], writer: WriterId, address: object) -> bool:
    """Whether rows are left to be published.

    Raises REPLAY_DIFFERS if they do not fit what is there, FENCE_BEHIND if rows that this attempt wrote are gone.
    """
    if look.is_gone:
        return any(each.chunks for each in brought)
    if is_there(look, brought):
        return False
    partition = misfit(look, brought)
    if partition is not None:
        _refuse(stream, partition, look, brought, writer, address)
    return True


def _refuse(
    stream: bytes, partition: int, look: Look, brought: Sequence[TaskRows], writer: WriterId, address: object
) -> NoReturn:
    fence = StreamFence(stream, replace(writer, partition=partition), address)
    fence.state = look.fences.get(partition, FenceState())
    mine = next((each for each in brought if each.partition == partition), None)
    if mine is not None and not mine.differs and fence.state.rows < mine.base.rows:
        found, known = fence.state.rows, mine.base.rows
        fail("FENCE_BEHIND", stream=shown(stream), fence=shown(fence.key), rows=found, known=known)
    fence.differs()


def look_at(connection: Connection, writer: WriterId, streams: Sequence[bytes], seals: bool) -> dict[bytes, Look]:
    """Shut these streams for the tasks of the batch (`seals`), and look at them. Raises FENCE_AHEAD, SERVER_REFUSED."""
    looks: dict[bytes, Look] = {}
    for at in range(0, len(streams), _AT_ONCE):
        looks |= _look(connection, writer, streams[at : at + _AT_ONCE], seals)
    return looks


def _look(connection: Connection, writer: WriterId, streams: Sequence[bytes], seals: bool) -> dict[bytes, Look]:
    commands: list[Command] = []
    for stream in streams:
        key = record_key(writer, stream)
        if seals:
            commands.append(("HSET", key, "sealed", writer.batch))
        commands += [("HMGET", key, *RECORD_FIELDS), ("XINFO", "STREAM", stream), ("HGETALL", roll_key(writer, stream))]
    replies = connection.pipeline(commands)
    each = len(commands) // len(streams)
    looks: dict[bytes, Look] = {}
    wanted: list[tuple[bytes, int]] = []
    for number, stream in enumerate(streams):
        *sealed, values, info, roll = replies[number * each : (number + 1) * each]
        asked = commands[number * each : (number + 1) * each]
        connection.check([*asked[:-2], asked[-1]], [*sealed, values, roll])
        record = BatchRecord.parse(values)
        if record.batch > writer.batch:
            key = record_key(writer, stream)
            fail("FENCE_AHEAD", stream=shown(stream), fence=shown(key), found=record.batch, batch=writer.batch)
        mine = record.batch == writer.batch
        looks[stream] = Look(record, {}, mine and record.is_committed, StreamState.parse(connection, info))
        batches = zip(roll[::2], roll[1::2], strict=True)
        wanted += [(stream, int(partition)) for partition, batch in batches if int(batch) == writer.batch]
    for at in range(0, len(wanted), _AT_ONCE):
        part = wanted[at : at + _AT_ONCE]
        keys = [replace(writer, partition=partition).key(stream) for stream, partition in part]
        states = connection.commands([("HMGET", key, *FIELDS) for key in keys])
        for (stream, partition), values in zip(part, states, strict=True):
            state = FenceState.parse(values)
            if state.batch == writer.batch and state.rows:
                looks[stream].fences[partition] = state
    written = {
        # Where tasks are not shut out, fences may count rows that were added after the stream was looked at.
        stream: (
            look.record,
            look.state,
            sum(state.rows_in(writer.batch) for state in look.fences.values()) if seals else 0,
        )
        for stream, look in looks.items()
        if look.record.batch == writer.batch
    }
    gone = gone_streams(connection, written, writer.attempt)
    return looks | {stream: replace(looks[stream], is_gone=True) for stream in gone}
