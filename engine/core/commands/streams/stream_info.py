"""XINFO: information about a stream, its groups and their consumers, and the first pending entries of each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TypeVar

from engine.core.commands.streams.entries.ranges import entries_between
from engine.core.commands.streams.lookups import need_stream
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Map, Pages, Raw, Reply, Steps, holding, rows_in_pages
from engine.core.streams.group import UNKNOWN, Consumer, Counted, Group, Listing, lag, shown
from engine.core.streams.pending import NOBODY, Block
from engine.core.streams.stream import Stream
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text import messages

#: Number of blocks searched at a time for consumers' records.
_BLOCKS_PER_STEP = 20


class PendingRecords:
    """Snapshot of the first ``count`` records of a group, and the first ``count`` records of each of its consumers.

    A ``count`` of 0 includes all records.

    Consumers' records are found a few blocks at a time by ``find``, which must finish before ``of`` is called.
    """

    def __init__(self, group: Group, count: int) -> None:
        pending = group.pending
        self._most = most = count or len(pending)
        #: Whether the rows are built in pages.
        self.is_long = min(most, len(pending)) > pace.MANY_ROWS
        self._names = {number: group.by_number[number].name for number in pending.per_owner if number != NOBODY}
        self._names[NOBODY] = b""
        if self.is_long:
            self._blocks = pending.snapshot(0, ids.MAX_ID, len(pending))
        else:
            self._blocks = [block for block, _, _ in pending.blocks(0, ids.MAX_ID)]
        #: Owner -> its rows; empty if rows are built in pages.
        self._rows: dict[int, list[Reply]] = {}
        #: Owner -> blocks, each with the number of the owner's records to show; empty if rows are built at once.
        self._blocks_of: dict[int, list[tuple[Block, int]]] = {}
        self._left = {owner: min(most, records) for owner, records in pending.per_owner.items() if owner != NOBODY}
        self._all: list[Reply] = []
        if not self.is_long:
            self._all = self._first()
            for _ in self.find():
                pass
            self._blocks = []

    def _first(self) -> list[Reply]:
        left, rows = self._most, list[Reply]()
        for block in self._blocks:
            if left <= 0:
                break
            rows += [self._row(block, index) for index in range(min(left, len(block)))]
            left = self._most - len(rows)
        return rows

    def find(self) -> Iterator[None]:
        """Find the first records of each consumer."""
        for number, block in enumerate(self._blocks):
            if not self._left:
                return
            self._find_in(block)
            if not number % _BLOCKS_PER_STEP:
                yield

    def _find_in(self, block: Block) -> None:
        left = self._left
        for owner, records in block.tally(0, len(block)).items():
            wanted = min(left.get(owner, 0), records)
            if not wanted:
                continue
            if self.is_long:
                self._blocks_of.setdefault(owner, []).append((block, wanted))
            else:
                indices = block.matching(owner, None)[:wanted]
                self._rows.setdefault(owner, []).extend(_short_row(block, index) for index in indices)
            left[owner] -= wanted
            if not left[owner]:
                del left[owner]

    def of_all(self) -> Reply:
        """Return the rows of the group: ID, consumer, time and count of the last delivery."""
        if not self.is_long:
            return self._all
        size = sum(map(len, self._blocks))
        records = ((block, index) for block in self._blocks for index in range(len(block)))
        return rows_in_pages(min(size, self._most), records, self._row)

    def _row(self, block: Block, index: int) -> Reply:
        name = self._names[block.owner_at(index)]
        return [ids.text(block.id_at(index)), name, block.time_at(index), block.count_at(index)]

    def of(self, consumer: Consumer) -> Reply:
        """Return the rows of a consumer: ID, time and count of the last delivery."""
        if not self.is_long:
            return self._rows.get(consumer.number, [])
        owner, blocks = consumer.number, self._blocks_of.get(consumer.number, [])
        size = sum(wanted for _, wanted in blocks)
        records = ((block, index) for block, wanted in blocks for index in block.matching(owner, None)[:wanted])
        return rows_in_pages(size, records, _short_row)


def _short_row(block: Block, index: int) -> Reply:
    return [ids.text(block.id_at(index)), block.time_at(index), block.count_at(index)]


T = TypeVar("T")

xinfo_subcommand = container(
    "xinfo",
    "Commands that inspect streams and consumer groups.",
    group="stream",
    acl="stream",
    since="5.0.0",
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
    # The word count is checked first: FULL is followed by nothing, or by COUNT and its value.
    if len(argv) not in (4, 6) or not args.flag(b"FULL") or (len(args) and not args.flag(b"COUNT")):
        raise CommandError(messages.subcommand_arguments(b"xinfo", argv[1]))
    count = args.take_int() if len(args) else _FULL_COUNT
    count = _FULL_COUNT if count < 0 else count
    head = {**_head(ctx, stream), b"entries": entries_between(stream, 0, ids.MAX_ID, count)}

    def work() -> Generator[None, None, Reply]:
        groups: list[Reply] = []
        for names in _parts_of(sorted(stream.groups)):
            groups += [_full_group(stream, name, count) for name in names if name in stream.groups]
            yield
        shown = holding(groups) if len(groups) <= pace.GROUPS else Pages(list, len(groups), _parts_of(groups))
        return holding(Map.of({**head, b"groups": shown}))

    if len(stream.groups) <= pace.GROUPS:
        return Steps(argv, work()).all()
    return ctx.in_steps(argv, work())


def _parts_of(items: list[T]) -> Iterator[list[T]]:
    return (items[at : at + pace.GROUPS] for at in range(0, len(items), pace.GROUPS))


def _full_group(stream: Stream, name: bytes, count: int) -> Reply:
    group = stream.groups[name]
    records = PendingRecords(group, count)
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
                b"consumers": _consumers(group, partial(_full_consumer, records), records),
            }
        )
    )


def _full_consumer(records: PendingRecords, listing: Listing, consumer: Consumer) -> Reply:
    seen, active = listing.times(consumer)
    return holding(
        Map.of(
            {
                b"name": consumer.name,
                b"seen-time": seen,
                b"active-time": active,
                b"pel-count": listing.pending_of(consumer),
                b"pending": records.of(consumer),
            }
        )
    )


def _consumers(group: Group, row: Callable[[Listing, Consumer], Reply], records: PendingRecords | None = None) -> Reply:
    """Return ``row``'s result for each consumer, in pages if there are many or ``records`` has many rows."""
    listing = Listing(group)

    def pages() -> Iterator[list[Reply]]:
        if records is not None:
            for _ in records.find():
                yield []
        for batch in listing.batches():
            yield [row(listing, consumer) for consumer in batch]

    if len(listing) <= pace.MANY_ROWS and (records is None or not records.is_long):
        return holding([reply for page in pages() for reply in page])
    return Pages(list, len(listing), pages())


