"""Execution of a run of XADD commands together: the fast path of XADD's handler.

``engine.wire.bulk`` has verified the bytes of the run. If one of the commands would fail, this module declines the run
before any change. ``Core.execute_run`` declines runs whose commands subscribers of keyspace events or MONITOR must see
one by one. The commands of a declined run are executed separately. A property test checks that a run has the same
results as its separate commands.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import lru_cache

import numpy as np

from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd_options import divide
from engine.core.protocol.xadd_run import FramedRun, XaddRun, word_in
from engine.core.streams.appends import counted, next_id
from engine.core.streams.stream import Stream
from engine.core.streams.trimming import Trim

_AUTO = b"$1\r\n*\r\n"
#: Sequence number -> the last part of an ID's bulk string.
_TEXTS = [b"%d\r\n" % number for number in range(10_000)]


#: After this last ID or an earlier one, enough IDs remain for a run of up to 2**32 commands. `_add_each` declines runs
#: for streams with a later last ID.
_LAST_FOR_RUNS = ids.MAX_ID - (1 << 32)


class _Part:
    """The commands of a run for one key."""

    __slots__ = ("bodies", "count", "explicit", "first", "groups", "key", "ms", "rows", "seq", "sizes", "stream")

    #: The IDs as bulk strings, grouped by the number of digits of the sequence number. Each group is a pair: the common
    #: start of its IDs, and the rest of each ID.
    groups: list[tuple[bytes, list[bytes]]]
    #: The IDs as numbers.
    ms: array[int]
    seq: array[int]

    def __init__(self, key: bytes, stream: Stream | None, bodies: list[bytes], sizes: list[int]) -> None:
        self.key = key
        self.stream = stream
        self.bodies = bodies
        self.sizes = sizes
        self.count = len(bodies)
        #: Indices of these commands in the run; empty if all commands of the run are for this key.
        self.rows: list[int] = []
        #: The first ID.
        self.first = 0
        #: All IDs as bulk strings if the client chose them; None if they are generated.
        self.explicit: list[bytes] | None = None

    def reply_rows(self) -> list[bytes]:
        """Return the ID of each entry, encoded as a bulk string, in the order of ``bodies``."""
        if self.explicit is not None:
            return self.explicit
        return [stem + text for stem, texts in self.groups for text in texts]

    def replies(self) -> list[bytes]:
        """Return the bytes of ``reply_rows``, joined into a few buffers."""
        if self.explicit is not None:
            return [b"".join(self.explicit)]
        return [stem + stem.join(texts) for stem, texts in self.groups]


@lru_cache(maxsize=256)
def _stem(ms: int, digits: int) -> bytes:
    """Return the start of an ID's bulk string for a millisecond and a sequence number with ``digits`` digits."""
    text = b"%d-" % ms
    return b"$%d\r\n%b" % (len(text) + digits, text)


def _consecutive(first_id: int, count: int) -> list[tuple[bytes, list[bytes]]]:
    """Return ``count`` consecutive IDs of one millisecond, grouped as in ``_Part.groups``."""
    ms, first = first_id >> 64, first_id & ids.U64_MAX
    end = first + count
    texts = _TEXTS[first:end] if end <= len(_TEXTS) else [b"%d\r\n" % number for number in range(first, end)]
    digits = len(texts[0])
    if len(texts[-1]) == digits:
        return [(_stem(ms, digits - 2), texts)]
    groups, at = [], 0
    while at < count:
        digits = len(texts[at]) - 2
        cut = min(10**digits - first, count)
        groups.append((_stem(ms, digits), texts[at:cut]))
        at = cut
    return groups


class Added:
    """The replies of a run: the entries' IDs as bulk strings."""

    __slots__ = ("_parts", "_rows")

    def __init__(self, parts: list[_Part], rows: list[bytes]) -> None:
        self._parts = parts
        #: One reply per command if the entries were added one by one (`_add_each`); otherwise empty.
        self._rows = rows

    def rows(self) -> list[bytes]:
        """Return one reply per command, in the commands' order."""
        if self._rows:
            return self._rows
        if not self._parts[0].rows:
            return self._parts[0].reply_rows()
        replies = [b""] * sum(part.count for part in self._parts)
        for part in self._parts:
            for row, reply in zip(part.rows, part.reply_rows(), strict=True):
                replies[row] = reply
        return replies

    def buffers(self) -> list[bytes]:
        """Return the bytes of ``rows``, joined into a few buffers."""
        if self._rows or self._parts[0].rows:
            return [b"".join(self.rows())]
        return self._parts[0].replies()


