"""Scalar types: the record of one type, helpers that several types share, and all types but times.

Any text is a string, and JSON represents binary as Base64. Numbers are read as in Spark's CSV source, which allows
blanks around floating-point numbers. In addition, `nan` and `inf` are read in upper or lower case.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
import re
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamwire.lazy import compute as pc

#: Converts a text to a value for `pyarrow.array`. Returns None or raises ValueError or ArithmeticError if the text is
#: not of the type.
Read = Callable[[str], Any]
#: Converts a value, as returned by `to_pylist`, to JSON text.
Write = Callable[[Any], str]


@dataclass(frozen=True, kw_only=True)
class ScalarType:
    """One scalar type of columns.

    Each `..._fast` function converts whole arrays. It returns None if the result might differ from the result of its
    scalar fallback.
    """

    #: IDs of its Arrow types.
    ids: tuple[int, ...]
    #: Names of its Spark types. Names that a Spark release does not have are ignored.
    spark: tuple[str, ...]
    #: Returns the function that reads a text, given the type and the unit of epochs (`epochs_of`).
    read: Callable[[Any, int | None], Read]
    #: Reads a binary array of texts, given the type and the unit. May raise ArrowInvalid instead of returning None.
    read_fast: Callable[[Any, Any, int | None], Any] | None = None
    #: Returns the column as a binary array of texts, the inverse of `read`.
    show: Callable[[Any], Any]
    #: Returns the function that converts a JSON value to the type. It raises ValueError or TypeError for misfits.
    from_json: Callable[[Any], Callable[[Any], Any]]
    #: Returns the function that converts a value to JSON text. With a `stored_kind`, the function gets the integer.
    to_json: Callable[[Any], Write]
    #: Returns the column as JSON texts.
    to_json_fast: Callable[[Any], Any] | None = None
    #: Returns the type that Arrow's JSON parser produces, which a cast or `read_fast` converts to this type; None if
    #: there is no such type.
    json_kind: Callable[[Any], Any] | None = None
    #: Arrow type of the integers that represent its values in Python; None if Python's own types can represent all of
    #: them.
    stored_kind: Any = None
    #: Whether an empty text is null, as in Spark's CSV source.
    empty_is_null: bool = True
    #: Returns the column of a page without creating texts first. The arguments are the field's name and the type.
    from_page: Callable[[Any, bytes, Any], Any] | None = None


def as_is(kind: Any) -> Any:
    return kind


def made_of(characters: bytes, column: Any) -> bool:
    """Return whether all texts consist only of these characters.

    Callers thus exclude forms that only Arrow reads, such as hexadecimal integers.
    """
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return True
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    allowed = np.zeros(256, bool)
    allowed[list(characters)] = True
    return bool(allowed[np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]].all())


def if_made_of(characters: bytes, column: Any, target: Any) -> Any:
    return pc.cast(pc.cast(column, pa.string()), target) if made_of(characters, column) else None


def within(limits: tuple[int, int], numbers: Any) -> bool:
    """Return whether all numbers are in [first limit, second limit)."""
    found = pc.min_max(pc.cast(numbers, pa.int64())).as_py()
    return found["min"] is None or (limits[0] <= found["min"] and found["max"] < limits[1])


def texts(numbers: Any, limits: tuple[int, int], fast: Callable[[Any], Any], slow: Callable[[int], str]) -> Any:
    """Return the texts of numbers, converted by `fast` as a whole, or each by `slow` if one exceeds the limits."""
    if within(limits, numbers):
        return fast(numbers)
    return pa.array([None if each is None else slow(each) for each in numbers.to_pylist()], pa.string())


def shown(show: Callable[[Any], str], column: Any) -> Any:
    """Return a binary array of the values' texts, converted one at a time by `show`."""
    return pa.array([None if value is None else show(value).encode() for value in column.to_pylist()], pa.binary())


def arrow_text(column: Any) -> Any:
    """Return a binary array of the values in Arrow's text form."""
    return pc.cast(pc.cast(column, pa.string()), pa.binary())


def of(kind: type, value: Any) -> Any:
    """Return the JSON value. Raises TypeError if it is not of this Python type."""
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def refuse(value: Any) -> Any:
    raise ValueError(value)


def parsed(read: Read, text: str) -> Any:
    """Return the value of a JSON string. Raises ValueError if the text is not of the type."""
    found = reading(read, text.encode("utf-8", "surrogatepass"))
    return refuse(text) if found is None else found


def reading(read: Read, text: bytes) -> Any:
    """Return the value of a text; None if it is not of the type."""
    try:
        return read(text.decode("utf-8"))
    except (ValueError, ArithmeticError, OSError, zoneinfo.ZoneInfoNotFoundError):  # UnicodeDecodeError is a ValueError
        return None


# -- strings and binary -----------------------------------------------------------------------------------------------

_PLAIN = r'^[^"\\\x00-\x1f\x7f]*$'


class Number(decimal.Decimal):
    """A number with its original text, since a variant stores 1.5e-05 as a double and 0.000015 as a decimal."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def dump(value: Any) -> str:
    """Return the JSON text of a value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def exact(value: Any) -> str:
    """Return the JSON text of a value that was read from JSON, with the original text of numbers.

    NaN and infinities become strings. A surrogate without its pair, which is not text, is written as an escape.
    """
    return _exact(value).encode("utf-8", "backslashreplace").decode()


def _exact(value: Any) -> str:
    # One call for each level: with one more for a generator, deeply nested values would exceed Python's limit.
    if isinstance(value, dict):
        return f"{{{','.join(map('{}:{}'.format, map(quoted, value), map(_exact, value.values())))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    if isinstance(value, Number):
        return value.text
    if isinstance(value, float):
        return float_to_json(value)
    return str(value) if isinstance(value, decimal.Decimal) else dump(value)


def quoted(value: str) -> str:
    """Return the text as a JSON string."""
    return json.dumps(value, ensure_ascii=False)


def json_object(texts: Mapping[str, str]) -> str:
    """Return a JSON object of these members. Their values are JSON texts."""
    return f"{{{','.join(f'{quoted(name)}:{text}' for name, text in texts.items())}}}"


def _from_json(value: Any) -> str:
    """Return the text of a string, with "?" for a surrogate without its pair, or the JSON text of another value."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else exact(value)


def _to_json_fast(column: Any) -> Any:
    if not pc.all(pc.match_substring_regex(column, _PLAIN), min_count=0).as_py():
        return None
    return pc.binary_join_element_wise('"', column, '"', "")


def as_base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


STRING = ScalarType(
    ids=(pa.string().id,),
    spark=("StringType",),
    read=lambda _kind, _epochs: str,
    read_fast=lambda column, _kind, _epochs: pc.cast(column, pa.string()),
    show=lambda column: pc.cast(column, pa.binary()),
    from_json=lambda _: _from_json,
    to_json=lambda _: quoted,
    to_json_fast=_to_json_fast,
    json_kind=as_is,
    empty_is_null=False,
)
BINARY = ScalarType(
    ids=(pa.binary().id,),
    spark=("BinaryType",),
    read=lambda _kind, _epochs: lambda text: text.encode(),
    read_fast=lambda column, _kind, _epochs: column,
    show=lambda column: pc.cast(column, pa.binary()),
    from_json=lambda _: lambda value: base64.b64decode(of(str, value), validate=True),
    to_json=lambda _: as_base64,
    empty_is_null=False,
)


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
