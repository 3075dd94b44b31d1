r"""PS.ADD and PS.COLUMNS, which Redis does not have: adding and reading entries as columns.

A column has one field's values back to back, and their positions. PS.ADD is equivalent to many XADDs with ``*``, but
the engine parses only one command and builds only one reply. All rows are encoded together, as frames (XRANGE's format)
and as XADDs (the log's format). Rows whose values have the
same lengths are copies of one template, into which their values are written. In this frame, spaces mark the values::

    *2\r\n$15\r\n1518951480106-  7  \r\n*4\r\n$9\r\nsensor-id\r\n$4\r\n  1234  \r\n$1\r\ng\r\n$1\r\n  5  \r\n

If many rows have the same lengths, numpy fills the templates, in a quarter of the time or less; other rows are encoded
one by one. Both ways give the bytes of entries that are added one by one.

PS.COLUMNS returns a range of a stream, as columns if it is stored in columns. The reply is a list of
*blocks* in ID order, with the same entries as XRANGE over the same range. A block of columns has the format of PS.ADD,
preceded by the IDs. A block of frames holds entries in
XRANGE's format, back to back. Frames are not converted to columns here, because the engine uses one core, but readers
can convert them on many cores.

Reads with this command decide how a stream is stored. Segments that the command has read are packed as columns when
they become cold (`engine.core.streams.segment.Segment.want_columns`), and a new segment inherits this property from
the segment before it. All other segments are packed as frames.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.core.commands.families import stream_command
from engine.core.commands.streams.xadd import add_entries
from engine.core.environment.context import Context
from engine.core.protocol import ids, pace
from engine.core.protocol.args import Args
from engine.core.protocol.replies import NIL_ARRAY, Array, CommandError, Reply, Several
from engine.core.streams.runs import Run
from engine.core.streams.segment import Body, Segment, loaded
from engine.core.streams.stream import counted, next_id
from engine.core.table.registry import COMMANDS
from engine.text import messages
from streamwire.entry_batch import EntryBatch, Values
from streamwire.templates import Templates

Buffer = bytes | memoryview
#: Consecutive entries of a segment are sent as frames if they are fewer than this number, because columns would cost
#: the reader more.
FEW_ENTRIES = 32


@stream_command(
    "ps.columns key start end [COUNT count] [BYTES bytes] [FIELDS numfields name [name ...]]",
    "readonly",
)
def ps_columns(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the entries of a range of IDs in order, as columns if they are stored in columns.

    The reply is a list of blocks. A block ``[n, milliseconds, sequence numbers, field, positions, values, ...]`` has n
    entries with the same fields. A block ``[n, entries]`` has n entries in XRANGE's format. With FIELDS, the
    positions and values of unnamed fields are nil in blocks of columns. The reply ends at COUNT or 20,000 entries, or
    when it has BYTES bytes.
    """
    low, high = ids.parse_low(argv[2]), ids.parse_high(argv[3])
    count, most_bytes, names = pace.MANY_ENTRIES, ids.MAX_ID, None
    args = Args(argv, 4)
    while len(args):
        if args.option(b"COUNT"):
            count = args.take_int()
        elif args.option(b"BYTES"):
            most_bytes = args.take_int()
            if most_bytes <= 0:
                raise CommandError(b"ERR bytes must be a positive integer")
        elif args.option(b"FIELDS"):
            names = _parse_names(args)
        else:
            raise CommandError(messages.SYNTAX)
    stream = ctx.db.read_stream(argv[1])
    if stream is None:
        return []
    if count <= 0:
        return NIL_ARRAY
    blocks: list[Array] = []
    for segment, runs in _live_parts(stream.ranges(low, high), min(count, pace.MANY_ENTRIES)):
        segment.want_columns()
        block, size = _block(segment.body, runs, names)
        blocks.append(block)
        most_bytes -= size
        if most_bytes <= 0:
            break
    return blocks


def _parse_names(args: Args) -> frozenset[bytes]:
    number = args.take_int()
    if not 0 <= number <= len(args):
        raise CommandError(b"ERR The `numfields` parameter must match the number of arguments")
    return frozenset(args.take() for _ in range(number))


