"""Dates, timestamps with or without a zone, times of day and day-time intervals.

Dates and timestamps are integers: days and microseconds since 1970 in the proleptic Gregorian calendar. Python's
datetime supports the years 1 to 9999, and Arrow's text form years up to 32767. Spark allows all days in 32 bits and all
microseconds in 64 bits. Common placeholder dates (9999-12-31 in New York, 0001-01-01 in Berlin) leave Python's range
when they are converted to UTC.

Texts are read as in Spark's CSV source, which allows surrounding blanks. Compact dates (20130704) and, depending on the
option `timestampFormat`, epochs are also read. A time without a zone is in the zone of its type. All digits of a
fraction are written. Times of day and intervals are ISO 8601 text: `12:30:00.5`, `P1DT2H30M0.5S`. As in Java's
`Duration`, an interval may be negative as a whole (`-PT1H`) or in its parts (`PT-1H`).
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.columns.scalars import (
    AROUND,
    Read,
    ScalarType,
    Write,
    made_of,
    number,
    of,
    parsed,
    shown,
    texts,
    within,
)
from spark_streams.config import time_zones
from streamwire.lazy import compute as pc

# -- the calendar -----------------------------------------------------------------------------------------------------

SECOND = 1_000_000  # in microseconds
DAY = 86_400 * SECOND
#: Exclusive upper limit of microseconds; its negative is the inclusive lower limit.
MOST_MICROS = 2**63
#: Exclusive upper limit of days; its negative is the inclusive lower limit.
MOST_DAYS = 2**31


def days_of(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a date.

    Raises ValueError if the date is invalid or does not fit 32 bits.
    """
    number = int(np.datetime64(f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}", "D").astype(int))
    if not -MOST_DAYS <= number < MOST_DAYS:
        raise ValueError("a day that does not fit 32 bits")
    return number


#: Python's years without the first and the last, in microseconds, and the calendar's period, which includes weekdays.
_FIRST, _END, _CYCLE = days_of(2, 1, 1) * DAY, days_of(9999, 1, 1) * DAY, 146_097 * DAY


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
    if micros < _FIRST:
        micros += -((micros - _FIRST) // _CYCLE) * _CYCLE
    elif micros >= _END:
        micros -= ((micros - _END) // _CYCLE + 1) * _CYCLE
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)  # noqa: DTZ001 - set by the caller


def date_text(days: int) -> str:
    """Return a date in Spark's form: a year of at least four digits, with a sign if it is before 0 or after 9999."""
    text = str(np.datetime64(days, "D"))
    year = int(text[:-6])
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{text[-6:]}"


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


# -- times of day and intervals ---------------------------------------------------------------------------------------

_TIME = re.compile(r"T?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?")
_PART = r"([+-]?[0-9]{1,15})"
_INTERVAL = re.compile(
    rf"([+-]?)P(?=[0-9T+-])(?:{_PART}W)?(?:{_PART}D)?"
    rf"(?:T(?=[0-9+-])(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}(?:[.,]([0-9]{{1,9}}))?S)?)?",
    re.IGNORECASE,
)
_MICRO = datetime.timedelta(microseconds=1)
#: A week, a day, an hour, a minute and a second in microseconds.
_INTERVAL_UNITS = (604_800_000_000, 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)
_LARGEST = 2**63  # exclusive upper limit of an interval, in microseconds


def read_time(text: str) -> datetime.time | None:
    """Return the time of day; None if the text is not a time of day. Digits below a microsecond are dropped."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour, minute, second, fraction = found.groups()
    return datetime.time(int(hour), int(minute), int(second or 0), _fraction(fraction))


def read_interval(text: str) -> int | None:
    """Return the interval in microseconds; None if the text is not an interval.

    Digits below a microsecond are dropped.
    """
    found = _INTERVAL.fullmatch(text)
    if found is None:
        return None
    sign, *parts, fraction = found.groups()
    total = sum(int(part) * unit for part, unit in zip(parts, _INTERVAL_UNITS, strict=True) if part is not None)
    seconds = parts[-1]
    total += _fraction(fraction) * (-1 if seconds is not None and seconds.startswith("-") else 1)
    total = -total if sign == "-" else total
    return total if -_LARGEST <= total < _LARGEST else None


def _fraction(fraction: str | None) -> int:
    return int((fraction or "0").ljust(6, "0")[:6])


def show_time(value: datetime.time) -> str:
    """Return the text of a time of day, without trailing zeros in its fraction."""
    text = value.isoformat()
    return text.rstrip("0") if "." in text else text


def show_interval(value: datetime.timedelta) -> str:
    """Return the text of an interval, without units that are zero."""
    micros = value // _MICRO
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    days, micros = divmod(micros, _INTERVAL_UNITS[1])
    hours, micros = divmod(micros, _INTERVAL_UNITS[2])
    minutes, micros = divmod(micros, _INTERVAL_UNITS[3])
    seconds, micros = divmod(micros, _INTERVAL_UNITS[4])
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    day = f"{days}D" if days else ""
    clock = f"{hours}H" if hours else ""
    clock += f"{minutes}M" if minutes else ""
    clock += f"{seconds}{fraction}S" if seconds or fraction or not (day or clock) else ""
    return f"{sign}P{day}{'T' if clock else ''}{clock}"


TIME = ScalarType(
    ids=(pa.time64("us").id,),
    spark=("TimeType",),
    read=lambda _kind, _epochs: read_time,
    show=lambda column: shown(show_time, column),
    from_json=lambda _: lambda value: parsed(read_time, of(str, value)),
    to_json=lambda _: lambda value: f'"{show_time(value)}"',
)
INTERVAL = ScalarType(
    ids=(pa.duration("us").id,),
    spark=("DayTimeIntervalType",),
    read=lambda _kind, _epochs: read_interval,
    show=lambda column: shown(show_interval, column),
    from_json=lambda _: lambda value: parsed(read_interval, of(str, value)),
    to_json=lambda _: lambda value: f'"{show_interval(value)}"',
)


#: Days whose year has four digits in all zones: the years 1 to 9999 without their first and last day.
_USUAL_DAYS = days_of(1, 1, 2), days_of(9999, 12, 31)
_USUAL_MICROS = _USUAL_DAYS[0] * DAY, _USUAL_DAYS[1] * DAY


def epochs_of(name: str) -> int | None:
    """Return the unit of numbers in a timestamp format, in microseconds.

    Return 0 if the unit depends on the size of the number, and None if numbers are not times.
    """
    return {"epoch": 0, "seconds": 10**6, "milliseconds": 10**3, "microseconds": 1}.get(name)


def _if_like(pattern: str, column: Any, target: Any) -> Any:
    text = pc.cast(column, pa.string())
    if not pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py():
        return None
    if _any_starts_with("0000", text):  # Python has no year 0
        return None
    return pc.cast(text, target)


def _any_starts_with(start: str, text: Any) -> bool:
    return bool(pc.any(pc.starts_with(text, start), min_count=0).as_py())


# -- dates ------------------------------------------------------------------------------------------------------------

_YEAR = r"([+-]?[0-9]{4,7})"
_DAY = re.compile(rf"{_YEAR}(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[T ].*)?)?)?", re.DOTALL)
_COMPACT_DAY = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:[T ].*)?", re.DOTALL)
_DAYS_FAST = r"^\d{4}-\d{2}-\d{2}$"


def _date(text: str) -> int | None:
    text = text.strip(AROUND)
    found = _DAY.fullmatch(text) or _COMPACT_DAY.fullmatch(text)
    return days_of(*(int(part or 1) for part in found.groups())) if found else None


def _dates(column: Any, kind: Any, _epochs: int | None) -> Any:
    return _if_like(_DAYS_FAST, column, kind)


def _date_texts(column: Any) -> Any:
    """Return the dates in Spark's text form."""
    return texts(
        column.cast(pa.int32()),
        _USUAL_DAYS,
        lambda days: pc.cast(days.cast(pa.date32()), pa.string()),
        date_text,
    )


DATE = ScalarType(
    ids=(pa.date32().id,),
    spark=("DateType",),
    read=lambda _kind, _epochs: _date,
    read_fast=_dates,
    show=lambda column: pc.cast(_date_texts(column), pa.binary()),
    from_json=lambda _: lambda value: parsed(_date, of(str, value)),
    to_json=lambda _: lambda days: f'"{date_text(days)}"',
    to_json_fast=lambda column: pc.binary_join_element_wise('"', _date_texts(column), '"', ""),
    json_kind=lambda _: pa.string(),
    stored_kind=pa.int32(),
)

# -- timestamps, one text at a time -----------------------------------------------------------------------------------

_ZONE = r" ?(Z|(?:UTC|GMT)?[+-][0-9]{1,2}(?::?[0-9]{2}(?::?[0-9]{2})?)?|[A-Za-z][A-Za-z0-9_+/-]*)?"
_MOMENT = re.compile(
    rf"{_YEAR}(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})"
    r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?)?" + _ZONE + ")?)?"
)
_COMPACT_MOMENT = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})(?:[T ]([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?" + _ZONE + ")?"
)
_NUMBER_OF_UNITS = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]+)?")
_EPOCH = re.compile(r"-?[0-9]{8,18}(?:\.[0-9]+)?")
#: Units of epochs as (limit, factor): a number below the limit is multiplied by the factor to get microseconds. Numbers
#: below 10^11 are seconds, numbers below 10^14 milliseconds, and larger numbers microseconds. Texts of fewer than eight
#: digits are not epochs; they may be years.
_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**18, 1))


