"""Reading and removing a stream's entries: XLEN, XRANGE, XREVRANGE, XDEL, XDELEX and XTRIM.

Commands with many IDs, also those of other modules, run in steps (`counted`, `listed`). All IDs are parsed first, so
that an invalid one fails the command before any change. Each step then processes some of them like a separate command:
it looks the stream up, counts its changes and records its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from engine.core.commands.families import stream_command
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import Args
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Reply, paged
from engine.core.protocol.xadd import POLICIES, TRIM_OPTIONS, divide
from engine.core.streams.runs import reply_of_snapshots
from engine.core.streams.stream import Stream
from engine.core.streams.trimming import (
    ACKED,
    DELREF,
    Trim,
    Work,
    drop_references,
    effect_words,
    unneeded,
)
from engine.text import messages

#: Function that processes some IDs and returns a count. The IDs are given with the words from which they were parsed.
Part = Callable[[list[int], list[bytes]], int]
#: Function that processes some IDs, given in the same way, in one step or several, and returns one result per ID.
PartWithResults = Callable[[list[int], list[bytes]], Generator[None, None, list[Reply]]]


def _parsed(words: list[bytes]) -> Work[list[int]]:
    entry_ids: list[int] = []
    for at in range(0, len(words), pace.PARSED):
        if at:
            yield
        entry_ids += ids.parse_many(words[at : at + pace.PARSED])
    return entry_ids


def counted(ctx: Context, argv: list[bytes], words: list[bytes], part: Part) -> Reply:
    """Return the sum of ``part``'s results for all of ``words``, processed in steps if there are many."""
    if len(words) <= pace.MANY_IDS:
        return part(ids.parse_many(words), words)

    def work() -> Work[Reply]:
        entry_ids, done = (yield from _parsed(words)), 0
        for at in range(0, len(words), pace.MANY_IDS):
            if at:
                yield
            done += part(entry_ids[at : at + pace.MANY_IDS], words[at : at + pace.MANY_IDS])
        return done

    return ctx.in_steps(argv, work())


def listed(ctx: Context, argv: list[bytes], words: list[bytes], part: PartWithResults) -> Reply:
    """Return ``part``'s results for all of ``words`` in order."""

    def work() -> Work[Reply]:
        entry_ids, results = (yield from _parsed(words)), list[Reply]()
        for at in range(0, len(words), pace.IDS):
            if at:
                yield
            results += yield from part(entry_ids[at : at + pace.IDS], words[at : at + pace.IDS])
        return paged(results)

    return ctx.in_steps(argv, work())


