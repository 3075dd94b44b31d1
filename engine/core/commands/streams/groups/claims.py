"""Claims of pending entries: XCLAIM and XAUTOCLAIM."""

from __future__ import annotations

from array import array
from collections.abc import Generator
from dataclasses import dataclass
from itertools import takewhile

from engine.core.commands.families import stream_command
from engine.core.commands.streams.groups.effects import ClaimEffects, record_position, see_consumer
from engine.core.commands.streams.groups.history import delivered_again, runs_of
from engine.core.commands.streams.lookups import GroupRef, need_group
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import I64_MAX, Args, parse_int
from engine.core.protocol.replies import CommandError, Frames, Reply, holding, paged
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.group import Consumer
from engine.core.streams.pending import NOBODY, Block
from engine.core.streams.runs import frames_of
from engine.text import messages

#: XAUTOCLAIM examines up to COUNT times this number of records, as in Redis.
_SCANNED_PER_COUNT = 10
#: Fewer adjacent records than this number are claimed one by one.
_STRETCH = 8
#: Units of work per entry if entries are claimed together.
_OF_A_RANGE = 0.5
#: Units of work per entry if entries are skipped together because none has been idle for long enough.
_OF_RECENT_ONES = 0.03


class Claim:
    """A claim in progress, by one consumer and with one set of options.

    ``time`` (milliseconds) is the new delivery time. ``count`` is the new delivery count; None increments it, or
    keeps it with ``justid``.
    """

    def __init__(
        self,
        ctx: Context,
        ref: GroupRef,
        consumer: Consumer,
        min_idle: int,
        time: int,
        count: int | None,
        justid: bool,
    ) -> None:
        self.ctx, self.ref, self.stream, self.group = ctx, ref, ref.stream, ref.group
        self.consumer, self.min_idle, self.time, self.count, self.justid = consumer, min_idle, time, count, justid
        #: Parts of the reply. A part can contain several entries.
        self.parts: list[bytes | memoryview] = []
        #: Number of claimed entries.
        self.taken = 0
        self.effects = ClaimEffects(ctx, ref, consumer.name)

    def claim_range(self, block: Block, low: int, high: int) -> int:
        """Claim the records [low, high) at once if all are claimable and their entries are adjacent.

        Return their number. Return 0 and change nothing if the records must be claimed one by one.
        """
        group, count, now = self.group, high - low, self.ctx.now
        if count < _STRETCH or group.nacked:
            return 0
        latest = block.time if block.owners is None else max(block.times[low:high])
        if self.min_idle and now - latest < self.min_idle:
            return 0
        runs = runs_of(self.stream, block, low, high)
        if not runs:
            return 0
        if self.justid:
            self.parts += map(ids.text, block.ids(low, high))
        else:
            self.parts += frames_of(runs).parts
        self.taken += count
        more = 0 if self.justid else 1
        if self.count is not None:
            counts = array("q", [self.count]) * count
        else:
            counts = delivered_again(block, low, high, more)
        group.pending.assign(block, low, high, self.consumer.number, self.time, counts)
        if self.ctx.changes.recording:
            for entry_id, now_delivered in zip(block.ids(low, high), counts, strict=True):
                self.effects.add(entry_id, self.time, now_delivered)
        self.consumer.active_time = now
        self.ctx.changes.dirty += count
        return count

    def is_below_min_idle(self, block: Block, low: int, high: int) -> bool:
        """Return whether none of the records [low, high) has been idle for long enough, and all their entries exist.

        Return False, without a check, if the claim has no minimum idle time, the records are few, or the group has
        NACKed entries.
        """
        if not self.min_idle or high - low < _STRETCH or self.group.nacked:
            return False
        earliest = block.time if block.owners is None else min(block.times[low:high])
        return self.ctx.now - earliest < self.min_idle and bool(runs_of(self.stream, block, low, high))

    def claim_all(self, entry_ids: list[int], force: bool) -> None:
        """Claim these entries in this order; remove the records of deleted entries."""
        # A replayed XCLAIM names entries that existed when they were claimed, so their existence is not checked: the
        # check would read segments from disk.
        is_logged = self.ctx.changes.replaying and force and self.justid
        if not is_logged:
            self.stream.load_segments(entry_ids)
        ms, seq = ids.columns(entry_ids)
        at = 0
        while at < len(entry_ids):
            if is_logged and self.stream.stores(entry_ids[at]):
                self.claim_one(entry_ids[at], force)
                at += 1
                continue
            record = self.group.pending.find(entry_ids[at]) if len(entry_ids) - at >= _STRETCH else None
            if record is not None:
                block, index = record
                taken = self.claim_range(block, index, index + block.matches(index, ms, seq, at))
                if taken:
                    at += taken
                    continue
            if not self.vanished(entry_ids[at]):
                self.claim_one(entry_ids[at], force)
            at += 1

    def vanished(self, entry_id: int) -> bool:
        """Return whether the entry was deleted from the stream; if so, remove its record too."""
        if entry_id in self.stream:
            return False
        if self.group.acknowledge(entry_id):
            self.ctx.changes.dirty += 1
            self.effects.flush()
            self.ctx.effect(b"XACK", self.ref.key, self.ref.name, ids.text(entry_id))
        return True

    def claim_one(self, entry_id: int, force: bool = False) -> bool:
        """Claim one existing entry; return whether it was claimed.

        An entry that is not pending is claimed only with ``force``. A pending entry with an owner is claimed only if it
        has been idle for long enough.
        """
        group, pending = self.group, self.group.pending
        record = pending.find(entry_id)
        if record is None:
            if not force:
                return False
            pending.put(entry_id, self.consumer.number, self.time, 1)
            record = pending.find(entry_id)
            assert record is not None
        elif self.min_idle:
            block, index = record
            if block.owner_at(index) != NOBODY and self.ctx.now - block.time_at(index) < self.min_idle:
                return False
        block, index = record
        count = block.count_at(index)
        if self.count is not None:
            count = self.count
        elif not self.justid:
            count = min(count + 1, I64_MAX)
        group.assign(record, self.consumer, self.time, count)
        self.consumer.active_time = self.ctx.now
        self.ctx.changes.dirty += 1
        self.taken += 1
        if self.justid:
            self.parts.append(ids.text(entry_id))
        else:
            self.parts.append(self.stream.frame(entry_id) or b"")
        self.effects.add(entry_id, self.time, count)
        return True

    def reply(self) -> Reply:
        """Return the claimed entries or their IDs. Must be the last call."""
        self.effects.flush()
        return list(self.parts) if self.justid else Frames(self.taken, self.parts)


