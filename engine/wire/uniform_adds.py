r"""Runs of uniform XADDs (one form, one key, explicit IDs, as in a log), parsed by numpy without creating objects.

This is the fastest way from bytes to entries, and is used only for loading a log: without it, a log of entries takes
three and a half times as long to load (``load a log`` of ``python -m benchmarks``). A command is read as alternating
constants and words::

    *7\r\n$4\r\nXADD\r\n$1\r\ns\r\n$  15\r\n<ID>  \r\n$1\r\nf\r\n$  2\r\n<value>  \r\n$1\r\ng\r\n$  1\r\n<value>  \r\n

All commands are parsed at once, from guesses of their starts (`streamwire.walker`). The first guess is right, because
the caller gives this start. If a command has the form and ends at the next guess, then that guess is right too.

The commands become frames (``streamwire.frames``) in place. A frame is shorter than its command and has the same bytes
after the ID. So the ID is moved, the framing is written before it, and the rest of all commands' heads is cut out.

Input that cannot be verified is declined, and the caller parses it in another way.
"""

from __future__ import annotations

from array import array

import numpy as np

from engine.core.protocol.xadd import FramedRun
from engine.wire.forms import command_at, head_size
from streamwire import digits
from streamwire.digits import Ints, Words
from streamwire.walker import AFTER, BEFORE, Bulks, Walker, overlapping

#: Minimum number of bytes examined together.
_LEAST = 1 << 16
#: Maximum number of bytes examined together.
_MOST = 1 << 19
#: For fewer commands than this, the caller's other parsers are faster.
_FEW = 64
#: Maximum number of calls to skip after failed attempts.
_LONGEST_REST = 63
#: Maximum number of digits of an ID's milliseconds.
_MS_DIGITS = 16
#: Maximum number of digits of an ID's sequence number.
_SEQ_DIGITS = 7
#: Number of bytes that must be readable after the commands, because an ID cut off by their end is parsed before it is
#: dropped.
_BEHIND = AFTER + _MS_DIGITS
_STAR = ord("*")
_BYTE, _DASH, _ZERO = np.uint64(0xFF), np.uint64(ord("-")), np.uint64(ord("0"))
_FRAME = b"*2\r\n"


class UniformAdds:
    """Finds the runs in one log. After failed attempts it backs off."""

    __slots__ = ("_rest", "_size", "_tried")

    def __init__(self) -> None:
        self._size = _LEAST
        self._rest = 0
        self._tried = 0

    def scan(self, data: bytes, at: int) -> FramedRun | None:
        """Return the run of uniform XADDs that starts at ``at``.

        Return None if no run of sufficient length starts there, or if this call is skipped after failed attempts.
        """
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
    # A head that can overlap itself is declined: the wrong occurrence might be cut out.
    if not 0 < ms_digits <= _MS_DIGITS or not data.startswith(head, at) or front.rfind(b"*"):
        return None
    room = bytearray().join((bytes(BEFORE), memoryview(data)[at:end], bytes(_BEHIND)))
    pieces = [head + b"$", *(b"\r\n$%d\r\n%b\r\n$" % (len(name), name) for name in words[3::2])]
    found = _follow(room, pieces, ms_digits)
    if found is None:
        return None
    starts, id_ends, ms, seq, limit = found
    count = len(ms)
    id_starts = starts + len(head)
    if not _reframe(room, id_starts, id_ends + 2 - id_starts, tail):
        return None
    frames = room[BEFORE:limit].replace(front, b"")
    if len(frames) != limit - BEFORE - count * len(front):
        # A value contains the head of a command.
        return None
    frame_sizes = (np.diff(starts, append=limit) - len(front)).tolist()
    columns = array("Q", ms.tobytes()), array("Q", seq.tobytes())
    return FramedRun(key, count, frames, frame_sizes, *columns, at + limit - BEFORE)


