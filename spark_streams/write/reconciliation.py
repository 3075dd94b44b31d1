"""Reconciliation of a batch at its end: whether the rows of an attempt fit the streams and their fences.

There are three cases. All rows are in the stream, in any order and any partitions. Or each partition's rows begin with
the rows that its fence counts, and the remaining rows can be written. Or the rows differ, and the attempt is refused.

If a stream is deleted, its records remain. These records must not apply to a new stream of that name. A stream counts
the entries that were ever added, which shows the number removed by XTRIM and XDEL. So a stream that lacks entries can
be distinguished from a new stream. If this is uncertain, the stream is treated as the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from spark_streams.errors import fail
from spark_streams.write.digest import RowDigest
from spark_streams.write.protocol import State, StreamFence, state_of
from spark_streams.write.records import BatchRecord, Evidence, FenceState, StreamState, TaskRows, WriterId, shown
from streamwire.stream_id import StreamId


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
