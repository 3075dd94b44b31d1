"""XREAD and XREADGROUP, and waiting for data. ``read_arguments`` parses their arguments."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from itertools import chain

from engine.core.commands.families import stream_command
from engine.core.commands.streams.groups.effects import ClaimEffects, deliver, see_consumer
from engine.core.commands.streams.groups.history import History
from engine.core.commands.streams.groups.read_arguments import Budget, Read, find_keys, parse_read
from engine.core.commands.streams.lookups import GroupRef, need_group
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import I64_MAX
from engine.core.protocol.replies import NIL_ARRAY, ByKey, CommandError, Frames, Pages, Raw, Reply, Steps, held_by
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.group import Consumer, Group
from engine.core.streams.runs import Run, id_columns, reply_of
from engine.core.streams.stream import Stream
from engine.core.table.registry import Keys
from engine.text import messages

#: Minimum interval, in milliseconds, at which a reader that waits for idle entries checks for deliveries to other
#: consumers.
_RECHECK_MS = 100
#: Start of a read with ``>``, which returns entries not yet delivered to the group.
NEW = ids.MAX_ID


# -- XREAD ------------------------------------------------------------------------------------------------------------


def _by_key(found: list[tuple[bytes, Reply]]) -> Reply:
    """Build the reply from the results per key."""
    for _, reply in found:
        if type(reply) is Pages:
            return Pages(ByKey, len(found), iter([found]), held_by(reply for _, reply in found))
    return ByKey(found)


def _read_start(ctx: Context, key: bytes, word: bytes) -> int:
    """Return the ID after which XREAD starts."""
    stream = ctx.db.read_stream(key)
    if word == b"$":
        return stream.last_id if stream is not None else 0
    if word == b"+":
        return stream.last_entry_id - 1 if stream is not None and stream.length else 0
    if word == b">":
        raise CommandError(messages.READ_GREATER)
    return ids.parse(word)


@stream_command(
    "xread [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
    "readonly blocking movablekeys",
    keys=Keys(find=find_keys),
    complexity="O(keys + N) with N entries returned.",
)
def xread(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns entries of several streams after given IDs; with BLOCK, waits for them."""
    read = parse_read(ctx, argv)
    starts = [_read_start(ctx, key, word) for key, word in zip(read.keys, read.id_words, strict=True)]
    budget = Budget(read)
    found: list[tuple[bytes, Reply]] = []
    for key, start in zip(read.keys, starts, strict=True):
        if budget.spent:
            break
        stream = ctx.db.read_stream(key)
        if stream is None or start >= stream.last_id:
            continue
        runs = budget.select(stream, start + 1)
        if runs:
            found.append((key, reply_of(runs)))
    if found:
        return _by_key(found)
    if read.block is None:
        return NIL_ARRAY
    if ctx.retry is None:
        # Replace "$" in the blocked command with the current last ID: in a retry, "$" would mean a later ID.
        words = [ids.text(start) if word == b"$" else word for word, start in zip(read.id_words, starts, strict=True)]
        argv = argv[: read.id_pos] + words
    behind = dict(zip(read.keys, starts, strict=True)) if len(set(read.keys)) == len(read.keys) else {}

    def has_news(key: bytes, stream: Stream) -> bool:
        return stream.last_id > behind.get(key, -1)

    return ctx.block(argv, read.keys, read.block, has_news=has_news)


# -- XREADGROUP -------------------------------------------------------------------------------------------------------


def _group_start(word: bytes) -> int:
    """Return the ID after which XREADGROUP starts."""
    if word == b"$":
        raise CommandError(messages.READGROUP_DOLLAR)
    if word == b"+":
        raise CommandError(messages.READGROUP_PLUS)
    return NEW if word == b">" else ids.parse(word)


