"""Commands that Redis does not have (prefix ``PS.``), for ranges of streams and for adding staged entries.

Clients detect them with ``COMMAND INFO``. A range ``after upto`` excludes ``after`` and includes ``upto``, like the
offsets of a micro-batch. The cost of PS.STATE is constant. The cost of PS.NTH and PS.SPLIT depends mainly on the
number of segments and parts. PS.DELIVER copies the ID of each entry, and PS.APPEND costs as much as the same XADDs in a
pipeline.

Decoding of the XADDs that PS.APPEND runs: commands for one key, without options, with any fields.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from engine.core.commands.families import stream_command
from engine.core.commands.streams.groups import (
    IDS_AT_ONCE,
    group_if_there,
    need_group,
    record_new,
    record_position,
    see_consumer,
    shown_lag,
    shown_read,
)
from engine.core.environment.context import Context
from engine.core.keyspace.hash import Hash
from engine.core.protocol import ids, pace
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Reply, rows_in_pages
from engine.core.protocol.xadd import XaddRun
from engine.core.streams.group import shown
from engine.core.streams.runs import equal_ranges, id_columns
from engine.core.table.registry import COMMANDS, Keys
from engine.text import messages
from streamwire.walker import AFTER, Mismatch, Walker

#: Minimum number of commands that are decoded together.
_MANY = 16
#: Maximum number of digits of a length or a number of words.
_DIGITS = 9


def _run(key: bytes, words: int, bodies: list[bytes]) -> XaddRun:
    """Return a run of XADDs to ``key``. Each body contains ``words`` bulk strings: the fields and their values."""
    return XaddRun(len(bodies), [b"XADD", key, b"*"], words, bodies, list(map(len, bodies)))


def adds_of(key: bytes, data: bytes) -> list[XaddRun]:
    """Decode the commands in ``data``, in order. Raise CommandError if ``data`` is empty or has other contents."""
    middle = b"$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n" % (len(key), key)
    try:
        return _alike(key, data, middle) or _one_by_one(key, data, middle)
    except ValueError:
        raise CommandError(
            b"ERR the field must contain only commands XADD key * field value ... for that key"
        ) from None


def _alike(key: bytes, data: bytes, middle: bytes) -> list[XaddRun]:
    """Decode many commands with the same number of words; return an empty list if they are few or not alike."""
    line = data.index(b"\r\n")
    words = _number(data, 0, line, b"*") - 3
    head = data[: line + 2] + middle
    before, *bodies = data.split(head)
    if before or words < 2 or words & 1 or len(bodies) < _MANY:
        return []
    sizes = np.fromiter(map(len, bodies), np.int64, len(bodies))
    ends = np.cumsum(sizes + len(head))
    return [_run(key, words, bodies)] if _are_bulks(data, ends - sizes, ends, words) else []


def _are_bulks(data: bytes, at: NDArray[np.int64], ends: NDArray[np.int64], words: int) -> bool:
    """Return whether every ``data[at[i]:ends[i]]`` consists of exactly ``words`` bulk strings."""
    walker = Walker(data + bytes(AFTER), at)
    try:
        for number in range(words):
            walker.bulk(b"\r\n$" if number else b"$")
        return bool(walker.have(b"\r\n").all()) and np.array_equal(walker.at + len(b"\r\n"), ends)
    except Mismatch:
        return False


def _one_by_one(key: bytes, data: bytes, middle: bytes) -> list[XaddRun]:
    """Decode the commands one by one. Raise ValueError if ``data`` is empty or has other contents."""
    found: list[XaddRun] = []
    bodies: list[bytes] = []
    before = at = 0
    while at < len(data):
        line = data.index(b"\r\n", at)
        words = _number(data, at, line, b"*") - 3
        start = line + 2 + len(middle)
        if words < 2 or words & 1 or data[line + 2 : start] != middle:
            raise ValueError
        if words != before and bodies:
            found.append(_run(key, before, bodies))
            bodies = []
        before, at = words, _end(data, start, words)
        bodies.append(data[start:at])
    if not bodies:
        raise ValueError
    return [*found, _run(key, before, bodies)]


def _end(data: bytes, at: int, words: int) -> int:
    """Return the end of the ``words`` bulk strings that start at ``at``. Raise ValueError if there are fewer."""
    index = data.index
    for _ in range(words):
        line = index(b"\r\n", at)
        at = line + 4 + _number(data, at, line, b"$")
        if data[at - 2 : at] != b"\r\n":
            raise ValueError
    return at


def _number(data: bytes, at: int, line: int, kind: bytes) -> int:
    """Return the number after ``kind`` in the header ``data[at:line]``. Raise ValueError for any other header."""
    digits = data[at + 1 : line]
    if data[at : at + 1] != kind or not digits.isdigit() or len(digits) > _DIGITS or (digits[:1] == b"0" != digits):
        raise ValueError
    return int(digits)


def _parse_range(args: Args) -> tuple[int, int]:
    """Parse ``after upto``: return the first and the last ID of the range."""
    after, upto = ids.parse_bound(args.take()), ids.parse_bound(args.take(), ids.U64_MAX)
    return after + 1, upto


@stream_command("ps.state key [group]", "readonly fast")
def ps_state(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the counters of XINFO STREAM and XINFO GROUPS, without entries.

    The reply is ``[last generated ID, length, first ID, entries added, largest deleted ID, group]``, or nil if the key
    does not exist. The first ID is nil in an empty stream. The group is ``[last delivered ID, lag, pending entries,
    entries read]``, or nil if it is not given or does not exist. Lag and entries read are nil if unknown.
    """
    args = Args(argv, 2)
    name = args.take() if len(args) else None
    if len(args):
        raise CommandError(messages.SYNTAX)
    stream = ctx.db.read_stream(argv[1])
    if stream is None:
        return None
    group = stream.groups.get(name) if name is not None else None
    position: Reply = None
    if group is not None:
        position = [ids.text(group.last_id), shown_lag(group, stream), len(group.pending), shown_read(group)]
    first = ids.text(stream.first_id) if stream.length else None
    deleted = ids.text(stream.max_deleted_id)
    return [ids.text(stream.last_id), stream.length, first, shown(stream.entries_added), deleted, position]