def add_run(ctx: Context, run: XaddRun) -> Added | None:
    """Run the commands together. Return None, without any change, if the run is declined."""
    added: Added | None
    try:
        has_options = run.ids is not None or len(run.head) > 3
        many_keys = run.keys is not None and 2 * len(set(run.keys)) > run.count
        added = _add_each(ctx, run) if many_keys and not has_options else _add_parts(ctx, run)
    except CommandError:
        return None
    if added is not None:
        ctx.telemetry.commands += run.count
    return added


def _add_parts(ctx: Context, run: XaddRun) -> Added | None:
    """Add the entries of each key at once."""
    trim = _trim_of(run.head) if len(run.head) > 3 else None
    parts = _plan(ctx, run)
    if parts is None:
        return None
    for part in parts:
        _apply(ctx, part, run.words, trim)
    return Added(parts, [])


def _add_each(ctx: Context, run: XaddRun) -> Added | None:
    """Add the entries one by one, because the average key has fewer than two entries."""
    assert run.keys is not None
    streams = {word: (key := word_in(word), ctx.db.stream(key)) for word in run.keys}
    if any(stream is not None and stream.last_id > _LAST_FOR_RUNS for _, stream in streams.values()):
        return None
    rows: list[bytes] = []
    commands: list[bytes] = []
    for word, body in zip(run.keys, run.bodies, strict=True):
        key, stream = streams[word]
        added, reply, command = _append(ctx, key, stream, run.words, body)
        if stream is None:
            streams[word] = key, added
        rows.append(reply)
        commands.append(command)
    if ctx.changes.recording:
        ctx.changes.effects.append((ctx.db.index, b"".join(commands)))
    return Added([], rows)


def _append(ctx: Context, key: bytes, stream: Stream | None, words: int, body: bytes) -> tuple[Stream, bytes, bytes]:
    """Append an entry with the next ID; return the stream, the reply, and the command for the log.

    The command is empty if effects are not recorded.
    """
    entry_id = next_id(stream, b"*", ctx.now)
    number = entry_id & ids.U64_MAX
    text = _TEXTS[number] if number < len(_TEXTS) else b"%d\r\n" % number
    reply = _stem(entry_id >> 64, len(text) - 2) + text
    stream = ctx.add_entry(key, stream, entry_id, b"*2\r\n%b*%d\r\n%b" % (reply, words, body))
    if not ctx.changes.recording:
        return stream, reply, b""
    return stream, reply, b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n%b%b" % (words + 3, len(key), key, reply, body)


def _trim_of(head: list[bytes]) -> Trim:
    trim = Trim()
    for option in divide(head)[0]:
        trim.set_option(option)
    return trim


def _plan(ctx: Context, run: XaddRun) -> list[_Part] | None:
    stream = ctx.db.stream
    if run.keys is None:
        key = run.head[1]
        parts = [_Part(key, stream(key), run.bodies, run.sizes)]
    else:
        rows: defaultdict[bytes, list[int]] = defaultdict(list)
        for row, word in enumerate(run.keys):
            rows[word].append(row)
        parts = []
        for word, numbers in rows.items():
            key = word[word.index(b"\n") + 1 : -2]
            bodies = list(map(run.bodies.__getitem__, numbers))
            part = _Part(key, stream(key), bodies, list(map(len, bodies)))
            part.rows = numbers
            parts.append(part)
    for part in parts:
        if run.ids is None:
            part.first = next_id(part.stream, b"*", ctx.now)
            if (part.first & ids.U64_MAX) + part.count > ids.U64_MAX:
                return None
        elif not _choose_ids(ctx, part, [run.ids[row] for row in part.rows] if part.rows else run.ids):
            return None
    return parts


