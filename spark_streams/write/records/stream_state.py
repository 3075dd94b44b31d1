"""What XINFO STREAM says of a stream, and whether it is still the one that a batch was written to.

A stream that is deleted takes its entries along, but not the records beside it. If another one is made with its name,
the records must not count for it. A stream counts the entries that were ever added: so it is known how many XTRIM and
XDEL have removed, and a stream that lacks entries is told from one that was made anew. In doubt it is the same stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_streams.write.records.batch_record import BatchRecord
from streamclient.connection import Command, Connection
from streamclient.refusals import refused
from streamclient.retry import Refusal, is_forbidden, refusal_of
from streamclient.wire_errors import ResponseError
from streamwire.stream_id import ZERO, StreamId


@dataclass(frozen=True)
class StreamState:
    """A stream at one moment.

    `added`: entries ever added; 0 without the stream, -1 if it is not known (servers before Redis 7). `first` and
    `last`: the first entry's ID, and the last ID ever given.
    """

    added: int = -1
    length: int = 0
    first: StreamId = ZERO
    last: StreamId = ZERO

    @classmethod
    def parse(cls, connection: Connection, info: object) -> StreamState:
        """From the reply to XINFO STREAM. Raises SERVER_REFUSED and NOT_PERMITTED; a key of another type is unknown."""
        if not isinstance(info, list):
            if refusal_of(info) is not Refusal.ROW:
                raise refused(connection.address, "XINFO", info)
            return cls(added=0 if "no such key" in str(info) else -1)
        found = dict(zip(info[::2], info[1::2], strict=True))
        first = found.get(b"first-entry")
        return cls(
            int(found.get(b"entries-added", -1)),
            int(found[b"length"]),
            StreamId.parse(first[0]) if first else ZERO,
            StreamId.parse(found[b"last-generated-id"]),
        )


def is_gone(record: BatchRecord, state: StreamState, rows: int = 0, has_last: bool = True) -> bool:
    """Whether the stream that the record's batch was written to was deleted since.

    `rows`: those that fences count. `has_last`: whether the stream has the entry that was its last one when the record
    was written.
    """
    written = rows if record.stage == "direct" and not record.is_committed else 0
    if -1 < state.added < record.added + written:
        return True
    if state.added == 0:
        return record.stage == "direct"
    last = _mark(record, state)
    if last is None:
        return False
    if state.last < last:
        return True
    removed = state.added - state.length
    if not state.length or last < state.first:  # if it is the same stream, the first `added` entries have been removed
        return removed < record.added
    return not has_last and not removed


def _mark(record: BatchRecord, state: StreamState) -> StreamId | None:
    """The stream's last ID when it had had `record.added` entries. None if that is not known, or there were none."""
    if record.added <= 0 or state.added < 0 or not record.last:
        return None
    return StreamId.parse(record.last)


def gone_streams(
    connection: Connection, seen: Mapping[bytes, tuple[BatchRecord, StreamState, int]], attempt: str
) -> set[bytes]:
    """Those of these streams that are gone: by record, state and the rows that fences count.

    The entry that was the last one is asked for where another attempt has written the record. Where the user may not
    ask, it counts as there. Raises SERVER_REFUSED.
    """
    wanted: list[bytes] = []
    commands: list[Command] = []
    for stream, (record, state, _) in seen.items():
        last = _mark(record, state)
        if record.attempt != attempt and last is not None and state.length and state.first <= last <= state.last:
            wanted.append(stream)
            commands.append(("XRANGE", stream, str(last), str(last)))
    replies = connection.pipeline(commands) if commands else []
    for reply in replies:
        if isinstance(reply, ResponseError) and not is_forbidden(reply):
            raise refused(connection.address, "XRANGE", reply)
    has_last = dict(zip(wanted, map(bool, replies), strict=True))  # an error counts as there
    return {
        stream
        for stream, (record, state, rows) in seen.items()
        if is_gone(record, state, rows, has_last.get(stream, True))
    }