@stream_command(
    "ps.nth key after count",
    "readonly fast",
)
def ps_nth(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the ID of the count-th entry after an ID, or of the last entry if fewer entries follow.

    The reply is ``[ID, number of entries after `after` up to this ID]``, or ``[nil, 0]`` if there are no entries.
    """
    args = Args(argv, 2)
    after, count = ids.parse_bound(args.take()), args.take_int()
    if count <= 0:
        raise CommandError(b"ERR count must be a positive integer")
    stream = ctx.db.stream(argv[1])
    if stream is None or not stream.length or after >= stream.last_entry_id:
        return [None, 0]
    entry_id = stream.nth_after(after, count)
    if entry_id:
        return [ids.text(entry_id), count]
    return [ids.text(stream.last_entry_id), stream.count(after + 1, ids.MAX_ID)]


@stream_command("ps.split key after upto parts", "readonly")
def ps_split(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns IDs that split a range of a stream into parts whose sizes differ by at most one entry.

    The reply is ``[[last ID of the part, its number of entries], ...]``: at most ``parts`` parts, none of them empty.
    The last part ends at ``upto``.
    """
    args = Args(argv, 2)
    low, high = _parse_range(args)
    parts = args.take_int()
    if parts <= 0:
        raise CommandError(b"ERR parts must be a positive integer")
    stream = ctx.db.stream(argv[1])
    total = stream.count(low, high) if stream is not None else 0
    if stream is None or not total:
        return []
    parts = min(parts, total)
    ends = equal_ranges(stream.frozen_ranges(low, high), total, parts)
    every = chain(ends, [(high, total - total * (parts - 1) // parts)])
    return rows_in_pages(parts, every, _part)


def _part(end: int, size: int) -> Reply:
    return [ids.text(end), size]


@stream_command(
    "ps.deliver key group consumer after upto [TIME unix-time-milliseconds]",
    "write",
)
def ps_deliver(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds the entries of a range to a consumer group's pending entries list, without returning them.

    Entries that the group has already received are skipped, so a repeated call delivers none. ``TIME`` sets the
    delivery time. If it is missing, negative or in the future, the current time is used. The reply is the number of
    entries delivered.
    """
    args = Args(argv, 4)
    low, high = _parse_range(args)
    time = ctx.now
    while len(args):
        if not args.option(b"TIME"):
            raise CommandError(messages.SYNTAX)
        given = args.take_int()
        time = given if 0 <= given <= ctx.now else ctx.now
    # Replicas receive commands that name each ID.
    most = pace.DELIVERED if ctx.replication.feeds else 10 * pace.DELIVERED

    def work() -> Generator[None, None, Reply]:
        done = more = _deliver(ctx, argv, low, high, time, most)
        while more == most:
            yield
            more = _deliver(ctx, argv, low, high, time, most, again=True)
            done += more
        return done

    return ctx.in_steps(argv, work())


def _deliver(ctx: Context, argv: list[bytes], low: int, high: int, time: int, most: int, *, again: bool = False) -> int:
    """Deliver the first ``most`` entries of the range that the group has not received; return their number."""
    key, name = argv[1], argv[2]
    ref = need_group(ctx, key, name, again=again)
    stream, group = ref.stream, ref.group
    consumer = see_consumer(ctx, ref, argv[3])
    low = max(low, group.last_id + 1)
    runs = stream.first_runs(low, high, most)
    if not runs:
        return 0
    delivered = id_columns(runs)
    group.deliver(stream, delivered, consumer, time, noack=False)
    ctx.changes.dirty += 1
    if ctx.changes.recording:
        if ctx.replication.feeds:
            record_new(ctx, ref, consumer.name, delivered, time)
        else:
            # One short command for any number of entries, because a replay finds the same stream and group.
            after, upto = ids.text(low - 1), ids.text(group.last_id)
            ctx.effect(b"PS.DELIVER", key, name, consumer.name, after, upto, b"TIME", b"%d" % time)
        record_position(ctx, ref)
    return len(delivered[0])


@stream_command("ps.ackrange key group after upto", "write")
def ps_ackrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Acknowledges all pending entries of a range, and returns how many."""
    key, name = argv[1], argv[2]
    low, high = _parse_range(Args(argv, 3))
    if ctx.replication.feeds:
        return _acknowledge_in_steps(ctx, argv, low, high)
    group = group_if_there(ctx, key, name)
    done = group.acknowledge_range(low, high) if group is not None else 0
    if done:
        ctx.changes.dirty += done
        ctx.effect(*argv)
    return done


def _acknowledge_in_steps(ctx: Context, argv: list[bytes], low: int, high: int) -> Reply:
    """Acknowledge in steps. Replicas receive XACK commands that name each ID, which any Redis supports."""
    key, name = argv[1], argv[2]

    def step() -> int:
        """Acknowledge the next entries; return their number."""
        nonlocal low
        group = group_if_there(ctx, key, name)
        records = islice(group.pending.records(low, high), IDS_AT_ONCE) if group is not None else ()
        found = [block.id_at(index) for block, index in records]
        if group is not None and found:
            group.acknowledge_range(low, found[-1])
            low = found[-1] + 1
            ctx.changes.dirty += len(found)
            ctx.effect(b"XACK", key, name, *map(ids.text, found))
        return len(found)

    def work() -> Generator[None, None, Reply]:
        done = more = step()
        while more == IDS_AT_ONCE:
            yield
            more = step()
            done += more
        return done

    return ctx.in_steps(argv, work())


@stream_command(
    "ps.append key hash field",
    "write denyoom",
    keys=Keys(1, 2, 1),
    access="RW insert, RO access",
)
def ps_append(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds the entries in a field of a hash to a stream, and returns how many.

    The field contains commands ``XADD key * field value ...`` for this key, without options, encoded in RESP. If the
    field contains anything else or does not exist, or the stream has too few IDs left, the command fails and adds
    nothing.
    """
    _, key, source, name = argv
    stream = ctx.db.stream(key)
    fields: Hash | None = ctx.db.typed(source, Hash)
    data = None if fields is None else fields.get(name)
    if data is None:
        raise CommandError(b"ERR no such hash or field")
    runs = adds_of(key, data)
    if stream is not None and ids.MAX_ID - stream.last_id < sum(run.count for run in runs):
        raise CommandError(messages.ID_EXHAUSTED)
    added = 0
    for run in runs:
        for reply in ctx.run_queued(ctx.session, (COMMANDS[b"XADD"], run)):
            if isinstance(reply, CommandError):
                return reply
        added += run.count
    return added
