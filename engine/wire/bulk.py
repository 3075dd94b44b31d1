r"""Runs of XADD: many equal-shaped commands in one buffer, recognised at once, with a proof.

A pipeline of XADDs is mostly repetition. :func:`scan` takes the first command apart, guesses that the ones behind it
have the same number of words, and then *proves* it over the whole buffer with numpy: every line ends in ``\r\n``, every
header is ``$`` and a canonical number, every number is the length of the line behind it, every command begins with the
same words. Where the proof ends the run ends; what is left goes to :class:`engine.wire.parser.RequestParser`, which is
the definition. A value with a line end inside shifts the lines and so ends the run; it cannot be misread.

What comes out is not words but each command's *body*, the bytes from its first field on: they are stored as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_CR, _LF, _DOLLAR, _STAR, _ZERO = 13, 10, 36, 42, 48
#: A shorter run costs less command by command; from so many on, a proof by numpy costs less than one by one (measured).
MIN_RUN = 3
MANY = 64
#: Of larger commands numpy would mostly look at bytes of values.
_LARGE = 400
_MAX_WORDS = 200
#: Words of 10,000 bytes and more end a run.
_MAX_DIGITS = 4


#: A word's number of digits by its length, and the digits themselves, the last one first.
_LIMIT = 10**_MAX_DIGITS
_DIGITS = np.array([len(str(length)) for length in range(_LIMIT)], np.int64)
_PLACES = [
    np.array([_ZERO + length // 10**place % 10 for length in range(_LIMIT)], np.uint8) for place in range(_MAX_DIGITS)
]
#: The header of a word, by its length.
_HEADERS = [b"$%d" % length for length in range(2048)]


class Shape(NamedTuple):
    """What the commands of a run have in common."""

    #: The bytes that each begins with, and how many whole words that is: all before the fields, or the name alone.
    prefix: bytes
    #: The first command's words before its fields: XADD, key, options, ID.
    head: list[bytes]
    proven: int
    #: How many words each entry's fields and values are.
    words: int


@dataclass(slots=True)
class AddRun:
    """``count`` XADD commands. ``end`` is where the buffer goes on behind them."""

    count: int
    end: int
    shape: Shape
    #: Each command's bytes from its first field on, and how many they are.
    bodies: list[bytes]
    sizes: Sequence[int]
    #: The key of every command with its header (``$1\r\ns\r\n``), where not all have the first one's.
    keys: list[bytes] | None = None
    #: The ID of every command, likewise, where not all are ``*``.
    ids: list[bytes] | None = None

    @property
    def head(self) -> list[bytes]:
        """The first command's words before its fields: XADD, key, options, ID."""
        return self.shape.head

    @property
    def words(self) -> int:
        """How many words each entry's fields and values are."""
        return self.shape.words

    def commands(self) -> Iterator[list[bytes]]:
        """The commands one by one, as words."""
        for row, body in enumerate(self.bodies):
            head = self.head
            if self.keys is not None:
                head = [head[0], _word(self.keys[row]), b"*" if self.ids is None else _word(self.ids[row])]
            words, at = [*head], 0
            for _ in range(self.words):
                line_end = body.index(b"\r\n", at)
                end = line_end + 2 + int(body[at + 1 : line_end])
                words.append(body[line_end + 2 : end])
                at = end + 2
            yield words


def _word(bulk: bytes) -> bytes:
    return bulk[bulk.index(b"\n") + 1 : -2]


def next_start(data: bytes) -> int:
    """Where, behind the first command of ``data``, an XADD seems to begin; 0 if none does. A guess, to cut there."""
    name = data.find(b"\r\n$4\r\nXADD\r\n")
    line = data.rfind(b"\r\n*", 0, max(name, 0))
    return line + 2 if line > 0 else 0


