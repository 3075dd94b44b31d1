"""PS.ADD: entries added from columns, each with the values of a field back to back and the end of each value.

Redis does not have it. It is equivalent to many XADDs with ``*``, without parsing commands and building replies.
"""

from __future__ import annotations

from array import array

from engine.core.commands.families import stream_command
from engine.core.commands.streams.entries.column_rows import FEW_ROWS, FewRows, Rows
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import Args
from engine.core.protocol.replies import CommandError, Reply
from engine.core.streams.appends import counted, next_id
from engine.core.table.registry import COMMANDS
from engine.text.messages import general, streams
from streamwire.entry_batch import EntryBatch, Values

#: Maximum entries and bytes that one command adds. A field's name and the key are sent once, but they are repeated in
#: each entry or in each command of the log.
_MAX_COUNT, _MAX_BYTES = 1 << 24, 1 << 29
_ENTRY_BYTES, _FIELD_BYTES = 80, 32  # # maximum overhead of an entry and of a field, besides names and values


@stream_command(
    "ps.add key count field positions values [field positions values ...]",
    "write denyoom",
    since="8.10.0",
    complexity="O(N) with N entries added.",
)
def ps_add(ctx: Context, argv: list[bytes]) -> Reply:
    """Adds entries to a stream from columns, creating the stream if it does not exist, and returns how many.

    The value of a field in entry i lies in ``values`` from position i to position i + 1. The ``count`` + 1
    positions are 32-bit little-endian integers. With a count of 0 nothing is added, and no stream is created.
    If a millisecond does not have enough sequence numbers left, all entries get IDs of the next one.
    """
    args = Args(argv, 1)
    key, count = args.take(), args.take_int()
    if not 0 <= count <= _MAX_COUNT:
        raise CommandError(streams.BAD_COUNT)
    words = args.rest()
    if len(words) % 3:
        raise CommandError(general.wrong_arity(b"ps.add"))
    names, positions, values = words[::3], words[1::3], words[2::3]
    each = _ENTRY_BYTES + len(key) + sum(_FIELD_BYTES + len(name) for name in names)
    if count * each + sum(map(len, values)) > _MAX_BYTES:  # # (columns of this size are not processed)
        raise CommandError(streams.COLUMNS_TOO_LARGE)
    try:
        rows: Rows | FewRows
        if count <= FEW_ROWS:
            rows = FewRows(list(zip(names, positions, values, strict=True)), count)
        else:
            columns = [Values.checked(*one, count) for one in zip(values, positions, strict=True)]
            rows = Rows(EntryBatch(count, tuple(names), tuple(columns)))
    except ValueError:
        raise CommandError(streams.BAD_COLUMNS) from None
    if ctx.session.limited:
        ctx.accounts.check(ctx.session, COMMANDS[b"XADD"], [b"XADD", key, b"*", b"field", b"value"])
    stream = ctx.db.stream(key)
    if not count:
        return 0
    first = next_id(stream, b"*", ctx.now)
    ms, seq = first >> 64, first & ids.U64_MAX
    if seq + count - 1 > ids.U64_MAX:
        if ms == ids.U64_MAX:
            raise CommandError(streams.ID_EXHAUSTED)
        ms, seq = ms + 1, 0
    changes = ctx.changes
    frames, sizes, commands = rows.encoded(ms, seq, key if changes.recording else None)
    ctx.add_entries(key, stream, frames, sizes, array("Q", (ms,)) * count, counted(seq, count))
    if changes.recording:
        changes.effects.append((ctx.db.index, commands))
    return count
