"""Integers, floating-point numbers, decimals, booleans, and the type of columns that have only nulls.

Texts are read as in Spark's CSV source, which allows blanks around floating-point numbers. In addition, `nan` and
`inf` are read in upper or lower case.
"""

from __future__ import annotations

import decimal
import math
import re
from typing import Any

import pyarrow as pa

from spark_streams.columns.types.scalar import (
    ScalarType,
    arrow_text,
    as_is,
    if_made_of,
    made_of,
    of,
    parsed,
    refuse,
)
from streamwire.lazy import compute as pc

#: Blanks and control characters that may surround a text.
AROUND = "".join(map(chr, range(0x21)))

# -- integers ---------------------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+")


def _integer(text: str, bits: int) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _integer_from_json(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(value)
    return value


def _integers_from_page(page: Any, name: bytes, kind: Any) -> Any:
    return _cast(page.integers(name), kind, safe=True)


def _cast(numbers: Any, kind: Any, *, safe: bool) -> Any:
    try:
        return numbers if numbers is None or numbers.type == kind else pc.cast(numbers, kind, safe=safe)
    except pa.ArrowInvalid:  # a number is too large for the type; the caller parses the texts one by one
        return None


INTEGER = ScalarType(
    ids=tuple(kind.id for kind in (pa.int64(), pa.int32(), pa.int16(), pa.int8())),
    spark=("LongType", "IntegerType", "ShortType", "ByteType"),
    read=lambda kind, _epochs: lambda text: _integer(text, kind.bit_width),
    read_fast=lambda column, kind, _epochs: if_made_of(b"0123456789-", column, kind),
    show=arrow_text,
    from_json=lambda kind: lambda value: _integer_from_json(value, kind.bit_width),
    to_json=lambda _: str,
    to_json_fast=lambda column: pc.cast(column, pa.string()),
    json_kind=as_is,
    from_page=_integers_from_page,
)

# -- floating-point numbers -------------------------------------------------------------------------------------------

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DOUBLE = re.compile(rf"({NUMBER.pattern})[dDfF]?")
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
_ENDLESS_IN_JSON = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf, "+infinity": math.inf}


def _float(text: str) -> float | None:
    text = text.strip(AROUND)
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


def _floats(column: Any, kind: Any, _epochs: int | None) -> Any:
    doubles = if_made_of(b"0123456789-+.eE", column, pa.float64())
    return doubles if doubles is None else pc.cast(doubles, kind, safe=False)


def _show_floats(column: Any) -> Any:
    text = pc.cast(column, pa.string())
    finite = pc.is_finite(column)
    if not pc.all(finite, min_count=0).as_py():
        endless = pc.if_else(pc.greater(column, pa.scalar(0, column.type)), "Infinity", "-Infinity")
        text = pc.if_else(finite, text, pc.if_else(pc.is_nan(column), "NaN", endless))
    return pc.cast(text, pa.binary())


def number(value: Any) -> int | decimal.Decimal:
    """Return the JSON value, a number; numbers with a fraction are decimals. Raises TypeError for other values."""
    if isinstance(value, bool) or not isinstance(value, (int, decimal.Decimal)):
        raise TypeError(value)
    return value


def _float_from_json(value: Any) -> float:
    if isinstance(value, float):
        return value  # Python's JSON parser accepts NaN and Infinity
    if isinstance(value, str):
        return _ENDLESS_IN_JSON[value.lower()] if value.lower() in _ENDLESS_IN_JSON else refuse(value)
    return float(number(value))


def float_to_json(value: float) -> str:
    """Return the number as JSON. NaN and infinities become strings."""
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _float32_to_json(value: float) -> str:
    if not math.isfinite(value):
        return float_to_json(value)
    return float_to_json(value) if value == 0 else str(pc.cast(pa.scalar(value, pa.float32()), pa.string()))


