"""What XINFO STREAM says of a stream, and whether it is still the one that a batch was written to. Pure."""

from __future__ import annotations

from spark_streams.stream_id import ZERO, StreamId
from spark_streams.write.records.batch_record import BatchRecord


def is_gone(record: BatchRecord, info: object) -> bool:
    """Whether the stream that the record's batch was written to was deleted since, by the reply to XINFO STREAM."""
    added = entries_added(info)
    return -1 < added < record.added or (added == 0 and record.stage == "direct" and not isinstance(info, list))


def last_id(info: object) -> StreamId:
    """The stream's last ID, by the reply to XINFO STREAM; 0-0 without the stream."""
    return StreamId.parse(info[info.index(b"last-generated-id") + 1]) if isinstance(info, list) else ZERO


def entries_added(info: object) -> int:
    """How many entries were ever added, by the reply to XINFO STREAM: 0 without the stream, -1 if it is not known."""
    if isinstance(info, list):
        return int(info[info.index(b"entries-added") + 1]) if b"entries-added" in info else -1
    return 0 if "no such key" in str(info) else -1
