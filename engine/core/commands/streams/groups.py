"""Consumer groups: XGROUP, and what is done with pending entries: XACK XACKDEL XNACK XPENDING."""

from __future__ import annotations

from engine.core.commands.families import stream_command
from engine.core.commands.streams.claims import need_group, touch_consumer
from engine.core.commands.streams.entries import take_policy_and_ids
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import I64_MAX, Args
from engine.core.protocol.replies import NIL_ARRAY, OK, CommandError, Reply
from engine.core.streams.group import Group
from engine.core.streams.pending import NOBODY
from engine.core.streams.position import UNKNOWN
from engine.core.streams.stream import Stream
from engine.core.streams.trimming import ACKED, DELREF, drop_references, referenced
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text.messages import general, streams

xgroup_subcommand = container(
    "xgroup", "Commands that manage consumer groups.", group="stream", acl="stream", since="5.0.0", keys=SUB_KEY
)


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


@xgroup_subcommand(
    "create key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]", "write denyoom", access="RW insert"
)
def xgroup_create(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates a consumer group."""
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
        ctx.db.add(key, stream, changes=0)
    if name in stream.groups:
        raise CommandError(streams.GROUP_EXISTS)
    read = min(read, stream.entries_added)
    stream.groups[name] = Group(last_id, read)
    effect = [b"XGROUP", b"CREATE", key, name, ids.text(last_id), b"MKSTREAM", b"ENTRIESREAD", b"%d" % read]
    _changed(ctx, b"xgroup-create", key, effect)
    return OK


@xgroup_subcommand("setid key group <id | $> [ENTRIESREAD entries-read]", "write")
def xgroup_setid(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets the last-delivered ID of a consumer group."""
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


@xgroup_subcommand("destroy key group", "write", access="RW delete", complexity="O(N) with N pending entries.")
def xgroup_destroy(ctx: Context, argv: list[bytes]) -> Reply:
    """Destroys a consumer group."""
    key, name = argv[2], argv[3]
    stream = _need_key(ctx, key)
    if stream.groups.pop(name, None) is None:
        return 0
    _changed(ctx, b"xgroup-destroy", key, argv)
    ctx.db.signal(key)
    return 1


@xgroup_subcommand("createconsumer key group consumer", "write denyoom", access="RW insert", since="6.2.0")
def xgroup_createconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates a consumer in a consumer group."""
    _, group = _need_group(ctx, argv[2], argv[3])
    if argv[4] in group.consumers:
        return 0
    touch_consumer(ctx, argv[2], argv[3], group, argv[4])
    return 1


@xgroup_subcommand("delconsumer key group consumer", "write", access="RW delete")
def xgroup_delconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes a consumer, and returns how many entries were pending with it."""
    _, group = _need_group(ctx, argv[2], argv[3])
    consumer = group.consumers.get(argv[4])
    if consumer is None:
        return 0
    pending = group.delete_consumer(consumer)
    _changed(ctx, b"xgroup-delconsumer", argv[2], argv)
    return pending


# -- acknowledging
# ------------------------------------------------------------------------------------------------------


@stream_command("xack key group id [id ...]", "write fast", complexity="O(1) for each ID.")
def xack(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledges entries: removes them from a group's pending entries list."""
    stream = ctx.db.read_stream(argv[1])
    group = stream.groups.get(argv[2]) if stream is not None else None
    if group is None:
        return 0
    done = group.acknowledge_many(ids.parse_many(argv[3:]))
    if done:
        ctx.changes.dirty += done
        ctx.effect(*argv)
    return done


@stream_command(
    "xackdel key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
    "write fast",
    access="RW delete",
    since="8.2.0",
    complexity="O(1) for each ID.",
)
def xackdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledges entries and deletes them from the stream.

    The reply has for each ID: 1 done, -1 not pending, 2 acknowledged but kept for other groups.
    """
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
        ctx.db.touch(key, changes=0)
        ctx.changes.notify("t", b"xdel", key, ctx.db.index)
    if done:
        ctx.changes.dirty += done
        ctx.effect(*argv)
    return results


@stream_command(
    "xnack key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
    "write fast",
    since="8.8.0",
    complexity="O(1) for each ID.",
)
def xnack(ctx: Context, argv: list[bytes]) -> Reply:
    """Gives pending entries back: they belong to no consumer, and the next claim gets them first."""
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


@stream_command(
    "xpending key group [[IDLE min-idle-time] start end count [consumer]]",
    "readonly",
    complexity="O(N) with N entries returned; with IDLE, with N entries looked at.",
)
def xpending(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns a summary of a group's pending entries, or the entries one by one."""
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
