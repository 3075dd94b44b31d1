"""The 64-bit checksum (CRC-64/Jones) of RDB files and DUMP payloads.

The checksum is linear: the checksum of A + B is the checksum of A + (zeros of B's length), XOR the checksum of B. So
the checksums of all words of eight bytes are found at once, and joined pairwise. Zeros before the data change nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

_Sums = npt.NDArray[np.uint64]
_POLYNOMIAL = 0x95AC9329AC4BC9B5
#: Data of fewer bytes than this is processed byte by byte.
_SHORT = 512
#: Most efficient number of bytes to process at once.
_BLOCK = 1 << 18


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
        self._sum = self.total()
        self._waiting, self._size = [], 0
        return True

    def total(self) -> int:
        """Return the checksum of all added bytes."""
        return crc64(b"".join(self._waiting), self._sum)


def crc64(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the checksum of ``data``, continuing from ``crc``, the checksum of the preceding bytes."""
    if len(data) < _SHORT:
        for byte in data:
            crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
        return crc
    before = -len(data) % 8
    room = np.frombuffer(bytearray().join((bytes(before), data)), np.uint8)
    # The preceding checksum is applied to the first eight bytes.
    room[before : before + 8] ^= np.frombuffer(crc.to_bytes(8, "little"), np.uint8)
    size = 8
    sums = _over_zeros(room.view("<u8"), size)
    while len(sums) > 1:
        if len(sums) % 2:
            sums = np.concatenate((np.zeros(1, np.uint64), sums))
        sums = _over_zeros(sums[::2], size) ^ sums[1::2]
        size *= 2
    return int(sums[0])


def _over_zeros(sums: _Sums, size: int) -> _Sums:
    """Return these checksums, extended over ``size`` zeros, a power of two from 8 on."""
    parts = np.ascontiguousarray(sums, "<u8").view(np.uint8).reshape(-1, 8)
    tables = _tables(size)
    result: _Sums = tables[0].take(parts[:, 0])
    for column in range(1, 8):
        result ^= tables[column].take(parts[:, column])
    return result


@cache
def _tables(size: int) -> _Sums:
    """Return a table for each byte of a checksum: byte -> its value extended over ``size`` zeros."""
    if size > 8:
        half = _tables(size // 2)
        return _over_zeros(half, size // 2).reshape(half.shape)
    table = np.array(_TABLE, np.uint64)
    crcs = np.arange(256, dtype=np.uint64) << (np.arange(8, dtype=np.uint64) * np.uint64(8))[:, None]
    for _ in range(size):
        crcs = table[(crcs & np.uint64(255)).astype(np.intp)] ^ (crcs >> np.uint64(8))
    return crcs
