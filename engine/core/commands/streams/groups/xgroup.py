"""XGROUP: creating, moving and deleting consumer groups and their consumers."""

from __future__ import annotations

from collections.abc import Generator

from engine.core.commands.streams.groups.effects import record_position, see_consumer
from engine.core.commands.streams.lookups import GroupRef
from engine.core.environment.context import Context
from engine.core.formats.rdb import group_fields
from engine.core.protocol import ids, pace
from engine.core.protocol.args import Args, at_most
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.core.streams.group import UNKNOWN, Consumer, Group
from engine.core.streams.stream import Stream
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text import messages

xgroup_subcommand = container(
    "xgroup", "Commands that manage consumer groups.", group="stream", acl="stream", since="5.0.0", keys=SUB_KEY
)


def _need_key(ctx: Context, key: bytes) -> Stream:
    stream = ctx.db.stream(key)
    if stream is None:
        raise CommandError(messages.GROUP_NEEDS_KEY)
    return stream


def _need_group(ctx: Context, key: bytes, name: bytes) -> GroupRef:
    stream = _need_key(ctx, key)
    if name not in stream.groups:
        raise CommandError(messages.no_group_for_key(name, key))
    return GroupRef(key, stream, name, stream.group(name))


def _changed(ctx: Context, event: bytes, key: bytes) -> None:
    ctx.changes.dirty += 1
    ctx.changes.notify("t", event, key, ctx.db.index)


def _parse_entries_read(args: Args) -> int:
    read = args.take_int()
    if read < 0 and read != UNKNOWN:
        raise CommandError(messages.ENTRIES_READ_NEGATIVE)
    return read


@xgroup_subcommand(
    "create key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]", "write denyoom", access="RW insert"
)
def xgroup_create(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates a consumer group."""
    key, name, word = argv[2], argv[3], ids.special(argv[4])
    args = Args(argv, 5)
    mkstream, read = False, UNKNOWN
    while len(args):
        if args.flag(b"MKSTREAM"):
            mkstream = True
        elif args.option(b"ENTRIESREAD"):
            read = _parse_entries_read(args)
        else:
            raise CommandError(messages.subcommand_arguments(b"xgroup", argv[1]))
    stream = ctx.db.stream(key) if mkstream else _need_key(ctx, key)
    at_most(argv, 8)  # Like Redis, check only the number of words: MKSTREAM MKSTREAM is accepted.
    if word == b"$":
        last_id = stream.last_id if stream is not None else 0
    else:
        last_id = ids.parse(word)
    if stream is None:
        stream = ctx.streams.new()
        ctx.db.add(key, stream, changes=0)
    if name in stream.groups:
        raise CommandError(messages.GROUP_EXISTS)
    group = stream.groups[name] = Group(last_id, min(read, stream.entries_added))
    _changed(ctx, b"xgroup-create", key)
    ctx.effect(b"XGROUP", b"CREATE", key, name, ids.text(last_id), b"MKSTREAM", *group_fields.options(group))
    return OK


@xgroup_subcommand("setid key group <id | $> [ENTRIESREAD entries-read]", "write")
def xgroup_setid(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets the last-delivered ID of a consumer group."""
    key, name, word = argv[2], argv[3], ids.special(argv[4])
    args = Args(argv, 5)
    read = UNKNOWN
    while len(args):
        if not args.option(b"ENTRIESREAD"):
            raise CommandError(messages.subcommand_arguments(b"xgroup", argv[1]))
        read = _parse_entries_read(args)
    ref = _need_group(ctx, key, name)
    stream, group = ref.stream, ref.group
    if len(argv) not in (5, 7):
        raise CommandError(messages.subcommand_arguments(b"xgroup", argv[1]))
    group.last_id = stream.last_id if word == b"$" else ids.parse_bound(word)
    group.entries_read = min(read, stream.entries_added)
    _changed(ctx, b"xgroup-setid", key)
    record_position(ctx, ref)
    return OK


@xgroup_subcommand("destroy key group", "write", access="RW delete", complexity="O(N) with N pending entries.")
def xgroup_destroy(ctx: Context, argv: list[bytes]) -> Reply:
    """Destroys a consumer group."""
    key, name = argv[2], argv[3]
    stream = _need_key(ctx, key)
    if stream.groups.pop(name, None) is None:
        return 0
    # Its pending entries may be needed by no other group.
    stream.needed_until = 0
    _changed(ctx, b"xgroup-destroy", key)
    ctx.effect(*argv)
    ctx.db.signal(key, replaced=True)
    return 1


@xgroup_subcommand("createconsumer key group consumer", "write denyoom", access="RW insert", since="6.2.0")
def xgroup_createconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates a consumer in a consumer group."""
    ref = _need_group(ctx, argv[2], argv[3])
    if argv[4] in ref.group.consumers:
        return 0
    see_consumer(ctx, ref, argv[4])
    return 1


@xgroup_subcommand(
    "delconsumer key group consumer", "write", access="RW delete", complexity="O(N) with N pending entries."
)
def xgroup_delconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes a consumer, and returns the number of its pending entries."""
    key, name = argv[2], argv[3]
    group = _need_group(ctx, key, name).group
    consumer = group.consumers.get(argv[4])
    if consumer is None:
        return 0
    if len(group.pending) <= pace.MANY_PENDING or not group.pending_of(consumer):
        return _delete_consumer(ctx, argv, group, consumer)

    def work() -> Generator[None, None, Reply]:
        """Delete the consumer in steps: first acknowledge its entries in blocks with several owners.

        A block with one owner is deleted as a whole. That is fast, so the last step deletes all of these blocks and the
        consumer.
        """
        done, low = 0, 0
        while True:
            found, after = group.pending.in_uneven_blocks(consumer.number, low, pace.IDS)
            if found:
                done += group.acknowledge_many(found)
                ctx.changes.dirty += 1
                ctx.effect(b"XACK", key, name, *map(ids.text, found))
            if after is None:
                return done + _delete_consumer(ctx, argv, group, consumer)
            low = after
            yield

    return ctx.in_steps(argv, work())


def _delete_consumer(ctx: Context, argv: list[bytes], group: Group, consumer: Consumer) -> int:
    pending = group.delete_consumer(consumer)
    _changed(ctx, b"xgroup-delconsumer", argv[2])
    ctx.effect(*argv)
    return pending
