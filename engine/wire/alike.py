r"""XADDs of one form, one key and given IDs, as a log has them: many at once by numpy, entries made without objects.

It is the quickest way from bytes to entries, and for loading alone: an entry takes a fifth of what it takes by
:mod:`engine.wire.bulk`, which is for what clients send. A command is read as constants and words by turns::

    *7\r\n$4\r\nXADD\r\n$1\r\ns\r\n$  15\r\n<ID>  \r\n$1\r\nf\r\n$  2\r\n<value>  \r\n$1\r\ng\r\n$  1\r\n<value>  \r\n

All commands are read side by side, from guesses where they begin. The guesses are proven by induction: the first one is
right, and where a command has the form and ends where the next guess is, that one is right as well. Bytes are compared
eight at a time.

The commands become frames (:mod:`engine.core.streams.frames`) in place. A frame is shorter than its command, and has
the same bytes behind the ID; so the ID is moved, what frames have around it is written, and what is left of the
commands' beginnings is cut out at once.

Whatever is in doubt is declined, and goes another way.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from engine.core.protocol.xadd_run import FramedRun
from engine.wire.forms import command_at, head_size

_Places = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Bools = npt.NDArray[np.bool_]

#: Bytes that are looked at together, at first and at most.
_LEAST, _MOST = 1 << 16, 1 << 19
#: Fewer commands are not worth it.
_FEW = 64
#: After so many times in vain at the most, the next time is tried.
_LONGEST_REST = 63
#: The most digits of a word's length, of an ID's milliseconds, and of its sequence number.
_LENGTH_DIGITS, _MS_DIGITS, _SEQ_DIGITS = 4, 16, 7
#: What is behind the commands is this byte, which no part of the form is like; and how far beyond the longest constant
#: part a look can reach.
_BEHIND, _REACH = b"\xff", 64
_STAR, _DASH, _ZERO = b"*-0"
_FRAME = b"*2\r\n"
_LINE_END = np.uint64(0x0A0D)


def _all(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101010101010101)


class AlikeAdds:
    """Reads one log's. It rests for a while where it was tried in vain."""

    __slots__ = ("_rest", "_size", "_tried")

    def __init__(self) -> None:
        self._size = _LEAST
        self._rest = 0
        self._tried = 0

    def scan(self, data: bytes, at: int) -> FramedRun | None:
        """The run of such commands that begins at ``at``; None where there is none that is worth it."""
        if self._rest:
            self._rest -= 1
            return None
        size = min(self._size, len(data) - at)
        run = _read(data, at, at + size)
        if run is None:
            self._tried = min(2 * self._tried + 1, _LONGEST_REST)
            self._rest, self._size = self._tried, _LEAST
        else:
            self._tried = 0
            self._size = min(2 * self._size, _MOST) if 2 * (run.end - at) > size else _LEAST
        return run


def _read(data: bytes, at: int, end: int) -> FramedRun | None:
    first = command_at(data, at)
    if first is None or head_size(first[0]) != 3:
        return None
    words = first[0]
    ms_digits = words[2].find(b"-")
    key = words[1]
    head = b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (len(words), len(key), key)
    tail = b"*%d\r\n" % (len(words) - 3)
    front = head[: len(head) - len(_FRAME) - len(tail)]
    # Where it could begin within itself, cutting it out might take another one than was meant.
    if not 0 < ms_digits <= _MS_DIGITS or not data.startswith(head, at) or front.rfind(b"*"):
        return None
    constants = [head + b"$", *(b"\r\n$%d\r\n%b\r\n$" % (len(name), name) for name in words[3::2]), b"\r\n"]
    behind = _BEHIND * (max(map(len, constants)) + _REACH)
    room = bytearray().join((memoryview(data)[at:end], behind))
    reader = _Reader(room, len(room) - len(behind), constants)
    ids = reader.read(ms_digits)
    if ids is None:
        return None
    begins, sizes, ms, seq, limit = ids
    places = reader.starts[: len(begins)] + len(head)
    if not _reframe(reader.words, places, begins + sizes + 2 - places, tail):
        return None
    frames = room[:limit].replace(front, b"")
    count = len(ms)
    if len(frames) != limit - count * len(front):
        # A value has what commands begin with.
        return None
    ends = np.append(reader.starts[1:count], limit)
    frame_sizes = (ends - reader.starts[:count] - len(front)).tolist()
    columns = array("Q", ms.tobytes()), array("Q", seq.tobytes())
    return FramedRun(key, count, frames, frame_sizes, *columns, at + limit)