FLOAT = ScalarType(
    ids=(pa.float64().id, pa.float32().id),
    spark=("DoubleType", "FloatType"),
    read=lambda _kind, _epochs: _float,
    read_fast=_floats,
    show=_show_floats,
    from_json=lambda _: _float_from_json,
    to_json=lambda kind: _float32_to_json if kind == pa.float32() else float_to_json,
    json_kind=lambda _: pa.float64(),  # converted to a double first and then rounded, as in the scalar fallback
    from_page=lambda page, name, kind: _cast(page.floats(name), kind, safe=False),
)

# -- decimals ---------------------------------------------------------------------------------------------------------

_DIGITS = 38  # maximum digits of a 128-bit decimal


def _decimal(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    text = text.replace(",", "")  # as Spark's CSV source does
    if not NUMBER.fullmatch(text):
        return None
    with decimal.localcontext(prec=100):
        value = decimal.Decimal(text)
        if value and value.adjusted() >= precision - scale:
            return None
        if value.adjusted() < -scale - 1:
            value = decimal.Decimal(0)  # too small for the scale
        rounded = value.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP)
    if not rounded.is_finite() or (rounded and rounded.adjusted() >= precision - scale):
        return None
    return rounded


def _decimals(column: Any, kind: Any, _epochs: int | None) -> Any:
    """Return the decimals. Returns None for numbers with too many digits, because Arrow scales without checking for
    overflow.
    """
    if not made_of(b"+-.0123456789", column):
        return None
    text = pc.cast(column, pa.string())
    point = pc.find_substring(text, ".")
    before_point = pc.if_else(pc.less(point, 0), pc.binary_length(text), point)
    longest = pc.max(before_point).as_py()
    return pc.cast(text, kind) if longest is None or longest <= _DIGITS - kind.scale else None


def _show_decimals(column: Any) -> Any:
    text = pc.cast(column, pa.string())
    if pc.any(pc.match_substring(text, "E"), min_count=0).as_py():
        values = column.to_pylist()
        text = pa.array([None if value is None else decimal_to_json(value) for value in values], pa.string())
    return pc.cast(text, pa.binary())


def _decimal_reader(kind: Any, _epochs: int | None = None) -> Any:
    return lambda text: _decimal(text, kind.precision, kind.scale)


def decimal_to_json(value: decimal.Decimal) -> str:
    """Return the number with all its digits."""
    return format(value, "f")


DECIMAL = ScalarType(
    ids=(pa.decimal128(1).id,),
    spark=("DecimalType",),
    read=_decimal_reader,
    read_fast=_decimals,
    show=_show_decimals,
    from_json=lambda kind: (
        lambda value: parsed(_decimal_reader(kind), value if isinstance(value, str) else str(number(value)))
    ),
    to_json=lambda _: decimal_to_json,
)

# -- booleans and nulls -----------------------------------------------------------------------------------------------


def _booleans(column: Any, _kind: Any, _epochs: int | None) -> Any:
    folded = pc.ascii_lower(pc.cast(column, pa.string()))
    yes, no = pc.equal(folded, "true"), pc.equal(folded, "false")
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


BOOLEAN = ScalarType(
    ids=(pa.bool_().id,),
    spark=("BooleanType",),
    read=lambda _kind, _epochs: lambda text: {"true": True, "false": False}.get(text.lower()),
    read_fast=_booleans,
    show=arrow_text,
    from_json=lambda _: lambda value: of(bool, value),
    to_json=lambda _: lambda value: "true" if value else "false",
    to_json_fast=lambda column: pc.cast(column, pa.string()),
    json_kind=as_is,
)
NULL = ScalarType(
    ids=(pa.null().id,),
    spark=("NullType",),
    read=lambda _kind, _epochs: lambda _: None,
    show=lambda column: pa.nulls(len(column), pa.binary()),
    from_json=lambda _: lambda _: None,
    to_json=lambda _: lambda _: "null",
)