def _reader(kind: Any, epochs: int | None) -> Read:
    if kind.tz is None:
        return lambda text: _local_moment(text, epochs)
    zone = time_zones.info(kind.tz)
    return lambda text: _moment(text, zone, epochs)


def _moment(text: str, default: datetime.tzinfo, epochs: int | None) -> int | None:
    text = text.strip(AROUND)
    if _is_epoch(text, epochs):
        return _epoch(text, epochs)
    parts = _parts(text)
    if parts is None:
        return None
    local, zone = parts
    if zone is None:
        return checked(to_utc(local, default))
    return checked(to_utc(local, time_zones.info(time_zones.parse(zone))))


def _is_epoch(text: str, epochs: int | None) -> bool:
    return epochs is not None and bool((_NUMBER_OF_UNITS if epochs else _EPOCH).fullmatch(text))


def _epoch(text: str, epochs: int | None) -> int:
    with decimal.localcontext(prec=100):
        value = decimal.Decimal(text)
        factor = epochs or next(factor for below, factor in _UNITS if abs(value) < below)
        return checked(int((value * factor).to_integral_value(decimal.ROUND_FLOOR)))


def _local_moment(text: str, epochs: int | None) -> int | None:
    text = text.strip(AROUND)
    if _is_epoch(text, epochs):
        return _epoch(text, epochs)
    parts = _parts(text)
    return checked(parts[0]) if parts is not None and parts[1] is None else None


