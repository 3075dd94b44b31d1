"""JSON to typed columns, a value at a time: nested values in one field, and whole rows in one field.

A JSON value becomes a value of its column's type as in Spark's JSON source: numbers stay numbers, a string column takes
the JSON text of other values, times are strings or epochs, binary is Base64, missing members are null. If any part does
not fit, the whole value is null and reported as wrong. Knows nothing of streams.

This is the slow, obvious twin, which defines what a text means; `spark_streams.columns.json_values` must give the same.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from spark_streams.columns import values_reference, variants

Convert = Callable[[Any], Any]
Converted = tuple[Any, Any]
"""A column, null where a text is missing, empty or wrong; and a boolean array of where it is wrong (None: nowhere)."""

_WRONG = (ValueError, TypeError, ArithmeticError, RecursionError)
_DIGITS = 4000  # Python refuses to make integers of many more


def is_nested(kind: Any) -> bool:
    """Whether a field's text must be JSON to be of this type."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_struct(kind) or types.is_map(kind))


def from_text(column: Any, target: Any) -> Converted:
    """The texts as values of the type `target`."""
    convert = converter(target)
    # A variant has a null of its own.
    read = (
        (lambda text: variants.from_json(text.decode()))
        if variants.is_variant(target)
        else lambda text: convert(load(text))
    )
    found: list[Any] = []
    wrong: list[bool] = []
    for text in column.to_pylist():
        try:
            found.append(read(text) if text else None)
            wrong.append(False)
        except _WRONG:
            found.append(None)
            wrong.append(True)
    return pa.array(found, target), pa.array(wrong) if any(wrong) else None


def members(column: Any, kinds: Mapping[str, Any]) -> dict[str, Converted]:
    """Columns of the members with these names and types; each text is a JSON object, otherwise it is wrong."""
    converters = {name: converter(kind) for name, kind in kinds.items()}
    found: dict[str, list[Any]] = {name: [] for name in kinds}
    wrong: dict[str, list[bool]] = {name: [] for name in kinds}
    for text in column.to_pylist():
        row = _object(text)
        for name, convert in converters.items():
            value, is_wrong = None, row is None
            try:
                value = None if row is None else _member(row, name, convert)
            except _WRONG:
                is_wrong = True
            found[name].append(value)
            wrong[name].append(is_wrong)
    return {
        name: (pa.array(found[name], kind), pa.array(wrong[name]) if any(wrong[name]) else None)
        for name, kind in kinds.items()
    }


def _object(text: bytes | None) -> dict[str, Any] | None:
    """The text's JSON object; None if it is not one."""
    try:
        row = load(text) if text else {}
    except _WRONG:
        return None
    return row if isinstance(row, dict) else None


class _Written(decimal.Decimal):
    """A number that knows how it was written: 1.5e-05 is a double to a variant, 0.000015 a decimal."""

    text: str

    def __new__(cls, text: str) -> _Written:
        number = super().__new__(cls, text)
        number.text = text
        return number


def load(text: bytes) -> Any:
    """The text's JSON value. Numbers with a fraction are decimals, so no digit is lost. ValueError if it is no JSON."""
    return json.loads(text.decode("utf-8"), parse_float=_Written, parse_int=_whole)


def _whole(text: str) -> int | decimal.Decimal:
    return int(text) if len(text) < _DIGITS else decimal.Decimal(text)


def converter(target: Any) -> Convert:
    """A function from JSON values to values of the type `target`; it raises ValueError or TypeError for misfits."""
    inner = _converter(target)
    if variants.is_variant(target):
        return inner  # it has a null of its own
    return lambda value: None if value is None else inner(value)


def _member(row: dict[str, Any], name: str, convert: Convert) -> Any:
    """The value of a member; None if it is missing."""
    return convert(row[name]) if name in row else None


def _converter(target: Any) -> Convert:
    types = pa.types
    if variants.is_variant(target):
        return lambda value: variants.from_json(_exact(value))
    if types.is_list(target):
        element = converter(target.value_type)
        return lambda value: [element(one) for one in _of(list, value)]
    if types.is_struct(target):
        fields = [(field.name, converter(field.type)) for field in target]
        return lambda value: {name: _member(_of(dict, value), name, convert) for name, convert in fields}
    if types.is_map(target):
        key, item = _key_converter(target.key_type), converter(target.item_type)
        return lambda value: [(key(name), item(one)) for name, one in _of(dict, value).items()]
    if types.is_string(target):
        return lambda value: _text(value if isinstance(value, str) else dump(value))
    if types.is_boolean(target):
        return lambda value: _of(bool, value)
    if types.is_binary(target):
        return lambda value: base64.b64decode(_of(str, value), validate=True)
    if types.is_signed_integer(target):
        return lambda value: _integer(value, target.bit_width)
    if types.is_floating(target):
        return _float
    if types.is_decimal(target):
        return lambda value: _parsed(target, str(_number(value)))
    if types.is_timestamp(target) or types.is_date(target):
        return lambda value: _parsed(target, value) if isinstance(value, str) else _epoch(target, _number(value))
    if types.is_time(target) or types.is_duration(target):
        return lambda value: _parsed(target, _of(str, value))
    if types.is_null(target):
        return lambda _: None
    raise TypeError(f"{target} cannot be read from JSON")


def _text(value: str) -> str:
    value.encode()  # raises a ValueError for half of a surrogate pair
    return value


def _key_converter(target: Any) -> Convert:
    """JSON's names are strings; keys of another type are read from their text, as a field is."""
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return converter(target)
    return lambda name: _parsed(target, name)


def dump(value: Any) -> str:
    """The JSON text of a value."""
    return json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":"))


def _exact(value: Any) -> str:
    """As `dump`, with numbers as they were written."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{dump(name)}:{_exact(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    if isinstance(value, _Written):
        return value.text
    return str(value) if isinstance(value, decimal.Decimal) else dump(value)


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return float(value)
    raise TypeError(value)


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def _number(value: Any) -> int | decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, decimal.Decimal)):
        raise TypeError(value)
    return value


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(value)
    return value


def _float(value: Any) -> float:
    if isinstance(value, float):
        return value  # Python's JSON reads NaN and Infinity as such
    if isinstance(value, str):
        named = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf, "+infinity": math.inf}
        return named[value.lower()] if value.lower() in named else _refuse(value)
    return float(_number(value))


def _refuse(value: Any) -> Any:
    raise ValueError(value)


def _epoch(target: Any, number: int | decimal.Decimal) -> Any:
    """The time that a JSON number means: a year, or an epoch whose size says the unit."""
    return _parsed(target, str(number), epochs=0)


def _parsed(target: Any, text: str, epochs: int | None = None) -> Any:
    found = values_reference.read_one(text, target, epochs)
    return _refuse(text) if found is None else found