def scan(data: bytes, at: int = 0, known: Shape | None = None) -> AddRun | None:
    """The run of XADDs that begins at ``at``, if there is one that is worth it.

    ``known`` is the shape of an earlier run: pipelines mostly go on as they began, and need not be taken apart anew.
    """
    if known is not None and data.startswith(known.prefix, at):
        rows = data.count(known.prefix, at)
        if rows < MIN_RUN:
            return None
        return _prove_few(data, at, known) if rows < MANY else _prove_many(data, at, known)
    first = _first_command(data, at)
    if first is None:
        return None
    words, starts, size = first
    rows = (len(data) - at) // size
    id_at = _id_position(words)
    if rows < MIN_RUN or id_at == 0:
        return None
    head = id_at + 1
    prefix = data[at : starts[head]]
    if words[id_at] == b"*" and data.startswith(prefix, at + size):
        shape = Shape(prefix, words[:head], head, len(words) - head)
        return _prove_few(data, at, shape) if rows < MANY or size >= _LARGE else _prove_many(data, at, shape)
    # Other keys or IDs follow: only the name is common.
    if id_at != 2 or rows < MANY:
        return None
    return _prove_many(data, at, Shape(data[at : starts[1]], words[:head], 1, len(words) - head))


def _first_command(data: bytes, at: int) -> tuple[list[bytes], list[int], int] | None:
    """Words, where each one's header begins, and the size of the XADD at ``at``; None if it is anything else."""
    line_end = data.find(b"\r\n", at, at + 8)
    count = data[at + 1 : line_end]
    if line_end < 0 or data[at : at + 1] != b"*" or not count.isdigit() or not 5 <= int(count) <= _MAX_WORDS:
        return None
    words, starts, pos = [], [], line_end + 2
    for _ in range(int(count)):
        line_end = data.find(b"\r\n", pos, pos + 8)
        digits = data[pos + 1 : line_end]
        if line_end < 0 or data[pos : pos + 1] != b"$" or not digits.isdigit() or len(digits) > _MAX_DIGITS:
            return None
        starts.append(pos)
        end = line_end + 2 + int(digits)
        words.append(data[line_end + 2 : end])
        pos = end + 2
        if len(words) == 1 and words[0].upper() != b"XADD":
            return None
    if pos > len(data):
        return None
    return words, starts, pos - at


def _id_position(words: list[bytes]) -> int:
    """Which word is the ID: the third, or the one behind a plain ``MAXLEN [=|~] n``; 0 where that is not clear."""
    at = 2
    if words[2].upper() == b"MAXLEN":
        at = 5 if words[3] in (b"=", b"~") else 4
    left = len(words) - at - 1
    if left < 2 or left % 2 or not (words[at] == b"*" or words[at][:1].isdigit()):
        return 0
    return at


def _prove_few(data: bytes, at: int, shape: Shape) -> AddRun | None:
    r"""Prove commands one after the other, which costs less than numpy where there are not many, or they are large.

    Divided at its line ends, a body is header, word, header, word ..., each header the canonical one for its word.
    """
    bodies = data[at:].split(shape.prefix)
    bodies.pop(0)
    lines = 2 * shape.words + 1
    headers = _HEADERS
    proven = []
    for body in bodies:
        parts = body.split(b"\r\n")
        last = len(parts) != lines or bool(parts[-1])
        if last:
            # Something else follows the entry, or it is not complete; or it is no such entry.
            if len(parts) < lines:
                break
            del parts[lines:]
            parts[-1] = b""
            body = b"\r\n".join(parts)
        try:
            if [headers[len(word)] for word in parts[1::2]] != parts[:-1:2]:
                break
        except IndexError:
            break
        proven.append(body)
        if last:
            break
    if len(proven) < MIN_RUN:
        return None
    sizes = list(map(len, proven))
    end = at + len(shape.prefix) * len(proven) + sum(sizes)
    return AddRun(len(proven), end, shape, proven, sizes)