def _parts(text: str) -> tuple[int, str | None] | None:
    """Return the local time in microseconds, and the zone; None if the text is not a time."""
    found = _MOMENT.fullmatch(text) or _COMPACT_MOMENT.fullmatch(text)
    if found is None:
        return None
    *date, hour, minute, second, fraction, zone = found.groups()
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = _fraction(fraction)
    days = days_of(*(int(part or 1) for part in date))
    return days * DAY + (hours * 3600 + minutes * 60 + seconds) * SECOND + micros, zone


# -- timestamps, whole arrays -----------------------------------------------------------------------------------------

_UTC = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$"
_ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-](?:(?:0\d|1[0-7]):?[0-5]\d|18:?00))$"
_UNZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
#: The years 1970 to 2037, in microseconds. Outside this range, Arrow's offsets differ from Python's and Java's in some
#: zones.
_SAME_CLOCKS = (0, 2_145_916_800_000_000)


def _timestamps(column: Any, kind: Any, epochs: int | None) -> Any:
    numbers = None if epochs is None else _epochs(column, kind, epochs)
    if numbers is not None:
        return numbers
    if kind.tz is None:
        return _if_like(_UNZONED, column, kind)
    utc = pa.timestamp(kind.unit, "UTC")
    result = _if_like(_UTC, column, utc)
    if result is None:
        # The scalar fallback handles these years, which Python cannot convert to every zone.
        if _any_starts_with("0001", column) or _any_starts_with("9999", column):
            return None
        result = _if_like(_ZONED, column, utc)
    if result is None:
        plain = _if_like(_UNZONED, column, pa.timestamp(kind.unit))
        if plain is not None and (kind.tz == "UTC" or within(_SAME_CLOCKS, plain)):
            # Arrow raises for a local time that does not exist; the caller then uses the scalar fallback.
            result = pc.assume_timezone(plain, kind.tz, ambiguous="earliest")
    return None if result is None else pc.cast(result, kind)


