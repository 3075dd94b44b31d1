"""Digests of rows: a hash per row, and a digest of many rows.

A row's hash depends only on its fields and its own ID, so hashes can be compared regardless of chunk, task and sending
method. A digest has two halves of 64 bits: one depends on the order of the rows, the other does not. Digests detect
accidents, not attacks.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamclient.codec.encode import Column

_MASK = (1 << 64) - 1
_MARK = "o"  # earlier forms began with "m", with "n", or with no letter
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio, which spreads bits
_HALF, _THIRD = np.uint64(32), np.uint64(29)  # shifts that mix high bits into low bits
_WORD = 8  # bytes that are hashed at a time
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
_OWN_ID = b"\0id"  # in place of a field's name


def _factors(count: int) -> Any:
    """Return odd factors. The factors are part of values stored on servers, so they must never change."""
    at = np.arange(1, count + 1, dtype=np.uint64) * _ODD
    at ^= at >> np.uint64(30)
    at *= np.uint64(0xBF58476D1CE4E5B9)
    at ^= at >> np.uint64(27)
    at *= np.uint64(0x94D049BB133111EB)
    return (at ^ (at >> np.uint64(31))) | np.uint64(1)


_FACTORS = _factors(256)  # one for each `_WORD` bytes of a value; the remaining bytes are hashed by BLAKE2


def row_hashes(columns: Sequence[Column], pairs: tuple[Any, Any, Any] | None, ids: Any | None, rows: int) -> Any:
    """Return the hash of each row as an array of uint64. A hash covers the row's fields in any order, and the row's own
    ID.

    `columns`, `pairs` and `ids` are arguments of `streamclient.codec.encode.encode_adds`.
    """
    hashes = np.zeros(rows, np.uint64)
    if not rows:
        return hashes
    for name, values in columns:
        hashes += _present(values, _value_hashes(values) * _seed(name))
    if ids is not None:
        hashes += _present(ids, _value_hashes(ids) * _seed(_OWN_ID))
    if pairs is not None and len(pairs[1]):
        offsets, names, values = pairs
        known = names.dictionary_encode()
        seeds = np.array([_seed(name) for name in known.dictionary.to_pylist()], np.uint64)
        sums = np.zeros(len(names) + 1, np.uint64)
        np.cumsum(_value_hashes(values) * seeds[known.indices.to_numpy()], out=sums[1:])
        bounds = offsets.to_numpy()
        hashes += sums[bounds[1:]] - sums[bounds[:-1]]
    hashes ^= hashes >> _HALF
    hashes *= _FACTORS[0]
    hashes ^= hashes >> _THIRD
    return hashes


@functools.lru_cache(maxsize=4096)
def _seed(name: bytes) -> np.uint64:
    """Return the factor for the values of a field. It is odd and must never change."""
    return np.uint64(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") | 1)


def _present(values: Any, hashes: Any) -> Any:
    """Return the hashes, with 0 for missing values."""
    return hashes * np.asarray(values.is_valid()) if values.null_count else hashes


def _value_hashes(values: Any) -> Any:
    """Return the hash of each value of a binary array."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    begin, end = int(bounds[0]), int(bounds[-1])
    text = np.zeros(end - begin + _WORD, np.uint8)  # padded, so that eight bytes can be read from any position
    if end > begin:
        text[: end - begin] = np.frombuffer(data, np.uint8, end - begin, begin)
    at, lengths = bounds[:-1] - begin, np.diff(bounds)
    hashes = (lengths + 1).astype(np.uint64) * _ODD
    words = np.ndarray((len(text) - _WORD + 1,), np.dtype("<u8"), text, 0, (1,))
    for number in range(min(len(_FACTORS), -(-int(lengths.max()) // _WORD))):
        left = lengths - number * _WORD
        if int(left.min()) > 0:
            hashes += _mixed(words[at] & _MASKS[np.minimum(left, _WORD)], number)
        else:
            rows = np.flatnonzero(left > 0)
            hashes[rows] += _mixed(words[at[rows]] & _MASKS[np.minimum(left[rows], _WORD)], number)
        at = at + _WORD
    for row in np.flatnonzero(lengths > _WORD * len(_FACTORS)).tolist():
        rest = text[int(bounds[row]) - begin + _WORD * len(_FACTORS) : int(bounds[row + 1]) - begin]
        hashes[row : row + 1] += _seed(hashlib.blake2b(rest.tobytes()).digest())
    hashes ^= hashes >> _HALF
    return hashes


def _mixed(words: Any, number: int) -> Any:
    words ^= words >> _HALF
    words *= _FACTORS[number]
    return words


@dataclass(frozen=True)
class RowDigest:
    """Digest of a number of rows. `ordered` depends on their order, `total` does not."""

    rows: int = 0
    ordered: int = 0
    total: int = 0

    def plus(self, hashes: Any) -> RowDigest:
        """Return the digest of this digest's rows followed by rows with the given hashes."""
        if not len(hashes):
            return self
        weights = np.arange(self.rows, self.rows + len(hashes), dtype=np.uint64) * _ODD
        weights ^= weights >> _HALF  # not linear in the position, so that exchanged rows change the digest
        ordered = int(np.add.reduce((hashes ^ (hashes >> _THIRD)) * weights))
        total = int(np.add.reduce(hashes))
        return RowDigest(self.rows + len(hashes), (self.ordered + ordered) & _MASK, (self.total + total) & _MASK)

    def joined(self, other: RowDigest) -> RowDigest:
        """Return the digest of both digests' rows. Only its `rows` and `total` are defined."""
        return RowDigest(self.rows + other.rows, 0, (self.total + other.total) & _MASK)

    def same_rows(self, other: RowDigest) -> bool:
        """Return whether both digests are of the same rows in any order."""
        return (self.rows, self.total) == (other.rows, other.total)

    @property
    def text(self) -> str:
        """The stored form."""
        return f"{_MARK}{self.ordered:016x}{self.total:016x}"

    @classmethod
    def parse(cls, rows: int, text: str) -> RowDigest | None:
        """Return the digest of `rows` rows that `text` describes; None if an earlier version stored it. An empty text
        is the digest of no rows.
        """
        if not text:
            return cls()
        if not text.startswith(_MARK):
            return None
        return cls(rows, int(text[1:17], 16), int(text[17:33], 16))
