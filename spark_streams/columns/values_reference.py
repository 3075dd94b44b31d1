"""The slow, obvious twin of `spark_streams.columns.values.from_text`: one Python value at a time.

It defines what a text means; the fast way must give the same values. Dates, times and intervals are integers here, as
Arrow stores them (`spark_streams.columns.times`), since Python's own types do not have all that Spark has.

Texts mean what they mean to Spark's CSV source, including blanks around numbers with a fraction, dates and times. On
top of that, `nan` and `inf` are read in any case, compact days (20130704) and, if asked for, epochs.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_streams.columns import iso8601, times
from spark_streams.config import time_zones

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DOUBLE = re.compile(rf"({_NUMBER.pattern})[dDfF]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,9})[dDfF]?")
_ENDLESS = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}
_AROUND = "".join(map(chr, range(0x21)))  # blanks and control characters, which may stand around a text
_YEAR = r"([+-]?[0-9]{4,7})"
_DAY = re.compile(rf"{_YEAR}(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[T ].*)?)?)?", re.DOTALL)
_COMPACT_DAY = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:[T ].*)?", re.DOTALL)
_ZONE = r" ?(Z|(?:UTC|GMT)?[+-][0-9]{1,2}(?::?[0-9]{2}(?::?[0-9]{2})?)?|[A-Za-z][A-Za-z0-9_+/-]*)?"
_MOMENT = re.compile(
    rf"{_YEAR}(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})"
    r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?)?" + _ZONE + ")?)?"
)
_COMPACT_MOMENT = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})(?:[T ]([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?" + _ZONE + ")?"
)
_LONGEST_OFFSET = 18 * 3600 * times.SECOND
_NUMBER_OF_UNITS = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]+)?")
_EPOCH = re.compile(r"-?[0-9]{8,18}(?:\.[0-9]+)?")
_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**18, 1))
"""Units of epochs, as (limit, factor): a number below the limit, times the factor, is microseconds. So numbers below
10^11 are seconds, below 10^14 milliseconds, others microseconds. Texts of fewer than eight digits are years."""
_Read = Callable[[str], Any]


def from_text(column: Any, target: Any, epochs: int | None = None) -> Any:
    """See `spark_streams.columns.values.from_text`."""
    if pa.types.is_binary(target):
        return column
    read = _reader(target, epochs)
    return pa.array([None if value is None else _read(read, value) for value in column.to_pylist()], target)


def read_one(text: str, target: Any, epochs: int | None = None) -> Any:
    """Return the value of one text, as `pyarrow.array` takes it for the type `target`; None if it is not one."""
    return _read(_reader(target, epochs), text.encode("utf-8", "surrogatepass"))


def _read(read: _Read, value: bytes) -> Any:
    try:
        return read(value.decode("utf-8"))
    except (ValueError, ArithmeticError, OSError, zoneinfo.ZoneInfoNotFoundError):  # UnicodeDecodeError is a ValueError
        return None


def _reader(target: Any, epochs: int | None) -> _Read:
    types = pa.types
    if types.is_string(target):
        return str
    if types.is_signed_integer(target):
        return lambda text: _integer(text, target.bit_width)
    if types.is_float64(target):
        return _float
    if types.is_float32(target):
        return _float
    if types.is_decimal128(target):
        return lambda text: _decimal(text, target.precision, target.scale)
    if types.is_boolean(target):
        return lambda text: {"true": True, "false": False}.get(text.lower())
    if types.is_date32(target):
        return _date
    if types.is_timestamp(target):
        if target.tz is None:
            return lambda text: _local_moment(text, epochs)
        zone = time_zones.info(target.tz)
        return lambda text: _moment(text, zone, epochs)
    if types.is_time64(target):
        return iso8601.read_time
    if types.is_duration(target):
        return iso8601.read_interval
    if types.is_null(target):
        return lambda _: None
    raise TypeError(f"{target} cannot be read from text")


def _integer(text: str, bits: int) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _float(text: str) -> float | None:
    text = text.strip(_AROUND)
    found = _DOUBLE.fullmatch(text)
    if found is not None:
        return float(found[1])
    found = _HEXADECIMAL.fullmatch(text)
    if found is None:
        return _ENDLESS.get(text.lower())
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _decimal(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    text = text.replace(",", "")  # as Spark's CSV source does
    if not _NUMBER.fullmatch(text):
        return None
    with decimal.localcontext(prec=100):
        number = decimal.Decimal(text)
        if number and number.adjusted() >= precision - scale:
            return None
        if number.adjusted() < -scale - 1:
            number = decimal.Decimal(0)  # far below what is kept
        rounded = number.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP)
    if not rounded.is_finite() or (rounded and rounded.adjusted() >= precision - scale):
        return None
    return rounded


def _date(text: str) -> int | None:
    text = text.strip(_AROUND)
    found = _DAY.fullmatch(text) or _COMPACT_DAY.fullmatch(text)
    return times.days_of(*(int(part or 1) for part in found.groups())) if found else None


def _moment(text: str, default: datetime.tzinfo, epochs: int | None) -> int | None:
    text = text.strip(_AROUND)
    if _is_epoch(text, epochs):
        return _epoch(text, epochs)
    parsed = _parts(text)
    if parsed is None:
        return None
    local, zone = parsed
    if zone is None:
        return times.checked(times.to_utc(local, default))
    if zone == "Z":
        return times.checked(local)
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return times.checked(times.to_utc(local, zoneinfo.ZoneInfo(zone)))
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    offset = (hours * 3600 + minutes * 60 + seconds) * times.SECOND
    if minutes > 59 or seconds > 59 or offset > _LONGEST_OFFSET:
        return None
    return times.checked(local + offset if found[1] == "-" else local - offset)


_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")


def _is_epoch(text: str, epochs: int | None) -> bool:
    return epochs is not None and bool((_NUMBER_OF_UNITS if epochs else _EPOCH).fullmatch(text))


def _epoch(text: str, epochs: int | None) -> int:
    with decimal.localcontext(prec=100):
        number = decimal.Decimal(text)
        factor = epochs or next(factor for below, factor in _UNITS if abs(number) < below)
        return times.checked(int((number * factor).to_integral_value(decimal.ROUND_FLOOR)))


def _local_moment(text: str, epochs: int | None) -> int | None:
    text = text.strip(_AROUND)
    if _is_epoch(text, epochs):
        return _epoch(text, epochs)
    parsed = _parts(text)
    return times.checked(parsed[0]) if parsed is not None and parsed[1] is None else None


def _parts(text: str) -> tuple[int, str | None] | None:
    """Return the local time in microseconds, and the zone; None if the text is not a time."""
    found = _MOMENT.fullmatch(text) or _COMPACT_MOMENT.fullmatch(text)
    if found is None:
        return None
    *date, hour, minute, second, fraction, zone = found.groups()
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = int((fraction or "0").ljust(6, "0")[:6])
    days = times.days_of(*(int(part or 1) for part in date))
    return days * times.DAY + (hours * 3600 + minutes * 60 + seconds) * times.SECOND + micros, zone