class _Reader:
    """Reads the commands in the first ``limit`` bytes of ``room``; between two ``constants`` is always a word."""

    def __init__(self, room: bytearray, limit: int, constants: list[bytes]) -> None:
        self._limit = limit
        self._constants = constants
        #: The eight bytes from each place on, as a number.
        self.words: _Words = np.ndarray((len(room) - 7,), "<u8", buffer=room, strides=(1,))
        stars = np.flatnonzero(np.frombuffer(room, np.uint8, limit) == _STAR)
        #: Where commands seem to begin.
        self.starts: _Places = stars[self.words[stars] == _number(constants[0][:8])]
        self._good = np.ones(len(self.starts), np.bool_)

    def read(self, ms_digits: int) -> tuple[_Places, _Places, _Words, _Words, int] | None:
        """Of the commands that are proven: where their IDs begin, their sizes, the IDs, and where the last one ends."""
        if len(self.starts) < _FEW:
            return None
        at, begins, sizes = self.starts, self.starts, self.starts
        for number, constant in enumerate(self._constants):
            self._check(at, constant)
            at = at + len(constant)
            if number < len(self._constants) - 1:
                length, digits = self._lengths(at)
                at = at + digits + 2
                if not number:
                    begins, sizes = at, length
                # (Behind the limit nothing has the form.)
                at = np.minimum(at + length, self._limit)
        ms, seq = self._ids(begins, sizes, ms_digits)
        good = self._good
        good[:-1] &= at[:-1] == self.starts[1:]
        good &= at <= self._limit
        falls = (ms[1:] < ms[:-1]) | (ms[1:] == ms[:-1]) & (seq[1:] <= seq[:-1])
        good[1:] &= ~falls
        count = len(good) if good.all() else int(np.argmin(good))
        # (Where a guess was wrong, the command before it did not end there, though it may be one.)
        if count < _FEW:
            return None
        return begins[:count], sizes[:count], ms[:count], seq[:count], int(at[count - 1])

    def _check(self, at: _Places, constant: bytes) -> None:
        """Drop those that do not have these bytes there."""
        words, good, size = self.words, self._good, len(constant)
        if size < 8:
            mask = np.uint64((1 << 8 * size) - 1)
            good &= words[at] & mask == _number(constant)
            return
        for place in [*range(0, size - 8, 8), size - 8]:
            good &= words[at + place] == _number(constant[place : place + 8])

    def _lengths(self, at: _Places) -> tuple[_Places, _Places]:
        """The numbers that stand there, a line end behind each, and how many digits they have."""
        texts, good = self.words[at], self._good
        first = length = (texts & np.uint64(0xFF)) - np.uint64(_ZERO)
        digits = np.ones(len(at), np.int64)
        good &= length <= 9
        texts = texts >> np.uint64(8)
        unfinished = texts & np.uint64(0xFFFF) != _LINE_END
        for _ in range(1, _LENGTH_DIGITS):
            if not unfinished.any():
                break
            digit = (texts & np.uint64(0xFF)) - np.uint64(_ZERO)
            length = np.where(unfinished, length * np.uint64(10) + digit, length)
            good &= ~unfinished | (digit <= 9)
            digits += unfinished
            texts = texts >> np.uint64(8)
            unfinished &= texts & np.uint64(0xFFFF) != _LINE_END
        good &= ~unfinished & ((digits == 1) | (first != 0))
        return np.where(good, length, np.uint64(0)).view(np.int64), digits

    def _ids(self, begins: _Places, sizes: _Places, ms_digits: int) -> tuple[_Words, _Words]:
        """The IDs, whose milliseconds have so many digits; those with others are dropped."""
        words, good = self.words, self._good
        seq_digits = sizes - ms_digits - 1
        good &= (seq_digits >= 1) & (seq_digits <= _SEQ_DIGITS)
        seq_digits = np.clip(seq_digits, 1, _SEQ_DIGITS)
        texts = words[begins + ms_digits + 1 + seq_digits - 8]
        shifts = (64 - 8 * seq_digits).astype(np.uint64)
        good &= texts >> (shifts - np.uint64(8)) & np.uint64(0xFF) == _DASH
        good &= (seq_digits == 1) | (texts >> shifts & np.uint64(0xFF) != _ZERO)
        seq = self._numbers(texts, shifts)
        low = min(ms_digits, 8)
        ms = self._numbers(words[begins + ms_digits - 8], np.uint64(64 - 8 * low))
        if ms_digits > 8:
            high = self._numbers(words[begins + ms_digits - 16], np.uint64(64 - 8 * (ms_digits - 8)))
            ms += high * np.uint64(10**8)
        if ms_digits > 1:
            good &= words[begins] & np.uint64(0xFF) != _ZERO
        return ms, seq

    def _numbers(self, texts: _Words, shifts: _Words | np.uint64) -> _Words:
        """The numbers that the highest bytes are the digits of; the lowest ``shifts`` bits are left out."""
        # (Of 64 bits none may be shifted by 64.)
        mask = ~np.uint64(0) << shifts
        texts = texts & mask | _all(_ZERO) & ~mask
        tens = texts + _all(6)
        self._good &= (texts & _all(0xF0) | (tens & _all(0xF0)) >> np.uint64(4)) == _all(0x33)
        # Neighbours are put together: two digits, then four, then eight.
        texts = texts - _all(_ZERO)
        texts = texts * np.uint64(10) + (texts >> np.uint64(8))
        pairs = np.uint64(0x000000FF000000FF)
        high = (texts & pairs) * np.uint64(100 + (1_000_000 << 32))
        low = (texts >> np.uint64(16) & pairs) * np.uint64(1 + (10_000 << 32))
        return high + low >> np.uint64(32)


