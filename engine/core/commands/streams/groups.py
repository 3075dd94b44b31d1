"""Consumer groups: XGROUP, and what is done with pending entries: XACK XACKDEL XNACK XPENDING."""

from __future__ import annotations

from engine.core.commands.streams.claims import need_group, touch_consumer
from engine.core.commands.streams.entries import take_policy_and_ids
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import I64_MAX, Args
from engine.core.protocol.replies import NIL_ARRAY, OK, CommandError, Reply, Simple
from engine.core.streams.group import Group
from engine.core.streams.pending import NOBODY
from engine.core.streams.position import UNKNOWN
from engine.core.streams.stream import Stream
from engine.core.streams.trimming import ACKED, DELREF, drop_references, referenced
from engine.core.table.registry import ONE_KEY, SUB_KEY, command, container
from engine.text.messages import general, streams

container("xgroup", group="stream", since="5.0.0", summary="Commands that manage consumer groups.")


def _need_key(ctx: Context, key: bytes) -> Stream:
    stream = ctx.db.stream(key)
    if stream is None:
        raise CommandError(streams.GROUP_NEEDS_KEY)
    return stream


def _need_group(ctx: Context, key: bytes, name: bytes) -> tuple[Stream, Group]:
    stream = _need_key(ctx, key)
    group = stream.groups.get(name)
    if group is None:
        raise CommandError(streams.no_group_for_key(name, key))
    return stream, group


def _changed(ctx: Context, event: bytes, key: bytes, effect: list[bytes]) -> None:
    ctx.changes.dirty += 1
    ctx.changes.notify("t", event, key, ctx.db.index)
    ctx.effect(*effect)


def _take_entries_read(args: Args) -> int:
    read = args.take_int()
    if read < 0 and read != UNKNOWN:
        raise CommandError(streams.ENTRIES_READ_NEGATIVE)
    return read


@command(
    "xgroup|create",
    arity=-5,
    flags="write denyoom",
    keys=SUB_KEY,
    access="RW insert",
    group="stream",
    since="5.0.0",
    acl="stream",
    summary="Creates a consumer group.",
    syntax="key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
)
def xgroup_create(ctx: Context, argv: list[bytes]) -> Reply:
    """Create a group that begins behind an ID."""
    key, name, word = argv[2], argv[3], argv[4]
    args = Args(argv, 5)
    mkstream, read = False, UNKNOWN
    while len(args):
        if args.flag(b"MKSTREAM"):
            mkstream = True
        elif args.option(b"ENTRIESREAD"):
            read = _take_entries_read(args)
        else:
            raise CommandError(general.subcommand_arguments(b"xgroup", argv[1]))
    stream = ctx.db.stream(key) if mkstream else _need_key(ctx, key)
    if len(argv) > 8:  # an option given twice
        raise CommandError(general.subcommand_arguments(b"xgroup", argv[1]))
    if word == b"$":
        last_id = stream.last_id if stream is not None else 0
    else:
        last_id = ids.parse(word)
    if stream is None:
        stream = ctx.streams.new()
        ctx.db.add(key, stream)
    if name in stream.groups:
        raise CommandError(streams.GROUP_EXISTS)
    read = min(read, stream.entries_added)
    stream.groups[name] = Group(last_id, read)
    effect = [b"XGROUP", b"CREATE", key, name, ids.text(last_id), b"MKSTREAM", b"ENTRIESREAD", b"%d" % read]
    _changed(ctx, b"xgroup-create", key, effect)
    return OK


@command(
    "xgroup|setid",
    arity=-5,
    flags="write",
    keys=SUB_KEY,
    group="stream",
    since="5.0.0",
    acl="stream",
    summary="Sets the last-delivered ID of a consumer group.",
    syntax="key group <id | $> [ENTRIESREAD entries-read]",
)
def xgroup_setid(ctx: Context, argv: list[bytes]) -> Reply:
    """Move a group's position, forward or back."""
    key, name, word = argv[2], argv[3], argv[4]
    args = Args(argv, 5)
    read = UNKNOWN
    while len(args):
        if not args.option(b"ENTRIESREAD"):
            raise CommandError(general.subcommand_arguments(b"xgroup", argv[1]))
        read = _take_entries_read(args)
    stream, group = _need_group(ctx, key, name)
    if len(argv) not in (5, 7):
        raise CommandError(general.subcommand_arguments(b"xgroup", argv[1]))
    group.last_id = stream.last_id if word == b"$" else ids.parse_bound(word)
    group.entries_read = min(read, stream.entries_added)
    effect = [b"XGROUP", b"SETID", key, name, ids.text(group.last_id), b"ENTRIESREAD", b"%d" % group.entries_read]
    _changed(ctx, b"xgroup-setid", key, effect)
    return OK


