"""XADD, one and many at once, XSETID, and the records of idempotent producers (XCFGSET, XIDMPRECORD).

`add_run` executes a run of XADDs together. ``engine.wire.bulk`` has verified the bytes of the run. If one of the
commands would fail, the run is declined before any change. ``Core.execute_run`` declines runs whose commands
subscribers of keyspace events or MONITOR must see one by one. The commands of a declined run are executed separately.
A property test checks that a run has the same results as its separate commands.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import lru_cache

import numpy as np

from engine.core.commands.families import stream_command
from engine.core.commands.streams.groups import need_stream
from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import Args
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.core.protocol.xadd import Given, XaddRun, divide, word_in
from engine.core.streams.idempotency import MOST_IDMP_IDS, MOST_IDMP_SECONDS, content_id
from engine.core.streams.segment import Sizes
from engine.core.streams.stream import Stream, counted, next_id
from engine.core.streams.trimming import ACKED, DELREF, Trim, Work, effect_words
from engine.text import messages
from streamwire.frames import frame

#: Maximum total size of an entry's field names and values, in bytes.
_MAX_ENTRY_BYTES = 1 << 30


class _Options:
    """XADD's options. ``at``: index of the ID among the command's words."""

    __slots__ = ("at", "auto_iid", "iid", "nomkstream", "producer", "trim", "word")

    def __init__(self, argv: list[bytes]) -> None:
        self.nomkstream = False
        self.trim = Trim()
        self.producer = self.iid = b""
        self.auto_iid = False
        options, self.at = divide(argv)
        for option in options:
            self._set_option(option)
        if self.at == len(argv):
            raise CommandError(messages.SYNTAX)
        self.word = word = argv[self.at]
        if word != b"*" and not word.endswith(b"-*"):
            ids.parse(word)
        elif word != b"*" and ids.parse_u64(word[:-2]) < 0:
            raise CommandError(messages.INVALID_ID)
        if self.producer and word != b"*":
            raise CommandError(b"ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
        self.trim.check(required=False)

    def _set_option(self, option: Given) -> None:
        if option.token == b"NOMKSTREAM":
            self.nomkstream = True
        elif option.token == b"IDMPAUTO":
            self._set_producer(option, b"ERR syntax error, IDMPAUTO requires a non-empty producer ID")
            self.auto_iid = True
        elif option.token == b"IDMP":
            self._set_producer(option, b"ERR syntax error, IDMP requires a non-empty producer ID")
            self.iid = option.words[2]
            if not self.iid:
                raise CommandError(b"ERR syntax error, IDMP requires a non-empty idempotent ID")
        else:
            self.trim.set_option(option)

    def _set_producer(self, option: Given, empty: bytes) -> None:
        if self.producer:
            raise CommandError(b"ERR syntax error, IDMP/IDMPAUTO specified multiple times")
        self.producer = option.words[1]
        if not self.producer:
            raise CommandError(empty)


@stream_command(
    "xadd key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id] "
    "[<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
    "write denyoom fast",
)
def xadd(ctx: Context, argv: list[bytes]) -> Reply:
    """Appends an entry to a stream, creating the stream if it does not exist."""
    word = argv[2]
    if word == b"*":
        if not len(argv) & 1:
            raise CommandError(messages.wrong_arity(b"xadd"))
        options, fields, iid = None, argv[3:], b""
    else:
        options = _Options(argv)
        word, fields, iid = options.word, argv[options.at + 1 :], options.iid
        if not fields or len(fields) % 2:
            raise CommandError(messages.wrong_arity(b"xadd"))
        if word not in (b"*", b"0-*") and not word.endswith(b"-*") and not ids.parse(word):
            raise CommandError(b"ERR The ID specified in XADD must be greater than 0-0")
    key, db = argv[1], ctx.db
    stream = db.stream(key)
    if stream is None and options is not None and options.nomkstream:
        return None
    if options is not None and options.producer:
        if options.auto_iid:
            iid = content_id(fields)
        if stream is not None and stream.producers is not None:
            known = stream.producers.find(options.producer, iid)
            if known is not None:
                # Without an effect: a replica whose record has expired already would add an entry.
                stream.producers.duplicates += 1
                return ids.text(known)
    entry_id = next_id(stream, word, ctx.now)
    text = b"%d-%d" % (entry_id >> 64, entry_id & ids.U64_MAX)
    entry = frame(text, fields)
    if len(entry) > _MAX_ENTRY_BYTES and sum(map(len, fields)) > _MAX_ENTRY_BYTES:
        raise CommandError(b"ERR Elements are too large to be stored")
    if options is not None:
        return ctx.in_steps(argv, _add(ctx, argv, options, iid, entry_id, entry))
    add_entry(ctx, key, stream, entry_id, entry)
    changes = ctx.changes
    if changes.recording:
        changes.effects.append((db.index, [b"XADD", key, text, *fields]))
    return text


def add_entry(ctx: Context, key: bytes, stream: Stream | None, entry_id: int, entry: bytes) -> Stream:
    """Append one entry, given as a frame, to ``stream``; notify watchers, blocked clients and subscribers.

    If ``stream`` is None, create a stream at ``key``. The caller records the effect.
    """
    changes, db = ctx.changes, ctx.db
    if stream is None:
        stream = ctx.streams.new()
        stream.append(entry_id, entry)
        db.add(key, stream)
    else:
        stream.append(entry_id, entry)
        db.touch(key)
        if db.waiting:
            db.signal(key)
    if changes.on_event is not None:
        changes.notify("t", b"xadd", key, db.index)
    return stream


def add_entries(
    ctx: Context,
    key: bytes,
    stream: Stream | None,
    frames: bytes | bytearray,
    sizes: Sizes,
    ms: array[int],
    seq: array[int],
) -> Stream:
    """Append many entries as `add_entry` appends one.

    ``frames`` are their frames back to back, ``sizes`` the sizes of the frames in bytes. ``ms`` and ``seq`` are the
    milliseconds and the sequence numbers of their IDs.
    """
    changes, db = ctx.changes, ctx.db
    if stream is None:
        stream = ctx.streams.new()
        stream.extend(frames, sizes, ms, seq)
        db.add(key, stream, changes=len(ms))
    else:
        stream.extend(frames, sizes, ms, seq)
        db.touch(key, changes=len(ms))
        if db.waiting:
            db.signal(key)
    if changes.on_event is not None:
        for _ in ms:
            changes.notify("t", b"xadd", key, db.index)
    return stream


def _add(ctx: Context, argv: list[bytes], options: _Options, iid: bytes, entry_id: int, entry: bytes) -> Work[bytes]:
    """Add an entry with options, and trim the stream; return the entry's ID."""
    key, fields, changes = argv[1], argv[options.at + 1 :], ctx.changes
    text = ids.text(entry_id)
    stream = add_entry(ctx, key, ctx.db.stream(key), entry_id, entry)
    if options.producer:
        ctx.streams.producers_of(stream).remember(options.producer, iid, entry_id)
    trimmed, _ = yield from options.trim.in_steps(stream)
    if trimmed:
        changes.notify("t", b"xtrim", key, ctx.db.index)
    if changes.recording:
        trimming = effect_words(stream, options.trim) if trimmed else []
        if options.producer and ctx.replication.feeds:
            # One command, as in Redis: two commands would form a transaction, and a replica that does not support one
            # of them would refuse both.
            who = (b"IDMPAUTO", options.producer) if options.auto_iid else (b"IDMP", options.producer, iid)
            ctx.effect(b"XADD", key, *trimming, *who, text, *fields)
            return text
        ctx.effect(b"XADD", key, *trimming, text, *fields)
        if options.producer:
            ctx.effect(b"XIDMPRECORD", key, options.producer, iid, text)
    return text


