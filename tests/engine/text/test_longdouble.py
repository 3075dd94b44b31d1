"""Sums of HINCRBYFLOAT equal those of 80-bit floats on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import longdouble

DECIMALS = st.builds(
    lambda sign, digits, exponent: f"{sign}{digits}e{exponent}",
    st.sampled_from(["", "-"]),
    st.integers(0, 10**25),
    st.integers(-40, 30),
)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="this machine's long double is not the 80-bit one")
@given(DECIMALS, DECIMALS)
def test_sums_are_those_of_the_hardware(first: str, second: str) -> None:
    """Parsing, adding and printing agree with the processor's 80-bit floats."""
    numbers = longdouble.parse(first.encode()), longdouble.parse(second.encode())
    assert numbers[0] is not None
    assert numbers[1] is not None
    total = longdouble.text(longdouble.rounded(numbers[0] + numbers[1])).decode()
    expected = np.format_float_positional(np.longdouble(first) + np.longdouble(second), 17, unique=False, trim="-")
    assert total == ("0" if expected == "-0" else expected)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (b"3.0", b"3"),
        (b".5", b"0.5"),
        (b"5.", b"5"),
        (b"0x1A", b"26"),
        (b"0x.8p1", b"1"),
        (b"-0", b"0"),
        (b"1e-18", b"0"),
        (b"+1e2", b"100"),
        (b"0.1", b"0.1"),
        (b"-2.50", b"-2.5"),
        (b"0" * 5000 + b"7", b"7"),
        (b"0x1.0001p-16446", b"0"),
    ],
)
def test_numbers_are_read_as_in_c(word: bytes, text: bytes) -> None:
    """Decimal and hexadecimal forms are parsed, and printed with up to 17 decimals."""
    number = longdouble.parse(word)
    assert number is not None
    assert longdouble.text(number) == text


@pytest.mark.parametrize(
    "word",
    [b"", b" 1", b"1 ", b"nan", b"1x", b"e5", b".", b"1e", b"0x", b"1e5000", b"1e-5000", b"0x1p-16446", b"1_0", b"--1"],
)
def test_invalid_numbers_are_rejected(word: bytes) -> None:
    """Texts that C's strtold does not accept completely, or cannot represent, give None."""
    assert longdouble.parse(word) is None


def test_a_number_of_thousands_of_digits() -> None:
    """A number of 4,500 digits is read and printed as in redis-server 7.0.15."""
    number = longdouble.parse(b"1" * 4500)
    assert number is not None
    shown = longdouble.text(number)
    assert len(shown) == 4500
    assert shown.startswith(b"1111111111111111111106213976215200890959307794577659471715014198648960789")
