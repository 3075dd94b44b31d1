"""XINFO: what there is to know about a stream, its groups and their consumers."""

from __future__ import annotations

from engine.core.commands.streams.lookups import need_stream
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Map, Raw, Reply
from engine.core.streams.group import Consumer, Group
from engine.core.streams.pending import Record
from engine.core.streams.position import UNKNOWN
from engine.core.streams.stream import Stream
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text.messages import general, streams

xinfo_subcommand = container(
    "xinfo",
    "Commands that inspect streams and consumer groups.",
    group="stream",
    acl="stream",
    since="5.0.0",
    flags="readonly",
    keys=SUB_KEY,
)

_FULL_COUNT = 10


def _head(ctx: Context, stream: Stream) -> dict[bytes, Reply]:
    """The fields that both forms of XINFO STREAM begin with."""
    nodes, radix_nodes = stream.count_nodes()
    config, producers = ctx.config, stream.producers
    return {
        b"length": stream.length,
        b"radix-tree-keys": nodes,
        b"radix-tree-nodes": radix_nodes,
        b"last-generated-id": ids.text(stream.last_id),
        b"max-deleted-entry-id": ids.text(stream.max_deleted_id),
        b"entries-added": stream.entries_added,
        b"recorded-first-entry-id": ids.text(stream.first_id),
        b"idmp-duration": producers.duration if producers else config.integer("stream-idmp-duration"),
        b"idmp-maxsize": producers.maxsize if producers else config.integer("stream-idmp-maxsize"),
        b"pids-tracked": len(producers.by_producer) if producers else 0,
        b"iids-tracked": producers.tracked() if producers else 0,
        b"iids-added": producers.added if producers else 0,
        b"iids-duplicates": producers.duplicates if producers else 0,
    }


def _entry(stream: Stream, entry_id: int) -> Reply:
    entry = stream.frame(entry_id) if stream.length else None
    return Raw(entry) if entry is not None else None


def _read(group: Group) -> Reply:
    return None if group.entries_read == UNKNOWN else group.entries_read


@xinfo_subcommand("stream key [FULL [COUNT count]]", complexity="O(1); FULL: O(N) with N entries reported.")
def xinfo_stream(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns information about a stream."""
    stream = need_stream(ctx, argv[2], reading=True)
    if len(argv) == 3:
        return Map.of(
            {
                **_head(ctx, stream),
                b"groups": len(stream.groups),
                b"first-entry": _entry(stream, stream.first_id),
                b"last-entry": _entry(stream, stream.last_entry_id),
            }
        )
    args = Args(argv, 3)
    # The number of words is checked before any of them: with FULL there is nothing more, or COUNT and its value.
    if len(argv) not in (4, 6) or not args.flag(b"FULL") or (len(args) and not args.flag(b"COUNT")):
        raise CommandError(general.subcommand_arguments(b"xinfo", argv[1]))
    count = args.take_int() if len(args) else _FULL_COUNT
    count = _FULL_COUNT if count < 0 else count
    return Map.of(
        {
            **_head(ctx, stream),
            b"entries": stream.range(0, ids.MAX_ID, count),
            b"groups": [_full_group(stream, name, count) for name in sorted(stream.groups)],
        }
    )


def _full_group(stream: Stream, name: bytes, count: int) -> Reply:
    group = stream.groups[name]
    pending = []
    for record in group.pending.records(0, ids.MAX_ID):
        pending.append([_id(record), group.owner_name(record), *_delivery(record)])
        if len(pending) == count:
            break
    return Map.of(
        {
            b"name": name,
            b"last-delivered-id": ids.text(group.last_id),
            b"entries-read": _read(group),
            b"lag": group.lag(stream),
            b"pel-count": len(group.pending),
            b"nacked-count": len(group.nacked),
            b"pending": pending,
            b"consumers": [_full_consumer(group, consumer, count) for consumer in group.sorted_consumers()],
        }
    )


def _full_consumer(group: Group, consumer: Consumer, count: int) -> Reply:
    pending = []
    for record in group.pending.records(0, ids.MAX_ID, consumer.number):
        pending.append([_id(record), *_delivery(record)])
        if len(pending) == count:
            break
    return Map.of(
        {
            b"name": consumer.name,
            b"seen-time": consumer.seen_time,
            b"active-time": consumer.active_time,
            b"pel-count": group.pending_of(consumer),
            b"pending": pending,
        }
    )


def _id(record: Record) -> bytes:
    return ids.text(record[0].id_at(record[1]))


def _delivery(record: Record) -> list[Reply]:
    block, index = record
    return [block.time_at(index), block.count_at(index)]


@xinfo_subcommand("groups key")
def xinfo_groups(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the consumer groups of a stream."""
    stream = need_stream(ctx, argv[2], reading=True)
    return [
        Map.of(
            {
                b"name": name,
                b"consumers": len(group.consumers),
                b"pending": len(group.pending),
                b"last-delivered-id": ids.text(group.last_id),
                b"entries-read": _read(group),
                b"lag": group.lag(stream),
            }
        )
        for name, group in sorted(stream.groups.items())
    ]


@xinfo_subcommand("consumers key groupname")
def xinfo_consumers(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the consumers of a consumer group."""
    stream = need_stream(ctx, argv[2], reading=True)
    group = stream.groups.get(argv[3])
    if group is None:
        raise CommandError(streams.no_group_for_key(argv[3], argv[2]))
    return [
        Map.of(
            {
                b"name": consumer.name,
                b"pending": group.pending_of(consumer),
                b"idle": max(ctx.now - consumer.seen_time, 0),
                b"inactive": -1 if consumer.active_time < 0 else max(ctx.now - consumer.active_time, 0),
            }
        )
        for consumer in group.sorted_consumers()
    ]
