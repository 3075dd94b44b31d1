"""Text to typed columns, and typed columns to text: what a field's bytes mean as a value of Spark.

`from_text` reads text as Spark's CSV source does, where that has an answer; text that is not of the type becomes null.
`to_text` writes a form that `from_text` turns back into the same value. Both work on whole Arrow arrays. `from_text`
leaves an array to its slow twin, `spark_streams.columns.values_reference`, unless Arrow is sure to agree with it. Knows
nothing of streams, servers or Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_streams.columns import iso8601, times, values_reference
from spark_streams.config import time_zones

_INTEGER = b"0123456789-"
_NUMBER = b"0123456789-+.eE"
_UTC = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$"
_ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-](?:(?:0\d|1[0-7]):?[0-5]\d|18:?00))$"
_UNZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
_WHOLE_MINUTES = 63_072_000_000_000  # 1972, in microseconds
#: From 1970 to 2037, in microseconds. Outside, Arrow's offsets differ from Python's and Java's in some zones.
_SAME_CLOCKS = (0, 2_145_916_800_000_000)
#: From the year 1 to 9999, without the first and the last day: there the years of all zones have four digits.
_USUAL_DAYS = times.days_of(1, 1, 2), times.days_of(9999, 12, 31)
_USUAL_MICROS = _USUAL_DAYS[0] * times.DAY, _USUAL_DAYS[1] * times.DAY
_DECIMAL_DIGITS = 38  # of a 128-bit decimal
_DAY = r"^\d{4}-\d{2}-\d{2}$"
_COMPACT_DAY = r"^(\d{4})(\d{2})(\d{2})$"


def from_text(column: Any, target: Any, epochs: int | None = None) -> Any:
    """The binary array `column` as the type `target`; null where the text is missing or is not of that type.

    A time that names no zone is in the zone of `target`. `epochs`: whether numbers are times, see `epochs_of`.
    """
    if pa.types.is_binary(target):
        return column
    fast = _fast(target, epochs)
    if fast is not None:
        try:
            result = fast(column, target)
        except pa.ArrowInvalid:  # Arrow does not say which value it cannot read; the twin finds out
            result = None
        if result is not None:
            return result
    return values_reference.from_text(column, target, epochs)


def epochs_of(name: str) -> int | None:
    """The microseconds in a timestamp format's unit; 0 if a number's size says it, None if numbers are no times."""
    return {"epoch": 0, "seconds": 10**6, "milliseconds": 10**3, "microseconds": 1}.get(name)


def _fast(target: Any, epochs: int | None) -> Callable[[Any, Any], Any] | None:
    types = pa.types
    if types.is_string(target):
        return lambda column, _: pc.cast(column, pa.string())
    if types.is_signed_integer(target):
        return lambda column, _: _if_made_of(_INTEGER, column, target)
    if types.is_floating(target):
        return lambda column, _: _floats(column, target)
    if types.is_decimal128(target):
        return _decimals
    if types.is_boolean(target):
        return _booleans
    if types.is_date32(target):
        return lambda column, _: _if_like(_DAY, _with_hyphens(column), target)
    if types.is_timestamp(target):
        return lambda column, _: _timestamps(column, target, epochs)
    return None


def _made_of(characters: bytes, column: Any) -> bool:
    """Whether all text consists of these characters only. Arrow also reads other forms, such as hexadecimal numbers."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return True
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    allowed = np.zeros(256, bool)
    allowed[list(characters)] = True
    return bool(allowed[np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]].all())


def _if_made_of(characters: bytes, column: Any, target: Any) -> Any:
    return pc.cast(pc.cast(column, pa.string()), target) if _made_of(characters, column) else None


def _floats(column: Any, target: Any) -> Any:
    doubles = _if_made_of(_NUMBER, column, pa.float64())
    return doubles if doubles is None else pc.cast(doubles, target, safe=False)


def _decimals(column: Any, target: Any) -> Any:
    """Arrow multiplies by the scale without a check for overflow: the twin reads numbers with too many digits."""
    if not _made_of(b"+-.0123456789", column):
        return None
    text = pc.cast(column, pa.string())
    point = pc.find_substring(text, ".")
    before_point = pc.if_else(pc.less(point, 0), pc.binary_length(text), point)
    longest = pc.max(before_point).as_py()
    return pc.cast(text, target) if longest is None or longest <= _DECIMAL_DIGITS - target.scale else None


def _booleans(column: Any, _target: Any) -> Any:
    folded = pc.ascii_lower(pc.cast(column, pa.string()))
    yes, no = pc.equal(folded, "true"), pc.equal(folded, "false")
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


def _if_like(pattern: str, column: Any, target: Any) -> Any:
    text = pc.cast(column, pa.string())
    if not pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py():
        return None
    if _has_year("0000", text):  # Python has no year 0
        return None
    return pc.cast(text, target)


def _with_hyphens(column: Any) -> Any:
    """The texts, with hyphens if all of them are compact days (20130704)."""
    text = pc.cast(column, pa.string())
    if not pc.all(pc.match_substring_regex(text, _COMPACT_DAY), min_count=0).as_py():
        return column
    return pc.cast(pc.replace_substring_regex(text, _COMPACT_DAY, r"\1-\2-\3"), pa.binary())


def _has_year(year: str, text: Any) -> bool:
    return bool(pc.any(pc.starts_with(text, year), min_count=0).as_py())


