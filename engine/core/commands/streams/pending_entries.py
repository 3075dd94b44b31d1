"""Pending entries: acknowledging, releasing, listing and claiming them.

The commands are XACK, XACKDEL, XNACK, XPENDING, XCLAIM and XAUTOCLAIM.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from engine.core.commands.families import stream_command
from engine.core.commands.streams.entries import counted, listed, parse_policy_and_ids
from engine.core.commands.streams.groups import (
    IDS_AT_ONCE,
    ClaimEffects,
    GroupRef,
    group_if_there,
    need_group,
    record_position,
    see_consumer,
)
from engine.core.commands.streams.reads import STRETCH, delivered_again, runs_of
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import I64_MAX, Args, parse_int
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Frames, Reply, holding, paged, rows_in_pages
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.group import Consumer, Group
from engine.core.streams.pending import NOBODY, Block
from engine.core.streams.runs import frames_of
from engine.core.streams.trimming import ACKED, DELREF, Work, drop_references, unneeded
from engine.text import messages


@stream_command("xack key group id [id ...]", "write fast")
def xack(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledges entries: removes them from a group's pending entries list."""
    stream = ctx.db.read_stream(argv[1])
    if stream is None or argv[2] not in stream.groups:
        return 0
    return counted(ctx, argv, argv[3:], partial(_acknowledge, ctx, argv[1], argv[2]))


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
    return listed(ctx, argv, words, partial(_acknowledge_and_delete, ctx, key, argv[2], policy))


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
)
def xnack(ctx: Context, argv: list[bytes]) -> Reply:
    """Releases pending entries: they no longer have an owner, and XREADGROUP with CLAIM delivers them first."""
    key, group_name, mode = argv[1], argv[2], argv[3].upper()
    need_group(ctx, key, group_name)
    if mode not in (b"SILENT", b"FAIL", b"FATAL"):
        raise CommandError(b"ERR mode must be SILENT, FAIL, or FATAL")
    args = Args(argv, 4)
    if not args.flag(b"IDS"):
        raise CommandError(b"ERR syntax error, expected IDS keyword")
    numids = args.take_int(messages.NACK_NUMIDS)
    if numids <= 0:
        raise CommandError(messages.NACK_NUMIDS)
    if numids > len(args):
        raise CommandError(b"ERR number of IDs doesn't match numids")
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
            raise CommandError(b"ERR Unrecognized XNACK option '%b'" % argv[args.pos])
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
        count = record[0].counts[record[1]] if record is not None else 0
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
    return _listing(ctx.now, group, low, high, count, consumer.number if consumer else None, min_idle)


def _summary(group: Group) -> Reply:
    pending = group.pending
    if not len(pending):
        return [0, None, None, NIL_ARRAY]
    names = group.by_number
    owners = sorted((names[owner].name, count) for owner, count in pending.per_owner.items() if owner != NOBODY)
    consumers = [[name, b"%d" % count] for name, count in owners]
    return [len(pending), ids.text(pending.first_id), ids.text(pending.last_id), consumers]


def _listing(now: int, group: Group, low: int, high: int, count: int, owner: int | None, min_idle: int) -> Reply:
    """List the entries, in pages if there are many. Later changes do not affect the pages."""
    if not count:
        return []
    before = now - min_idle if min_idle > 0 else None
    blocks, size = group.pending.snapshot(low, high, count, owner, before)
    size = min(size, count)
    consumers = group.by_number if size <= pace.PAGE_ROWS else group.by_number.copy()

    def row(block: Block, index: int) -> Reply:
        number, name, idle = block.owners[index], b"", -1
        if number != NOBODY:
            name, idle = consumers[number].name, max(now - block.times[index], 0)
        return [ids.text(block.id_at(index)), name, idle, block.counts[index]]

    records = ((block, index) for block in blocks for index in block.matching(owner, before))
    return rows_in_pages(size, records, row)


#: XAUTOCLAIM examines up to COUNT times this number of records, as in Redis.
_SCANNED_PER_COUNT = 10


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
        if count < STRETCH or group.nacked:
            return 0
        latest = max(block.times[low:high])
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
        if not self.min_idle or high - low < STRETCH or self.group.nacked:
            return False
        earliest = min(block.times[low:high])
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
            record = self.group.pending.find(entry_ids[at]) if len(entry_ids) - at >= STRETCH else None
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
            if block.owners[index] != NOBODY and self.ctx.now - block.times[index] < self.min_idle:
                return False
        block, index = record
        count = block.counts[index]
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