@stream_command("xdel key id [id ...]", "write fast", access="RW delete")
def xdel(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes entries of a stream, and returns how many existed."""
    if ctx.db.stream(argv[1]) is None:
        return 0
    return counted(ctx, argv, argv[2:], partial(_delete, ctx, argv[1]))


def _delete(ctx: Context, key: bytes, entry_ids: list[int], words: list[bytes]) -> int:
    stream = ctx.db.stream(key)
    deleted = stream.delete_many(entry_ids) if stream is not None else 0
    if deleted:
        ctx.db.touch(key, changes=deleted)
        ctx.changes.notify("t", b"xdel", key, ctx.db.index)
        ctx.effect(b"XDEL", key, *words)
    return deleted


def parse_policy_and_ids(args: Args) -> tuple[bytes, list[bytes]]:
    """Parse ``[KEEPREF|DELREF|ACKED] IDS numids id [id ...]`` in any order.

    Return the policy (empty if not given) and the words of the IDs.
    """
    policy, words = b"", None
    while len(args):
        word = args.peek()
        if word in POLICIES and not policy:
            policy = args.take().upper()
        elif word == b"IDS" and len(args) > 1 and words is None:
            args.take()
            count = args.take_int(messages.NUMIDS_NOT_POSITIVE)
            if count <= 0:
                raise CommandError(messages.NUMIDS_NOT_POSITIVE)
            if count > len(args):
                raise CommandError(b"ERR The `numids` parameter must match the number of arguments")
            words = [args.take() for _ in range(count)]
        else:
            raise CommandError(messages.SYNTAX)
    if words is None:
        raise CommandError(b"ERR IDS option is required")
    return policy, words


@stream_command(
    "xdelex key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
    "write fast",
    access="RW delete",
)
def xdelex(ctx: Context, argv: list[bytes]) -> Reply:
    """Deletes entries of a stream, with a policy for references in consumer groups.

    The reply has one number per ID: 1 if the entry was deleted, -1 if it does not exist, 2 if it is still referenced.
    """
    key = argv[1]
    stream = ctx.db.stream(key)  # Like Redis, refuse another type before invalid arguments.
    policy, words = parse_policy_and_ids(Args(argv, 2))
    if stream is None:
        return [-1] * len(words)
    return listed(ctx, argv, words, partial(_delete_with_policy, ctx, key, policy))


def _delete_with_policy(
    ctx: Context, key: bytes, policy: bytes, entry_ids: list[int], words: list[bytes]
) -> Work[list[Reply]]:
    stream = ctx.db.stream(key)
    if stream is None:
        return [-1] * len(words)
    stream.load_segments(entry_ids)
    ascending = sorted(set(entry_ids))
    free, dropped = set(ascending), set[int]()
    if policy == ACKED:
        free = set((yield from unneeded(stream, ascending)))
    elif policy == DELREF:
        dropped = yield from drop_references(stream, ascending)
    results: list[Reply] = []
    deleted = 0
    for entry_id in entry_ids:
        if entry_id not in free:
            results.append(2)
            continue
        removed = stream.delete(entry_id)
        deleted += removed
        if removed:
            dropped.discard(entry_id)
        results.append(1 if removed else -1)
    changes = deleted + len(dropped)
    if deleted:
        ctx.db.touch(key, changes=0)
        ctx.changes.notify("t", b"xdel", key, ctx.db.index)
    if changes:
        ctx.changes.dirty += changes
        ctx.effect(b"XDELEX", key, *filter(None, [policy]), b"IDS", b"%d" % len(words), *words)
    return results


@stream_command(
    "xtrim key MAXLEN | MINID [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
    "write",
    access="RW delete",
)
def xtrim(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes entries from the beginning of a stream, and returns how many."""
    trim = Trim()
    options, end = divide(argv, TRIM_OPTIONS)
    for option in options:
        trim.set_option(option)
    if end < len(argv):
        raise CommandError(messages.SYNTAX)
    trim.check(required=True)
    key = argv[1]
    stream = ctx.db.stream(key)
    if stream is None:
        return 0
    return ctx.in_steps(argv, _trim(ctx, key, stream, trim))


def _trim(ctx: Context, key: bytes, stream: Stream, trim: Trim) -> Work[Reply]:
    removed, error = yield from trim.in_steps(stream)
    if removed:
        ctx.db.touch(key, changes=removed)
        ctx.changes.notify("t", b"xtrim", key, ctx.db.index)
        ctx.effect(b"XTRIM", key, *effect_words(stream, trim))
    if error is not None:
        raise error
    return removed


@stream_command("xlen key", "readonly fast", access="RO")
def xlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of entries of a stream."""
    stream = ctx.db.read_stream(argv[1])
    return stream.length if stream is not None else 0


def entries_between(stream: Stream, low: int, high: int, count: int, *, backward: bool = False) -> Reply:
    """Return the first ``count`` entries of [low, high], or the last ones if ``backward``, in pages if there are many.

    A ``count`` of 0 requests all entries.
    """
    if (not count or count > pace.MANY_ENTRIES) and len(stream.pieces()) > pace.MANY_SEGMENTS:
        parts = stream.frozen_ranges(low, high)
        found = sum(segment.count(first, last) for segment, first, last in parts)
        found = min(found, count) if count else found
        if found and len(parts) > pace.MANY_SEGMENTS:
            return reply_of_snapshots(parts, found, backward=backward)
    return (stream.range_backward if backward else stream.range)(low, high, count)


def _range(ctx: Context, argv: list[bytes], low: int, high: int, *, backward: bool) -> Reply:
    count = None
    args = Args(argv, 4)
    while len(args):
        if not args.option(b"COUNT"):
            raise CommandError(messages.SYNTAX)
        count = args.take_int()
    stream = ctx.db.read_stream(argv[1])
    if stream is None:
        return []
    if count is not None and count <= 0:
        return NIL_ARRAY
    return entries_between(stream, low, high, count or 0, backward=backward)


@stream_command(
    "xrange key start end [COUNT count]",
    "readonly",
)
def xrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the entries of a range of IDs, in order."""
    low, high = ids.parse_low(argv[2]), ids.parse_high(argv[3])
    return _range(ctx, argv, low, high, backward=False)


@stream_command(
    "xrevrange key end start [COUNT count]",
    "readonly",
)
def xrevrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the entries of a range of IDs, in reverse order."""
    low, high = ids.parse_low(argv[3]), ids.parse_high(argv[2])
    return _range(ctx, argv, low, high, backward=True)
