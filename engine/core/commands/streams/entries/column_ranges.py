"""PS.COLUMNS: a range of a stream, as columns if it is stored in columns.

Redis does not have this command. The reply is a list of *blocks* in ID order, with the same entries as XRANGE over the
same range. A block of columns has the format of PS.ADD, preceded by the IDs. A block of frames holds entries in
XRANGE's format, back to back. Frames are not converted to columns here, because the engine uses one core, but readers
can convert them on many cores.

Reads with this command decide how a stream is stored. Segments that the command has read are packed as columns when
they become cold (`engine.core.streams.segment.Segment.want_columns`), and a new segment inherits this property from
the segment before it. All other segments are packed as frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.core.commands.families import stream_command
from engine.core.commands.streams.entries import ranges
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import Args
from engine.core.protocol.replies import NIL_ARRAY, Array, CommandError, Pages, Reply, Several
from engine.core.streams.runs import Run, size_in_memory
from engine.core.streams.segment import Body
from engine.core.streams.stream import Stream
from engine.text import messages

Buffer = bytes | memoryview
#: Consecutive entries of a segment are sent as frames if they are fewer than this number, because columns would cost
#: the reader more.
_FEW = 32
#: A page of a long reply ends when it has this many bytes.
_PAGE_BYTES = 512 * 1024


@stream_command(
    "ps.columns key start end [COUNT count] [BYTES bytes] [FIELDS numfields name [name ...]]",
    "readonly",
    since="8.10.0",
    complexity="O(log(length) + N) with N entries returned.",
)
def ps_columns(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the entries of a range of IDs in order, as columns if they are stored in columns.

    The reply is a list of blocks. A block ``[n, milliseconds, sequence numbers, field, positions, values, ...]`` has n
    entries with the same fields. A block ``[n, entries]`` has n entries in XRANGE's format. With FIELDS, the
    positions and values of unnamed fields are nil in blocks of columns. With BYTES, the reply ends when it has that
    many bytes or 20,000 entries.
    """
    low, high = ids.parse_low(argv[2]), ids.parse_high(argv[3])
    count, most_bytes, names = None, None, None
    args = Args(argv, 4)
    while len(args):
        if args.option(b"COUNT"):
            count = args.take_int()
        elif args.option(b"BYTES"):
            most_bytes = args.take_int()
            if most_bytes <= 0:
                raise CommandError(messages.BYTES_NOT_POSITIVE)
        elif args.option(b"FIELDS"):
            names = _parse_names(args)
        else:
            raise CommandError(messages.SYNTAX)
    stream = ctx.db.read_stream(argv[1])
    if stream is None:
        return []
    if count is not None and count <= 0:
        return NIL_ARRAY
    return _blocks(stream, low, high, count or 0, most_bytes, names)


def _parse_names(args: Args) -> frozenset[bytes]:
    number = args.take_int()
    if not 0 <= number <= len(args):
        raise CommandError(messages.FIELD_COUNT_DIFFERS)
    return frozenset(args.take() for _ in range(number))


def _blocks(
    stream: Stream, low: int, high: int, count: int, most_bytes: int | None, names: frozenset[bytes] | None
) -> Reply:
    """Return the blocks of the first ``count`` entries of [low, high], in pages if there are many.

    A ``count`` of 0 requests all entries. With ``most_bytes``, stop when the blocks have that many bytes, and after
    ``ranges.MANY`` entries at the latest.
    """
    if most_bytes is None:
        parts = ranges.many_parts(stream, low, high, count)
        if parts is not None:
            stream.want_columns(low, high)
            size = sum(1 for _ in _by_part(*parts))
            held = size_in_memory(segment.body for segment, _, _ in parts[0])
            return Pages(list, size, _pages(_by_part(*parts), names), held)
    else:
        count = min(count or ranges.MANY, ranges.MANY)
    return _at_once(stream.runs(low, high), count, most_bytes, names)


def _at_once(runs: Iterable[Run], left: int, room: int | None, names: frozenset[bytes] | None) -> list[Array]:
    """Return the blocks of the first ``left`` entries (0: of all entries), and stop when they have ``room`` bytes."""
    blocks: list[Array] = []
    frames: list[Buffer] = []
    framed = 0
    for segment, first, end in runs:
        segment.want_columns()
        last = min(end, first + left) if left else end
        columns = _columns(segment.body, first, last, names)
        if columns is None:
            views = segment.views(first, last)
            frames += views
            framed += last - first
            size = sum(map(len, views))
        else:
            if framed:
                blocks.append(_framed(framed, frames))
                frames, framed = [], 0
            block, size = columns
            blocks.append(block)
        if left:
            left -= last - first
            if not left:
                break
        if room is not None:
            room -= size
            if room <= 0:
                break
    if framed:
        blocks.append(_framed(framed, frames))
    return blocks


#: A segment's body, and ranges [i, j) of its entries that are live.
_Part = tuple[Body, list[tuple[int, int]]]


def _by_part(parts: list[Run], left: int) -> Iterator[_Part]:
    """Yield the first ``left`` live entries, grouped by segment."""
    for segment, begin, end in parts:
        runs: list[tuple[int, int]] = []
        for first, behind in segment.runs(begin, end):
            last = min(behind, first + left)
            runs.append((first, last))
            left -= last - first
            if not left:
                break
        if runs:
            yield segment.body, runs
        if not left:
            return


def _pages(parts: Iterable[_Part], names: frozenset[bytes] | None) -> Iterator[list[Array]]:
    """Yield pages of about half a megabyte, with one block per part."""
    page: list[Array] = []
    room = _PAGE_BYTES
    for body, runs in parts:
        columns = _columns(body, *runs[0], names) if len(runs) == 1 else None
        if columns is None:
            views = [view for first, last in runs for view in body.views(first, last)]
            columns = _framed(sum(last - first for first, last in runs), views), sum(map(len, views))
        block, size = columns
        page.append(block)
        room -= size
        if room <= 0:
            yield page
            page, room = [], _PAGE_BYTES
    if page:
        yield page


def _framed(count: int, views: list[Buffer]) -> Array:
    return Array([count, _bulk(views)])


def _columns(body: Body, low: int, high: int, names: frozenset[bytes] | None) -> tuple[Array, int] | None:
    """Return the entries [low, high) as a block of columns, and its size; None if they are few or stored as frames."""
    found = body.columns(low, high) if high - low >= _FEW else None
    if found is None:
        return None
    block: Array = Array([high - low, *(_bulk([column]) for column in map(_bytes, body.id_columns(low, high)))])
    size = 16 * (high - low)
    for name, values in zip(found.names, found.known, strict=True):
        if names is None or name in names:
            bounds, data = _bytes(values.bounds), values.data.data
            block += [name, _bulk([bounds]), _bulk([data])]
            size += len(bounds) + len(data)
        else:
            block += [name, None, None]
    return block, size


def _bytes(numbers: Any) -> memoryview:
    return memoryview(numbers).cast("B")


def _bulk(views: list[Buffer]) -> Several:
    """Return the buffers as one bulk string, without copying them."""
    return Several(1, [b"$%d\r\n" % sum(map(len, views)), *views, b"\r\n"])
