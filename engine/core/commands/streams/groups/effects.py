"""Functions that change consumer groups and record the effects for the log, shared by several commands.

The log consists of Redis commands. Pending records are logged as XCLAIMs that recreate them (FORCE, JUSTID), with the
group's position as LASTID. A position with its count of entries read is logged as an XGROUP SETID. Replaying these
commands in order recreates the group. Consecutive records with the same delivery time and count share an XCLAIM.
"""

from __future__ import annotations

from array import array

from engine.core.commands.streams.lookups import GroupRef
from engine.core.environment.context import Context
from engine.core.formats.rdb import group_fields
from engine.core.protocol import ids
from engine.core.streams.entries import IdColumns
from engine.core.streams.group import Consumer

#: Maximum number of IDs in one command of the log.
IDS_AT_ONCE = 1000


def see_consumer(ctx: Context, ref: GroupRef, name: bytes) -> Consumer:
    """Return the consumer of this name, marked as seen now and created if missing."""
    consumer, created = ref.group.consumer(name, ctx.now)
    if created:
        ctx.changes.dirty += 1
        ctx.changes.notify("t", b"xgroup-createconsumer", ref.key, ctx.db.index)
        ctx.effect(b"XGROUP", b"CREATECONSUMER", ref.key, ref.name, name)
    return consumer


def deliver(ctx: Context, ref: GroupRef, consumer: Consumer, new: tuple[array[int], array[int]], noack: bool) -> None:
    """Deliver new entries: advance the group's position and, unless ``noack``, make them pending.

    A delivery counts as one change regardless of the number of entries, as in Redis.
    """
    ref.group.deliver(ref.stream, new, consumer, ctx.now, noack)
    ctx.changes.dirty += 1
    if ctx.changes.recording:
        if not noack:
            record_new(ctx, ref, consumer.name, new, ctx.now)
        record_position(ctx, ref)


def record_new(ctx: Context, ref: GroupRef, consumer: bytes, delivered: IdColumns, time: int) -> None:
    """Record the first delivery of new entries with these IDs at ``time`` (milliseconds)."""
    words = [b"%d-%d" % entry_id for entry_id in zip(*delivered, strict=True)]
    for at in range(0, len(words), IDS_AT_ONCE):
        _record(ctx, ref, consumer, words[at : at + IDS_AT_ONCE], time, 1)


class ClaimEffects:
    """Deliveries of one command to one consumer, collected until ``flush`` records them."""

    __slots__ = ("_consumer", "_count", "_ctx", "_ref", "_time", "_words")

    def __init__(self, ctx: Context, ref: GroupRef, consumer: bytes) -> None:
        self._ctx, self._ref, self._consumer = ctx, ref, consumer
        self._words: list[bytes] = []
        self._time = self._count = 0

    def add(self, entry_id: int, time: int, count: int) -> None:
        """Add an entry delivered to the consumer at ``time`` (milliseconds) for the ``count``-th time."""
        if not self._ctx.changes.recording:
            return
        if time != self._time or count != self._count or len(self._words) >= IDS_AT_ONCE:
            self.flush()
            self._time, self._count = time, count
        self._words.append(ids.text(entry_id))

    def flush(self) -> None:
        """Record the collected deliveries."""
        if self._words:
            _record(self._ctx, self._ref, self._consumer, self._words, self._time, self._count)
            self._words = []


def _record(ctx: Context, ref: GroupRef, consumer: bytes, words: list[bytes], time: int, count: int) -> None:
    options = [b"TIME", b"%d" % time, b"RETRYCOUNT", b"%d" % count, b"FORCE", b"JUSTID"]
    last = ids.text(ref.group.last_id)
    ctx.effect(b"XCLAIM", ref.key, ref.name, consumer, b"0", *words, *options, b"LASTID", last)


def record_position(ctx: Context, ref: GroupRef) -> None:
    """Record a new position as an XGROUP SETID with the last-delivered ID and the options that recreate the group."""
    last = ids.text(ref.group.last_id)
    ctx.effect(b"XGROUP", b"SETID", ref.key, ref.name, last, *group_fields.options(ref.group))
