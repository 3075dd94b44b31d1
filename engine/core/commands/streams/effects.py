"""Changes to consumer groups that several commands make, each with the effect that it leaves for the log.

The log speaks Redis. A pending record is an XCLAIM that makes it as it is (FORCE, JUSTID), with the group's position as
LASTID; a position with its count of entries read is an XGROUP SETID. Running them in this order gives the same group.
"""

from __future__ import annotations

from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.streams.group import Consumer, Group
from engine.core.streams.runs import Run
from engine.core.streams.stream import Stream


def see_consumer(ctx: Context, key: bytes, group_name: bytes, group: Group, name: bytes) -> Consumer:
    """The consumer of that name, seen now; it is created if the group does not have it."""
    consumer, created = group.consumer(name, ctx.now)
    if created:
        ctx.changes.dirty += 1
        ctx.changes.notify("t", b"xgroup-createconsumer", key, ctx.db.index)
        ctx.effect(b"XGROUP", b"CREATECONSUMER", key, group_name, name)
    return consumer


def deliver(
    ctx: Context,
    key: bytes,
    stream: Stream,
    group_name: bytes,
    group: Group,
    consumer: Consumer,
    runs: list[Run],
    noack: bool,
) -> None:
    """Deliver new entries: the group's position moves behind them, and without ``noack`` they become pending.

    However many entries, it is one change, as in Redis.
    """
    group.deliver(stream, runs, consumer, ctx.now, noack)
    ctx.changes.dirty += 1
    if ctx.changes.recording:
        if not noack:
            for segment, first, last in runs:
                for index in range(first, last):
                    record_pending(ctx, key, group_name, group, segment.id_at(index))
        record_position(ctx, key, group_name, group)


def record_pending(ctx: Context, key: bytes, group_name: bytes, group: Group, entry_id: int) -> None:
    """Leave the effect of a delivery or a claim: the entry's pending record as it is now."""
    if not ctx.changes.recording:
        return
    record = group.pending.find(entry_id)
    assert record is not None
    block, index = record
    time, count = b"%d" % block.time_at(index), b"%d" % block.count_at(index)
    owner, entry, last = group.owner_name(record), ids.text(entry_id), ids.text(group.last_id)
    rules = (b"TIME", time, b"RETRYCOUNT", count, b"FORCE", b"JUSTID", b"LASTID", last)
    ctx.effect(b"XCLAIM", key, group_name, owner, b"0", entry, *rules)


def record_position(ctx: Context, key: bytes, group_name: bytes, group: Group) -> None:
    """Leave the effect of a moved position: the group's last-delivered ID and its count of entries read."""
    last, read = ids.text(group.last_id), b"%d" % group.entries_read
    ctx.effect(b"XGROUP", b"SETID", key, group_name, last, b"ENTRIESREAD", read)
