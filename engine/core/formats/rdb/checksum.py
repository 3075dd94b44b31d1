"""The 64-bit checksum (CRC-64/Jones) of RDB files and DUMP payloads.

The checksum is linear: the checksum of A + B is the checksum of A + (zeros of B's length), XOR the checksum of B.
Therefore, long data is split into lanes of equal length. Their checksums are computed in parallel, eight bytes at a
time, and then joined pairwise.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.uint64]
_POLYNOMIAL = 0x95AC9329AC4BC9B5
#: Length of a lane in words of eight bytes.
_LANE_WORDS = 8
#: Data of fewer lanes than this is processed byte by byte.
_FEWEST_LANES = 16
_LANE_BYTES = 8 * _LANE_WORDS
#: Maximum number of parallel lanes: their words fit into the processor's cache.
_MOST_LANES = 4096
#: Most efficient number of bytes to process at once.
_BLOCK = _MOST_LANES * _LANE_BYTES


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


class RunningSum:
    """Checksum of data that arrives in pieces. Short pieces are slow to process, so they are collected first."""

    def __init__(self) -> None:
        self._sum = 0
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> bool:
        """Add the next bytes; return whether this call processed collected bytes, which takes a millisecond or two."""
        self._waiting.append(piece)
        self._size += len(piece)
        if self._size < _BLOCK:
            return False
        data = b"".join(self._waiting)
        end = len(data) - len(data) % _BLOCK
        self._sum = crc64(memoryview(data)[:end], self._sum)
        self._waiting, self._size = [data[end:]], len(data) - end
        return True

    def total(self) -> int:
        """Return the checksum of all added bytes."""
        return crc64(b"".join(self._waiting), self._sum)


def crc64(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the checksum of ``data``, continuing from ``crc``, the checksum of the preceding bytes."""
    lanes = len(data) // _LANE_BYTES
    at = 0
    if lanes >= _FEWEST_LANES:
        for first in range(0, lanes, _MOST_LANES):
            count = min(lanes - first, _MOST_LANES)
            # The number of lanes is a power of two, so that they can be joined pairwise.
            while count >= _FEWEST_LANES:
                some = 1 << count.bit_length() - 1
                crc = _of_lanes(data[at : at + some * _LANE_BYTES], some, crc)
                at += some * _LANE_BYTES
                count -= some
            if count:
                crc = _byte_by_byte(data[at : at + count * _LANE_BYTES], crc)
                at += count * _LANE_BYTES
    return _byte_by_byte(data[at:], crc)


def _byte_by_byte(data: bytes | memoryview, crc: int) -> int:
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc


def _of_lanes(data: bytes | memoryview, lanes: int, crc: int) -> int:
    """Return the checksum of ``lanes`` lanes, which must be a power of two."""
    words = np.ascontiguousarray(np.frombuffer(data, "<u8").reshape(lanes, _LANE_WORDS).T).astype(np.uint64)
    # The preceding checksum is applied to the first word.
    words[0, 0] ^= np.uint64(crc)
    tables = _tables_of_words()
    sums = np.zeros(lanes, np.uint64)
    for row in words:
        sums ^= row
        halves = sums.astype("<u8", copy=False).view("<u2").reshape(lanes, 4)
        sums = tables[0][halves[:, 0]]
        for column in (1, 2, 3):
            sums ^= tables[column][halves[:, column]]
    size = _LANE_BYTES
    while len(sums) > 1:
        sums = _over_zeros(sums[::2], _tables_of_zeros(size)) ^ sums[1::2]
        size *= 2
    return int(sums[0])


def _over_zeros(sums: _Words, tables: _Words) -> _Words:
    """Extend checksums over zero bytes; ``tables`` determines the number of zeros (see ``_tables_of_zeros``)."""
    bytes_of = np.ascontiguousarray(sums).astype("<u8", copy=False).view(np.uint8).reshape(len(sums), 8)
    result: _Words = tables[0][bytes_of[:, 0]]
    for column in range(1, 8):
        result ^= tables[column][bytes_of[:, column]]
    return result


@cache
def _tables_of_words() -> list[_Words]:
    """Return a table for each 16-bit part of a word: part -> the word's checksum if all its other bits are 0."""
    table = np.array(_TABLE, np.uint64)
    crcs = np.arange(256, dtype=np.uint64)
    tables_of_bytes: list[_Words] = []
    for _ in range(8):
        # Each pass appends a zero byte, so its table is for the byte one place closer to the word's start.
        crcs = table[(crcs & np.uint64(255)).astype(np.intp)] ^ (crcs >> np.uint64(8))
        tables_of_bytes.insert(0, crcs)
    pairs = zip(tables_of_bytes[::2], tables_of_bytes[1::2], strict=True)
    return [(high[:, None] ^ low).ravel() for low, high in pairs]


@cache
def _tables_of_zeros(size: int) -> _Words:
    """Return a table for each byte of a checksum: byte -> its value extended over ``size`` zeros."""
    if size == _LANE_BYTES:
        table = np.array(_TABLE, np.uint64)
        crcs = np.arange(256, dtype=np.uint64) << (np.arange(8, dtype=np.uint64) * np.uint64(8))[:, None]
        for _ in range(size):
            crcs = table[(crcs & np.uint64(255)).astype(np.intp)] ^ (crcs >> np.uint64(8))
        return crcs
    half = _tables_of_zeros(size // 2)
    return _over_zeros(half.ravel(), half).reshape(half.shape)
