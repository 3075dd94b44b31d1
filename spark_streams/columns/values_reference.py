"""The slow, obvious twin of `spark_streams.columns.values.from_text`: one Python value at a time.

It defines what a text means; the fast way must give the same values.
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

from spark_streams.columns import iso8601
from spark_streams.config import time_zones

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ENDLESS = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}
_DAY = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ].*)?)?)?", re.DOTALL)
_COMPACT_DAY = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:[T ].*)?", re.DOTALL)
_ZONE = r" ?(Z|(?:UTC|GMT)?[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Za-z][A-Za-z0-9_+/-]*)?"
_MOMENT = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?)?" + _ZONE + ")?)?"
)
_COMPACT_MOMENT = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})(?:[T ]([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?" + _ZONE + ")?"
)
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
    if _NUMBER.fullmatch(text):
        return float(text)
    return _ENDLESS.get(text.lower())


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


def _date(text: str) -> datetime.date | None:
    found = _DAY.fullmatch(text) or _COMPACT_DAY.fullmatch(text)
    return datetime.date(*(int(part or 1) for part in found.groups())) if found else None


def _moment(text: str, default: datetime.tzinfo, epochs: int | None) -> datetime.datetime | None:
    if _is_epoch(text, epochs):
        return _epoch(text, epochs)
    parsed = _parts(text)
    if parsed is None:
        return None
    moment, zone = parsed
    if zone is None:
        return moment.replace(tzinfo=default).astimezone(datetime.UTC)
    if zone == "Z":
        return moment.replace(tzinfo=datetime.UTC)
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return moment.replace(tzinfo=zoneinfo.ZoneInfo(zone)).astimezone(datetime.UTC)
    offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return (moment - (-offset if found[1] == "-" else offset)).replace(tzinfo=datetime.UTC)


_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")


def _is_epoch(text: str, epochs: int | None) -> bool:
    return epochs is not None and bool((_NUMBER_OF_UNITS if epochs else _EPOCH).fullmatch(text))


def _epoch(text: str, epochs: int | None) -> datetime.datetime:
    with decimal.localcontext(prec=100):
        number = decimal.Decimal(text)
        factor = epochs or next(factor for below, factor in _UNITS if abs(number) < below)
        micros = int((number * factor).to_integral_value(decimal.ROUND_FLOOR))
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=micros)


def _local_moment(text: str, epochs: int | None) -> datetime.datetime | None:
    if _is_epoch(text, epochs):
        return _epoch(text, epochs).replace(tzinfo=None)
    parsed = _parts(text)
    return parsed[0] if parsed is not None and parsed[1] is None else None


def _parts(text: str) -> tuple[datetime.datetime, Any] | None:
    found = _MOMENT.fullmatch(text) or _COMPACT_MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    moment = datetime.datetime(int(year), int(month or 1), int(day or 1))  # noqa: DTZ001 - the zone is the caller's to apply
    clock = datetime.time(int(hour or 0), int(minute or 0), int(second or 0), micros)
    return datetime.datetime.combine(moment, clock), zone
