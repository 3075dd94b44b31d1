"""64-bit floats as text, for the scores of sorted sets: parsed as by C's strtod, written as by Redis.

Redis 7.2 and later write the shortest digits that parse to the same number, with an exponent instead of many zeros.
Earlier versions, and ZSCAN of a large sorted set, write 17 digits.
"""

from __future__ import annotations

import math

from engine.text.longdouble import DECIMAL, HEX, INFINITE

#: Maximum absolute value of whole numbers that are written with all their digits.
_WHOLE = float(1 << 62)
#: A whole number is written without an exponent if it has at most this many zeros after its other digits.
_MOST_ZEROS = 7
#: A number is written without an exponent if it has fewer digits than this after the point.
_MOST_DECIMALS = 7
#: A number with a fraction is written without an exponent if the exponent would be less than this in absolute value.
_SMALL_EXPONENT = 4


def parse(word: bytes) -> float | None:
    """Return the number in ``word``; None if it is not a number, is NaN, or is out of range."""
    if word.isdigit() and len(word) < 16:
        return float(word)
    if DECIMAL.fullmatch(word) is not None:
        value = float(word)
    elif INFINITE.fullmatch(word) is not None:
        return float(word)
    elif HEX.fullmatch(word) is not None:
        try:
            value = float.fromhex(word.decode())
        except OverflowError:
            return None
    else:
        return None
    if math.isinf(value) or (not value and _has_digits(word)):
        return None
    return value


def _has_digits(word: bytes) -> bool:
    """Return whether the mantissa has a digit other than 0: if so, a result of zero is an underflow."""
    if HEX.fullmatch(word) is not None and DECIMAL.fullmatch(word) is None:
        mantissa = word.lower().partition(b"x")[2].partition(b"p")[0]
    else:
        mantissa = word.lower().partition(b"e")[0]
    return bool(mantissa.strip(b"+-0."))


def parse_bound(word: bytes) -> float | None:
    """Return the bound of a range; None if ``word`` is not a number.

    A number out of range is infinite, an empty word is 0, and a NUL byte ends the number, as in C.
    """
    word = word.partition(b"\0")[0]
    if not word:
        return 0.0
    if DECIMAL.fullmatch(word) is None and INFINITE.fullmatch(word) is None:
        return None
    return float(word)


def text(value: float) -> bytes:
    """Return the number as Redis writes it."""
    if -_WHOLE <= value <= _WHOLE and value.is_integer():
        return b"%d" % int(value) if value or math.copysign(1.0, value) > 0 else b"-0"
    shown = repr(value)
    if "n" in shown or 0.001 <= abs(value) < 10_000:
        # NaN, infinite, or without an exponent in both forms. (Most scores with a fraction.)
        return shown.encode()
    sign = "-" if shown[0] == "-" else ""
    mantissa, _, power = shown[len(sign) :].partition("e")
    whole, _, decimals = mantissa.partition(".")
    if decimals == "0":
        decimals = ""
    digits = whole + decimals
    # In the end, the number equals ``digits``, without zeros at either end, times ten to the power of ``last``.
    last = int(power or 0) - len(decimals)
    stripped = digits.rstrip("0")
    last += len(digits) - len(stripped)
    digits = stripped.lstrip("0")
    first = last + len(digits) - 1
    if last >= 0 and first < len(digits) + _MOST_ZEROS:
        return f"{sign}{digits}{'0' * last}".encode()
    if last < 0 and (last > -_MOST_DECIMALS or abs(first) < _SMALL_EXPONENT):
        if first < 0:
            return f"{sign}0.{'0' * (-first - 1)}{digits}".encode()
        return f"{sign}{digits[: first + 1]}.{digits[first + 1 :]}".encode()
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{first:+d}".encode()


def long_text(value: float) -> bytes:
    """Return the number with 17 significant digits."""
    return b"%.17g" % value