@stream_command(
    "xclaim key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] "
    "[FORCE] [JUSTID] [LASTID lastid]",
    "write fast",
    complexity="O(log N) for each ID, with N pending entries.",
)
def xclaim(ctx: Context, argv: list[bytes]) -> Reply:
    """Makes a consumer the owner of pending entries that have been idle for a minimum time."""
    ref = need_group(ctx, argv[1], argv[2])
    min_idle = max(parse_int(argv[4], messages.CLAIM_MIN_IDLE), 0)
    if len(argv) > pace.MANY_IDS:
        return ctx.in_steps(argv, _claim_in_steps(ctx, argv, min_idle))
    entry_ids = _parse_ids(argv, 5)
    options = _parse_options(ctx, argv, 5 + len(entry_ids))
    claim = _new_claim(ctx, ref, argv[3], min_idle, options)
    claim.claim_all(entry_ids, options.force)
    if options.moved and not claim.parts:
        ctx.changes.dirty += 1
        record_position(ctx, ref)
    return claim.reply()


def _claim_in_steps(ctx: Context, argv: list[bytes], min_idle: int) -> Generator[None, None, Reply]:
    """Claim many IDs in steps. Each step applies LASTID to the group, and the other options to the step's IDs."""
    key, name, entry_ids, at = argv[1], argv[2], list[int](), 5
    while found := _parse_ids(argv, at, pace.MANY_IDS):
        entry_ids += found
        at += len(found)
        yield
    options = _parse_options(ctx, argv, at)
    parts: list[bytes | memoryview] = []
    taken = 0
    for begin in range(0, max(len(entry_ids), 1), pace.IDS):
        ref = need_group(ctx, key, name, again=True)
        claim = _new_claim(ctx, ref, argv[3], min_idle, options)
        claim.claim_all(entry_ids[begin : begin + pace.IDS], options.force)
        if options.moved and not claim.parts:
            ctx.changes.dirty += 1
            record_position(ctx, ref)
        claim.effects.flush()
        parts += claim.parts
        taken += claim.taken
        yield
    return paged(list(parts)) if options.justid else Frames(taken, parts)


def _parse_ids(argv: list[bytes], at: int, most: int | None = None) -> list[int]:
    """Parse up to ``most`` IDs from word ``at`` on; stop before the first word that is not an ID."""
    end = len(argv) if most is None else min(at + most, len(argv))
    words = list(takewhile(lambda word: not word[:1].isalpha(), argv[at:end]))
    try:
        return ids.parse_many(words)
    except CommandError:
        entry_ids = []
        for word in words:
            try:
                entry_ids.append(ids.parse(word))
            except CommandError:
                break
        return entry_ids


@dataclass(slots=True)
class _Options:
    """XCLAIM's options after the IDs; ``moved``: whether the group's position has just moved to LASTID."""

    time: int
    count: int | None = None
    force: bool = False
    justid: bool = False
    last_id: int = 0
    moved: bool = False


def _parse_options(ctx: Context, argv: list[bytes], at: int) -> _Options:
    args = Args(argv, at)
    time, count, force, justid, last_id = ctx.now, None, False, False, 0
    while len(args):
        if args.flag(b"FORCE"):
            force = True
        elif args.flag(b"JUSTID"):
            justid = True
        elif args.option(b"IDLE"):
            time = ctx.now - args.take_int(messages.CLAIM_IDLE)
        elif args.option(b"TIME"):
            time = args.take_int(messages.CLAIM_TIME)
        elif args.option(b"RETRYCOUNT"):
            given = args.take_int(messages.CLAIM_RETRYCOUNT)
            count = given if given >= 0 else None
        elif args.option(b"LASTID"):
            last_id = args.take_id()
        else:
            raise CommandError(messages.unrecognized_claim_option(argv[args.pos]))
    if not 0 <= time <= ctx.now:
        time = ctx.now
    return _Options(time, count, force, justid, last_id)