def _follow(room: bytearray, pieces: list[bytes], ms_digits: int) -> tuple[Ints, Ints, Words, Words, int] | None:
    """Return the proven commands: their starts, the ends of their IDs, the IDs, and the end of the last command.

    Return None if fewer than ``_FEW`` commands are proven.
    """
    data = np.frombuffer(room, np.uint8)
    limit = len(room) - _BEHIND
    stars = np.flatnonzero(data[:limit] == _STAR)
    words = overlapping(data, 8)[stars].view("<u8")
    #: Likely starts of commands.
    starts: Ints = stars[words == np.uint64(int.from_bytes(pieces[0][:8], "little"))]
    if len(starts) < _FEW:
        return None
    walker = Walker(room, starts, partial=True)
    entry_ids = walker.bulk(pieces[0])
    ms, seq = _ids(walker, entry_ids, ms_digits)
    for piece in pieces[1:]:
        walker.bulk(piece)
    walker.text(b"\r\n")
    # A proven command ends where the next one probably starts. A wrong guess lies inside a command and ends the run.
    following = np.append(starts[1:], -1)[: walker.count]
    proven = ((walker.at == following) | (following < 0)) & (walker.at <= limit)
    count = walker.count if proven.all() else int(np.argmin(proven))
    if count < _FEW:
        return None
    return starts[:count], entry_ids.ends[:count], ms[:count], seq[:count], int(walker.at[count - 1])


def _ids(walker: Walker, entry_ids: Bulks, ms_digits: int) -> tuple[Words, Words]:
    """Return the IDs.

    A command whose ID does not ascend, or whose milliseconds do not have ``ms_digits`` digits, counts as a mismatch.
    """
    begins, seq_digits = entry_ids.begins, entry_ids.sizes - (ms_digits + 1)
    bad = (seq_digits < 1) | (seq_digits > _SEQ_DIGITS) | np.zeros(len(begins), np.bool_)
    behind = walker.words(begins + ms_digits)
    bad |= behind & _BYTE != _DASH
    bad |= (behind >> np.uint64(8) & _BYTE == _ZERO) & (seq_digits > 1)
    seq, wrong = digits.numbers(behind >> np.uint64(8), np.clip(seq_digits, 1, _SEQ_DIGITS))
    texts = walker.words(begins)
    if ms_digits > 1:
        bad |= texts & _BYTE == _ZERO
    ms, wrong_ms = digits.numbers(texts, min(ms_digits, 8))
    wrongs = [wrong, wrong_ms]
    if ms_digits > 8:
        low, wrong_low = digits.numbers(walker.words(begins + 8), ms_digits - 8)
        ms = ms * np.uint64(10 ** (ms_digits - 8)) + low
        wrongs.append(wrong_low)
    for mask in wrongs:
        if mask is not None:
            bad |= mask
    bad[1:] |= (ms[1:] < ms[:-1]) | (ms[1:] == ms[:-1]) & (seq[1:] <= seq[:-1])
    walker.drop(bad)
    return ms, seq


def _reframe(room: bytearray, starts: Ints, sizes: Ints, tail: bytes) -> bool:
    """Write the heads of frames in place: ``*2``, the ID, and ``tail``, the number of words.

    The bulk strings of the IDs start at ``starts`` and have these ``sizes``. Each head is written so that it ends where
    the bulk string ends. Eight bytes are written at a time, some of them twice, because the heads differ in length.
    """
    #: The eight bytes at each offset, as a number.
    words: Words = np.ndarray((len(room) - 7,), "<u8", buffer=room, strides=(1,))
    more, ends = len(tail), starts + sizes
    least, most = int(sizes.min()) + len(_FRAME), int(sizes.max()) + len(_FRAME)
    heads = least // 8
    tails = -(-(most + more - 8 * heads) // 8)
    if 8 * tails > least + more:
        return False
    # All words are read before any is written. The start is written last, because the other words may overlap it.
    written = [(ends - at, words[ends + more - at]) for at in range(16, 8 * tails + 8, 8)]
    written.append((ends - 8, words[ends - 8] >> np.uint64(8 * more) | _number(tail) << np.uint64(64 - 8 * more)))
    begins = starts - len(_FRAME)
    written += [(begins - more + at, words[begins + at]) for at in range(8, 8 * heads, 8)]
    written.append((begins - more, words[begins] & ~np.uint64(0xFFFFFFFF) | _number(_FRAME)))
    for at, texts in written:
        words[at] = texts
    return True


def _number(text: bytes) -> np.uint64:
    """Return the bytes as a little-endian number."""
    return np.uint64(int.from_bytes(text, "little"))
