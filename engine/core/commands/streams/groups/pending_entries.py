"""Pending entries: acknowledging, releasing and listing them with XACK, XACKDEL, XNACK and XPENDING."""

from __future__ import annotations

from functools import partial

from engine.core.commands.families import stream_command
from engine.core.commands.streams.entries.removal import parse_policy_and_ids
from engine.core.commands.streams.groups.effects import IDS_AT_ONCE
from engine.core.commands.streams.lookups import group_if_there, need_group
from engine.core.commands.streams.many_ids import counted, listed
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import I64_MAX, Args
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Reply, rows_in_pages
from engine.core.streams.group import Group
from engine.core.streams.pending import NOBODY, Block
from engine.core.streams.trimming import ACKED, DELREF, Work, drop_references, unneeded
from engine.text import messages


@stream_command("xack key group id [id ...]", "write fast", complexity="O(1) for each ID.")
def xack(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledges entries: removes them from a group's pending entries list."""
    stream = ctx.db.read_stream(argv[1])
    if stream is None or argv[2] not in stream.groups:
        return 0
    group = stream.group(argv[2])
    if len(argv) > pace.MANY_IDS:
        return counted(ctx, argv, argv[3:], partial(_acknowledge, ctx, argv[1], argv[2]))
    done = group.acknowledge_many(ids.parse_many(argv[3:]))
    if done:
        ctx.changes.dirty += done
        ctx.effect(*argv)
    return done


def _acknowledge(ctx: Context, key: bytes, name: bytes, entry_ids: list[int], words: list[bytes]) -> int:
    group = group_if_there(ctx, key, name)
    done = group.acknowledge_many(entry_ids) if group is not None else 0
    if done:
        ctx.changes.dirty += done
        ctx.effect(b"XACK", key, name, *words)
    return done


@stream_command(
    "xackdel key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
    "write fast",
    access="RW update delete",
    since="8.2.0",
    complexity="O(1) for each ID.",
)
def xackdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledges entries and deletes them from the stream.

    The reply has one number per ID: 1 if the entry was acknowledged and deleted, -1 if it was not pending, 2 if it was
    acknowledged but kept because another group needs it.
    """
    key = argv[1]
    stream = ctx.db.stream(key)
    policy, words = parse_policy_and_ids(Args(argv, 3))
    group = stream.groups.get(argv[2]) if stream is not None else None
    if stream is None or group is None:
        return [-1] * len(words)
    part = partial(_acknowledge_and_delete, ctx, key, argv[2], policy)
    return listed(ctx, argv, words, part, len(stream.groups) if policy else 0)


def _acknowledge_and_delete(
    ctx: Context, key: bytes, name: bytes, policy: bytes, entry_ids: list[int], words: list[bytes]
) -> Work[list[Reply]]:
    stream, group = ctx.db.stream(key), group_if_there(ctx, key, name)
    if stream is None or group is None:
        return [-1] * len(words)
    stream.load_segments(entry_ids)
    pending = [entry_id for entry_id in dict.fromkeys(entry_ids) if group.acknowledge(entry_id)]
    done, acknowledged, ascending = len(pending), set(pending), sorted(pending)
    free = set(pending)
    if policy == ACKED:
        free = set((yield from unneeded(stream, ascending)))
    elif policy == DELREF:
        yield from drop_references(stream, ascending)
    results: list[Reply] = []
    deleted = 0
    for entry_id in entry_ids:
        if entry_id not in acknowledged:
            results.append(-1)
            continue
        acknowledged.discard(entry_id)
        if entry_id not in free:
            results.append(2)
            continue
        deleted += stream.delete(entry_id)
        results.append(1)
    if deleted:
        ctx.db.touch(key, changes=0)
        ctx.changes.notify("t", b"xdel", key, ctx.db.index)
    if done:
        ctx.changes.dirty += done
        ctx.effect(b"XACKDEL", key, name, *filter(None, [policy]), b"IDS", b"%d" % len(words), *words)
    return results


@stream_command(
    "xnack key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
    "write fast",
    since="8.8.0",
    complexity="O(1) for each ID.",
)
def xnack(ctx: Context, argv: list[bytes]) -> Reply:
    """Releases pending entries: they no longer have an owner, and XREADGROUP with CLAIM delivers them first."""
    key, group_name, mode = argv[1], argv[2], argv[3].upper()
    need_group(ctx, key, group_name)
    if mode not in (b"SILENT", b"FAIL", b"FATAL"):
        raise CommandError(messages.NACK_MODE)
    args = Args(argv, 4)
    if not args.flag(b"IDS"):
        raise CommandError(messages.NACK_IDS_EXPECTED)
    numids = args.take_int(messages.NACK_NUMIDS)
    if numids <= 0:
        raise CommandError(messages.NACK_NUMIDS)
    if numids > len(args):
        raise CommandError(messages.NACK_NUMIDS_MISMATCH)
    words = [args.take() for _ in range(numids)]
    retry_count, force = None, False
    while len(args):
        if args.option(b"RETRYCOUNT"):
            retry_count = args.take_int(messages.NACK_RETRYCOUNT)
            if retry_count < 0:
                raise CommandError(messages.NACK_RETRYCOUNT)
        elif args.flag(b"FORCE"):
            force = True
        else:
            raise CommandError(messages.unrecognized_nack_option(argv[args.pos]))
    part = partial(_give_back, ctx, key, group_name, mode, retry_count, force)
    return counted(ctx, argv, words, part)


def _give_back(
    ctx: Context,
    key: bytes,
    group_name: bytes,
    mode: bytes,
    retry_count: int | None,
    force: bool,
    entry_ids: list[int],
    _words: list[bytes],
) -> int:
    stream, group = ctx.db.stream(key), group_if_there(ctx, key, group_name)
    if stream is None or group is None:
        return 0
    nacked = 0
    #: IDs of the next command for the log; consecutive IDs with the same count share a command.
    effect: list[bytes] = []
    effect_count = -1

    def record_effect() -> None:
        if effect:
            count = b"%d" % effect_count
            head = (b"XNACK", key, group_name, b"FAIL", b"IDS", b"%d" % len(effect))
            ctx.effect(*head, *effect, b"RETRYCOUNT", count, b"FORCE")
            effect.clear()

    for entry_id in entry_ids:
        record = group.pending.find(entry_id)
        if record is None and not (force and entry_id in stream):
            continue
        count = record[0].count_at(record[1]) if record is not None else 0
        if retry_count is not None:
            count = retry_count
        elif mode == b"SILENT":
            count = max(count - 1, 0)
        elif mode == b"FATAL":
            count = I64_MAX
        group.give_back(entry_id, record, count)
        nacked += 1
        if count != effect_count or len(effect) >= IDS_AT_ONCE:
            record_effect()
            effect_count = count
        effect.append(ids.text(entry_id))
    record_effect()
    if nacked:
        ctx.changes.dirty += nacked
        ctx.db.signal(key)
    return nacked


@stream_command(
    "xpending key group [[IDLE min-idle-time] start end count [consumer]]",
    "readonly",
    complexity="O(N) with N entries returned; with IDLE or a consumer, N is the number of entries scanned.",
)
def xpending(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a summary of a group's pending entries, or the entries themselves."""
    words = len(argv)
    if words != 3 and not 6 <= words <= 9:
        raise CommandError(messages.SYNTAX)
    if words == 3:
        group = need_group(ctx, argv[1], argv[2]).group
        return _summary(group)
    args = Args(argv, 3)
    min_idle = 0
    if args.flag(b"IDLE"):
        min_idle = args.take_int()
        if words < 8:
            raise CommandError(messages.SYNTAX)
    start, end = args.take(), args.take()
    count = max(args.take_int(), 0)
    low, high = ids.parse_low(start), ids.parse_high(end)
    group = need_group(ctx, argv[1], argv[2]).group
    consumer = None
    if len(args):
        consumer = group.consumers.get(args.take())
        if consumer is None:
            return []
    return _listing(ctx, group, low, high, count, consumer.number if consumer else None, min_idle)


def _summary(group: Group) -> Reply:
    pending = group.pending
    if not len(pending):
        return [0, None, None, NIL_ARRAY]
    names = group.by_number
    owners = sorted((names[owner].name, count) for owner, count in pending.per_owner.items() if owner != NOBODY)
    consumers = [[name, b"%d" % count] for name, count in owners]
    return [len(pending), ids.text(pending.first_id), ids.text(pending.last_id), consumers]


def _listing(ctx: Context, group: Group, low: int, high: int, count: int, owner: int | None, min_idle: int) -> Reply:
    listed: list[Reply] = []
    if not count:
        return listed
    before = ctx.now - min_idle if min_idle > 0 else None
    if count > pace.MANY_ROWS and len(group.pending) > pace.MANY_ROWS:
        return _long_listing(ctx.now, group, low, high, count, owner, before)
    for record in group.pending.records(low, high, owner, before):
        block, index = record
        idle = -1 if block.owner_at(index) == NOBODY else max(ctx.now - block.time_at(index), 0)
        listed.append([ids.text(block.id_at(index)), group.owner_name(record), idle, block.count_at(index)])
        if len(listed) == count:
            break
    return listed


def _long_listing(
    now: int, group: Group, low: int, high: int, count: int, owner: int | None, before: int | None
) -> Reply:
    """List the entries in pages. Later changes do not affect the pages."""
    every = owner is None and before is None
    blocks = group.pending.snapshot(low, high, count if every else len(group.pending))
    size = sum(len(block) if every else block.count_matching(owner, before) for block in blocks)
    consumers = group.by_number.copy()

    def row(block: Block, index: int) -> Reply:
        number, idle = block.owner_at(index), -1
        name = consumers[number].name if number != NOBODY else b""
        if number != NOBODY:
            idle = max(now - block.time_at(index), 0)
        return [ids.text(block.id_at(index)), name, idle, block.count_at(index)]

    records = ((block, index) for block in blocks for index in block.matching(owner, before))
    return rows_in_pages(min(size, count), records, row)