def _timestamps(column: Any, target: Any, epochs: int | None) -> Any:
    numbers = None if epochs is None else _epochs(column, target, epochs)
    if numbers is not None:
        return numbers
    if target.tz is None:
        return _if_like(_UNZONED, column, target)
    utc = pa.timestamp(target.unit, "UTC")
    result = _if_like(_UTC, column, utc)
    if result is None:
        if any(_has_year(year, column) for year in ("0001", "9999")):  # Python cannot convert these to every zone
            return None
        result = _if_like(_ZONED, column, utc)
    if result is None:
        plain = _if_like(_UNZONED, column, pa.timestamp(target.unit))
        if plain is not None and (target.tz == "UTC" or _within(_SAME_CLOCKS, plain)):
            # Arrow raises for a local time that does not exist; then the twin decides.
            result = pc.assume_timezone(plain, target.tz, ambiguous="earliest")
    return None if result is None else pc.cast(result, target)


def _within(limits: tuple[int, int], numbers: Any) -> bool:
    """Whether all numbers are at or above the first limit and below the second one."""
    found = pc.min_max(pc.cast(numbers, pa.int64())).as_py()
    return found["min"] is None or (limits[0] <= found["min"] and found["max"] < limits[1])


def _epochs(column: Any, target: Any, unit: int) -> Any:
    """The column, if all of it is whole numbers of one unit: `unit`, else see `values_reference._UNITS`."""
    if not len(column) or column.null_count == len(column) or not _made_of(b"0123456789", column):
        return None
    lengths = pc.min_max(pc.binary_length(column)).as_py()
    shortest, longest = lengths["min"], lengths["max"]
    by_size = ((8, 11, 10**6), (12, 14, 10**3), (15, 17, 1))
    for least, most, factor in ((1, 11 + 6 - len(str(unit)) + 1, unit),) if unit else by_size:
        if least <= shortest and longest <= most:
            micros = pc.multiply(pc.cast(pc.cast(column, pa.string()), pa.int64()), factor)
            return pc.cast(micros, target)
    return None


def without(column: Any, text: bytes) -> Any:
    """The binary array with null wherever it has that text."""
    same = pc.equal(column, pa.scalar(text, column.type))
    if not pc.any(same, min_count=0).as_py():
        return column
    return pc.if_else(same, pa.scalar(None, column.type), column)


def to_text(column: Any) -> Any:
    """The column as a binary array of text, null where it is null. TypeError for types that have no text.

    A time with a zone is written in that zone, with its offset.
    """
    kind = column.type
    types = pa.types
    if types.is_dictionary(kind):
        return to_text(column.dictionary_decode())
    if types.is_binary(kind):
        return column
    if types.is_large_binary(kind) or types.is_large_string(kind) or types.is_string(kind):
        return pc.cast(column, pa.binary())
    if types.is_floating(kind):
        return pc.cast(_float_text(column), pa.binary())
    if types.is_timestamp(kind) and kind.tz is not None:
        return pc.cast(_moment_text(column), pa.binary())
    if types.is_decimal(kind):
        return pc.cast(_decimal_text(column), pa.binary())
    if types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    if types.is_time(kind) or types.is_duration(kind):
        show: Callable[[Any], str] = iso8601.show_time if types.is_time(kind) else iso8601.show_interval
        return pa.array([None if value is None else show(value).encode() for value in column.to_pylist()], pa.binary())
    if types.is_date32(kind) and not _within(_USUAL_DAYS, column.cast(pa.int32())):
        return _texts(times.date_text, column.cast(pa.int32()))
    if types.is_timestamp(kind) and not _within(_USUAL_MICROS, column.cast(pa.int64())):
        return _texts(times.local_text, column.cast(pa.int64()))
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind) or types.is_timestamp(kind):
        return pc.cast(pc.cast(column, pa.string()), pa.binary())
    raise TypeError(f"{kind} has no text form")


def _texts(show: Callable[[int], str], numbers: Any) -> Any:
    return pa.array([None if number is None else show(number).encode() for number in numbers.to_pylist()], pa.binary())


def _moment_text(column: Any) -> Any:
    numbers = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    if not _within(_USUAL_MICROS, numbers):
        zone = time_zones.info(column.type.tz)
        return pc.cast(_texts(lambda micros: _any_moment_text(micros, zone), numbers), pa.string())
    utc = pc.cast(column, pa.timestamp("us", "UTC"))
    text = pc.cast(utc, pa.string())
    if column.type.tz == "UTC":
        return text
    # Before 1972 some offsets had seconds, which the text cannot express.
    local = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.string())
    return pc.if_else(pc.less(utc, pa.scalar(_WHOLE_MINUTES, utc.type)), text, local)


def _any_moment_text(micros: int, zone: datetime.tzinfo) -> str:
    """As `_moment_text`, of a time of any year."""
    if zone is datetime.UTC or micros < _WHOLE_MINUTES:
        return f"{times.local_text(micros)}Z"
    offset = times.offset_at(micros, zone)
    return times.local_text(micros + offset) + times.offset_text(offset).replace(":", "")


def _float_text(column: Any) -> Any:
    text = pc.cast(column, pa.string())
    finite = pc.is_finite(column)
    if pc.all(finite, min_count=0).as_py():
        return text
    endless = pc.if_else(pc.greater(column, pa.scalar(0, column.type)), "Infinity", "-Infinity")
    return pc.if_else(finite, text, pc.if_else(pc.is_nan(column), "NaN", endless))


def _decimal_text(column: Any) -> Any:
    text = pc.cast(column, pa.string())
    if not pc.any(pc.match_substring(text, "E"), min_count=0).as_py():
        return text
    return pa.array([None if value is None else format(value, "f") for value in column.to_pylist()], pa.string())
