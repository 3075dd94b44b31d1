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
from engine.core.protocol.xadd import FramedRun, XaddRun, divide, word_in
from engine.core.streams.stream import Stream, counted, next_id
from engine.core.streams.trimming import ACKED, DELREF, Trim
from engine.text import messages

_AUTO = b"$1\r\n*\r\n"
#: Number of bytes of a frame before its ID.
_FRAMING = len(b"*2\r\n")
#: Sequence number -> the last part of an ID's bulk string.
_TEXTS = [b"%d\r\n" % number for number in range(10_000)]

#: Minimum average number of commands per key. Runs with fewer are declined.
_PER_KEY = 4


class _Part:
    """The commands of a run for one key, planned but not executed."""

    __slots__ = ("bodies", "frames", "groups", "key", "ms", "rows", "seq", "sizes", "stream")

    #: The IDs as bulk strings, in groups. Each group is a pair: the common start of its IDs, and the rest of each ID.
    groups: list[tuple[bytes, list[bytes]]]
    #: The IDs as numbers.
    ms: array[int]
    seq: array[int]
    #: The frames of the entries back to back, and the size of each.
    frames: bytes
    sizes: list[int]

    def __init__(
        self,
        ctx: Context,
        key: bytes,
        bodies: list[bytes],
        sizes: list[int],
        tail: bytes,
        words: list[bytes] | None,
        rows: list[int] | None,
    ) -> None:
        """Choose the IDs, and make the frames. Raises CommandError if the run is to be declined.

        ``sizes`` are the sizes of the bodies, ``tail`` is the part of each frame between ID and body, and ``words`` are
        the IDs in the commands; None if all are ``*``.
        """
        self.key = key
        self.stream: Stream | None = ctx.db.typed(key, Stream)
        self.bodies = bodies
        #: Indices of these commands in the run; None if all commands of the run are for this key.
        self.rows = rows
        if words is None or words.count(_AUTO) == len(words):
            self._generate_ids(ctx.now, bodies, sizes, tail)
        else:
            self._take_ids(words, sizes, tail)

    def _generate_ids(self, now_ms: int, bodies: list[bytes], sizes: list[int], tail: bytes) -> None:
        first_id = next_id(self.stream, b"*", now_ms)
        ms, first, count = first_id >> 64, first_id & ids.U64_MAX, len(bodies)
        end = first + count
        if end > ids.U64_MAX:
            raise CommandError(messages.ID_EXHAUSTED)
        texts = _TEXTS[first:end] if end <= len(_TEXTS) else [b"%d\r\n" % number for number in range(first, end)]
        self.ms, self.seq = array("Q", (ms,)) * count, counted(first, count)
        self.groups = groups = []
        self.sizes = frame_sizes = []
        frames, at = b"", 0
        while at < count:
            # Next, the IDs with the same number of digits.
            digits = len(texts[at]) - 2
            stem, cut = _stem(ms, digits), 10**digits - first
            group = texts[at:cut]
            groups.append((stem, group))
            frames += _framed(stem, group, tail, bodies[at:cut])
            more = len(stem) + digits + 2 + _FRAMING + len(tail)
            frame_sizes += [size + more for size in sizes[at:cut]]
            at = cut
        self.frames = frames

    def _take_ids(self, words: list[bytes], sizes: list[int], tail: bytes) -> None:
        texts = b"".join(words).split(b"\r\n")[1::2]
        try:
            halves = list(map(int, b"-".join(texts).split(b"-")))
            self.ms, self.seq = ms, seq = array("Q", halves[::2]), array("Q", halves[1::2])
        except (ValueError, OverflowError):
            raise CommandError(messages.INVALID_ID) from None
        # The comparison fails for non-canonical IDs, and for IDs without exactly one dash.
        if list(map(b"%d-%d".__mod__, zip(ms, seq, strict=False))) != texts:
            raise CommandError(messages.INVALID_ID)
        last = self.stream.last_id if self.stream is not None else 0
        if ids.make(ms[0], seq[0]) <= last or not _ascend(ms, seq):
            raise CommandError(messages.ID_TOO_SMALL)
        self.groups = [(b"", words)]
        self.frames = _framed(b"", words, tail, self.bodies)
        more = _FRAMING + len(tail)
        self.sizes = [len(word) + size + more for word, size in zip(words, sizes, strict=True)]

    def reply_rows(self) -> list[bytes]:
        """Return the ID of each entry, encoded as a bulk string, in the order of ``bodies``."""
        return [stem + text for stem, texts in self.groups for text in texts]


