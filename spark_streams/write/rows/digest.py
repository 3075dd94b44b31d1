"""Digests of rows: a hash of each row, and what many of them make together. Vectorised and pure.

A row's hash depends on its bytes alone, so it can be compared whatever chunk or task the row came in. A digest has two
halves of 64 bits: one depends on the order of the rows, the other does not. They find accidents, not attacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1
_MARK = "n"  # digests of earlier forms had none, or "m"
_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF, _THIRD = np.uint64(32), np.uint64(29)


def _factors(count: int) -> Any:
    """Odd factors, the same for ever: they are part of what is stored on servers."""
    at = np.arange(1, count + 1, dtype=np.uint64) * _ODD
    at ^= at >> np.uint64(30)
    at *= np.uint64(0xBF58476D1CE4E5B9)
    at ^= at >> np.uint64(27)
    at *= np.uint64(0x94D049BB133111EB)
    return (at ^ (at >> np.uint64(31))) | np.uint64(1)


_FACTORS = _factors(256)


def row_hashes(commands: memoryview, bounds: Any, skip: int = 0) -> Any:
    """The hash of each row `commands[bounds[i]:bounds[i + 1]]`, as an array of uint64.

    The first `skip` bytes, which are the same in all rows, are left out. A row has 8 bytes more at least.
    """
    bounds = np.asarray(bounds, np.int64)
    at, ends = bounds[:-1] + skip, bounds[1:]
    lengths = ends - at
    if not len(at):
        return np.zeros(0, np.uint64)
    hashes = lengths.astype(np.uint64) * _ODD
    if int(lengths.max()) > 8 * len(_FACTORS):
        return _hashes_of_long_rows(commands, at, ends, hashes)
    words = _unaligned_words(commands)
    shortest, longest = int(lengths.min()) >> 3, (int(lengths.max()) + 7) >> 3
    for number in range(shortest):
        hashes += _mixed(words[at], number)
        at += 8
    last = ends - 8
    for number in range(shortest, longest):
        left = np.flatnonzero(at < ends)
        hashes[left] += _mixed(words[np.minimum(at[left], last[left])], number)
        at += 8
    return _final(hashes)


def _unaligned_words(commands: memoryview) -> Any:
    """The eight bytes from each position, as a number."""
    return np.ndarray((len(commands) - 7,), np.dtype("<u8"), np.frombuffer(commands, np.uint8), 0, (1,))


def _mixed(words: Any, number: int) -> Any:
    words ^= words >> _HALF
    words *= _FACTORS[number]
    return words


def _final(hashes: Any) -> Any:
    hashes ^= hashes >> _HALF
    hashes *= _FACTORS[0]
    hashes ^= hashes >> _THIRD
    return hashes


def _hashes_of_long_rows(commands: memoryview, starts: Any, ends: Any, hashes: Any) -> Any:
    """The same hashes, a row at a time: of rows of more than a few kilobytes there are few in a chunk."""
    for at, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        row = commands[start:end]
        whole = len(row) >> 3
        words = np.frombuffer(row[: 8 * whole], "<u8").copy()
        if len(row) & 7:
            words = np.append(words, np.frombuffer(row[-8:], "<u8"))
        words ^= words >> _HALF
        factors = _FACTORS if len(words) <= len(_FACTORS) else _factors(len(words))
        words *= factors[: len(words)]
        hashes[at : at + 1] += np.add.reduce(words)
    return _final(hashes)


@dataclass(frozen=True)
class RowDigest:
    """What so many rows are together. `ordered` depends on their order, `total` does not."""

    rows: int = 0
    ordered: int = 0
    total: int = 0

    def plus(self, hashes: Any) -> RowDigest:
        """The digest of these rows and then those with these hashes."""
        if not len(hashes):
            return self
        places = np.arange(self.rows, self.rows + len(hashes), dtype=np.uint64) * _ODD
        places ^= places >> _HALF  # not linear in the place: equal rows that change places must show
        ordered = int(np.add.reduce((hashes ^ (hashes >> _THIRD)) * places))
        total = int(np.add.reduce(hashes))
        return RowDigest(self.rows + len(hashes), (self.ordered + ordered) & _MASK, (self.total + total) & _MASK)

    def joined(self, other: RowDigest) -> RowDigest:
        """Of the rows of both; for comparing `rows` and `total` alone."""
        return RowDigest(self.rows + other.rows, 0, (self.total + other.total) & _MASK)

    def same_rows(self, other: RowDigest) -> bool:
        """Whether both are of the same rows, in whatever order."""
        return (self.rows, self.total) == (other.rows, other.total)

    @property
    def text(self) -> str:
        """As it is stored."""
        return f"{_MARK}{self.ordered:016x}{self.total:016x}"

    @classmethod
    def parse(cls, rows: int, text: str) -> RowDigest | None:
        """From what is stored; None if an earlier version stored it."""
        if not text:
            return cls()
        if not text.startswith(_MARK):
            return None
        return cls(rows, int(text[1:17], 16), int(text[17:33], 16))