def _choose_ids(ctx: Context, part: _Part, words: list[bytes]) -> bool:
    if words.count(_AUTO) == len(words):
        part.first = next_id(part.stream, b"*", ctx.now)
        return (part.first & ids.U64_MAX) + part.count <= ids.U64_MAX
    texts = b"".join(words).split(b"\r\n")[1::2]
    try:
        halves = list(map(int, b"-".join(texts).split(b"-")))
        ms, seq = array("Q", halves[::2]), array("Q", halves[1::2])
    except (ValueError, OverflowError):
        return False
    # The comparison fails for non-canonical IDs, and for IDs without exactly one dash.
    if list(map(b"%d-%d".__mod__, zip(ms, seq, strict=False))) != texts:
        return False
    last = part.stream.last_id if part.stream is not None else 0
    part.first = ids.make(ms[0], seq[0])
    if part.first <= last or not _ascend(ms, seq):
        return False
    part.explicit, part.ms, part.seq = words, ms, seq
    return True


def _ascend(ms: array[int], seq: array[int]) -> bool:
    """Return whether each ID is greater than the previous one."""
    times, numbers = np.frombuffer(ms, np.uint64), np.frombuffer(seq, np.uint64)
    later = times[1:] > times[:-1]
    later |= (times[1:] == times[:-1]) & (numbers[1:] > numbers[:-1])
    return bool(later.all())


def add_framed(ctx: Context, run: FramedRun) -> bool:
    """Add entries from a log. Return False, without any change, if the run is declined."""
    try:
        stream = ctx.db.stream(run.key)
    except CommandError:
        return False
    last = stream.last_id if stream is not None else 0
    if ctx.changes.recording or ids.make(run.ms[0], run.seq[0]) <= last:
        return False
    ctx.add_entries(run.key, stream, run.frames, run.sizes, run.ms, run.seq)
    ctx.telemetry.commands += run.count
    return True


def _apply(ctx: Context, part: _Part, words: int, trim: Trim | None) -> None:
    count = part.count
    data, sizes = _frames(part, words)
    if part.explicit is None:
        part.ms = array("Q", (part.first >> 64,)) * count
        part.seq = counted(part.first & ids.U64_MAX, count)
    stream = ctx.add_entries(part.key, part.stream, data, sizes, part.ms, part.seq)
    trimmed = trim is not None and _trim(trim, stream, count)
    if ctx.changes.recording:
        _record(ctx, part, words, stream.length if trimmed else None)


def _trim(trim: Trim, stream: Stream, count: int) -> bool:
    """Trim once per command, each time up to LIMIT; return whether any entry was removed."""
    length = stream.length
    while count and trim.apply(stream)[0]:
        count -= 1
    return stream.length != length


def _frames(part: _Part, words: int) -> tuple[bytes, list[int]]:
    """Return the frames of the entries back to back, and their sizes."""
    tail = b"*%d\r\n" % words
    if part.explicit is not None:
        pieces = [b"*2\r\n", b"", tail, b""] * part.count
        pieces[1::4], pieces[3::4] = part.explicit, part.bodies
        more = 4 + len(tail)
        return b"".join(pieces), [len(word) + size + more for word, size in zip(part.explicit, part.sizes, strict=True)]
    part.groups = _consecutive(part.first, part.count)
    pieces, sizes, at = [], [], 0
    for stem, texts in part.groups:
        end = at + len(texts)
        head = b"*2\r\n" + stem
        framed = [head, b"", tail, b""] * len(texts)
        framed[1::4], framed[3::4] = texts, part.bodies[at:end]
        pieces += framed
        more = len(head) + len(texts[0]) + len(tail)
        sizes += [size + more for size in part.sizes[at:end]]
        at = end
    return b"".join(pieces), sizes


def _record(ctx: Context, part: _Part, words: int, left: int | None) -> None:
    """Record the effects for one key: all XADDs with their final IDs as one item, then any trimming.

    ``left`` is the stream's length after trimming; None if no entry was removed.
    """
    head = b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (words + 3, len(part.key), part.key)
    pieces = [head, b"", b""] * part.count
    pieces[1::3], pieces[2::3] = part.reply_rows(), part.bodies
    ctx.changes.effects.append((ctx.db.index, b"".join(pieces)))
    if left is not None:
        ctx.effect(b"XTRIM", part.key, b"MAXLEN", b"=", b"%d" % left)