@command(
    "xgroup|destroy",
    arity=4,
    flags="write",
    keys=SUB_KEY,
    access="RW delete",
    group="stream",
    since="5.0.0",
    acl="stream",
    summary="Destroys a consumer group.",
    complexity="O(N) with N pending entries.",
    syntax="key group",
)
def xgroup_destroy(ctx: Context, argv: list[bytes]) -> Reply:
    """The group goes; whether it was there."""
    key, name = argv[2], argv[3]
    stream = _need_key(ctx, key)
    if stream.groups.pop(name, None) is None:
        return 0
    _changed(ctx, b"xgroup-destroy", key, argv)
    ctx.db.signal(key)
    return 1


@command(
    "xgroup|createconsumer",
    arity=5,
    flags="write denyoom",
    keys=SUB_KEY,
    access="RW insert",
    group="stream",
    since="6.2.0",
    acl="stream",
    summary="Creates a consumer in a consumer group.",
    syntax="key group consumer",
)
def xgroup_createconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """Create a consumer; whether it was not there."""
    _, group = _need_group(ctx, argv[2], argv[3])
    if argv[4] in group.consumers:
        return 0
    touch_consumer(ctx, argv[2], argv[3], group, argv[4])
    return 1


@command(
    "xgroup|delconsumer",
    arity=5,
    flags="write",
    keys=SUB_KEY,
    access="RW delete",
    group="stream",
    since="5.0.0",
    acl="stream",
    summary="Deletes a consumer of a consumer group, and what is pending with it.",
    syntax="key group consumer",
)
def xgroup_delconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """The consumer goes; how many entries were pending with it."""
    _, group = _need_group(ctx, argv[2], argv[3])
    consumer = group.consumers.get(argv[4])
    if consumer is None:
        return 0
    pending = group.delete_consumer(consumer)
    _changed(ctx, b"xgroup-delconsumer", argv[2], argv)
    return pending


@command(
    "xgroup|help",
    arity=2,
    flags="loading stale",
    group="stream",
    since="5.0.0",
    acl="stream",
    summary="Shows what the subcommands of XGROUP do.",
)
def xgroup_help(ctx: Context, argv: list[bytes]) -> Reply:
    """The help text."""
    return [Simple(line) for line in streams.XGROUP_HELP]


# -- acknowledging
# ------------------------------------------------------------------------------------------------------