def _epochs(column: Any, kind: Any, unit: int) -> Any:
    """Return the timestamps of a column of epochs; None if the epochs are not whole numbers of one unit.

    If `unit` is 0, `_UNITS` determines the unit.
    """
    if not len(column) or column.null_count == len(column) or not made_of(b"0123456789", column):
        return None
    if not unit and _any_starts_with("0", column):  # with leading zeros, the length does not show the unit
        return None
    lengths = pc.min_max(pc.binary_length(column)).as_py()
    shortest, longest = lengths["min"], lengths["max"]
    # Minimum and maximum number of digits, and the factor. Numbers of this length, times the factor, fit 64 bits.
    by_size = ((8, 11, 10**6), (12, 14, 10**3), (15, 17, 1))
    for least, most, factor in ((1, 11 + 6 - len(str(unit)) + 1, unit),) if unit else by_size:
        if least <= shortest and longest <= most:
            micros = pc.multiply(pc.cast(pc.cast(column, pa.string()), pa.int64()), factor)
            return pc.cast(micros, kind)
    return None


# -- timestamps as text and JSON --------------------------------------------------------------------------------------

#: Earlier times are written in UTC: offsets had seconds until 1972-01-07 (Africa/Monrovia).
_WHOLE_MINUTES = days_of(1973, 1, 1) * DAY


def _show(column: Any) -> Any:
    return pc.cast(_texts(column), pa.binary())


def _to_json_fast(column: Any) -> Any:
    return pc.binary_join_element_wise('"', _texts(column), '"', "")


def _to_json(kind: Any) -> Write:
    zone = None if kind.tz is None else time_zones.info(kind.tz)
    return lambda micros: f'"{_any_text(micros, zone)}"'


def _texts(column: Any) -> Any:
    """Return the texts of timestamps in ISO 8601. A time with a zone is written in that zone, with its offset."""
    name, numbers = column.type.tz, _micros(column)
    zone = None if name is None else time_zones.info(name)
    if name in (None, time_zones.UTC):
        end = "" if name is None else "Z"
        return texts(
            numbers, _USUAL_MICROS, lambda some: _clock_text(some, end), lambda micros: _any_text(micros, zone)
        )
    return pa.array([None if each is None else _any_text(each, zone) for each in numbers.to_pylist()], pa.string())


def _micros(column: Any) -> Any:
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


def _any_text(micros: int, zone: datetime.tzinfo | None) -> str:
    """Return the text of one time of any year, with or without a zone."""
    if zone is None:
        return local_text(micros)
    offset = offset_at(micros, zone)
    if not offset or micros < _WHOLE_MINUTES:
        return f"{local_text(micros)}Z"
    return local_text(micros + offset) + offset_text(offset)


def _clock_text(micros: Any, end: str) -> Any:
    """Return the texts of local times, with a `T`, without a fraction if it is zero, and followed by `end`.

    Arrow's own conversion of times with a zone to text takes forty times as long.
    """
    text = pc.cast(pc.cast(pc.cast(micros, pa.timestamp("us")), pa.string()), pa.binary())
    text = pc.binary_replace_slice(text, 10, 11, b"T")
    is_whole = pc.equal(pc.subtract(micros, pc.multiply(pc.divide(micros, SECOND), SECOND)), 0)
    text = pc.cast(pc.if_else(is_whole, pc.binary_slice(text, 0, 19), text), pa.string())
    return pc.binary_join_element_wise(text, end, "") if end else text


def _of_json(kind: Any) -> Any:
    read, of_epoch = _reader(kind, None), _reader(kind, 0)
    return lambda value: parsed(read, value) if isinstance(value, str) else parsed(of_epoch, str(number(value)))


TIMESTAMP = ScalarType(
    ids=(pa.timestamp("us").id,),
    spark=("TimestampType", "TimestampNTZType"),
    read=_reader,
    read_fast=_timestamps,
    show=_show,
    from_json=_of_json,
    to_json=_to_json,
    to_json_fast=_to_json_fast,
    json_kind=lambda _: pa.string(),
    stored_kind=pa.int64(),
)
