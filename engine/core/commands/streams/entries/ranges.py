"""Reading a stream's entries: XLEN, XRANGE and XREVRANGE."""

from __future__ import annotations

from engine.core.commands.families import stream_command
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import Args
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Reply
from engine.core.streams.runs import Run, reply_of_snapshots
from engine.core.streams.stream import Stream
from engine.text import messages


@stream_command("xlen key", "readonly fast", access="RO")
def xlen(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of entries of a stream."""
    stream = ctx.db.read_stream(argv[1])
    return stream.length if stream is not None else 0


def many_parts(stream: Stream, low: int, high: int, count: int) -> tuple[list[Run], int] | None:
    """Return the segments of [low, high] and the number of entries to return; None if the reply needs no pages.

    A ``count`` of 0 requests all entries.
    """
    if (not count or count > pace.MANY_ENTRIES) and len(stream.pieces()) > pace.MANY_SEGMENTS:
        parts = stream.snapshots(low, high)
        found = sum(segment.count(first, last) for segment, first, last in parts)
        found = min(found, count) if count else found
        if found and len(parts) > pace.MANY_SEGMENTS:
            return parts, found
    return None


def entries_between(stream: Stream, low: int, high: int, count: int, *, backward: bool = False) -> Reply:
    """Return the first ``count`` entries of [low, high], or the last ones if ``backward``, in pages if there are many.

    A ``count`` of 0 requests all entries.
    """
    parts = many_parts(stream, low, high, count)
    if parts is not None:
        return reply_of_snapshots(*parts, backward=backward)
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
    complexity="O(log(length) + N) with N entries returned.",
)
def xrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the entries of a range of IDs, in order."""
    low, high = ids.parse_low(argv[2]), ids.parse_high(argv[3])
    return _range(ctx, argv, low, high, backward=False)


@stream_command(
    "xrevrange key end start [COUNT count]",
    "readonly",
    complexity="O(log(length) + N) with N entries returned.",
)
def xrevrange(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the entries of a range of IDs, in reverse order."""
    low, high = ids.parse_low(argv[3]), ids.parse_high(argv[2])
    return _range(ctx, argv, low, high, backward=True)
