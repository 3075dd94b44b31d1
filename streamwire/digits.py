"""Vectorised parsing of numbers in texts of up to eight bytes, with one 64-bit word per text.

A text is loaded as one little-endian word, with its first character in the lowest byte. Each step is an operation on
whole arrays of words. If a text is not a plain number, the result for the whole array is None, and the caller parses
the texts in a slower way that must return the same values.

Internally each character is XORed with `0`. So a digit becomes its value, and the zeros to the left of a short text are
leading zeros of its number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
#: One length per text, or the common length of all texts.
Lengths = Ints | int

WIDTH = 8
_U = np.uint64
_EIGHT, _SIXTY_FOUR = _U(8), _U(64)
_ZEROS = _U(0x3030303030303030)
_OVER = _U(0x7676767676767676)  # added to a byte, sets the highest bit if the byte is larger than 9
_TOPS, _ONES = _U(0x8080808080808080), _U(0x0101010101010101)
_DOTS = _U((ord(".") ^ ord("0")) * 0x0101010101010101)
# Multiplier of a 1 in a byte; the highest byte of the product is the number of bytes above that byte.
_BYTES_ABOVE = _U(0x0706050403020100)
# Multiplier that combines digits into numbers of two digits, and mask of the bytes with the results.
_PAIRS, _PAIR_MASK = _U(10 << 8 | 1), _U(0x00FF00FF00FF00FF)
# Multiplier that combines these numbers into numbers of four digits, and mask of the bytes with the results.
_QUADS, _QUAD_MASK = _U(100 << 16 | 1), _U(0x0000FFFF0000FFFF)
# Multiplier that combines these numbers into a number of eight digits.
_OCTETS = _U(10_000 << 32 | 1)
_MINUS, _SIGN = _U(ord("-")), _U(ord("-") ^ ord("0"))
_POWERS = 10.0 ** np.arange(WIDTH + 1)


def plain(words: Words, lengths: Lengths) -> Words | None:
    """Return the numbers in texts of one to eight digits; None if a text has any other character."""
    return _value(_right(words, lengths))


def integers(words: Words, lengths: Lengths) -> NDArray[np.int32] | None:
    """Return the whole numbers in texts of these lengths, which may begin with `-`.

    Returns None if a text is not such a number, or is longer than eight bytes.
    """
    if not _short(words, lengths):
        return None
    minus = (words & _U(0xFF)) == _MINUS
    if np.any(minus & (lengths == 1)):
        return None
    found = plain(words ^ minus * _SIGN, lengths)
    if found is None:
        return None
    numbers = found.astype(np.int32)
    return np.negative(numbers, out=numbers, where=minus)


def floats(words: Words, lengths: Lengths) -> NDArray[np.float64] | None:
    """Return the numbers, with or without a decimal point, in texts of these lengths.

    Returns None if a text is not such a number, or is longer than eight bytes.
    Dividing an integer below 2**53 by an exact power of ten gives the nearest double, as parsing the text would.
    """
    if not _short(words, lengths):
        return None
    minus = (words & _U(0xFF)) == _MINUS
    words = _right(words ^ minus * _SIGN, lengths)
    other = words ^ _DOTS
    dots = (other - _ONES) & ~other & _TOPS
    dots &= ~dots + _U(1)  # keep each word's first point: above it a borrow can set wrong bits
    pointed = dots != 0
    if np.any(lengths == np.add(minus, pointed, dtype=np.int64)):  # no digits
        return None
    # The decimals are in the bytes above the point, and the whole part is in those below it, which moves up by a byte.
    dots >>= _U(7)  # the lowest bit of the point's byte
    below = dots - pointed
    above = ~(below | dots * _U(0xFF))
    above &= words
    words &= below
    words <<= _EIGHT
    words |= above
    found = _value(words)
    if found is None:
        return None
    numbers: NDArray[np.float64] = found / _POWERS[(dots * _BYTES_ABOVE >> _U(56)).view(np.int64)]
    return np.negative(numbers, out=numbers, where=minus)


def _short(words: Words, lengths: Lengths) -> bool:
    return bool(words.size and np.min(lengths) > 0 and np.max(lengths) <= WIDTH)


def _right(words: Words, lengths: Lengths) -> Words:
    """Return the texts XORed with `0`, right-aligned in their words. Lengths are 1 to 8."""
    moved = words ^ _ZEROS
    if isinstance(lengths, int):
        moved <<= _U(64 - 8 * lengths)
    else:
        moved <<= _SIXTY_FOUR - lengths.astype(np.uint64) * _EIGHT
    return moved


def _value(words: Words) -> Words | None:
    """Return the numbers in words of eight digits; None if a character is not a digit. Overwrites the words."""
    over = words + _OVER
    over |= words
    if np.bitwise_or.reduce(over) & _TOPS:
        return None
    words *= _PAIRS
    words >>= _EIGHT
    words &= _PAIR_MASK
    words *= _QUADS
    words >>= _U(16)
    words &= _QUAD_MASK
    words *= _OCTETS
    words >>= _U(32)
    return words