#: A segment, and ranges [i, j) of its entries that are live.
_Part = tuple[Segment, list[tuple[int, int]]]


def _live_parts(parts: Iterable[Run], left: int) -> Iterator[_Part]:
    """Yield the first ``left`` live entries, grouped by segment. ``parts`` may have dead entries, too."""
    for segment, begin, end in parts:
        runs: list[tuple[int, int]] = []
        for first, behind in segment.runs(begin, end):
            last = min(behind, first + left)
            runs.append((first, last))
            left -= last - first
            if not left:
                break
        if runs:
            yield segment, runs
        if not left:
            return


def _block(body: Body, runs: list[tuple[int, int]], names: frozenset[bytes] | None) -> tuple[Array, int]:
    """Return entries of one segment as a block, and its size in bytes.

    It has columns if the entries are stored as columns, are adjacent, and are not few.
    """
    columns = _columns(body, *runs[0], names) if len(runs) == 1 else None
    if columns is not None:
        return columns
    views = [view for first, last in runs for view in loaded(body).views(first, last)]
    return Array([sum(last - first for first, last in runs), _bulk(views)]), sum(map(len, views))


def _columns(body: Body, low: int, high: int, names: frozenset[bytes] | None) -> tuple[Array, int] | None:
    """Return the entries [low, high) as a block of columns, and its size; None if they are few or stored as frames."""
    found = loaded(body).columns(low, high) if high - low >= FEW_ENTRIES else None
    if found is None:
        return None
    block: Array = Array([high - low, *(_bulk([column]) for column in map(_bytes, loaded(body).id_columns(low, high)))])
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


_Ints = npt.NDArray[np.int64]

#: Maximum number of entries that one command adds.
_MAX_COUNT = 1 << 24
#: Maximum number of bytes that one command adds. They include repetitions: each entry contains the names of its fields,
#: and each command in the log contains the key.
_MAX_BYTES = 1 << 29
#: Maximum overhead of an entry in bytes.
_ENTRY_BYTES = 80
#: Maximum overhead of a field in bytes, besides its name and value.
_FIELD_BYTES = 32
#: Number of rows per distinct value length below which rows are encoded one by one.
_FEW = 256
#: Number of digits at the end of sequence numbers in which the IDs of one template differ.
_DIGITS = 4
#: Number of IDs that differ only in these digits.
_PERIOD = 10**_DIGITS
_LAST_DIGITS = np.frombuffer(b"".join(b"%04d" % number for number in range(_PERIOD)), np.uint8)


