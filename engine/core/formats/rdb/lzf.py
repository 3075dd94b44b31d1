"""LZF, the compression of strings in Redis's RDB format: decompression of one string, or of many at once.

Compressed data is a sequence of pieces: runs of literal bytes, and copies of earlier output::

    000LLLLL  literals                     L + 1 bytes follow
    LLLooooo  oooooooo                     copy L + 2 bytes from o + 1 bytes back
    111ooooo  LLLLLLLL  oooooooo           copy L + 9 bytes from o + 1 bytes back

Many strings are decompressed at once by Arrow, after a translation to Snappy's format, which encodes the same
operations differently. The start of each piece depends on the piece before it, so all strings are walked in parallel,
one piece per string at a time. Damaged data raises ValueError.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

#: Lowest first byte of a copy.
_COPY = 32
#: Lowest first byte of a long copy.
_LONG_COPY = 224
#: Size of a piece by its first byte.
_SIZES = np.array([*range(2, _COPY + 2), *[2] * (_LONG_COPY - _COPY), *[3] * 32])
#: Number of pieces walked in each string before checking whether all strings have ended.
_PIECES = 16
#: Maximum length of a copy in Snappy's format with a two-byte offset.
_SNAPPY_COPY = 64


def decompressed(data: bytes, size: int) -> bytes:
    """Decompress one string; ``size`` is its decompressed size in bytes."""
    out = bytearray()
    at, end = 0, len(data)
    try:
        while at < end:
            control = data[at]
            at += 1
            if control < _COPY:
                out += data[at : at + control + 1]
                at += control + 1
                continue
            count = (control >> 5) + 2
            if count == 9:
                count += data[at]
                at += 1
            back = ((control & 31) << 8 | data[at]) + 1
            at += 1
            start = len(out) - back
            if start < 0 or len(out) + count > size:
                raise ValueError("a copy is outside the string")
            if back >= count:
                out += out[start : start + count]
            else:
                # The copy overlaps its own output.
                out += (out[start:] * (count // back + 1))[:count]
    except IndexError:
        raise ValueError("the data ends within an operation") from None
    if at != end or len(out) != size:
        raise ValueError("the decompressed size is wrong")
    return bytes(out)


def decompressed_many(parts: Sequence[bytes], sizes: Sequence[int]) -> Generator[bool, None, bytes]:
    """Decompress strings to these sizes (in bytes) and return them joined; yield False when other tasks can run."""
    if not all(parts):
        raise ValueError("a compressed string is empty")
    # The walk of a string stops at the zero byte that follows the string. One more zero byte is read if the last piece
    # is incomplete.
    data = np.frombuffer(b"\0".join((*parts, b"", b"")), np.uint8)
    lengths = np.array(list(map(len, parts)))
    ends = np.cumsum(lengths + 1) - 1
    at = yield from _pieces(data, ends - lengths, ends)
    first = data[at]
    are_copies, are_long = first >= _COPY, first >= _LONG_COPY
    counts = np.where(are_copies, (first >> 5) + np.uint8(2), first + np.uint8(1)).astype(np.int64)
    counts[are_long] = data[at[are_long] + 1] + np.int64(9)
    begins = np.searchsorted(at, ends - lengths)
    if (np.add.reduceat(counts, begins) != sizes).any():
        raise ValueError("the decompressed size is wrong")
    # Copies must not start before their string.
    copies = np.flatnonzero(are_copies)
    back = ((first[copies] & 31).astype(np.int64) << 8 | data[at[copies] + 1 + are_long[copies]]) + 1
    there = np.cumsum(counts) - counts
    if (back > (there - there[begins][np.searchsorted(ends, at)])[copies]).any():
        raise ValueError("a copy is outside the string")
    yield False
    literals = at[~are_copies]
    snappy = _translated(data, ends, literals, (at[copies], counts[copies], back), are_long[copies])
    yield False
    total = int(counts.sum())
    return pa.Codec("snappy").decompress(_varint(total) + snappy, total, asbytes=True)  # type: ignore[no-any-return]


def _pieces(data: _Bytes, begins: _Ints, ends: _Ints) -> Generator[bool, None, _Ints]:
    """Return the starts of the pieces of all strings, in ascending order."""
    behind = np.minimum(np.arange(len(data)) + _SIZES[data], len(data) - 1)
    behind[ends] = ends
    rows = [begins]
    while (rows[-1] < ends).any():
        for _ in range(_PIECES):
            rows.append(behind[rows[-1]])
        yield False
    if (rows[-1] != ends).any():
        raise ValueError("the data ends within an operation")
    table = np.array(rows).T
    return table[table < ends[:, None]]


def _translated(
    data: _Bytes, ends: _Ints, literals: _Ints, copies: tuple[_Ints, _Ints, _Ints], are_long: npt.NDArray[np.bool_]
) -> bytes:
    """Translate the pieces to Snappy's format.

    ``literals`` are the starts of literals, ``copies`` the starts, lengths and distances of copies. In Snappy's format,
    a copy takes three bytes (one with its length, two with its offset) and copies at most 64 bytes.
    """
    at, counts, back = copies
    source = data.copy()
    source[literals] <<= np.uint8(2)
    last = at + 1 + are_long
    more = (counts - 1) // _SNAPPY_COPY
    # Number of result bytes for each source byte; 0 for the byte after each string.
    repeats = np.ones(len(data), np.int64)
    repeats[ends] = repeats[-1] = 0
    repeats[last] += ~are_long + 3 * more
    out = np.repeat(source, repeats)
    to = (np.cumsum(repeats) - repeats)[at]
    for number in range(int(more.max(initial=0)) + 1):
        some = more >= number
        begin, count, offset = (
            to[some] + 3 * number,
            np.minimum(counts[some] - _SNAPPY_COPY * number, _SNAPPY_COPY),
            back[some],
        )
        out[begin] = count - 1 << 2 | 2
        out[begin + 1], out[begin + 2] = offset & 255, offset >> 8
    return out.tobytes()


def _varint(value: int) -> bytes:
    """Encode a number in groups of seven bits, the lowest first."""
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes((*groups, value))
