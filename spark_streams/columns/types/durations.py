"""Times of day and day-time intervals as ISO 8601 text: `12:30:00.5`, `P1DT2H30M0.5S`.

As in Java's `Duration`, an interval may be negative as a whole (`-PT1H`) or in its parts (`PT-1H`).
"""

from __future__ import annotations

import datetime
import re

import pyarrow as pa

from spark_streams.columns.types.scalar import ScalarType, of, parsed, shown

_TIME = re.compile(r"T?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?")
_PART = r"([+-]?[0-9]{1,15})"
_INTERVAL = re.compile(
    rf"([+-]?)P(?=[0-9T+-])(?:{_PART}W)?(?:{_PART}D)?"
    rf"(?:T(?=[0-9+-])(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}(?:[.,]([0-9]{{1,9}}))?S)?)?",
    re.IGNORECASE,
)
_MICRO = datetime.timedelta(microseconds=1)
#: A week, a day, an hour, a minute and a second in microseconds.
_UNITS = (604_800_000_000, 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)
_LARGEST = 2**63  # exclusive upper limit of an interval, in microseconds


def read_time(text: str) -> datetime.time | None:
    """Return the time of day; None if the text is not a time of day. Digits below a microsecond are dropped."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour, minute, second, fraction = found.groups()
    return datetime.time(int(hour), int(minute), int(second or 0), _micros(fraction))


def read_interval(text: str) -> int | None:
    """Return the interval in microseconds; None if the text is not an interval.

    Digits below a microsecond are dropped.
    """
    found = _INTERVAL.fullmatch(text)
    if found is None:
        return None
    sign, *parts, fraction = found.groups()
    total = sum(int(part) * unit for part, unit in zip(parts, _UNITS, strict=True) if part is not None)
    seconds = parts[-1]
    total += _micros(fraction) * (-1 if seconds is not None and seconds.startswith("-") else 1)
    total = -total if sign == "-" else total
    return total if -_LARGEST <= total < _LARGEST else None


def _micros(fraction: str | None) -> int:
    return int((fraction or "0").ljust(6, "0")[:6])


def show_time(value: datetime.time) -> str:
    """Return the text of a time of day, without trailing zeros in its fraction."""
    text = value.isoformat()
    return text.rstrip("0") if "." in text else text


def show_interval(value: datetime.timedelta) -> str:
    """Return the text of an interval, without units that are zero."""
    micros = value // _MICRO
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    days, micros = divmod(micros, _UNITS[1])
    hours, micros = divmod(micros, _UNITS[2])
    minutes, micros = divmod(micros, _UNITS[3])
    seconds, micros = divmod(micros, _UNITS[4])
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
