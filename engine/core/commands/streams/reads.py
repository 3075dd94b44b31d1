"""XREAD and XREADGROUP: their arguments, waiting for data, and the consumer's own pending entries.

With an ID instead of ``>``, XREADGROUP delivers the consumer's pending entries again. Records that were delivered
together are usually adjacent, and so are their entries. Such a stretch of records is delivered again at once. The
remaining records are processed one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np

from engine.core.commands.families import stream_command
from engine.core.commands.streams.groups import ClaimEffects, GroupRef, deliver, need_group, see_consumer
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import I64_MAX, parse_int, parse_timeout
from engine.core.protocol.replies import (
    NIL_ARRAY,
    Array,
    ByKey,
    CommandError,
    Frames,
    Pages,
    Raw,
    Reply,
    Several,
    held_by,
)
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.group import Consumer, Group
from engine.core.streams.pending import Block
from engine.core.streams.runs import BodyRun, Run, id_columns, reply_of, size_in_memory
from engine.core.streams.segment import loaded
from engine.core.streams.stream import Stream
from engine.core.table.registry import Keys
from engine.text import messages


@dataclass(slots=True)
class Read:
    """The parsed arguments of one call."""

    count: int = 0
    maxcount: int = 0
    maxsize: int = 0
    block: int | None = None
    claim: int | None = None
    noack: bool = False
    group: bytes | None = None
    consumer: bytes = b""
    keys: list[bytes] = field(default_factory=list)
    id_words: list[bytes] = field(default_factory=list)
    #: Index of the first ID among the command's words.
    id_pos: int = 0


def _parse(ctx: Context, argv: list[bytes]) -> Read:
    """Parse the arguments of a call."""
    grouped = argv[0].upper() == b"XREADGROUP"
    read = Read()
    # (`Args` would take half the time of a short read.)
    at, end = 1, len(argv)
    while not read.keys:
        word = argv[at].upper() if at < end else b""
        values = end - at - 1
        at += 1 + _VALUES_OF.get(word, 0)
        if word == b"COUNT" and values:
            read.count = max(parse_int(argv[at - 1]), 0)
        elif word == b"GROUP" and values > 1:
            if not grouped:
                raise CommandError(messages.read_only_with_group(b"GROUP"))
            read.group, read.consumer = argv[at - 2 : at]
        elif word == b"STREAMS" and values:
            if values % 2:
                raise CommandError(messages.READGROUP_UNBALANCED if grouped else messages.READ_UNBALANCED)
            read.id_pos = end - values // 2
            read.keys, read.id_words = argv[at : read.id_pos], argv[read.id_pos :]
        elif word == b"BLOCK" and values:
            read.block = parse_timeout(argv[at - 1], ctx.now)
        elif word == b"MAXCOUNT" and values:
            read.maxcount = parse_int(argv[at - 1], messages.MAXCOUNT_NOT_POSITIVE)
            if read.maxcount <= 0:
                raise CommandError(messages.MAXCOUNT_NOT_POSITIVE)
        elif word == b"MAXSIZE" and values:
            read.maxsize = parse_int(argv[at - 1], messages.MAXSIZE_NOT_POSITIVE)
            if read.maxsize <= 0:
                raise CommandError(messages.MAXSIZE_NOT_POSITIVE)
        elif word == b"NOACK":
            if not grouped:
                raise CommandError(messages.read_only_with_group(b"NOACK"))
            read.noack = True
        elif word == b"CLAIM" and values:
            if not grouped:
                raise CommandError(messages.read_only_with_group(b"CLAIM"))
            read.claim = parse_int(argv[at - 1], b"ERR min-idle-time is not an integer or out of range")
            if read.claim < 0:
                raise CommandError(b"ERR min-idle-time must be a positive integer")
        else:
            raise CommandError(messages.SYNTAX)
    if grouped and read.group is None:
        raise CommandError(b"ERR Missing GROUP option for XREADGROUP")
    if read.maxcount and read.count > read.maxcount:
        raise CommandError(b"ERR MAXCOUNT must be greater than or equal to COUNT")
    return read


#: Option -> number of its values.
_VALUES_OF = {b"GROUP": 2, b"COUNT": 1, b"MAXCOUNT": 1, b"MAXSIZE": 1, b"BLOCK": 1, b"CLAIM": 1, b"NOACK": 0}


def find_keys(argv: list[bytes]) -> list[bytes]:
    """Find the keys exactly as the command does, because permissions depend on them: a group may be named STREAMS."""
    at = 1
    while at < len(argv):
        word = argv[at].upper()
        if word == b"STREAMS":
            return argv[at + 1 : at + 1 + (len(argv) - at - 1) // 2]
        if word not in _VALUES_OF:
            break
        at += 1 + _VALUES_OF[word]
    return []


class Budget:
    """Limits of a reply: COUNT entries per stream, and MAXCOUNT entries and MAXSIZE bytes in total.

    The last entry may make the reply larger than MAXSIZE.
    """

    __slots__ = ("count", "left", "maxsize", "size")

    def __init__(self, read: Read) -> None:
        self.count = read.count
        self.left = read.maxcount or None
        self.maxsize = read.maxsize
        self.size = 0

    @property
    def spent(self) -> bool:
        return self.left == 0 or (0 < self.maxsize <= self.size)

    def limit(self, taken: int = 0) -> int:
        """Return the maximum number of further entries of a stream, after ``taken`` of its entries; 0 if unlimited.

        Must not be called when the budget is spent.
        """
        left = self.count - taken if self.count else 0
        if self.left is None:
            return left
        return min(left, self.left) if left else self.left

    def select(self, stream: Stream, low: int, taken: int = 0) -> list[Run]:
        """Select entries of ``stream`` from ``low`` on, within the budget, and charge them."""
        if self.spent or (self.count and taken >= self.count):
            return []
        runs = stream.first_runs(low, ids.MAX_ID, self.limit(taken))
        if self.maxsize:
            runs = self._cut(runs)
        if self.left is not None:
            self.left -= sum(last - first for _, first, last in runs)
        return runs

    def _cut(self, runs: list[Run]) -> list[Run]:
        selected = []
        for segment, first, last in runs:
            for index in range(first, last):
                if self.size >= self.maxsize:
                    if index > first:
                        selected.append((segment, first, index))
                    return selected
                self.size += len(segment.entries.frame_at(index))
            selected.append((segment, first, last))
        return selected

    def charge(self, size: int) -> None:
        """Charge an entry of ``size`` bytes."""
        self.size += size
        if self.left is not None:
            self.left -= 1


#: Fewer adjacent records than this number are processed one by one.
STRETCH = 8


def runs_of(stream: Stream, block: Block, low: int, high: int) -> list[Run]:
    """Return the entries of the records [low, high) if all exist and are adjacent; otherwise an empty list."""
    count = high - low
    runs = stream.first_runs(block.id_at(low), block.id_at(high - 1), count + 1)
    ms, seq = id_columns(runs)
    return runs if len(ms) == count and ms == block.ms[low:high] and seq == block.seq[low:high] else []


def delivered_again(block: Block, low: int, high: int, more: int) -> array[int]:
    """Return the delivery counts of the records [low, high), each increased by ``more``."""
    counts = np.frombuffer(block.counts, np.int64)[low:high]
    return array("q", (np.minimum(counts, I64_MAX - more) + more).tobytes())


class History:
    """A read, in steps, of the entries of one stream that are pending for a consumer.

    ``find`` returns the group, or raises the command's error if the group does not exist.
    """

    def __init__(self, ctx: Context, find: Callable[[], GroupRef], consumer: bytes, budget: Budget) -> None:
        self._ctx, self._find, self._consumer, self._budget = ctx, find, consumer, budget
        #: Number of entries in the reply so far, including deleted ones.
        self._count = 0
        #: The parts of the reply: stretches (count, runs), single entries, and IDs of deleted entries.
        self._given: list[tuple[int, list[BodyRun]] | Reply] = []

    def read(self, after: int) -> Generator[None, None, Reply]:
        """Return the consumer's entries after ``after``, within the budget.

        Set the delivery times and increment the delivery counts of those that are not deleted. Records that another
        command inserts after the last one while the steps run are left out.
        """
        pending, limit = self._find().group.pending, self._budget.limit()
        last = pending.last_id if len(pending) else 0
        cursor = self._step(after + 1, last, limit)
        while cursor is not None:
            yield
            cursor = self._step(cursor, last, limit)
        return self._reply()

    def _step(self, cursor: int, last: int, limit: int) -> int | None:
        """Deliver the entries from ``cursor`` to ``last`` again until the step's work is done.

        Return the ID from which the next step continues, None after the last step.
        """
        ref = self._find()
        consumer = see_consumer(self._ctx, ref, self._consumer)
        effects, left, work = ClaimEffects(self._ctx, ref, consumer.name), ref.group.pending_of(consumer), pace.WORK
        try:
            # Counting a delivery changes only the record's values, not the list being iterated.
            for block, begin, end in ref.group.pending.blocks(cursor, last):
                if not left:
                    return None
                if work <= 0:
                    return block.id_at(begin)
                work -= pace.OF_A_BLOCK
                for low, high in _stretches(block, begin, end, consumer.number):
                    left -= high - low
                    high = min(high, low + limit - self._count) if limit else high
                    if self._deliver_range(ref, consumer, effects, block, low, high):
                        work -= (high - low) * pace.OF_A_RANGE
                    else:
                        for index in range(low, high):
                            if self._count and self._budget.spent:
                                return None
                            if work <= 0:
                                return block.id_at(index)
                            self._budget.charge(self._deliver_one(ref, consumer, effects, block, index))
                            work -= 1
                    if limit and self._count >= limit:
                        return None
        finally:
            # If an entry cannot be read, still record the deliveries before this entry.
            effects.flush()
        return None

    def _deliver_range(
        self, ref: GroupRef, consumer: Consumer, effects: ClaimEffects, block: Block, low: int, high: int
    ) -> bool:
        """Deliver the records [low, high) again at once; return False, with no change, if that is not possible."""
        budget, now = self._budget, self._ctx.now
        runs = runs_of(ref.stream, block, low, high) if high - low >= STRETCH and not budget.maxsize else []
        if not runs:
            return False
        counts = delivered_again(block, low, high, 1)
        ref.group.pending.assign(block, low, high, consumer.number, now, counts)
        if self._ctx.changes.recording:
            for entry_id, count in zip(block.ids(low, high), counts, strict=True):
                effects.add(entry_id, now, count)
        self._given.append((high - low, [(segment.body, first, last) for segment, first, last in runs]))
        self._count += high - low
        if budget.left is not None:
            budget.left -= high - low
        return True

    def _deliver_one(self, ref: GroupRef, consumer: Consumer, effects: ClaimEffects, block: Block, index: int) -> int:
        """Deliver the entry of one record again; return the entry's size in bytes.

        If the entry was deleted, add its ID to the reply without a delivery, and return 0.
        """
        entry_id = block.id_at(index)
        entry = ref.stream.frame(entry_id)
        self._count += 1
        if entry is None:
            self._given.append([ids.text(entry_id), NIL_ARRAY])
            return 0
        self._given.append(Raw(entry))
        count = min(block.counts[index] + 1, I64_MAX)
        ref.group.assign((block, index), consumer, self._ctx.now, count)
        effects.add(entry_id, self._ctx.now, count)
        return len(entry)

    def _reply(self) -> Reply:
        if self._count > pace.MANY_ENTRIES:
            bodies = (run[0] for part in self._given if type(part) is tuple for run in part[1])
            return Pages(list, self._count, self._pages(), size_in_memory(bodies) + held_by(self._given))
        parts = list(map(_shown, self._given))
        if any(type(part) is list for part in parts):
            return Array(parts)
        every = [part.parts if type(part) is Several else (part,) for part in parts]
        return Frames(self._count, [view for views in every for view in views])

    def _pages(self) -> Iterator[list[Reply]]:
        page: list[Reply] = []
        stretches = 0
        for part in self._given:
            page.append(_shown(part))
            stretches += type(part) is tuple
            if stretches == pace.PAGE_STRETCHES or len(page) == pace.PAGE_ROWS:
                yield page
                page, stretches = [], 0
        yield page


def _shown(given: tuple[int, list[BodyRun]] | Reply) -> Reply:
    if type(given) is not tuple:
        return given
    count, runs = given
    return Several(count, [view for body, first, last in runs for view in loaded(body).views(first, last)])


def _stretches(block: Block, begin: int, end: int, owner: int) -> Iterator[tuple[int, int]]:
    """Yield the records of ``owner`` in [begin, end) as stretches [i, j) of adjacent records."""
    if block.tally(begin, end).get(owner) == end - begin:
        yield begin, end
        return
    low = high = begin
    for index in block.matching(owner, None):
        if not begin <= index < end:
            continue
        if index != high:
            if low < high:
                yield low, high
            low = index
        high = index + 1
    if low < high:
        yield low, high


#: Minimum interval, in milliseconds, at which a reader that waits for idle entries checks for deliveries to other
#: consumers.
_RECHECK_MS = 100
#: Start of a read with ``>``, which returns entries not yet delivered to the group.
NEW = ids.MAX_ID


# -- XREAD ------------------------------------------------------------------------------------------------------------


def _by_key(found: list[tuple[bytes, Reply]]) -> Reply:
    """Build the reply from the results per key."""
    if len(found) <= pace.MANY_ROWS and not any(type(reply) is Pages for _, reply in found):
        return ByKey(found)
    pages = (found[at : at + pace.PAGE_ROWS] for at in range(0, len(found), pace.PAGE_ROWS))
    return Pages(ByKey, len(found), pages, held_by(reply for _, reply in found))


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
)
def xread(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns entries of several streams after given IDs; with BLOCK, waits for them."""
    read = _parse(ctx, argv)
    return ctx.in_steps(argv, _read(ctx, argv, read))


