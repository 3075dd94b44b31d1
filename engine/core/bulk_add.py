"""A run of XADD commands as one operation per key: the quick twin of :func:`engine.core.commands.streams.xadd`.

The run comes as bytes whose shape is proven (:mod:`engine.wire.bulk`). Everything that could make one of its commands
answer with an error, wake somebody or be heard of is looked at before anything is changed; where there is such a thing
the run is declined, and its commands go one by one. What is done is the same either way, and a property test says so.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from engine.core import ids
from engine.core.args import Args
from engine.core.commands.streams import new_stream, next_id
from engine.core.context import Context
from engine.core.replies import CommandError
from engine.core.stream import Stream
from engine.core.trimming import Trim

_AUTO = b"$1\r\n*\r\n"
_DECIMALS = [b"%d" % number for number in range(10_000)]


class Run(Protocol):
    """What is needed of :class:`engine.wire.bulk.AddRun`."""

    count: int
    head: list[bytes]
    words: int
    bodies: list[bytes]
    sizes: list[int]
    keys: list[bytes] | None
    ids: list[bytes] | None

    def commands(self) -> Iterator[list[bytes]]:
        """The commands one by one, as words."""


#: IDs with the same number of digits: what their bulk strings begin with, and the texts of their sequence numbers.
_Digits = tuple[bytes, Sequence[bytes]]


class _Part:
    """The commands of a run that are for one key."""

    __slots__ = ("bodies", "explicit", "first", "groups", "key", "rows", "sizes", "stream", "trim")

    def __init__(self, key: bytes, bodies: list[bytes], sizes: Sequence[int]) -> None:
        self.key = key
        self.stream: Stream | None = None
        self.bodies = bodies
        self.sizes = sizes
        #: Which of the run's commands these are, where they are not all.
        self.rows: list[int] = []
        #: The first of consecutive IDs, which ``groups`` has the texts of, ...
        self.first = 0
        self.groups: list[_Digits] = []
        #: ... or every ID, as a bulk string and as a number.
        self.explicit: tuple[list[bytes], array[int], array[int]] | None = None
        self.trim: Trim | None = None

    def reply_rows(self) -> list[bytes]:
        """The ID of each entry as a bulk string."""
        if self.explicit is not None:
            return self.explicit[0]
        return [stem + text + b"\r\n" for stem, texts in self.groups for text in texts]

    def replies(self) -> list[bytes]:
        """The same in few pieces."""
        if self.explicit is not None:
            return [b"".join(self.explicit[0])]
        return [stem + (b"\r\n" + stem).join(texts) + b"\r\n" for stem, texts in self.groups]


def _decimals(first: int, end: int) -> Sequence[bytes]:
    """The decimal texts of the numbers [first, end)."""
    if end <= len(_DECIMALS):
        return _DECIMALS[first:end]
    return [b"%d" % number for number in range(first, end)]


def _digit_groups(ms: int, first: int, count: int) -> list[_Digits]:
    """``count`` consecutive IDs of one millisecond, cut where the number of digits changes."""
    groups, end = [], first + count
    while first < end:
        cut = min(10 ** len(str(first)), end)
        texts = _decimals(first, cut)
        groups.append((b"$%d\r\n%d-" % (len(b"%d-" % ms) + len(texts[0]), ms), texts))
        first = cut
    return groups


class Added:
    """What a run's commands answer: their entries' IDs as bulk strings."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def rows(self) -> list[bytes]:
        """One reply per command, in the commands' order."""
        if not self._parts[0].rows:
            return self._parts[0].reply_rows()
        replies = [b""] * sum(len(part.rows) for part in self._parts)
        for part in self._parts:
            for row, reply in zip(part.rows, part.reply_rows(), strict=True):
                replies[row] = reply
        return replies

    def pieces(self) -> list[bytes]:
        """The same bytes, in as few pieces as is cheap."""
        return self.rows() if self._parts[0].rows else self._parts[0].replies()


def add_run(ctx: Context, run: Run) -> Added | None:
    """Do what the commands of the run say; None where the run is declined and nothing was done."""
    try:
        parts = _plan(ctx, run)
    except CommandError:
        return None
    if parts is None:
        return None
    for part in parts:
        _apply(ctx, part, run.words)
    ctx.core.commands_processed += run.count
    return Added(parts)


def _plan(ctx: Context, run: Run) -> list[_Part] | None:
    trim: Trim | None = None
    if len(run.head) > 3:
        trim = Trim()
        args = Args(run.head, 2, len(run.head) - 1)
        if not trim.take_option(args) or len(args):
            return None
    if run.keys is None:
        parts = [_Part(run.head[1], run.bodies, run.sizes)]
    else:
        rows: dict[bytes, list[int]] = {}
        for row, word in enumerate(run.keys):
            rows.setdefault(word, []).append(row)
        parts = [_part_of(run, word, numbers) for word, numbers in rows.items()]
    for part in parts:
        if part.key in ctx.db.waiting:
            return None
        part.stream = ctx.db.stream(part.key)
        part.trim = trim
        if run.ids is None:
            part.first = next_id(part.stream, b"*", ctx.now)
            if not _room(part.first, len(part.bodies)):
                return None
        elif not _take_ids(ctx, part, [run.ids[row] for row in part.rows] if part.rows else run.ids):
            return None
    return parts


