"""Numbers out of texts of up to eight bytes, eight bytes at a time.

A text is loaded as one little-endian 64-bit word, its first character in the lowest byte; all steps are the same few
operations on whole arrays of such words. What is not plainly a number makes the whole array be declined (None), so
that whoever asked takes the slow way, which must give the same values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

WIDTH = 8
_U = np.uint64
_EIGHT, _SIXTY_FOUR = _U(8), _U(64)
_ZEROS = _U(0x3030303030303030)
_HIGH, _LOW = _U(0xF0F0F0F0F0F0F0F0), _U(0x0F0F0F0F0F0F0F0F)
_SIX, _THREES = _U(0x0606060606060606), _U(0x3333333333333333)
_DOTS, _ONES, _TOPS = _U(0x2E2E2E2E2E2E2E2E), _U(0x0101010101010101), _U(0x8080808080808080)
_PAIRS, _PAIR_MASK = _U(2561), _U(0x00FF00FF00FF00FF)
_QUADS, _QUAD_MASK = _U(6553601), _U(0x0000FFFF0000FFFF)
_OCTETS = _U(42949672960001)
_MINUS = _U(ord("-"))
_POWERS = 10.0 ** np.arange(WIDTH + 1)


def right(words: Words, lengths: Ints) -> Words:
    """The texts moved to the upper end of their words, with zeros before them. Lengths are 1 to 8."""
    bits = lengths.astype(np.uint64) * _EIGHT
    moved: Words = (words << (_SIXTY_FOUR - bits)) | (_ZEROS >> _U(1) >> (bits - _U(1)))
    return moved


def are_digits(words: Words) -> bool:
    """Whether all bytes of all words are digits."""
    return bool(np.all(((words & _HIGH) | (((words + _SIX) & _HIGH) >> _U(4))) == _THREES))


def value(words: Words) -> Words:
    """The numbers that words of eight digits say."""
    words = ((words & _LOW) * _PAIRS) >> _EIGHT
    words = ((words & _PAIR_MASK) * _QUADS) >> _U(16)
    return ((words & _QUAD_MASK) * _OCTETS) >> _U(32)


def _unsigned(words: Words, lengths: Ints) -> tuple[Words, Ints, NDArray[np.bool_] | None]:
    """The texts without their minus signs, and which had one (None: none had)."""
    minus = (words & _U(0xFF)) == _MINUS
    if not minus.any():
        return words, lengths, None
    return np.where(minus, words >> _EIGHT, words), lengths - minus, minus


def integers(words: Words, lengths: Ints) -> Ints | None:
    """The whole numbers that texts of these lengths say, without `+`; None to decline."""
    if not lengths.size or lengths.max() > WIDTH:
        return None
    words, lengths, minus = _unsigned(words, lengths)
    if lengths.min() < 1:
        return None
    words = right(words, lengths)
    if not are_digits(words):
        return None
    numbers = value(words).astype(np.int64)
    return numbers if minus is None else np.where(minus, -numbers, numbers)


def floats(words: Words, lengths: Ints) -> NDArray[np.float64] | None:
    """The numbers with or without a decimal point that texts of these lengths say; None to decline.

    A whole number below 2**53 divided by a power of ten that is exact gives the nearest double, as reading the text
    digit by digit would.
    """
    if not lengths.size or lengths.max() > WIDTH:
        return None
    words, lengths, minus = _unsigned(words, lengths)
    if lengths.min() < 1:
        return None
    words = right(words, lengths)
    other = words ^ _DOTS
    dots = (other - _ONES) & ~other & _TOPS
    numbers: NDArray[np.float64]
    if dots.any():
        dots &= ~dots + _U(1)  # the first one of each: the lowest bit is always a true one
        pointed = dots != 0
        if np.any(pointed & (lengths < 2)):
            return None
        place = dots >> _U(7)  # one in the dot's lowest bit
        before = place - _U(1)
        after = ~(before | (place * _U(0xFF)))
        words = np.where(pointed, ((words & before) << _EIGHT) | (words & after) | _U(0x30), words)
        if not are_digits(words):
            return None
        bits = np.log2(np.where(pointed, place, _U(1 << 56)).astype(np.float64)).astype(np.int64)
        numbers = value(words) / _POWERS[(WIDTH - 1) - (bits >> 3)]
    elif are_digits(words):
        numbers = value(words).astype(np.float64)
    else:
        return None
    return numbers if minus is None else np.where(minus, -numbers, numbers)
