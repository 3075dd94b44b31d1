"""Dates and times of any year as integers: days and microseconds since 1970 in the proleptic Gregorian calendar.

Python's datetime supports the years 1 to 9999, and Arrow's text form years up to 32767. Spark allows all days in 32
bits and all microseconds in 64 bits. Common placeholder dates (9999-12-31 in New York, 0001-01-01 in Berlin) leave
Python's range when they are converted to UTC. The text form is that of Spark's CSV source, with all digits of a
fraction.
"""

from __future__ import annotations

import datetime

SECOND = 1_000_000  # in microseconds
DAY = 86_400 * SECOND
#: Exclusive upper limit of microseconds; its negative is the inclusive lower limit.
MOST_MICROS = 2**63
#: Exclusive upper limit of days; its negative is the inclusive lower limit.
MOST_DAYS = 2**31

_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # period after which the calendar repeats, including weekdays
_EPOCH_DAYS = 719_468  # days from 0000-03-01 to 1970-01-01
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_of(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a date.

    Raises ValueError if the date is invalid or does not fit 32 bits.
    """
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_DAYS[month - 1] + (month == 2 and _is_leap(year)):
        raise ValueError("no such day")
    # Years are counted from March, so that the leap day is the last day of a year.
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    cycle, year = divmod(year, _CYCLE_YEARS)
    number = cycle * _CYCLE_DAYS + year * 365 + year // 4 - year // 100 + (153 * month + 2) // 5 + day - 1 - _EPOCH_DAYS
    if not -MOST_DAYS <= number < MOST_DAYS:
        raise ValueError("a day that does not fit 32 bits")
    return number


def date_of(days: int) -> tuple[int, int, int]:
    """Return the year, month and day for a number of days since 1970-01-01."""
    cycle, day = divmod(days + _EPOCH_DAYS, _CYCLE_DAYS)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += cycle * _CYCLE_YEARS
    return (year, month + 3, day + 1) if month < 10 else (year + 1, month - 9, day + 1)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def checked(micros: int) -> int:
    """Return the microseconds unchanged. Raises ValueError if they do not fit 64 bits."""
    if not -MOST_MICROS <= micros < MOST_MICROS:
        raise ValueError("a time that does not fit 64 bits")
    return micros


def to_utc(local: int, zone: datetime.tzinfo) -> int:
    """Convert a zone's local time to UTC. If the local time occurs twice, return the earlier moment."""
    offset = _in_python(local).replace(tzinfo=zone).utcoffset()
    assert offset is not None
    return local - offset // datetime.timedelta(microseconds=1)


def offset_at(moment: int, zone: datetime.tzinfo) -> int:
    """Return the offset of a zone from UTC at a moment, in microseconds."""
    offset = _in_python(moment).replace(tzinfo=datetime.UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // datetime.timedelta(microseconds=1)


def _in_python(micros: int) -> datetime.datetime:
    """Return the moment, shifted by whole calendar cycles into the years of Python's datetime.

    The rules of a zone are the same in these years.
    """
    days, rest = divmod(micros, DAY)
    year, month, day = date_of(days)
    if year < 2:
        year += (2 - year + _CYCLE_YEARS) // _CYCLE_YEARS * _CYCLE_YEARS
    elif year > 9998:
        year -= (year - 9998 + _CYCLE_YEARS - 1) // _CYCLE_YEARS * _CYCLE_YEARS
    return datetime.datetime(year, month, day) + datetime.timedelta(microseconds=rest)  # noqa: DTZ001 - set by the caller


def date_text(days: int) -> str:
    """Return a date in Spark's form: a year of at least four digits, with a sign if it is before 0 or after 9999."""
    year, month, day = date_of(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def local_text(micros: int) -> str:
    """Return the text of a time in ISO 8601, without a zone, and without a fraction if it is zero."""
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, SECOND)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)}T{clock}" + (f".{fraction:06d}" if fraction else "")


def offset_text(offset: int) -> str:
    """Return an offset as `+hh:mm`, with seconds if they are not zero."""
    seconds = abs(offset) // SECOND
    text = f"{'-' if offset < 0 else '+'}{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    return f"{text}:{seconds % 60:02d}" if seconds % 60 else text