@command(
    "xack",
    arity=-4,
    flags="write fast",
    keys=ONE_KEY,
    group="stream",
    since="5.0.0",
    acl="stream",
    summary="Acknowledges entries: they are pending in the group no longer.",
    complexity="O(1) for each ID.",
    syntax="key group id [id ...]",
)
def xack(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledge entries; how many were pending."""
    stream = ctx.db.read_stream(argv[1])
    group = stream.groups.get(argv[2]) if stream is not None else None
    if group is None:
        return 0
    done = group.acknowledge_many(ids.parse_many(argv[3:]))
    if done:
        ctx.changes.dirty += done
        ctx.effect(*argv)
    return done


@command(
    "xackdel",
    arity=-6,
    flags="write fast",
    keys=ONE_KEY,
    access="RW delete",
    group="stream",
    since="8.2.0",
    acl="stream",
    summary="Acknowledges entries and deletes them from the stream.",
    complexity="O(1) for each ID.",
    syntax="key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
)
def xackdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledge and delete entries: 1 done, -1 not pending, 2 acknowledged but kept for other groups, each."""
    key = argv[1]
    stream = ctx.db.stream(key)
    policy, words = take_policy_and_ids(Args(argv, 3))
    group = stream.groups.get(argv[2]) if stream is not None else None
    if stream is None or group is None:
        return [-1] * len(words)
    results, done, deleted = [], 0, 0
    for entry_id in [ids.parse(word) for word in words]:
        if not group.acknowledge(entry_id):
            results.append(-1)
            continue
        done += 1
        if policy == ACKED and referenced(stream, entry_id):
            results.append(2)
            continue
        if policy == DELREF:
            drop_references(stream, entry_id)
        deleted += stream.delete(entry_id)
        results.append(1)
    if deleted:
        ctx.db.touch(key)
        ctx.changes.notify("t", b"xdel", key, ctx.db.index)
    if done:
        ctx.changes.dirty += done - bool(deleted)
        ctx.effect(*argv)
    return results


@command(
    "xnack",
    arity=-7,
    flags="write fast",
    keys=ONE_KEY,
    group="stream",
    since="8.8.0",
    acl="stream",
    summary="Gives pending entries back: no consumer has them, and the next claim gets them first.",
    complexity="O(1) for each ID.",
    syntax="key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
)
def xnack(ctx: Context, argv: list[bytes]) -> Reply:
    """Give pending entries back; how many."""
    key, group_name, mode = argv[1], argv[2], argv[3].upper()
    stream, group = need_group(ctx, key, group_name)
    if mode not in (b"SILENT", b"FAIL", b"FATAL"):
        raise CommandError(streams.NACK_MODE)
    args = Args(argv, 4)
    if not args.flag(b"IDS"):
        raise CommandError(streams.NACK_IDS_EXPECTED)
    numids = args.take_int(streams.NACK_NUMIDS)
    if numids <= 0:
        raise CommandError(streams.NACK_NUMIDS)
    if numids > len(args):
        raise CommandError(streams.NACK_NUMIDS_MISMATCH)
    words = [args.take() for _ in range(numids)]
    retry_count, force = None, False
    while len(args):
        if args.option(b"RETRYCOUNT"):
            retry_count = args.take_int(streams.NACK_RETRYCOUNT)
            if retry_count < 0:
                raise CommandError(streams.NACK_RETRYCOUNT)
        elif args.flag(b"FORCE"):
            force = True
        else:
            raise CommandError(streams.unrecognized_nack_option(argv[args.pos]))
    nacked = 0
    for entry_id in [ids.parse(word) for word in words]:
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
        group.give_back(entry_id, count)
        nacked += 1
        effect = [b"IDS", b"1", ids.text(entry_id), b"RETRYCOUNT", b"%d" % count, b"FORCE"]
        ctx.effect(b"XNACK", key, group_name, b"FAIL", *effect)
    if nacked:
        ctx.changes.dirty += nacked
        ctx.db.signal(key)
    return nacked


# -- XPENDING
# -----------------------------------------------------------------------------------------------------------


@command(
    "xpending",
    arity=-3,
    flags="readonly",
    keys=ONE_KEY,
    group="stream",
    since="5.0.0",
    acl="stream",
    summary="Returns what is pending in a consumer group: a summary, or entry by entry.",
    complexity="O(N) with N entries returned; with IDLE, with N entries looked at.",
    syntax="key group [[IDLE min-idle-time] start end count [consumer]]",
)
def xpending(ctx: Context, argv: list[bytes]) -> Reply:
    """The pending entries list."""
    words = len(argv)
    if words != 3 and not 6 <= words <= 9:
        raise CommandError(general.SYNTAX)
    if words == 3:
        _, group = need_group(ctx, argv[1], argv[2])
        return _summary(group)
    args = Args(argv, 3)
    min_idle = 0
    if args.flag(b"IDLE"):
        min_idle = args.take_int()
        if words < 8:
            raise CommandError(general.SYNTAX)
    start, end = args.take(), args.take()
    count = max(args.take_int(), 0)
    low, high = ids.parse_low(start), ids.parse_high(end)
    _, group = need_group(ctx, argv[1], argv[2])
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
    consumers = [
        [consumer.name, b"%d" % group.pending_of(consumer)]
        for consumer in group.sorted_consumers()
        if group.pending_of(consumer)
    ]
    return [len(pending), ids.text(pending.first_id), ids.text(pending.last_id), consumers]


def _listing(
    ctx: Context, group: Group, low: int, high: int, count: int, owner: int | None, min_idle: int
) -> list[Reply]:
    listed: list[Reply] = []
    if not count:
        return listed
    before = ctx.now - min_idle if min_idle > 0 else None
    for record in group.pending.records(low, high, owner, before):
        block, index = record
        idle = -1 if block.owner_at(index) == NOBODY else max(ctx.now - block.time_at(index), 0)
        listed.append([ids.text(block.id_at(index)), group.owner_name(record), idle, block.count_at(index)])
        if len(listed) == count:
            break
    return listed