def _new_claim(ctx: Context, ref: GroupRef, consumer: bytes, min_idle: int, options: _Options) -> Claim:
    options.moved = options.last_id > ref.group.last_id
    if options.moved:
        ref.group.last_id = options.last_id
    seen = see_consumer(ctx, ref, consumer)
    return Claim(ctx, ref, seen, min_idle, options.time, options.count, options.justid)


@stream_command(
    "xautoclaim key group consumer min-idle-time start [COUNT count] [JUSTID]",
    "write fast",
    access="RW delete",
    since="6.2.0",
    complexity="O(COUNT)",
)
def xautoclaim(ctx: Context, argv: list[bytes]) -> Reply:
    """Scans pending entries from an ID on, and makes a consumer the owner of the idle ones."""
    key, group_name = argv[1], argv[2]
    min_idle = max(parse_int(argv[4], messages.AUTOCLAIM_MIN_IDLE), 0)
    start = ids.parse_low(argv[5])
    args = Args(argv, 6)
    count, justid = 100, False
    while len(args):
        if args.option(b"COUNT"):
            count = args.take_int(messages.AUTOCLAIM_COUNT)
            if not 0 < count <= I64_MAX // 16:
                raise CommandError(messages.AUTOCLAIM_COUNT)
        elif args.flag(b"JUSTID"):
            justid = True
        else:
            raise CommandError(messages.SYNTAX)
    need_group(ctx, key, group_name)
    search = _Search(start, count, count * _SCANNED_PER_COUNT)

    def begun() -> Claim:
        ref = need_group(ctx, key, group_name, again=True)
        return Claim(ctx, ref, see_consumer(ctx, ref, argv[3]), min_idle, ctx.now, None, justid)

    if count <= pace.MANY_CLAIMS:
        claim = begun()
        search.go_on(claim, search.attempts)
        return [ids.text(search.cursor), claim.reply(), search.deleted]

    def work() -> Generator[None, None, Reply]:
        parts: list[bytes | memoryview] = []
        taken = 0
        while not search.is_over:
            claim = begun()
            search.go_on(claim, pace.WORK)
            claim.effects.flush()
            parts += claim.parts
            taken += claim.taken
            yield
        claimed = paged(list(parts)) if justid else Frames(taken, parts)
        return holding([ids.text(search.cursor), claimed, paged(search.deleted)])

    return ctx.in_steps(argv, work())


class _Search:
    """XAUTOCLAIM's scan from ``start``. It examines up to ``attempts`` records.

    The scan ends after ``count`` entries that were claimed or that were found to be deleted.
    """

    __slots__ = ("attempts", "count", "cursor", "deleted", "is_over")

    def __init__(self, start: int, count: int, attempts: int) -> None:
        #: The next ID to scan; 0 if the scan has examined the last pending entry.
        self.cursor = start
        self.count = count
        self.attempts = attempts
        self.deleted: list[Reply] = []
        self.is_over = False

    def go_on(self, claim: Claim, work: float) -> None:
        """Continue the scan for ``work`` units. Claiming one entry by itself is one unit."""
        try:
            self._go_on(claim, work)
        except UnreadableError:
            # Log the earlier claims, which remain valid.
            claim.effects.flush()
            raise

    def _go_on(self, claim: Claim, work: float) -> None:
        pending = claim.group.pending
        while self.count and self.attempts:
            stretch = next(pending.blocks(self.cursor, ids.MAX_ID), None)
            if stretch is None:
                break
            if work <= 0:
                return
            work -= self._examine(claim, *stretch, max(int(work), 1))
        self.is_over = True
        behind = next(pending.blocks(self.cursor, ids.MAX_ID), None)
        self.cursor = behind[0].id_at(behind[1]) if behind is not None else 0

    def _examine(self, claim: Claim, block: Block, low: int, high: int, most: int) -> float:
        end, high = min(high, low + self.attempts), min(high, low + self.count)
        last = block.id_at(high - 1)
        taken = claim.claim_range(block, low, high)
        if taken:
            self.count, self.attempts, self.cursor = self.count - taken, self.attempts - taken, last + 1
            return taken * _OF_A_RANGE
        if claim.is_below_min_idle(block, low, end):
            self.attempts, self.cursor = self.attempts - (end - low), block.id_at(end - 1) + 1
            return (end - low) * _OF_RECENT_ONES
        high = min(high, low + most)
        for entry_id in map(_join, block.ms[low:high], block.seq[low:high]):
            if not self.attempts:
                break
            self.attempts, self.cursor = self.attempts - 1, entry_id + 1
            if claim.vanished(entry_id):
                self.deleted.append(ids.text(entry_id))
                self.count -= 1
            elif claim.claim_one(entry_id):
                self.count -= 1
        return high - low


def _join(ms: int, seq: int) -> int:
    return ms << 64 | seq
