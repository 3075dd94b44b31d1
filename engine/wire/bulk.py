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

import numpy as np
import numpy.typing as npt

_CR, _LF, _DOLLAR, _ZERO = 13, 10, 36, 48
#: A shorter run costs less command by command; from so many on, a proof by numpy costs less than one by one (measured).
MIN_RUN = 3
MANY = 80
_MAX_WORDS = 200
#: Words of 10,000 bytes and more end a run.
_MAX_DIGITS = 4


#: The header of a word, by its length.
_HEADERS = [b"$%d" % length for length in range(2048)]


@dataclass(slots=True)
class AddRun:
    """``count`` XADD commands. ``end`` is where the buffer goes on behind them."""

    count: int
    end: int
    #: The first command's words before its fields: XADD, key, options, ID.
    head: list[bytes]
    #: How many words each entry's fields and values are.
    words: int
    #: Each command's bytes from its first field on, and how many they are.
    bodies: list[bytes]
    sizes: Sequence[int]
    #: The key and the ID of every command, with their headers (``$1\r\n*\r\n``), where not all are as in ``head``.
    keys: list[bytes] | None = None
    ids: list[bytes] | None = None

    def commands(self) -> Iterator[list[bytes]]:
        """The commands one by one, as words."""
        for row, body in enumerate(self.bodies):
            head = self.head
            if self.keys is not None and self.ids is not None:
                head = [head[0], _word(self.keys[row]), _word(self.ids[row])]
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


def scan(data: bytes, at: int = 0) -> AddRun | None:
    """The run of XADDs that begins at ``at``, if there is one that is worth it."""
    first = _first_command(data, at)
    if first is None:
        return None
    words, starts, size = first
    rows = (len(data) - at) // size
    if rows < MIN_RUN:
        return None
    id_at = _id_position(words)
    if id_at == 0:
        return None
    constant = words[id_at] == b"*"
    head = id_at + 1
    prefix = data[at : starts[head]]
    if not constant or data[at + size : at + size + len(prefix)] != prefix:
        # Other keys or IDs follow: only the name is common.
        if id_at != 2:
            return None
        constant = False
        prefix = data[at : starts[1]]
    if rows < MANY:
        return _prove_few(data, at, words, prefix, head) if constant else None
    return _prove_many(data, at, words, prefix, head if constant else 1, head)


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


def _prove_few(data: bytes, at: int, words: list[bytes], prefix: bytes, head: int) -> AddRun | None:
    r"""Prove commands one after the other, which costs less than numpy where there are not many.

    Divided at its line ends, a body is header, word, header, word ..., each header the canonical one for its word.
    """
    bodies = data[at:].split(prefix)
    bodies.pop(0)
    lines = 2 * (len(words) - head) + 1
    proven = []
    for body in bodies:
        parts = body.split(b"\r\n")
        if len(parts) != lines or parts[-1]:
            break
        try:
            if [_HEADERS[len(word)] for word in parts[1::2]] != parts[:-1:2]:
                break
        except IndexError:
            break
        proven.append(body)
    if len(proven) < MIN_RUN:
        return None
    sizes = list(map(len, proven))
    end = at + len(prefix) * len(proven) + sum(sizes)
    return AddRun(len(proven), end, words[:head], lines // 2, proven, sizes)


def _prove_many(data: bytes, at: int, words: list[bytes], prefix: bytes, proved: int, head: int) -> AddRun | None:
    """Prove as many commands as can be; ``prefix`` holds the first ``proved`` words, ``head`` words come before the
    fields.
    """
    lines = 2 * len(words) + 1
    buffer = np.frombuffer(data, np.uint8, offset=at)
    ends = np.flatnonzero(buffer == _LF)
    rows = len(ends) // lines
    if rows < MIN_RUN:
        return None
    ends = ends[: rows * lines]
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1]
    starts[1:] += 1
    bodies = data[at : at + int(ends[-1]) + 1].split(prefix)
    bodies.pop(0)
    # A command's first words stand where its first lines do, if all before it were as long as their lines say.
    rows = min(rows, len(bodies))
    row_starts = starts[:: lines][:rows]
    row_ends = ends[lines - 1 :: lines][:rows] + 1
    sizes = np.fromiter(map(len, bodies), np.int64, len(bodies))[:rows]
    good = row_ends - row_starts - len(prefix) == sizes
    first = 2 * proved + 1
    heads = starts.reshape(-1, lines)[:rows, first::2]
    head_ends = ends.reshape(-1, lines)[:rows, first::2]
    word_ends = ends.reshape(-1, lines)[:rows, first + 1 :: 2]
    good &= _headers_hold(buffer, heads, head_ends, word_ends).all(axis=1)
    wrong = np.flatnonzero(~good)
    if len(wrong):
        rows = int(wrong[0])
    if rows < MIN_RUN:
        return None
    del bodies[rows:]
    run = AddRun(
        rows, at + int(row_ends[rows - 1]), words[:head], len(words) - head, bodies, sizes[:rows].tolist()
    )
    if proved != head:
        _take_heads(run, word_ends, row_starts + len(prefix))
    return run


def _headers_hold(
    buffer: npt.NDArray[np.uint8],
    heads: npt.NDArray[np.int64],
    head_ends: npt.NDArray[np.int64],
    word_ends: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    r"""Which headers are ``$`` and a canonical number of at most four digits, with a word just so long behind them."""
    digits = head_ends - heads - 2
    declared = word_ends - head_ends - 2
    good: npt.NDArray[np.bool_] = (buffer[heads] == _DOLLAR) & (digits >= 1) & (digits <= _MAX_DIGITS)
    good &= (buffer[head_ends - 1] == _CR) & (buffer[word_ends - 1] == _CR)
    most = min(int(digits.max()), _MAX_DIGITS)
    value = np.zeros(heads.shape, np.int64)
    for place in range(most):
        # From the last digit on; where there is none any more the byte is not looked at.
        there = digits > place
        digit = buffer[np.maximum(head_ends - 2 - place, 0)] - np.uint8(_ZERO)
        good &= (digit <= 9) | ~there
        value += np.where(there, digit, 0).astype(np.int64) * 10**place
    canonical = (digits == 1) | (buffer[heads + 1] != _ZERO)
    good &= canonical & (value == declared)
    return good


def _take_heads(
    run: AddRun,
    word_ends: npt.NDArray[np.int64],
    origin: npt.NDArray[np.int64],
) -> None:
    """Split keys and IDs off the bodies, which begin with them; they keep their headers."""
    rows = run.count
    key_end = (word_ends[:rows, 0] + 1 - origin[:rows]).tolist()
    id_end = (word_ends[:rows, 1] + 1 - origin[:rows]).tolist()
    parts = run.bodies
    run.keys = [part[:end] for part, end in zip(parts, key_end, strict=True)]
    run.ids = [part[begin:end] for part, begin, end in zip(parts, key_end, id_end, strict=True)]
    run.bodies = [part[end:] for part, end in zip(parts, id_end, strict=True)]
    run.sizes = list(map(len, run.bodies))