@stream_command(
    "ps.add key count field positions values [field positions values ...]",
    "write denyoom",
)
def ps_add(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds entries to a stream from columns, creating the stream if it does not exist, and returns their number.

    The value of a field in entry i is ``values[positions[i]:positions[i + 1]]``. The ``count`` + 1 positions are 32-bit
    little-endian integers. With a count of 0 nothing is added, and no stream is created. If the current millisecond has
    too few sequence numbers left, all entries get IDs of the next millisecond.
    """
    args = Args(argv, 1)
    key, count = args.take(), args.take_int()
    if not 0 <= count <= _MAX_COUNT:
        raise CommandError(b"ERR count must be an integer from 0 to 16777216")
    words = args.rest()
    if len(words) % 3:
        raise CommandError(messages.wrong_arity(b"ps.add"))
    names, positions, values = words[::3], words[1::3], words[2::3]
    each = _ENTRY_BYTES + len(key) + sum(_FIELD_BYTES + len(name) for name in names)
    if count * each + sum(map(len, values)) > _MAX_BYTES:
        raise CommandError(b"ERR the entries would have more than 512 megabytes")
    try:
        columns = [Values.checked(*column, count) for column in zip(values, positions, strict=True)]
    except ValueError:
        raise CommandError(messages.BAD_COLUMNS) from None
    if ctx.session.limited:
        ctx.accounts.check(ctx.session, COMMANDS[b"XADD"], [b"XADD", key, b"*", b"field", b"value"])
    stream = ctx.db.stream(key)
    if not count:
        return 0
    first = next_id(stream, b"*", ctx.now)
    ms, seq = first >> 64, first & ids.U64_MAX
    if seq + count - 1 > ids.U64_MAX:
        if ms == ids.U64_MAX:
            raise CommandError(messages.ID_EXHAUSTED)
        ms, seq = ms + 1, 0
    changes = ctx.changes
    batch = EntryBatch(count, tuple(names), tuple(columns))
    frames, sizes, commands = encoded(batch, ms, seq, key if changes.recording else None)
    add_entries(ctx, key, stream, frames, sizes, array("Q", (ms,)) * count, counted(seq, count))
    if changes.recording:
        changes.effects.append((ctx.db.index, commands))
    return count


def encoded(
    batch: EntryBatch, ms: int, seq: int, key: bytes | None, few: int = _FEW
) -> tuple[bytes, Sequence[int] | _Ints, bytes]:
    """Encode entries, which have at least one field, with consecutive IDs from ``ms-seq`` on.

    Return their frames back to back, the size of each frame, and the XADDs that add the entries to ``key``. If ``key``
    is None, there are no XADDs. Fewer rows than ``few`` per distinct value length are encoded one by one.
    """
    words = 2 * len(batch.names)
    forms = [(b"*2\r\n", b"*%d\r\n" % words)]
    if key is not None:
        forms.append((b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (3 + words, len(key), key), b""))
    if batch.count < few * max(values.varieties() for values in batch.known):
        found = [_one_by_one(batch, before, ms, seq, after) for before, after in forms]
        frames, *commands = map(b"".join, found)
        return frames, list(map(len, found[0])), b"".join(commands)
    stamped = [
        [_stamped(batch, before, ms, seq, after, first, end) for before, after in forms]
        for first, end in _stretches(seq, batch.count)
    ]
    frames, *commands = (b"".join([data for data, _ in parts]) for parts in zip(*stamped, strict=True))
    return frames, np.concatenate([parts[0][1] for parts in stamped]), b"".join(commands)


def _one_by_one(batch: EntryBatch, before: bytes, ms: int, seq: int, after: bytes) -> list[bytes]:
    """Return each row, given the bytes before and after its ID."""
    fields = []
    for name, values in zip(batch.names, batch.known, strict=True):
        lead = b"$%d\r\n%b\r\n$" % (len(name), name)
        fields.append([b"%b%d\r\n%b\r\n" % (lead, len(value), value) for value in values.texts(slice(None))])
    texts = [b"%d-%d" % (ms, number) for number in range(seq, seq + batch.count)]
    entry_ids = [b"%b$%d\r\n%b\r\n%b" % (before, len(text), text, after) for text in texts]
    return list(map(b"".join, zip(entry_ids, *fields, strict=True)))


def _stamped(
    batch: EntryBatch, before: bytes, ms: int, seq: int, after: bytes, first: int, end: int
) -> tuple[bytearray, _Ints]:
    """Encode the rows [first, end) as copies of templates, and return the size of each.

    Their IDs must differ only in the last digits.
    """
    begin = seq + first
    digits = len(b"%d" % begin)
    varying = min(digits, _DIGITS)
    lead = b"%d-%b" % (ms, (b"%d" % begin)[:-varying])
    at = np.arange(begin % _PERIOD, begin % _PERIOD + end - first) * _DIGITS + _DIGITS - varying
    templates = Templates()
    templates.text(b"%b$%d\r\n%b" % (before, len(lead) + varying, lead))
    templates.fixed(Values(_LAST_DIGITS, at, np.broadcast_to(varying, at.shape)), varying)
    templates.text(b"\r\n" + after)
    for name, column in zip(batch.names, batch.known, strict=True):
        templates.bulk(b"$%d\r\n%b\r\n$" % (len(name), name), column.cut(first, end))
    made, bounds = templates.rows(end - first)
    return made, np.diff(bounds)


def _stretches(seq: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the rows as ranges [first, end) whose IDs differ only in the last digits.

    The first row has the sequence number ``seq``.
    """
    first = 0
    while first < count:
        number = seq + first
        end = min(10 ** len(b"%d" % number), (number // _PERIOD + 1) * _PERIOD)
        end = min(end - seq, count)
        yield first, end
        first = end
