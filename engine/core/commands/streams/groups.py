"""Consumer groups: looking them up, the effects of their changes, XGROUP and XINFO.

Functions named ``need_`` raise Redis's error if the object is missing.

The log consists of Redis commands. Pending records are logged as XCLAIMs that recreate them (FORCE, JUSTID), with the
group's position as LASTID. A position with its count of entries read is logged as an XGROUP SETID. Replaying these
commands in order recreates the group. Consecutive records with the same delivery time and count share an XCLAIM.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TypeVar

from engine.core.commands.streams.entries import entries_between
from engine.core.environment.context import Context
from engine.core.formats.rdb import group_fields
from engine.core.protocol import ids, pace
from engine.core.protocol.args import Args, at_most
from engine.core.protocol.ids import IdColumns
from engine.core.protocol.replies import OK, CommandError, Map, Pages, Raw, Reply, holding, rows_in_pages
from engine.core.streams.group import UNKNOWN, Consumer, Group, shown
from engine.core.streams.pending import NOBODY, Block
from engine.core.streams.stream import Stream
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text import messages


def need_stream(ctx: Context, key: bytes, *, reading: bool = False) -> Stream:
    """Return the stream at ``key``. With ``reading``, the caller must not change it."""
    stream = ctx.db.read_stream(key) if reading else ctx.db.stream(key)
    if stream is None:
        raise CommandError(messages.NO_SUCH_KEY)
    return stream


class GroupRef:
    """A consumer group with its name, its stream, and the stream's key."""

    __slots__ = ("group", "key", "name", "stream")

    def __init__(self, key: bytes, stream: Stream, name: bytes, group: Group) -> None:
        self.key, self.stream, self.name, self.group = key, stream, name, group


def group_if_there(ctx: Context, key: bytes, name: bytes) -> Group | None:
    """Return the group of the stream at ``key``, None if either is missing."""
    stream = ctx.db.stream(key)
    return stream.group(name) if stream is not None and name in stream.groups else None


def need_group(
    ctx: Context,
    key: bytes,
    name: bytes,
    error: Callable[[bytes, bytes], bytes] = messages.no_group,
    *,
    again: bool = False,
) -> GroupRef:
    """Return the group of the stream at ``key``. Raise ``error`` of key and group name if either is missing.

    ``again``: whether the command has looked the key up before, so that the lookup is not counted as a hit or a miss.
    """
    stream = ctx.db.stream(key) if again else ctx.db.read_stream(key)
    if stream is None or name not in stream.groups:
        raise CommandError(error(key, name))
    return GroupRef(key, stream, name, stream.group(name))


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