@lru_cache(maxsize=256)
def _stem(ms: int, digits: int) -> bytes:
    """Return the start of an ID's bulk string for a millisecond and a sequence number with ``digits`` digits."""
    text = b"%d-" % ms
    return b"$%d\r\n%b" % (len(text) + digits, text)


def _framed(stem: bytes, texts: list[bytes], tail: bytes, bodies: list[bytes]) -> bytes:
    """Return the frames of entries whose IDs are ``stem + text``, back to back."""
    pieces = [b"*2\r\n" + stem, b"", tail, b""] * len(texts)
    pieces[1::4], pieces[3::4] = texts, bodies
    return b"".join(pieces)


def add_run(ctx: Context, run: XaddRun) -> list[bytes | memoryview] | None:
    """Run the commands together; return the replies, joined into a few buffers.

    Returns None, without any change, if the run is declined.
    """
    try:
        trim = _trim_of(run.head) if len(run.head) > 3 else None
        parts = _plan(ctx, run)
    except CommandError:
        return None
    for part in parts:
        _apply(ctx, part, run.words, trim)
    if run.keys is None:
        return [stem + stem.join(texts) for stem, texts in parts[0].groups]
    replies = [b""] * run.count
    for part in parts:
        for row, reply in zip(part.rows or (), part.reply_rows(), strict=True):
            replies[row] = reply
    return [b"".join(replies)]


def _trim_of(head: list[bytes]) -> Trim:
    trim = Trim()
    for option in divide(head)[0]:
        trim.set_option(option)
    if trim.policy in (ACKED, DELREF):
        raise CommandError(b"")  # looks references up, in steps if there are many
    return trim


def _plan(ctx: Context, run: XaddRun) -> list[_Part]:
    """Divide the run by keys. Raises CommandError if the run is to be declined."""
    tail = b"*%d\r\n" % run.words
    if run.keys is None:
        return [_Part(ctx, run.head[1], run.bodies, run.sizes, tail, run.ids, None)]
    rows_of: defaultdict[bytes, list[int]] = defaultdict(list)
    for row, word in enumerate(run.keys):
        rows_of[word].append(row)
    if _PER_KEY * len(rows_of) > run.count:
        raise CommandError(b"")
    parts = []
    for word, rows in rows_of.items():
        bodies = list(map(run.bodies.__getitem__, rows))
        words = None if run.ids is None else list(map(run.ids.__getitem__, rows))
        parts.append(_Part(ctx, word_in(word), bodies, list(map(len, bodies)), tail, words, rows))
    return parts


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
    return True


def _apply(ctx: Context, part: _Part, words: int, trim: Trim | None) -> None:
    stream = ctx.add_entries(part.key, part.stream, part.frames, part.sizes, part.ms, part.seq)
    trimmed = trim is not None and trim.apply(stream)[0]
    if ctx.changes.recording:
        _record(ctx, part, words, stream.length if trimmed else None)


def _record(ctx: Context, part: _Part, words: int, left: int | None) -> None:
    """Record the effects for one key: all XADDs with their final IDs as one item, then any trimming.

    ``left`` is the stream's length after trimming; None if no entry was removed.
    """
    head = b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (words + 3, len(part.key), part.key)
    pieces = [head, b"", b""] * len(part.bodies)
    pieces[1::3], pieces[2::3] = part.reply_rows(), part.bodies
    ctx.changes.effects.append((ctx.db.index, b"".join(pieces)))
    if left is not None:
        ctx.effect(b"XTRIM", part.key, b"MAXLEN", b"=", b"%d" % left)