@stream_command(
    "xclaim key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] "
    "[FORCE] [JUSTID] [LASTID lastid]",
    "write fast",
)
def xclaim(ctx: Context, argv: list[bytes]) -> Reply:
    """Makes a consumer the owner of pending entries that have been idle for a minimum time."""
    need_group(ctx, argv[1], argv[2])
    min_idle = max(parse_int(argv[4], b"ERR Invalid min-idle-time argument for XCLAIM"), 0)
    return ctx.in_steps(argv, _claim(ctx, argv, min_idle))


def _claim(ctx: Context, argv: list[bytes], min_idle: int) -> Work[Reply]:
    """Claim the IDs. Each step applies LASTID to the group, and the other options to the step's IDs."""
    key, name, entry_ids, at = argv[1], argv[2], list[int](), 5
    while found := _parse_ids(argv, at, pace.MANY_IDS):
        entry_ids += found
        at += len(found)
        if len(found) == pace.MANY_IDS:
            yield
    options = _parse_options(ctx, argv, at)
    parts: list[bytes | memoryview] = []
    taken = 0
    for begin in range(0, max(len(entry_ids), 1), pace.MANY_IDS):
        if begin:
            yield
        ref = need_group(ctx, key, name, again=True)
        claim = _new_claim(ctx, ref, argv[3], min_idle, options)
        claim.claim_all(entry_ids[begin : begin + pace.MANY_IDS], options.force)
        if options.moved and not claim.parts:
            ctx.changes.dirty += 1
            record_position(ctx, ref)
        claim.effects.flush()
        parts += claim.parts
        taken += claim.taken
    return paged(list(parts)) if options.justid else Frames(taken, parts)


def _parse_ids(argv: list[bytes], at: int, most: int) -> list[int]:
    """Parse up to ``most`` IDs from word ``at`` on; stop before the first word that is not an ID."""
    words = list(takewhile(lambda word: not word[:1].isalpha(), argv[at : at + most]))
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
class _ClaimOptions:
    """XCLAIM's options after the IDs; ``moved``: whether the group's position has just moved to LASTID."""

    time: int
    count: int | None = None
    force: bool = False
    justid: bool = False
    last_id: int = 0
    moved: bool = False


def _parse_options(ctx: Context, argv: list[bytes], at: int) -> _ClaimOptions:
    args = Args(argv, at)
    time, count, force, justid, last_id = ctx.now, None, False, False, 0
    while len(args):
        if args.flag(b"FORCE"):
            force = True
        elif args.flag(b"JUSTID"):
            justid = True
        elif args.option(b"IDLE"):
            time = ctx.now - args.take_int(b"ERR Invalid IDLE option argument for XCLAIM")
        elif args.option(b"TIME"):
            time = args.take_int(b"ERR Invalid TIME option argument for XCLAIM")
        elif args.option(b"RETRYCOUNT"):
            given = args.take_int(b"ERR Invalid RETRYCOUNT option argument for XCLAIM")
            count = given if given >= 0 else None
        elif args.option(b"LASTID"):
            last_id = args.take_id()
        else:
            raise CommandError(b"ERR Unrecognized XCLAIM option '%b'" % argv[args.pos].partition(b"\0")[0])
    if not 0 <= time <= ctx.now:
        time = ctx.now
    return _ClaimOptions(time, count, force, justid, last_id)


def _new_claim(ctx: Context, ref: GroupRef, consumer: bytes, min_idle: int, options: _ClaimOptions) -> Claim:
    options.moved = options.last_id > ref.group.last_id
    if options.moved:
        ref.group.last_id = options.last_id
    seen = see_consumer(ctx, ref, consumer)
    return Claim(ctx, ref, seen, min_idle, options.time, options.count, options.justid)


@stream_command(
    "xautoclaim key group consumer min-idle-time start [COUNT count] [JUSTID]",
    "write fast",
    access="RW delete",
)
def xautoclaim(ctx: Context, argv: list[bytes]) -> Reply:
    """Scans pending entries from an ID on, and makes a consumer the owner of the idle ones."""
    key, group_name = argv[1], argv[2]
    min_idle = max(parse_int(argv[4], b"ERR Invalid min-idle-time argument for XAUTOCLAIM"), 0)
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

    def work() -> Work[Reply]:
        parts: list[bytes | memoryview] = []
        taken = 0
        while True:
            claim = begun()
            search.go_on(claim, pace.WORK)
            claim.effects.flush()
            parts += claim.parts
            taken += claim.taken
            if search.is_over:
                break
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
            return taken * pace.OF_A_RANGE
        if claim.is_below_min_idle(block, low, end):
            self.attempts, self.cursor = self.attempts - (end - low), block.id_at(end - 1) + 1
            return (end - low) * pace.OF_RECENT_ONES
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
