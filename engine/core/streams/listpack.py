"""Sizes of listpack elements, one at a time or vectorised. Redis stores the entries of a stream node in a listpack.

An element is a 64-bit integer or a string, followed by its encoded size. A string that is the canonical text of an
integer is stored as that integer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_INT64 = 1 << 63
#: Maximum number of digits of a 64-bit integer.
_DIGITS = 19
_MINUS, _ZERO = b"-0"


def listpack_int(value: int) -> int:
    """Return the size of an integer in a listpack, in bytes."""
    if 0 <= value <= 127:
        return 2
    if -4096 <= value <= 4095:
        return 3
    if -32768 <= value <= 32767:
        return 4
    if -8388608 <= value <= 8388607:
        return 5
    if -2147483648 <= value <= 2147483647:
        return 6
    return 10


def int_sizes(values: Ints) -> Ints:
    """Vectorised ``listpack_int``."""
    sizes = np.where(values < 0, ~values, values)
    wider = (sizes >= 1 << 12) + (sizes >= 1 << 15).astype(np.int64) + (sizes >= 1 << 23) + 4 * (sizes >= 1 << 31)
    return np.where((values >= 0) & (values < 128), 2, 3 + wider)


def _with_back_length(size: int) -> int:
    if size <= 127:
        return size + 1
    if size < 16383:
        return size + 2
    if size < 2097151:
        return size + 3
    return size + (4 if size < 268435455 else 5)


def listpack_word(word: bytes) -> int:
    """Return the size of a string in a listpack, in bytes. Canonical 64-bit integers are stored as integers."""
    size = len(word)
    if size <= 20:
        digits = word[1:] if word[:1] == b"-" else word
        if digits.isdigit() and (digits[:1] != b"0" or word == b"0"):
            value = int(word)
            if -_INT64 <= value < _INT64:
                return listpack_int(value)
    if size < 64:
        return size + 2
    return _with_back_length(size + (2 if size < 4096 else 5))


def word_sizes(buffer: Bytes, begins: Ints, sizes: Ints) -> Ints:
    """Vectorised ``listpack_word`` for the words with these starts and sizes in ``buffer``."""
    head = np.where(sizes < 64, 1, np.where(sizes < 4096, 2, 5))
    # An element is followed by its encoded size, with 7 bits in each byte.
    found = sizes + head
    found += 1 + (found > 127) + (found >= 16383) + (found >= 2097151) + (found >= 268435455)
    indices, values = numbers_among(buffer, begins, sizes)
    found[indices] = int_sizes(values)
    return found


def numbers_among(buffer: Bytes, begins: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the indices of the words that are stored as integers, and their values."""
    first = buffer[begins]
    indices = np.flatnonzero(((first - np.uint8(_ZERO) < 10) | (first == _MINUS)) & (sizes <= _DIGITS + 1))
    if not len(indices):
        return indices, np.zeros(0, np.int64)
    are, values = _numbers(buffer, begins[indices], sizes[indices])
    return indices[are], values[are]


def _numbers(buffer: Bytes, begins: Ints, sizes: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Return which of these words are canonical texts of signed 64-bit integers, and their values."""
    minus = buffer[begins] == _MINUS
    begins, digits = begins + minus, sizes - minus
    are = (digits > 0) & (digits <= _DIGITS) & ((buffer[begins] != _ZERO) | (sizes == 1))
    values = np.zeros(len(begins), np.uint64)
    for index in range(min(int(digits.max()), _DIGITS)):
        inside = index < digits
        digit = buffer[np.where(inside, begins + index, 0)] - np.uint8(_ZERO)
        are &= ~inside | (digit < 10)
        values = np.where(inside, values * np.uint64(10) + digit, values)
    are &= values <= np.uint64((1 << 63) - 1) + minus
    return are, np.where(minus, np.uint64(0) - values, values).view(np.int64)