xgroup_subcommand = container(
    "xgroup", "Commands that manage consumer groups.", group="stream", acl="stream", keys=SUB_KEY
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
        raise CommandError(b"ERR value for ENTRIESREAD must be positive or -1")
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
        raise CommandError(b"BUSYGROUP Consumer Group name already exists")
    group = stream.groups[name] = Group(last_id, min(read, stream.entries_added))
    _changed(ctx, b"xgroup-create", key)
    ctx.effect(b"XGROUP", b"CREATE", key, name, ids.text(last_id), b"MKSTREAM", *group_fields.options(group))
    return OK


@xgroup_subcommand("setid key group <id | $> [ENTRIESREAD entries-read]", "write")
def xgroup_setid(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets the last-delivered ID of a consumer group."""
    key, name, word = argv[2], argv[3], argv[4]
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


@xgroup_subcommand("destroy key group", "write", access="RW delete")
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


@xgroup_subcommand("createconsumer key group consumer", "write denyoom", access="RW insert")
def xgroup_createconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """Creates a consumer in a consumer group."""
    ref = _need_group(ctx, argv[2], argv[3])
    if argv[4] in ref.group.consumers:
        return 0
    see_consumer(ctx, ref, argv[4])
    return 1


@xgroup_subcommand("delconsumer key group consumer", "write", access="RW delete")
def xgroup_delconsumer(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes a consumer, and returns the number of its pending entries."""
    key, name = argv[2], argv[3]
    group = _need_group(ctx, key, name).group
    consumer = group.consumers.get(argv[4])
    if consumer is None:
        return 0

    def work() -> Generator[None, None, Reply]:
        pending = yield from group.delete_consumer(consumer)
        _changed(ctx, b"xgroup-delconsumer", key)
        ctx.effect(*argv)
        return pending

    return ctx.in_steps(argv, work())


class PendingRecords:
    """Snapshot of the first ``count`` records of a group, and the first ``count`` records of each of its consumers.

    A ``count`` of 0 includes all records. `find` finds the records of consumers, in steps, and must finish before `of`
    is called.
    """

    def __init__(self, group: Group, count: int) -> None:
        pending = group.pending
        self._most = most = count or len(pending)
        self._names = {number: group.by_number[number].name for number in pending.per_owner if number != NOBODY}
        self._names[NOBODY] = b""
        self._blocks, self._size = pending.snapshot(0, ids.MAX_ID, len(pending))
        #: Owner -> blocks, each with the number of the owner's records to show.
        self._blocks_of: dict[int, list[tuple[Block, int]]] = {}
        self._left = {owner: min(most, records) for owner, records in pending.per_owner.items() if owner != NOBODY}

    def find(self) -> Generator[None, None, None]:
        """Find the first records of each consumer."""
        left = self._left
        for number, block in enumerate(self._blocks):
            if not left:
                return
            if number and not number % pace.BLOCKS:
                yield
            for owner, records in block.tally(0, len(block)).items():
                wanted = min(left.get(owner, 0), records)
                if wanted:
                    self._blocks_of.setdefault(owner, []).append((block, wanted))
                    left[owner] -= wanted
                    if not left[owner]:
                        del left[owner]

    def of_all(self) -> Reply:
        """Return the rows of the group: ID, consumer, time and count of the last delivery."""
        records = ((block, index) for block in self._blocks for index in range(len(block)))
        return rows_in_pages(min(self._size, self._most), records, self._row)

    def _row(self, block: Block, index: int) -> Reply:
        name = self._names[block.owners[index]]
        return [ids.text(block.id_at(index)), name, block.times[index], block.counts[index]]

    def of(self, consumer: Consumer) -> Reply:
        """Return the rows of a consumer: ID, time and count of the last delivery."""
        owner, blocks = consumer.number, self._blocks_of.get(consumer.number, [])
        size = sum(wanted for _, wanted in blocks)
        records = ((block, index) for block, wanted in blocks for index in block.matching(owner, None)[:wanted])
        return rows_in_pages(size, records, _short_row)


def _short_row(block: Block, index: int) -> Reply:
    return [ids.text(block.id_at(index)), block.times[index], block.counts[index]]


T = TypeVar("T")

xinfo_subcommand = container(
    "xinfo",
    "Commands that inspect streams and consumer groups.",
    group="stream",
    acl="stream",
    flags="readonly",
    keys=SUB_KEY,
)

#: COUNT of XINFO STREAM FULL if it is missing or negative.
_FULL_COUNT = 10


def _head(ctx: Context, stream: Stream) -> dict[bytes, Reply]:
    """Return the first fields of XINFO STREAM, which are the same with and without FULL."""
    segments = len(stream.pieces())
    config, producers = ctx.config, stream.producers
    return {
        b"length": stream.length,
        b"radix-tree-keys": segments,
        # As in a tree whose root has the segments as leaves.
        b"radix-tree-nodes": segments + 1,
        b"last-generated-id": ids.text(stream.last_id),
        b"max-deleted-entry-id": ids.text(stream.max_deleted_id),
        b"entries-added": shown(stream.entries_added),
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


def shown_read(group: Group) -> Reply:
    """Return a group's entries-read counter; None if unknown."""
    return None if group.entries_read == UNKNOWN else shown(group.entries_read)


def shown_lag(group: Group, stream: Stream) -> Reply:
    """Return a group's lag; None if unknown."""
    lag = group.lag(stream)
    return None if lag is None else shown(lag)


@xinfo_subcommand("stream key [FULL [COUNT count]]")
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
    # The word count is checked first: FULL is followed by nothing, or by COUNT and its value.
    if len(argv) not in (4, 6) or not args.flag(b"FULL") or (len(args) and not args.flag(b"COUNT")):
        raise CommandError(messages.subcommand_arguments(b"xinfo", argv[1]))
    count = args.take_int() if len(args) else _FULL_COUNT
    count = _FULL_COUNT if count < 0 else count
    head = {**_head(ctx, stream), b"entries": entries_between(stream, 0, ids.MAX_ID, count)}
    names = sorted(stream.groups)

    def work() -> Generator[None, None, Reply]:
        groups: list[Reply] = []
        for number, name in enumerate(names, 1):
            groups.append((yield from _full_group(stream.groups[name], name, stream, count)))
            if not number % pace.GROUPS:
                yield
        shown = holding(groups) if len(groups) <= pace.GROUPS else Pages(list, len(groups), _parts_of(groups))
        return holding(Map.of({**head, b"groups": shown}))

    return ctx.in_steps(argv, work())


def _parts_of(items: list[T]) -> Iterator[list[T]]:
    return (items[at : at + pace.GROUPS] for at in range(0, len(items), pace.GROUPS))


def _full_group(group: Group, name: bytes, stream: Stream, count: int) -> Generator[None, None, Reply]:
    records = PendingRecords(group, count)
    yield from records.find()
    consumers = yield from _consumers(group, partial(_full_consumer, group, records))
    return holding(
        Map.of(
            {
                b"name": name,
                b"last-delivered-id": ids.text(group.last_id),
                b"entries-read": shown_read(group),
                b"lag": shown_lag(group, stream),
                b"pel-count": len(group.pending),
                b"nacked-count": len(group.nacked),
                b"pending": records.of_all(),
                b"consumers": consumers,
            }
        )
    )


def _full_consumer(group: Group, records: PendingRecords, consumer: Consumer) -> Reply:
    return holding(
        Map.of(
            {
                b"name": consumer.name,
                b"seen-time": consumer.seen_time,
                b"active-time": consumer.active_time,
                b"pel-count": group.pending_of(consumer),
                b"pending": records.of(consumer),
            }
        )
    )


def _consumers(group: Group, row: Callable[[Consumer], Reply]) -> Generator[None, None, Reply]:
    """Return ``row``'s result for each consumer, by name, in pages if there are many."""
    consumers, sorted_rows = list(group.consumers.values()), list[list[tuple[bytes, Reply]]]()
    for at in range(0, len(consumers), pace.SORTED):
        if at:
            yield
        some = sorted(consumers[at : at + pace.SORTED], key=_name_of)
        sorted_rows.append([(consumer.name, row(consumer)) for consumer in some])
    rows = (reply for _, reply in merge(*sorted_rows, key=itemgetter(0)))
    if len(consumers) <= pace.MANY_ROWS:
        return holding(list(rows))
    return Pages(list, len(consumers), iter(lambda: list(islice(rows, pace.PAGE_ROWS)), []))


_name_of = attrgetter("name")


@xinfo_subcommand("groups key")
def xinfo_groups(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the consumer groups of a stream."""
    stream = need_stream(ctx, argv[2], reading=True)

    def work() -> Generator[None, None, Reply]:
        rows: list[Reply] = []
        for name in sorted(stream.groups):
            rows.append(_group(stream, name, stream.groups[name]))
            if not len(rows) % pace.GROUPS:
                yield
        return rows if len(rows) <= pace.GROUPS else Pages(list, len(rows), _parts_of(rows))

    return ctx.in_steps(argv, work())


def _group(stream: Stream, name: bytes, group: Group) -> Reply:
    return Map.of(
        {
            b"name": name,
            b"consumers": len(group.consumers),
            b"pending": len(group.pending),
            b"last-delivered-id": ids.text(group.last_id),
            b"entries-read": shown_read(group),
            b"lag": shown_lag(group, stream),
        }
    )


@xinfo_subcommand("consumers key groupname")
def xinfo_consumers(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the consumers of a consumer group."""
    stream = need_stream(ctx, argv[2], reading=True)
    group = stream.groups.get(argv[3])
    if group is None:
        raise CommandError(messages.no_group_for_key(argv[3], argv[2]))
    return ctx.in_steps(argv, _consumers(group, partial(_consumer, ctx.now, group)))


def _consumer(now: int, group: Group, consumer: Consumer) -> Reply:
    return Map.of(
        {
            b"name": consumer.name,
            b"pending": group.pending_of(consumer),
            b"idle": max(now - consumer.seen_time, 0),
            b"inactive": -1 if consumer.active_time < 0 else max(now - consumer.active_time, 0),
        }
    )
