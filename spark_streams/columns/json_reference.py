"""JSON to typed columns: nested values in one field, and whole rows in one field.

A JSON value becomes a value of its column's type as Spark's JSON source would have it: numbers stay numbers, a string
column takes the text of whatever is not a string, times are strings or epochs, binary is base64, members that are
missing are null. What does not fit makes the whole value null, and the caller is told. Knows nothing of streams.

This is the slow, obvious way, a value at a time, which defines what a text means; `spark_streams.columns.json_values`
must agree with it wherever it answers at all.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from spark_streams.columns import values_reference

Convert = Callable[[Any], Any]
Read = tuple[Any, Any]
"""A column, null where a text is missing, empty or wrong; and where one is wrong (None: nowhere)."""

_WRONG = (ValueError, TypeError, ArithmeticError, RecursionError)
_DIGITS = 4000  # Python refuses to make integers of many more


def is_nested(kind: Any) -> bool:
    """Whether a field's text must be JSON to be of this type."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_struct(kind) or types.is_map(kind))


def from_text(column: Any, target: Any) -> Read:
    """The texts as `target`, null where they are missing, empty or wrong; and where they are wrong, if anywhere."""
    convert = converter(target)
    found: list[Any] = []
    wrong: list[bool] = []
    for text in column.to_pylist():
        try:
            found.append(convert(load(text)) if text else None)
            wrong.append(False)
        except _WRONG:
            found.append(None)
            wrong.append(True)
    return pa.array(found, target), pa.array(wrong) if any(wrong) else None


def members(column: Any, kinds: Mapping[str, Any]) -> dict[str, Read]:
    """The members of these names and types of the object that each text is; wrong where there is no object."""
    converters = {name: converter(kind) for name, kind in kinds.items()}
    found: dict[str, list[Any]] = {name: [] for name in kinds}
    wrong: dict[str, list[bool]] = {name: [] for name in kinds}
    for text in column.to_pylist():
        row = _object(text)
        for name, convert in converters.items():
            value, is_wrong = None, row is None
            try:
                value = None if row is None else convert(row.get(name))
            except _WRONG:
                is_wrong = True
            found[name].append(value)
            wrong[name].append(is_wrong)
    return {
        name: (pa.array(found[name], kind), pa.array(wrong[name]) if any(wrong[name]) else None)
        for name, kind in kinds.items()
    }


def _object(text: bytes | None) -> dict[str, Any] | None:
    """The object that a text is; None if it is none."""
    try:
        row = load(text) if text else {}
    except _WRONG:
        return None
    return row if isinstance(row, dict) else None


def load(text: bytes) -> Any:
    """The JSON value of a text. Numbers with a fraction are decimals, so that none of their digits is lost."""
    return json.loads(text.decode("utf-8"), parse_float=decimal.Decimal, parse_int=_whole)


def _whole(text: str) -> int | decimal.Decimal:
    return int(text) if len(text) < _DIGITS else decimal.Decimal(text)


def converter(target: Any) -> Convert:
    """What makes a value of `target` of a JSON value; it raises ValueError or TypeError where it cannot."""
    inner = _converter(target)
    return lambda value: None if value is None else inner(value)


def _converter(target: Any) -> Convert:
    types = pa.types
    if types.is_list(target):
        element = converter(target.value_type)
        return lambda value: [element(one) for one in _of(list, value)]
    if types.is_struct(target):
        fields = [(field.name, converter(field.type)) for field in target]
        return lambda value: {name: convert(_of(dict, value).get(name)) for name, convert in fields}
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
        return lambda value: _parsed(target, value if isinstance(value, str) else str(_number(value)))
    raise TypeError(f"{target} cannot be read from JSON")


def _text(value: str) -> str:
    value.encode()  # half of a surrogate pair is no text, and a ValueError
    return value


def _key_converter(target: Any) -> Convert:
    """JSON's names are strings: those of a map whose keys are not are their text, as a field's would be."""
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return converter(target)
    return lambda name: _parsed(target, name)


def dump(value: Any) -> str:
    """The JSON text of a value."""
    return json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":"))


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


def _parsed(target: Any, text: str) -> Any:
    (found,) = values_reference.from_text(pa.array([text.encode()], pa.binary()), target).to_pylist()
    return _refuse(text) if found is None else found