def _read(ctx: Context, argv: list[bytes], read: Read) -> Generator[None, None, Reply]:
    starts: list[int] = []
    for key, word in zip(read.keys, read.id_words, strict=True):
        starts.append(_read_start(ctx, key, word))
        if not len(starts) % pace.IDS:
            yield
    budget = Budget(read)
    found: list[tuple[bytes, Reply]] = []
    for number, (key, start) in enumerate(zip(read.keys, starts, strict=True), 1):
        if budget.spent:
            break
        if not number % pace.IDS:
            yield
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
)
def xreadgroup(ctx: Context, argv: list[bytes]) -> Reply:
    """Delivers new or pending entries of several streams to a consumer of a group; with BLOCK, waits for them."""
    read = _parse(ctx, argv)
    assert read.group is not None
    if len(read.keys) == 1 and read.claim is None and not (read.maxcount or read.maxsize) and argv[-1] == b">":
        return _only_new(ctx, argv, read, read.group)
    return ctx.in_steps(argv, _read_group(ctx, argv, read, read.group))


#: The read of one stream: its key, the ID after which it starts (`NEW` for ``>``), and the consumer's history (None for
#: ``>``).
_GroupRead = tuple[bytes, int, History | None]


def _read_group(ctx: Context, argv: list[bytes], read: Read, name: bytes) -> Generator[None, None, Reply]:
    """Read new or pending entries of several streams, after all of them have been checked."""
    budget, reads = Budget(read), list[_GroupRead]()
    for key, word in zip(read.keys, read.id_words, strict=True):
        need_group(ctx, key, name, messages.no_group_read)
        start = _group_start(word)
        find = partial(need_group, ctx, key, name, messages.no_group_read, again=True)
        reads.append((key, start, None if start == NEW else History(ctx, find, read.consumer, budget)))
        if not len(reads) % pace.IDS:
            yield
    found: list[tuple[bytes, Reply]] = []
    claims = read.claim
    for number, (key, start, history) in enumerate(reads, 1):
        if budget.spent:
            break
        if not number % pace.IDS:
            yield
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
            reply, new = _by_key([(key, reply_of(runs))]), id_columns(runs)
            if len(new[0]) > pace.DELIVERED:
                return ctx.in_steps(argv, _deliver_many(ctx, ref, consumer, new, read.noack, reply))
            deliver(ctx, ref, consumer, new, read.noack)
            return reply
    return NIL_ARRAY if read.block is None else _wait(ctx, argv, read, None)


def _deliver_many(
    ctx: Context, ref: GroupRef, consumer: Consumer, new: ids.IdColumns, noack: bool, reply: Reply
) -> Generator[None, None, Reply]:
    """Deliver new entries with these IDs in steps; return ``reply``."""
    ms, seq = new
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
        fresh = (segment.entries.frame_at(at) for segment, first, last in runs for at in range(first, last))
        reply = [*claimed, *(_with_history(entry, 0, 0) for entry in fresh)]
    return (yield from _deliver_many(ctx, ref, consumer, id_columns(runs), read.noack, reply))


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
        idle, count = max(ctx.now - block.times[index], 0), block.counts[index]
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
