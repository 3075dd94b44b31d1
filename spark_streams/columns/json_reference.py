"""JSON to typed columns, a value at a time: nested values in one field, and whole rows in one field.

A JSON value becomes a value of its column's type as in Spark's JSON source: numbers stay numbers, a string column takes
the JSON text of other values, times are strings or epochs, binary is Base64, missing members are null. If any part does
not fit, the whole value is null and reported as wrong. Knows nothing of streams.

This is the slow, obvious twin, which defines what a text means; `spark_streams.columns.json_values` must give the same.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from spark_streams.columns import variants
from spark_streams.columns.types.scalar import of, parsed
from spark_streams.columns.types.strings import dump
from spark_streams.columns.types.table import scalar

Convert = Callable[[Any], Any]
#: A column, null for missing, empty and malformed texts; and a boolean array of the malformed ones (None: none).
Converted = tuple[Any, Any]

_WRONG = (ValueError, TypeError, ArithmeticError, RecursionError)
_DIGITS = 4000  # Python refuses to make integers of many more


def from_text(column: Any, target: Any) -> Converted:
    """Return the texts as values of the type `target`."""
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
    """Return the text's JSON object; None if it is not one."""
    try:
        row = load(text) if text else {}
    except _WRONG:
        return None
    return row if isinstance(row, dict) else None


def member_texts(text: bytes) -> dict[str, str] | None:
    """Return the members of a JSON object as they were written; None if the text is not one."""
    row = _object(text)
    return None if row is None else {name: _exact(value) for name, value in row.items()}


class _Written(decimal.Decimal):
    """A number that knows how it was written: 1.5e-05 is a double to a variant, 0.000015 a decimal."""

    text: str

    def __new__(cls, text: str) -> _Written:
        number = super().__new__(cls, text)
        number.text = text
        return number


def load(text: bytes) -> Any:
    """Return the text's JSON value. Numbers with a fraction are decimals, so no digit is lost. ValueError if it is no
    JSON.
    """
    return json.loads(text.decode("utf-8"), parse_float=_Written, parse_int=_whole)


def _whole(text: str) -> int | decimal.Decimal:
    return int(text) if len(text) < _DIGITS else decimal.Decimal(text)


def converter(target: Any) -> Convert:
    """Return a function from JSON values to values of the type `target`; it raises ValueError or TypeError
    for misfits.
    """
    inner = _converter(target)
    if variants.is_variant(target):
        return inner  # it has a null of its own
    return lambda value: None if value is None else inner(value)


def _member(row: dict[str, Any], name: str, convert: Convert) -> Any:
    """Return the value of a member; None if it is missing."""
    return convert(row[name]) if name in row else None


def _converter(target: Any) -> Convert:
    types = pa.types
    if variants.is_variant(target):
        return lambda value: variants.from_json(_exact(value))
    if types.is_list(target):
        element = converter(target.value_type)
        return lambda value: [element(one) for one in of(list, value)]
    if types.is_struct(target):
        fields = [(field.name, converter(field.type)) for field in target]
        return lambda value: {name: _member(of(dict, value), name, convert) for name, convert in fields}
    if types.is_map(target):
        key, item = _key_converter(target.key_type), converter(target.item_type)
        return lambda value: [(key(name), item(one)) for name, one in of(dict, value).items()]
    return scalar(target).from_json(target)


def _key_converter(target: Any) -> Convert:
    """JSON's names are strings; keys of another type are read from their text, as a field is."""
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return converter(target)
    read = scalar(target).read(target, None)
    return lambda name: parsed(read, name)


def _exact(value: Any) -> str:
    """As `dump`, with numbers as they were written."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{dump(name)}:{_exact(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    if isinstance(value, _Written):
        return value.text
    return str(value) if isinstance(value, decimal.Decimal) else dump(value)
