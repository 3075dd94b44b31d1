"""Conversion of JSON to typed columns, one value at a time. A field contains a nested value or a whole row as JSON.

Conversion follows Spark's JSON source: numbers stay numbers, a string column gets the JSON text of other values, times
are strings or epochs, binary is Base64, missing members are null. A member of a struct that does not fit becomes null,
and so does a list or a map with an item that does not fit at all. The value that contains it is reported as malformed.

This is the scalar fallback for `spark_streams.columns.json_values`. Both modules must return the same results, which
this module defines.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from spark_streams.columns import connect_types, variants
from spark_streams.columns.types.scalar import of, parsed
from spark_streams.columns.types.strings import Number, exact
from spark_streams.columns.types.table import scalar
from streamclient.formats.bounds import is_deep
from streamclient.formats.schemas import UndecodableError

Convert = Callable[[Any], Any]
#: A column, which is null for missing, empty and malformed texts; and a boolean array that flags malformed texts, or
#: None if no text is malformed.
Converted = tuple[Any, Any]

#: Maximum nesting of a JSON text. The functions of this module are recursive, with one call for each level.
MOST_LEVELS = 400

_WRONG = (ValueError, TypeError, ArithmeticError, RecursionError)
_DIGITS = 4000  # texts of this length or more become decimals, because Python's int refuses more than 4,300 digits


class _PartError(Exception):
    """Raised for a value of which only some members fit; the others are null in `value`."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def from_text(column: Any, target: Any, schema: connect_types.Schema | None = None) -> Converted:
    """Return the JSON texts as values of the type `target`. `schema`: see `converter`."""
    convert = converter(target, schema)
    # A variant can represent JSON null itself.
    read = (
        (lambda text: variants.from_json(text.decode()))
        if variants.is_variant(target)
        else lambda text: convert(load(text))
    )
    found = [_fitting(read, text) if text else (None, False) for text in column.to_pylist()]
    return _converted(found, target)


def members(column: Any, kinds: Mapping[str, Any], schema: connect_types.Schema | None = None) -> dict[str, Converted]:
    """Return one column for each member in `kinds`, which has the members' types by name.

    An empty text has no members. Any other text that is not a JSON object is malformed. `schema`: see `converter`.
    """
    converters = {name: converter(kind, connect_types.member(schema, name)) for name, kind in kinds.items()}
    found: dict[str, list[tuple[Any, bool]]] = {name: [] for name in kinds}
    for text in column.to_pylist():
        row = object_in(text)
        for name, convert in converters.items():
            found[name].append((None, True) if row is None else _member(row, name, convert))
    return {name: _converted(found[name], kind) for name, kind in kinds.items()}


def _converted(found: list[tuple[Any, bool]], kind: Any) -> Converted:
    wrong = [is_wrong for _, is_wrong in found]
    return pa.array([value for value, _ in found], kind), pa.array(wrong) if any(wrong) else None


def _fitting(convert: Convert, value: Any) -> tuple[Any, bool]:
    """Return the part of a value that fits, null if none does, and whether another part does not fit."""
    try:
        return convert(value), False
    except _PartError as part:
        return part.value, True
    except _WRONG:
        return None, True


def object_in(text: bytes | None) -> dict[str, Any] | None:
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
    row = object_in(text)
    if row is None:
        raise UndecodableError("it is not a JSON object")
    return {name: exact(value) for name, value in row.items()}


def load(text: bytes) -> Any:
    """Return the text's JSON value. Numbers with a fraction are decimals, so that no digit is lost.

    Raises ValueError if the text is not JSON, or is nested in more than `MOST_LEVELS` levels, and RecursionError if it
    is nested even deeper.
    """
    found = json.loads(text.decode("utf-8"), parse_float=Number, parse_int=_whole)
    if text.count(b"[") + text.count(b"{") > MOST_LEVELS and is_deep(found, MOST_LEVELS):
        raise ValueError(f"it is nested in more than {MOST_LEVELS} levels")
    return found


def _whole(text: str) -> int | decimal.Decimal:
    return int(text) if len(text) < _DIGITS else decimal.Decimal(text)


def converter(target: Any, schema: connect_types.Schema | None = None) -> Convert:
    """Return a function from JSON values to values of the type `target`. It raises `_PartError` if only some members
    fit, and one of `_WRONG` if nothing fits.

    `schema`: Kafka Connect's schema of the values; empty if it is unknown, and None if they are not from Connect.
    """
    inner = _converter(target, schema)
    if variants.is_variant(target):
        return inner  # a variant represents null itself
    return lambda value: None if value is None else inner(value)


def _member(row: dict[str, Any], name: str, convert: Convert) -> tuple[Any, bool]:
    """Return the result of `_fitting` for a member; null if it is missing."""
    return _fitting(convert, row[name]) if name in row else (None, False)


def _converter(target: Any, schema: connect_types.Schema | None) -> Convert:
    types = pa.types
    if variants.is_variant(target):
        return lambda value: variants.from_json(exact(value))
    if types.is_list(target):
        element = converter(target.value_type, connect_types.items(schema))
        return lambda value: _items(of(list, value), element)
    if types.is_struct(target):
        fields = [(field.name, converter(field.type, connect_types.member(schema, field.name))) for field in target]
        return lambda value: _struct(of(dict, value), fields)
    if types.is_map(target):
        key, item = _key_converter(target.key_type), converter(target.item_type, connect_types.items(schema))
        return lambda value: _pairs(of(dict, value), key, item)
    return scalar(target).from_json(target) if schema is None else connect_types.converter(target, schema)


def _struct(row: dict[str, Any], fields: list[tuple[str, Convert]]) -> dict[str, Any]:
    found = {name: _member(row, name, convert) for name, convert in fields}
    made = {name: value for name, (value, _) in found.items()}
    if any(is_wrong for _, is_wrong in found.values()):
        raise _PartError(made)
    return made


def _items(values: Iterable[Any], convert: Convert) -> list[Any]:
    made, is_wrong = [], False
    for value in values:
        try:
            made.append(convert(value))
        except _PartError as part:
            made.append(part.value)
            is_wrong = True
    if is_wrong:
        raise _PartError(made)
    return made


def _pairs(row: dict[str, Any], key: Convert, item: Convert) -> list[tuple[Any, Any]]:
    names = [key(name) for name in row]
    try:
        return list(zip(names, _items(row.values(), item), strict=True))
    except _PartError as part:
        raise _PartError(list(zip(names, part.value, strict=True))) from part


def _key_converter(target: Any) -> Convert:
    """Return a function from member names to map keys. Keys that are not strings are parsed like a field's text."""
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return converter(target)
    read = scalar(target).read(target, None)
    return lambda name: parsed(read, name)
