"""Conversion of JSON to typed columns, one value at a time. A field contains a nested value or a whole row as JSON.

Conversion follows Spark's JSON source: numbers stay numbers, a string column gets the JSON text of other values, times
are strings or epochs, binary is Base64, missing members are null. If any part of a value does not fit, the whole value
becomes null and is reported as malformed.

This is the scalar fallback for `spark_streams.columns.json_values`. Both modules must return the same results, which
this module defines.
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
from streamclient.formats.schemas import UndecodableError

Convert = Callable[[Any], Any]
#: A column, which is null for missing, empty and malformed texts; and a boolean array that flags malformed texts, or
#: None if no text is malformed.
Converted = tuple[Any, Any]

_WRONG = (ValueError, TypeError, ArithmeticError, RecursionError)
_DIGITS = 4000  # texts of this length or more become decimals, because Python's int refuses more than 4,300 digits


def from_text(column: Any, target: Any) -> Converted:
    """Return the JSON texts as values of the type `target`."""
    convert = converter(target)
    # A variant can represent JSON null itself.
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
    """Return one column for each member in `kinds`, which has the members' types by name.

    An empty text has no members. Any other text that is not a JSON object is malformed.
    """
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
    """Return the JSON object in the text; {} if the text is missing or empty, and None if it is not a JSON object."""
    try:
        row = load(text) if text else {}
    except _WRONG:
        return None
    return row if isinstance(row, dict) else None


def member_texts(text: bytes) -> dict[str, str]:
    """Return each member of a JSON object as JSON text, with the original text of numbers.

    Raises UndecodableError if the text is not a JSON object.
    """
    row = _object(text)
    if row is None:
        raise UndecodableError("it is not a JSON object")
    return {name: _exact(value) for name, value in row.items()}


class _Written(decimal.Decimal):
    """A number with its original text, since a variant stores 1.5e-05 as a double and 0.000015 as a decimal."""

    text: str

    def __new__(cls, text: str) -> _Written:
        number = super().__new__(cls, text)
        number.text = text
        return number


def load(text: bytes) -> Any:
    """Return the text's JSON value. Numbers with a fraction are decimals, so that no digit is lost.

    Raises ValueError if the text is not JSON.
    """
    return json.loads(text.decode("utf-8"), parse_float=_Written, parse_int=_whole)


def _whole(text: str) -> int | decimal.Decimal:
    return int(text) if len(text) < _DIGITS else decimal.Decimal(text)


def converter(target: Any) -> Convert:
    """Return a function from JSON values to values of the type `target`; it raises one of `_WRONG`
    for misfits.
    """
    inner = _converter(target)
    if variants.is_variant(target):
        return inner  # a variant represents null itself
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
        return lambda value: [element(member) for member in of(list, value)]
    if types.is_struct(target):
        fields = [(field.name, converter(field.type)) for field in target]
        return lambda value: {name: _member(of(dict, value), name, convert) for name, convert in fields}
    if types.is_map(target):
        key, item = _key_converter(target.key_type), converter(target.item_type)
        return lambda value: [(key(name), item(member)) for name, member in of(dict, value).items()]
    return scalar(target).from_json(target)


def _key_converter(target: Any) -> Convert:
    """Return a function from member names to map keys. Keys that are not strings are parsed like a field's text."""
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return converter(target)
    read = scalar(target).read(target, None)
    return lambda name: parsed(read, name)


def _exact(value: Any) -> str:
    """Like `dump`, but numbers keep their original text."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{dump(name)}:{_exact(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    if isinstance(value, _Written):
        return value.text
    return str(value) if isinstance(value, decimal.Decimal) else dump(value)