@stream_command(
    "xreadgroup GROUP group consumer [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK milliseconds] "
    "[CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]",
    "write blocking movablekeys",
    keys=Keys(find=find_keys),
    access="RO access",
    complexity="O(keys + N) with N entries returned.",
)
def xreadgroup(ctx: Context, argv: list[bytes]) -> Reply:
    """Delivers new or pending entries of several streams to a consumer of a group; with BLOCK, waits for them."""
    read = parse_read(ctx, argv)
    assert read.group is not None
    if len(read.keys) == 1 and read.claim is None and not (read.maxcount or read.maxsize) and argv[-1] == b">":
        return _only_new(ctx, argv, read, read.group)
    name, budget = read.group, Budget(read)
    reads: list[tuple[bytes, int, History | None]] = []
    for key, word in zip(read.keys, read.id_words, strict=True):
        need_group(ctx, key, name, messages.no_group_read)
        start = _group_start(word)
        history = None
        if start != NEW:
            history = History(
                ctx, partial(need_group, ctx, key, name, messages.no_group_read, again=True), read.consumer, budget
            )
        reads.append((key, start, history))
    work = _read_group(ctx, argv, read, reads, budget)
    size = sum(_size(ctx, read, key, history) for key, _, history in reads)
    return ctx.in_steps(argv, work) if size > pace.MANY_PENDING else Steps(argv, work).all()


def _size(ctx: Context, read: Read, key: bytes, history: History | None) -> int:
    """Return the maximum number of records that the read of one stream examines or adds."""
    if history is not None:
        return history.size()
    ref = need_group(ctx, key, read.group or b"", messages.no_group_read, again=True)
    return min(ref.stream.count(ref.group.last_id + 1, ids.MAX_ID), read.count or NEW, read.maxcount or NEW)


def _read_group(
    ctx: Context, argv: list[bytes], read: Read, reads: list[tuple[bytes, int, History | None]], budget: Budget
) -> Generator[None, None, Reply]:
    """Read new or pending entries of several streams.

    ``reads`` has for each stream its key, the ID after which the read starts (`NEW` for ``>``), and the consumer's
    history (None for ``>``).
    """
    name = read.group
    assert name is not None
    found: list[tuple[bytes, Reply]] = []
    claims = read.claim
    for key, start, history in reads:
        if budget.spent:
            break
        if history is not None:
            claims = None
            found.append((key, (yield from history.read(start))))
            continue
        ref = need_group(ctx, key, name, messages.no_group_read, again=True)
        consumer = see_consumer(ctx, ref, read.consumer)
        reply = yield from _new_entries(ctx, ref, read, consumer, budget, claims)
        if reply is not None:
            found.append((key, reply))
    if found:
        return _by_key(found)
    if read.block is None:
        return NIL_ARRAY
    groups = [need_group(ctx, key, name, messages.no_group_read, again=True).group for key in read.keys]
    wake_at = _next_claim(ctx, groups, claims) if claims is not None else None
    return _wait(ctx, argv, read, wake_at)


def _only_new(ctx: Context, argv: list[bytes], read: Read, name: bytes) -> Reply:
    """Fast path for the most frequent call: new entries of one stream."""
    key = read.keys[0]
    ref = need_group(ctx, key, name, messages.no_group_read)
    consumer = see_consumer(ctx, ref, read.consumer)
    if ref.stream.last_id > ref.group.last_id:
        runs = ref.stream.first_runs(ref.group.last_id + 1, ids.MAX_ID, read.count)
        if runs:
            reply = reply_of(runs)
            if type(reply) is Frames:
                deliver(ctx, ref, consumer, id_columns(runs), read.noack)
                return ByKey([(key, reply)])
            return ctx.in_steps(argv, _deliver_many(ctx, ref, consumer, runs, read.noack, _by_key([(key, reply)])))
    return NIL_ARRAY if read.block is None else _wait(ctx, argv, read, None)


def _deliver_many(
    ctx: Context, ref: GroupRef, consumer: Consumer, runs: list[Run], noack: bool, reply: Reply
) -> Generator[None, None, Reply]:
    """Deliver new entries in steps; return ``reply``."""
    ms, seq = id_columns(runs)
    for at in range(0, len(ms), pace.DELIVERED):
        if at:
            yield
        deliver(ctx, ref, consumer, (ms[at : at + pace.DELIVERED], seq[at : at + pace.DELIVERED]), noack)
    return reply


