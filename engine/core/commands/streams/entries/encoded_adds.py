"""Decoding of the XADDs that PS.APPEND runs: commands for one key, without options, with any fields."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd_run import XaddRun
from engine.text import messages
from streamwire.walker import AFTER, Mismatch, Walker

#: Minimum number of commands that are decoded together.
_MANY = 16
#: Maximum number of digits of a length or a number of words.
_DIGITS = 9


def _run(key: bytes, words: int, bodies: list[bytes]) -> XaddRun:
    """Return a run of XADDs to ``key``. Each body contains ``words`` bulk strings: the fields and their values."""
    return XaddRun(len(bodies), [b"XADD", key, b"*"], words, bodies, list(map(len, bodies)))


def adds_of(key: bytes, data: bytes) -> list[XaddRun]:
    """Decode the commands in ``data``, in order. Raise CommandError if ``data`` is empty or has other contents."""
    middle = b"$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n" % (len(key), key)
    try:
        return _alike(key, data, middle) or _one_by_one(key, data, middle)
    except ValueError:
        raise CommandError(messages.NO_ADDS_TO_APPEND) from None


def _alike(key: bytes, data: bytes, middle: bytes) -> list[XaddRun]:
    """Decode many commands with the same number of words; return an empty list if they are few or not alike."""
    line = data.index(b"\r\n")
    words = _number(data, 0, line, b"*") - 3
    head = data[: line + 2] + middle
    before, *bodies = data.split(head)
    if before or words < 2 or words & 1 or len(bodies) < _MANY:
        return []
    sizes = np.fromiter(map(len, bodies), np.int64, len(bodies))
    ends = np.cumsum(sizes + len(head))
    return [_run(key, words, bodies)] if _are_bulks(data, ends - sizes, ends, words) else []


def _are_bulks(data: bytes, at: NDArray[np.int64], ends: NDArray[np.int64], words: int) -> bool:
    """Return whether every ``data[at[i]:ends[i]]`` consists of exactly ``words`` bulk strings."""
    walker = Walker(data + bytes(AFTER), at)
    try:
        for number in range(words):
            walker.bulk(b"\r\n$" if number else b"$")
        walker.text(b"\r\n")
    except Mismatch:
        return False
    return np.array_equal(walker.at, ends)


def _one_by_one(key: bytes, data: bytes, middle: bytes) -> list[XaddRun]:
    """Decode the commands one by one. Raise ValueError if ``data`` is empty or has other contents."""
    found: list[XaddRun] = []
    bodies: list[bytes] = []
    before = at = 0
    while at < len(data):
        line = data.index(b"\r\n", at)
        words = _number(data, at, line, b"*") - 3
        start = line + 2 + len(middle)
        if words < 2 or words & 1 or data[line + 2 : start] != middle:
            raise ValueError
        if words != before and bodies:
            found.append(_run(key, before, bodies))
            bodies = []
        before, at = words, _end(data, start, words)
        bodies.append(data[start:at])
    if not bodies:
        raise ValueError
    return [*found, _run(key, before, bodies)]


def _end(data: bytes, at: int, words: int) -> int:
    """Return the end of the ``words`` bulk strings that start at ``at``. Raise ValueError if there are fewer."""
    index = data.index
    for _ in range(words):
        line = index(b"\r\n", at)
        at = line + 4 + _number(data, at, line, b"$")
        if data[at - 2 : at] != b"\r\n":
            raise ValueError
    return at


def _number(data: bytes, at: int, line: int, kind: bytes) -> int:
    """Return the number after ``kind`` in the header ``data[at:line]``. Raise ValueError for any other header."""
    digits = data[at + 1 : line]
    if data[at : at + 1] != kind or not digits.isdigit() or len(digits) > _DIGITS or (digits[:1] == b"0" != digits):
        raise ValueError
    return int(digits)