def _prove_many(data: bytes, at: int, shape: Shape) -> AddRun | None:
    """Prove as many commands as can be, all at once."""
    first = 2 * shape.proven + 1
    lines = 2 * (len(shape.head) + shape.words) + 1
    buffer = np.frombuffer(data, np.uint8, offset=at)
    line_ends = np.flatnonzero(buffer == _LF)
    rows = len(line_ends) // lines
    if rows < MIN_RUN:
        return None
    line_ends = line_ends[: rows * lines]
    line_starts = np.empty_like(line_ends)
    line_starts[0] = 0
    np.add(line_ends[:-1], 1, out=line_starts[1:])
    starts, ends = line_starts.reshape(rows, lines), line_ends.reshape(rows, lines)
    # Every command begins with the prefix, and its first line beyond that stands right behind it.
    good = starts[:, first] - starts[:, 0] == len(shape.prefix)
    varied = shape.proven == 1
    if varied:
        good[good] = _begin_with(buffer, starts[good, 0], shape.prefix)
        bodies = []
    else:
        bodies = data[at : at + int(ends[-1, -1]) + 1].split(shape.prefix)
        bodies.pop(0)
        # Where one is as long as its lines say, the next one's prefix stands where its first line does. The last one is
        # longer where something else follows.
        rows = min(rows, len(bodies))
        found = np.fromiter(map(len, bodies), np.int64, len(bodies))[:rows]
        expected = ends[:rows, -1] + 1 - starts[:rows, first]
        longer = np.flatnonzero(found != expected)
        if len(longer) and found[longer[0]] > expected[longer[0]]:
            rows = int(longer[0]) + 1
            bodies[rows - 1] = bodies[rows - 1][: int(expected[rows - 1])]
        elif len(longer):
            rows = int(longer[0])
        good[rows:] = False
    heads, head_ends, word_ends = starts[:, first::2], ends[:, first::2], ends[:, first + 1 :: 2]
    good &= _headers_hold(buffer, heads, head_ends, word_ends).all(axis=1)
    wrong = np.flatnonzero(~good)
    if len(wrong):
        rows = int(wrong[0])
    if rows < MIN_RUN:
        return None
    begins, row_ends = starts[:rows, 2 * len(shape.head) + 1], ends[:rows, -1] + 1
    if varied:
        bodies = _slices(data, at, begins, row_ends)
    else:
        del bodies[rows:]
    run = AddRun(rows, at + int(row_ends[-1]), shape, bodies, (row_ends - begins).tolist())
    if varied:
        run.keys = _slices(data, at, heads[:rows, 0], word_ends[:rows, 0] + 1)
        is_star = (word_ends[:rows, 1] - head_ends[:rows, 1] == 3) & (buffer[word_ends[:rows, 1] - 2] == _STAR)
        if not is_star.all():
            run.ids = _slices(data, at, heads[:rows, 1], word_ends[:rows, 1] + 1)
    return run


def _begin_with(buffer: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], prefix: bytes) -> npt.NDArray[np.bool_]:
    """At which of these places ``prefix`` stands."""
    wanted = np.frombuffer(prefix, np.uint8)
    same: npt.NDArray[np.bool_] = (buffer[begins[:, None] + np.arange(len(wanted))] == wanted).all(axis=1)
    return same


def _slices(data: bytes, at: int, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[bytes]:
    """One stretch of each command; the places count from ``at``."""
    return [data[begin:end] for begin, end in zip((begins + at).tolist(), (ends + at).tolist(), strict=True)]


def _headers_hold(
    buffer: npt.NDArray[np.uint8],
    heads: npt.NDArray[np.int64],
    head_ends: npt.NDArray[np.int64],
    word_ends: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    r"""Which headers are ``$`` and a canonical number of at most four digits, with a word just so long behind them."""
    digits = head_ends - heads - 2
    length = word_ends - head_ends - 2
    good: npt.NDArray[np.bool_] = (buffer[heads] == _DOLLAR) & (buffer[head_ends - 1] == _CR)
    good &= (buffer[word_ends - 1] == _CR) & (length >= 0) & (length < _LIMIT)
    # What the header of a word of this length must be is looked up, from its last digit on.
    length = np.where(good, length, 0)
    good &= _DIGITS[length] == digits
    good &= _PLACES[0][length] == buffer[head_ends - 2]
    for place in range(1, min(int(digits.max()), _MAX_DIGITS)):
        good &= (_PLACES[place][length] == buffer[head_ends - 2 - place]) | (digits <= place)
    return good