def _part_of(run: Run, word: bytes, rows: list[int]) -> _Part:
    """The commands in these rows, which are all that have this key."""
    bodies, sizes = run.bodies, run.sizes
    part = _Part(word[word.index(b"\n") + 1 : -2], [bodies[row] for row in rows], [sizes[row] for row in rows])
    part.rows = rows
    return part


def _room(first: int, count: int) -> bool:
    return (first & ids.U64_MAX) + count <= ids.U64_MAX


def _take_ids(ctx: Context, part: _Part, words: list[bytes]) -> bool:
    if words.count(_AUTO) == len(words):
        part.first = next_id(part.stream, b"*", ctx.now)
        return _room(part.first, len(words))
    texts = b"".join(words).split(b"\r\n")[1::2]
    try:
        halves = list(map(int, b"-".join(texts).split(b"-")))
        ms, seq = array("Q", halves[::2]), array("Q", halves[1::2])
    except (ValueError, OverflowError):
        return False
    # Texts that are not canonical, or had no dash or two, do not come back.
    if list(map(b"%d-%d".__mod__, zip(ms, seq, strict=False))) != texts:
        return False
    last = part.stream.last_id if part.stream is not None else 0
    if ids.make(ms[0], seq[0]) <= last or not _ascend(ms, seq):
        return False
    part.explicit = words, ms, seq
    return True


def _ascend(ms: array[int], seq: array[int]) -> bool:
    """Whether each ID is above the one before it."""
    times, numbers = np.frombuffer(ms, np.uint64), np.frombuffer(seq, np.uint64)
    later = times[1:] > times[:-1]
    later |= (times[1:] == times[:-1]) & (numbers[1:] > numbers[:-1])
    return bool(later.all())


def _apply(ctx: Context, part: _Part, words: int) -> None:
    db, count = ctx.db, len(part.bodies)
    tail = b"*%d\r\n" % words
    if part.explicit is not None:
        id_words, ms, seq = part.explicit
        pieces = [b"*2\r\n"] * (4 * count)
        pieces[1::4], pieces[2::4], pieces[3::4] = id_words, [tail] * count, part.bodies
        sizes = [len(word) + size + 4 + len(tail) for word, size in zip(id_words, part.sizes, strict=True)]
        data = b"".join(pieces)
    else:
        now, first = ids.split(part.first)
        ms = array("Q", [now]) * count
        seq = array("Q", range(first, first + count))
        part.groups = _digit_groups(now, first, count)
        data, sizes = _consecutive(part, b"\r\n" + tail)
    stream = part.stream
    if stream is None:
        stream = new_stream(ctx)
        stream.extend(data, sizes, ms, seq)
        db.add(part.key, stream)
    else:
        stream.extend(data, sizes, ms, seq)
        db.touch(part.key)
    ctx.core.dirty += count - 1
    trimmed = part.trim is not None and _trim(part.trim, stream, count)
    if ctx.core.recording:
        _record(ctx, part, words, stream.length if trimmed else None)


def _trim(trim: Trim, stream: Stream, count: int) -> bool:
    """Trim as the commands would have one by one, each up to its limit; whether anything went."""
    length = stream.length
    while count and trim.apply(stream):
        count -= 1
    return stream.length != length


def _consecutive(part: _Part, tail: bytes) -> tuple[bytes, list[int]]:
    """The frames of consecutive IDs back to back, and their sizes; ``tail`` stands between ID and body."""
    data: list[bytes] = []
    sizes: list[int] = []
    at = 0
    for stem, texts in part.groups:
        count = len(texts)
        head = b"*2\r\n" + stem
        pieces = [head] * (4 * count)
        pieces[1::4], pieces[2::4], pieces[3::4] = texts, [tail] * count, part.bodies[at : at + count]
        data += pieces
        more = len(head) + len(texts[0]) + len(tail)
        sizes += [size + more for size in part.sizes[at : at + count]]
        at += count
    return b"".join(data), sizes


def _record(ctx: Context, part: _Part, words: int, left: int | None) -> None:
    """The run as the log keeps it, encoded at once: every XADD with its final ID, then the trim."""
    count = len(part.bodies)
    head = b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (words + 3, len(part.key), part.key)
    pieces = [head] * (3 * count)
    pieces[1::3], pieces[2::3] = part.reply_rows(), part.bodies
    ctx.core.effects.append((ctx.db.index, b"".join(pieces)))
    if left is not None:
        ctx.effect(b"XTRIM", part.key, b"MAXLEN", b"=", b"%d" % left)