@xinfo_subcommand("groups key", complexity="O(groups)")
def xinfo_groups(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the consumer groups of a stream."""
    stream = need_stream(ctx, argv[2], reading=True)
    counted = Counted.of(stream)
    rows = [
        (name, len(group.consumers), len(group.pending), group.last_id, group.entries_read)
        for name, group in sorted(stream.groups.items())
    ]
    if len(rows) <= pace.GROUPS:
        return [_group(counted, *row) for row in rows]
    pages = ([_group(counted, *row) for row in some] for some in _parts_of(rows))
    return Pages(list, len(rows), pages)


def _group(stream: Counted, name: bytes, consumers: int, pending: int, last_id: int, entries_read: int) -> Reply:
    left = lag(stream, last_id, entries_read)
    return Map.of(
        {
            b"name": name,
            b"consumers": consumers,
            b"pending": pending,
            b"last-delivered-id": ids.text(last_id),
            b"entries-read": None if entries_read == UNKNOWN else shown(entries_read),
            b"lag": None if left is None else shown(left),
        }
    )


@xinfo_subcommand("consumers key groupname", complexity="O(consumers)")
def xinfo_consumers(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the consumers of a consumer group."""
    stream = need_stream(ctx, argv[2], reading=True)
    group = stream.groups.get(argv[3])
    if group is None:
        raise CommandError(messages.no_group_for_key(argv[3], argv[2]))
    return _consumers(group, partial(_consumer, ctx.now))


def _consumer(now: int, listing: Listing, consumer: Consumer) -> Reply:
    seen, active = listing.times(consumer)
    return Map.of(
        {
            b"name": consumer.name,
            b"pending": listing.pending_of(consumer),
            b"idle": max(now - seen, 0),
            b"inactive": -1 if active < 0 else max(now - active, 0),
        }
    )
