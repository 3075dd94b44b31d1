"""Floats with a 64-bit mantissa, for HINCRBYFLOAT, computed in exact integer arithmetic.

On x86 Redis computes with 80-bit floats and shows 17 decimals of them. Python's floats have fewer bits, and numpy's
long double depends on the machine. So sums are computed on exact fractions and rounded to 64 bits, half to even: the
results are equal on every machine.
"""

from __future__ import annotations

import re
from fractions import Fraction

_BITS = 64
_MAX = Fraction((1 << _BITS) - 1) * (1 << (16384 - _BITS))
_MIN = Fraction(1, 1 << 16445)
DECIMAL = re.compile(rb"([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d+))?")
_HEX = re.compile(rb"([+-]?)0[xX](?:([0-9a-fA-F]+)\.?([0-9a-fA-F]*)|\.([0-9a-fA-F]+))(?:[pP]([+-]?\d+))?")
_INFINITE = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)
#: Maximum exponent. A greater exponent is out of range for any mantissa of up to ``_MAX_LENGTH`` digits.
_MAX_EXPONENT = 20_000
#: Maximum length of a number in bytes, as in Redis.
_MAX_LENGTH = 5_119
#: Number of digits to convert at a time: Python rejects numbers of more than 4,300 digits.
_DIGITS_AT_ONCE = 2_000


class InfiniteError(Exception):
    """The text is an infinity."""


def rounded(value: Fraction) -> Fraction:
    """Return the nearest number with a mantissa of 64 bits, half to even."""
    if not value:
        return value
    shift = _BITS - (abs(value.numerator).bit_length() - value.denominator.bit_length())
    for exponent in (shift, shift - 1):
        scaled = value * 2**exponent if exponent >= 0 else value / 2**-exponent
        whole = round(scaled)
        if abs(whole) <= 1 << _BITS:
            return Fraction(whole, 2**exponent) if exponent >= 0 else Fraction(whole * 2**-exponent)
    raise AssertionError(value)


def fits(value: Fraction) -> bool:
    """Return whether ``value`` is in the range of a long double."""
    return abs(value) <= _MAX


def parse(word: bytes) -> Fraction | None:
    """Return the number in ``word``, as C's strtold reads it; None if it is not a number or is out of range.

    Raises ``InfiniteError`` for an infinity.
    """
    if len(word) > _MAX_LENGTH:
        return None
    if _INFINITE.fullmatch(word):
        raise InfiniteError
    base = 10
    match = DECIMAL.fullmatch(word)
    if match is None:
        base = 16
        match = _HEX.fullmatch(word)
        if match is None:
            return None
    sign, whole, part, alone, power = match.groups(b"")
    decimals = part or alone
    digits = _integer((whole + decimals) or b"0", base)
    if not digits:
        return Fraction(0)
    exponent = int(power[:8] or b"0")
    if abs(exponent) > _MAX_EXPONENT * (1 if base == 10 else 4):
        return None
    value = Fraction(digits, base ** len(decimals)) * Fraction(2 if base == 16 else 10) ** exponent
    value = rounded(value)
    if not fits(value) or value <= _MIN / 2:
        return None
    return -value if sign == b"-" else value


def _integer(word: bytes, base: int) -> int:
    """Return the integer in ``word``, which may have more digits than Python's ``int`` accepts."""
    if len(word) <= _DIGITS_AT_ONCE:
        return int(word, base)
    scale: int = base**_DIGITS_AT_ONCE
    return _integer(word[:-_DIGITS_AT_ONCE], base) * scale + int(word[-_DIGITS_AT_ONCE:], base)


def _digits(number: int) -> bytes:
    """Return the decimal digits of a non-negative number of any length."""
    high, low = divmod(number, 10**_DIGITS_AT_ONCE)
    return _digits(high) + b"%0*d" % (_DIGITS_AT_ONCE, low) if high else b"%d" % low


def text(value: Fraction) -> bytes:
    """Return the number with up to 17 decimals, without trailing zeros."""
    scaled = round(abs(value) * 10**17)
    whole, decimals = divmod(scaled, 10**17)
    shown = _digits(whole)
    if decimals:
        shown += b"." + (b"%017d" % decimals).rstrip(b"0")
    return b"-" + shown if value < 0 and scaled else shown