def _wait(ctx: Context, argv: list[bytes], read: Read, wake_at: int | None) -> Reply:
    """Wait for new entries and, with CLAIM, until pending entries are idle for long enough."""
    name = read.group
    assert name is not None
    assert read.block is not None

    def has_news(_key: bytes, stream: Stream) -> bool:
        group = stream.groups.get(name)
        return group is None or stream.last_id > group.last_id

    return ctx.block(
        argv,
        read.keys,
        read.block,
        on_delete=True,
        wake_at=wake_at,
        has_news=has_news if read.claim is None else None,
        interest=name if read.claim is None else None,
    )


def _next_claim(ctx: Context, groups: list[Group], min_idle: int) -> int:
    """Return the next time at which an entry may become idle for ``min_idle`` ms.

    Records that are already idle for ``min_idle`` do not end the wait: they have just been processed, and remain only
    because their entries are deleted. Deliveries to other consumers do not wake this client. Therefore the wait
    ends at the latest after ``min_idle`` or ``_RECHECK_MS``, whichever is longer.
    """
    times = [group.pending.oldest_time(ctx.now - min_idle) for group in groups]
    known = [time + min_idle + 1 for time in times if time is not None]
    return min([*known, ctx.now + max(min_idle, _RECHECK_MS) + 1])


def _new_entries(
    ctx: Context, ref: GroupRef, read: Read, consumer: Consumer, budget: Budget, claims: int | None
) -> Generator[None, None, Reply | None]:
    """Return the entries for ``>``: with CLAIM, idle pending ones first, then new ones; None if nothing was found."""
    claimed: list[Reply] = []
    if claims is not None:
        claimed = _claim_idle(ctx, ref, consumer, budget, claims)
    runs: list[Run] = []
    if ref.stream.last_id > ref.group.last_id:
        runs = budget.select(ref.stream, ref.group.last_id + 1, len(claimed))
    if not runs:
        return claimed or None
    reply: Reply
    if claims is None:
        reply = reply_of(runs)
    else:
        fresh = (segment.frame_at(at) for segment, first, last in runs for at in range(first, last))
        reply = [*claimed, *(_with_history(entry, 0, 0) for entry in fresh)]
    return (yield from _deliver_many(ctx, ref, consumer, runs, read.noack, reply))


def _with_history(entry: bytes, idle: int, count: int) -> Raw:
    """Return an entry in CLAIM's form: followed by the idle time and delivery count before this delivery."""
    return Raw(b"*4%b:%d\r\n:%d\r\n" % (entry[2:], idle, count))


def _claim_idle(ctx: Context, ref: GroupRef, consumer: Consumer, budget: Budget, min_idle: int) -> list[Reply]:
    """Claim pending entries idle for ``min_idle`` ms: NACKed ones first, then the oldest deliveries."""
    claimed: list[Reply] = []
    stream, group, effects = ref.stream, ref.group, ClaimEffects(ctx, ref, consumer.name)
    nacked = dict(group.nacked)
    # Leave out the NACKed entries: they are delivered first, and a minimum idle time of 0 would include them again.
    others = (entry_id for entry_id in group.pending.oldest(ctx.now - min_idle) if entry_id not in nacked)
    for entry_id in chain(nacked, others):
        if budget.spent or (budget.count and len(claimed) >= budget.count):
            break
        try:
            entry = stream.frame(entry_id)
        except UnreadableError:
            effects.flush()
            raise
        record = group.pending.find(entry_id)
        if entry is None or record is None:
            continue
        block, index = record
        idle, count = max(ctx.now - block.time_at(index), 0), block.count_at(index)
        now_delivered = min(count + 1, I64_MAX)
        group.assign(record, consumer, ctx.now, now_delivered)
        consumer.active_time = ctx.now
        reply = _with_history(entry, idle, count)
        budget.charge(len(reply))
        claimed.append(reply)
        ctx.changes.dirty += 1
        effects.add(entry_id, ctx.now, now_delivered)
    effects.flush()
    return claimed
