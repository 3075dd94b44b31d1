"""The arguments of XREAD and XREADGROUP: parsing, key positions, and the limits of the whole reply."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.environment.context import Context
from engine.core.protocol import ids
from engine.core.protocol.args import Args, parse_timeout
from engine.core.protocol.replies import CommandError
from engine.core.streams.runs import Run
from engine.core.streams.stream import Stream
from engine.text import messages


@dataclass(slots=True)
class Read:
    """The parsed arguments of one call."""

    count: int = 0
    maxcount: int = 0
    maxsize: int = 0
    block: int | None = None
    claim: int | None = None
    noack: bool = False
    group: bytes | None = None
    consumer: bytes = b""
    keys: list[bytes] = field(default_factory=list)
    id_words: list[bytes] = field(default_factory=list)
    #: Index of the first ID among the command's words.
    id_pos: int = 0


#: Cache of parsed calls whose last ID is ``>``. Readers repeat such calls.
_cache: dict[tuple[bytes, ...], Read] = {}
#: Maximum number of cached calls.
_CACHE_MAX = 1024
#: Maximum number of words of a cached call.
_CACHE_WORDS = 32
#: A call whose BLOCK is at least this many milliseconds is not cached: whether such a timeout is valid depends on the
#: current time.
_CACHE_BLOCK_MS = 1 << 40


def parse_read(ctx: Context, argv: list[bytes]) -> Read:
    """Parse the arguments of a call. Callers must not modify the result, which may be cached."""
    if argv[-1] != b">" or len(argv) > _CACHE_WORDS:
        return _parse(ctx, argv)
    words = tuple(argv)
    read = _cache.get(words)
    if read is None:
        read = _parse(ctx, argv)
        if (read.block or 0) < _CACHE_BLOCK_MS and sum(map(len, words)) < 1024:
            if len(_cache) >= _CACHE_MAX:
                _cache.clear()
            _cache[words] = read
    return read


def _parse(ctx: Context, argv: list[bytes]) -> Read:
    grouped = argv[0].upper() == b"XREADGROUP"
    read = Read()
    args = Args(argv, 1)
    while not read.keys:
        word = args.take().upper()
        more = len(args)
        if word == b"COUNT" and more > 0:
            read.count = max(args.take_int(), 0)
        elif word == b"MAXCOUNT" and more > 0:
            read.maxcount = args.take_int(messages.MAXCOUNT_NOT_POSITIVE)
            if read.maxcount <= 0:
                raise CommandError(messages.MAXCOUNT_NOT_POSITIVE)
        elif word == b"MAXSIZE" and more > 0:
            read.maxsize = args.take_int(messages.MAXSIZE_NOT_POSITIVE)
            if read.maxsize <= 0:
                raise CommandError(messages.MAXSIZE_NOT_POSITIVE)
        elif word == b"BLOCK" and more > 0:
            read.block = parse_timeout(args.take(), ctx.now)
        elif word == b"STREAMS" and more > 0:
            words = args.rest()
            if len(words) % 2:
                raise CommandError(messages.READGROUP_UNBALANCED if grouped else messages.READ_UNBALANCED)
            half = len(words) // 2
            read.keys, read.id_words = words[:half], list(map(ids.special, words[half:]))
            read.id_pos = len(argv) - half
        elif word == b"GROUP" and more > 1:
            if not grouped:
                raise CommandError(messages.read_only_with_group(b"GROUP"))
            read.group, read.consumer = args.take(), args.take()
        elif word == b"NOACK":
            if not grouped:
                raise CommandError(messages.read_only_with_group(b"NOACK"))
            read.noack = True
        elif word == b"CLAIM" and more > 0:
            if not grouped:
                raise CommandError(messages.read_only_with_group(b"CLAIM"))
            read.claim = args.take_int(messages.MIN_IDLE_NOT_INTEGER)
            if read.claim < 0:
                raise CommandError(messages.MIN_IDLE_NEGATIVE)
        else:
            raise CommandError(messages.SYNTAX)
    if grouped and read.group is None:
        raise CommandError(messages.READGROUP_NO_GROUP_OPTION)
    if read.maxcount and read.count > read.maxcount:
        raise CommandError(messages.MAXCOUNT_BELOW_COUNT)
    return read


#: Option -> number of its values.
_VALUES_OF = {b"GROUP": 2, b"COUNT": 1, b"MAXCOUNT": 1, b"MAXSIZE": 1, b"BLOCK": 1, b"CLAIM": 1, b"NOACK": 0}


def find_keys(argv: list[bytes]) -> list[bytes]:
    """Find the keys exactly as the command does, because permissions depend on them: a group may be named STREAMS."""
    at = 1
    while at < len(argv):
        word = argv[at].upper()
        if word == b"STREAMS":
            return argv[at + 1 : at + 1 + (len(argv) - at - 1) // 2]
        if word not in _VALUES_OF:
            break
        at += 1 + _VALUES_OF[word]
    return []


class Budget:
    """Limits of a reply: COUNT entries per stream, and MAXCOUNT entries and MAXSIZE bytes in total.

    The last entry may make the reply larger than MAXSIZE.
    """

    __slots__ = ("count", "left", "maxsize", "size")

    def __init__(self, read: Read) -> None:
        self.count = read.count
        self.left = read.maxcount or None
        self.maxsize = read.maxsize
        self.size = 0

    @property
    def spent(self) -> bool:
        return self.left == 0 or (0 < self.maxsize <= self.size)

    def limit(self, taken: int = 0) -> int:
        """Return the maximum number of further entries of a stream, after ``taken`` of its entries; 0 if unlimited.

        Must not be called when the budget is spent.
        """
        left = self.count - taken if self.count else 0
        if self.left is None:
            return left
        return min(left, self.left) if left else self.left

    def select(self, stream: Stream, low: int, taken: int = 0) -> list[Run]:
        """Select entries of ``stream`` from ``low`` on, within the budget, and charge them."""
        if self.spent or (self.count and taken >= self.count):
            return []
        runs = stream.first_runs(low, ids.MAX_ID, self.limit(taken))
        if self.maxsize:
            runs = self._cut(runs)
        if self.left is not None:
            self.left -= sum(last - first for _, first, last in runs)
        return runs

    def _cut(self, runs: list[Run]) -> list[Run]:
        selected = []
        for segment, first, last in runs:
            for index in range(first, last):
                if self.size >= self.maxsize:
                    if index > first:
                        selected.append((segment, first, index))
                    return selected
                self.size += len(segment.frame_at(index))
            selected.append((segment, first, last))
        return selected

    def charge(self, size: int) -> None:
        """Charge an entry of ``size`` bytes."""
        self.size += size
        if self.left is not None:
            self.left -= 1