@stream_command("xsetid key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]", "write denyoom fast")
def xsetid(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets a stream's last ID and counters; an internal command."""
    args = Args(argv, 2)
    last_id, added, max_deleted = args.take_id(), None, None
    while len(args):
        if args.option(b"ENTRIESADDED"):
            added = args.take_int()
            if added < 0:
                raise CommandError(b"ERR entries_added must be positive")
        elif args.option(b"MAXDELETEDID"):
            max_deleted = args.take_id()
            if last_id < max_deleted:
                raise CommandError(b"ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
        else:
            raise CommandError(messages.SYNTAX)
    stream = need_stream(ctx, argv[1])
    if last_id < stream.max_deleted_id:
        raise CommandError(b"ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
    if stream.length:
        if last_id < stream.last_entry_id:
            raise CommandError(b"ERR The ID specified in XSETID is smaller than the target stream top item")
        if added is not None and added < stream.length:
            raise CommandError(b"ERR The entries_added specified in XSETID is smaller than the target stream length")
    stream.last_id = last_id
    # An empty stream may get entries with smaller IDs.
    stream.needed_until = 0
    if added is not None:
        stream.entries_added = added
        for name, group in stream.groups.items():
            if group.entries_read > added:
                stream.group(name).entries_read = added
    if max_deleted:
        stream.max_deleted_id = max_deleted
    ctx.changes.dirty += 1
    ctx.changes.notify("t", b"xsetid", argv[1], ctx.db.index)
    ctx.effect(*argv)
    return OK


@stream_command("xcfgset key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]", "write fast")
def xcfgset(ctx: Context, argv: list[bytes]) -> Reply:
    """Sets how many idempotent IDs a stream keeps per producer, and for how long."""
    producers = ctx.streams.producers_of(need_stream(ctx, argv[1]))
    args = Args(argv, 2)
    duration = maxsize = None
    while len(args):
        if args.option(b"IDMP-DURATION"):
            if duration is not None:
                raise CommandError(b"ERR IDMP-DURATION specified multiple times")
            duration = args.take_int()
            if not 1 <= duration <= MOST_IDMP_SECONDS:
                raise CommandError(b"ERR IDMP-DURATION must be between 1 and 86400 seconds")
        elif args.option(b"IDMP-MAXSIZE"):
            if maxsize is not None:
                raise CommandError(b"ERR IDMP-MAXSIZE specified multiple times")
            maxsize = args.take_int()
            if not 1 <= maxsize <= MOST_IDMP_IDS:
                raise CommandError(b"ERR IDMP-MAXSIZE must be between 1 and 10000 entries")
        else:
            raise CommandError(messages.SYNTAX)
    if duration is None and maxsize is None:
        raise CommandError(b"ERR At least one parameter must be specified")
    duration = producers.duration if duration is None else duration
    maxsize = producers.maxsize if maxsize is None else maxsize
    former = producers.by_producer
    if producers.configure(duration, maxsize):
        ctx.changes.discard(former)
        ctx.changes.dirty += 1
        # Both limits, because the defaults of a replica may differ.
        ctx.effect(b"XCFGSET", argv[1], b"IDMP-DURATION", b"%d" % duration, b"IDMP-MAXSIZE", b"%d" % maxsize)
    return OK


@stream_command("xidmprecord key producer-id idempotent-id id", "write denyoom fast")
def xidmprecord(ctx: Context, argv: list[bytes]) -> Reply:
    """Records the idempotent ID of an entry; an internal command."""
    _, key, producer, iid, word = argv
    entry_id = ids.parse(word)
    if not producer:
        raise CommandError(b"ERR producer ID must be non-empty")
    if not iid:
        raise CommandError(b"ERR idempotent ID must be non-empty")
    stream = need_stream(ctx, key)
    # A replay accepts a missing entry, because the XADD of this record may already have trimmed the entry.
    if entry_id not in stream and not ctx.changes.replaying:
        raise CommandError(b"ERR No such message in stream")
    producers = ctx.streams.producers_of(stream)
    known = producers.find(producer, iid)
    if known is not None and known != entry_id:
        raise CommandError(b"ERR IID already exists for this producer with a different stream ID")
    if known is None:
        producers.remember(producer, iid, entry_id)
        ctx.changes.dirty += 1
        ctx.effect(*argv)
    return OK


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


def _apply(ctx: Context, part: _Part, words: int, trim: Trim | None) -> None:
    stream = add_entries(ctx, part.key, part.stream, part.frames, part.sizes, part.ms, part.seq)
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
