"""Idempotent production: XCFGSET limits the producer records of a stream, and XIDMPRECORD adds one."""

from __future__ import annotations

from engine.core.commands.families import stream_command
from engine.core.commands.streams.lookups import need_stream
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import Args
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.core.streams.idempotency import MOST_IDMP_IDS, MOST_IDMP_SECONDS
from engine.text import messages


@stream_command("xcfgset key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]", "write fast", since="8.6.0")
def xcfgset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets how many idempotent IDs a stream keeps per producer, and for how long."""
    producers = ctx.streams.producers_of(need_stream(ctx, argv[1]))
    args = Args(argv, 2)
    duration = maxsize = None
    while len(args):
        if args.option(b"IDMP-DURATION"):
            if duration is not None:
                raise CommandError(messages.IDMP_DURATION_TWICE)
            duration = args.take_int()
            if not 1 <= duration <= MOST_IDMP_SECONDS:
                raise CommandError(messages.IDMP_DURATION_RANGE)
        elif args.option(b"IDMP-MAXSIZE"):
            if maxsize is not None:
                raise CommandError(messages.IDMP_MAXSIZE_TWICE)
            maxsize = args.take_int()
            if not 1 <= maxsize <= MOST_IDMP_IDS:
                raise CommandError(messages.IDMP_MAXSIZE_RANGE)
        else:
            raise CommandError(messages.SYNTAX)
    if duration is None and maxsize is None:
        raise CommandError(messages.CFGSET_EMPTY)
    duration = producers.duration if duration is None else duration
    maxsize = producers.maxsize if maxsize is None else maxsize
    if producers.configure(duration, maxsize):
        ctx.changes.dirty += 1
        # Both limits, because the defaults of a replica may differ.
        ctx.effect(b"XCFGSET", argv[1], b"IDMP-DURATION", b"%d" % duration, b"IDMP-MAXSIZE", b"%d" % maxsize)
    return OK


@stream_command("xidmprecord key producer-id idempotent-id id", "write denyoom fast", since="8.6.2")
def xidmprecord(ctx: Context, argv: list[bytes]) -> Reply:
    """Records the idempotent ID of an entry; an internal command."""
    _, key, producer, iid, word = argv
    entry_id = ids.parse(word)
    if not producer:
        raise CommandError(messages.RECORD_NO_PRODUCER)
    if not iid:
        raise CommandError(messages.RECORD_NO_IID)
    stream = need_stream(ctx, key)
    # A replay accepts a missing entry, because the XADD of this record may already have trimmed the entry.
    if entry_id not in stream and not ctx.changes.replaying:
        raise CommandError(messages.RECORD_NO_ENTRY)
    producers = ctx.streams.producers_of(stream)
    known = producers.find(producer, iid)
    if known is not None and known != entry_id:
        raise CommandError(messages.RECORD_CONFLICT)
    if known is None:
        producers.remember(producer, iid, entry_id)
        ctx.changes.dirty += 1
        ctx.effect(*argv)
    return OK