def _reframe(words: _Words, places: _Places, sizes: _Places, tail: bytes) -> bool:
    """Write frames up to the fields, in place: ``*2``, the ID, and the number of words, ``tail``.

    The bulk strings of the IDs are at ``places``, of so many bytes; what is written ends where they end. Eight bytes
    are written at a time: from the beginning those that all frames have, then the last ones, some of them twice.
    """
    more, ends = len(tail), places + sizes
    least, most = int(sizes.min()) + len(_FRAME), int(sizes.max()) + len(_FRAME)
    heads = least // 8
    tails = -(-(most + more - 8 * heads) // 8)
    if 8 * tails > least + more:
        return False
    # All is read before something is written; the beginning comes last, because the other words may reach into it.
    written = [(ends - at, words[ends + more - at]) for at in range(16, 8 * tails + 8, 8)]
    written.append((ends - 8, words[ends - 8] >> np.uint64(8 * more) | _number(tail) << np.uint64(64 - 8 * more)))
    begins = places - len(_FRAME)
    written += [(begins - more + at, words[begins + at]) for at in range(8, 8 * heads, 8)]
    written.append((begins - more, words[begins] & ~np.uint64(0xFFFFFFFF) | _number(_FRAME)))
    for at, texts in written:
        words[at] = texts
    return True


def _number(text: bytes) -> np.uint64:
    """The number that has these bytes, the first one lowest."""
    return np.uint64(int.from_bytes(text, "little"))
