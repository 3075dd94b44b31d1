"""Conversion of arrays from the types of a schema to the types of columns, and the reverse for writing.

A number fits if no digit is lost, and a time fits if it is in range. Structs are matched by the names of their fields;
missing fields are null. A string is parsed like a field's text. A string column accepts any value except bytes that are
not UTF-8: nested values become JSON, and other values become text.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_streams.columns import json_reference, json_writer, values, variants
from spark_streams.columns.json_reference import Converted
from spark_streams.columns.types.table import is_nested, nullable_offsets
from streamwire.lazy import compute as pc

_WRONG = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_REFUSED = (*_WRONG, TypeError)
_TIMES = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_duration)
_FAMILIES = (
    *[(each, each) for each in (pa.types.is_boolean, *_TIMES)],
    *[
        (number, other)
        for number in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        for other in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    ],
)


def adapted(column: Any, kind: Any) -> Converted:
    """Return the array as the type `kind`, and a boolean array that flags values that do not fit.

    Flagged values become null. The second result is None if all values fit.
    """
    try:
        return as_type(column, kind), None
    except _REFUSED:
        if not can_adapt(column.type, kind):
            return pa.nulls(len(column), kind), pc.is_valid(column) if column.null_count < len(column) else None
    made = _in_halves(column, kind)
    wrong = pc.and_(pc.is_valid(column), pc.is_null(made))
    return made, wrong if pc.any(wrong, min_count=0).as_py() else None


def can_adapt(source: Any, kind: Any) -> bool:
    """Return whether any value of type `source` can fit the type `kind`."""
    try:
        as_type(pa.array([], source), kind)
    except _REFUSED:
        return False
    return True


def _in_halves(column: Any, kind: Any) -> Any:
    """Return the array as the type `kind`, with null in place of values that do not fit.

    The array is bisected into slices without misfits, and each such slice is cast at once.
    """
    if len(column) == 1:
        try:
            return as_type(column, kind)
        except _WRONG:
            return pa.nulls(1, kind)
    middle = len(column) // 2
    parts = []
    for part in (column.slice(0, middle), column.slice(middle)):
        whole = pa.concat_arrays([part, part.slice(0, 0)])  # a copy, so that the part has its own offsets
        try:
            parts.append(as_type(whole, kind))
        except _WRONG:
            parts.append(_in_halves(whole, kind))
    return pa.concat_arrays(parts)


def as_type(column: Any, kind: Any) -> Any:
    """Return the array as the type `kind`.

    Raises ArrowInvalid if a value does not fit, and TypeError if no value of the array's type can fit.
    """
    source, types = column.type, pa.types
    if source == kind:
        return column
    if types.is_null(source) or types.is_null(kind):
        return pa.nulls(len(column), kind)
    if variants.is_variant(kind):
        return _read(json_reference.from_text(pc.cast(json_writer.column(column), pa.binary()), kind))
    if types.is_string(kind):
        return _texts(column)
    if types.is_string(source):
        return (
            _read(json_reference.from_text(pc.cast(column, pa.binary()), kind))
            if is_nested(kind)
            else _parsed(column, kind)
        )
    if types.is_struct(source) and types.is_struct(kind):
        at = {field.name: index for index, field in enumerate(source)}
        inner = [
            as_type(column.field(at[field.name]), field.type) if field.name in at else pa.nulls(len(column), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=pc.is_null(column))
    if types.is_list(source) and types.is_list(kind):
        inner = as_type(column.values, kind.value_type)
        return pa.ListArray.from_arrays(nullable_offsets(column), inner, kind)
    if types.is_map(source) and types.is_map(kind):
        keys, items = as_type(column.keys, kind.key_type), as_type(column.items, kind.item_type)
        return pa.MapArray.from_arrays(nullable_offsets(column), keys, items, kind)
    return _scalars(column, kind)


def _scalars(column: Any, kind: Any) -> Any:
    source, types = column.type, pa.types
    if types.is_binary(source) and types.is_binary(kind):
        return column
    if types.is_integer(source) and types.is_duration(kind):
        return pc.cast(pc.cast(column, pa.int64()), kind)
    if types.is_duration(source) and types.is_integer(kind):
        return pc.cast(pc.cast(column, pa.int64()), kind)
    if (
        is_nested(source)
        or is_nested(kind)
        or not any(is_source(source) and is_target(kind) for is_source, is_target in _FAMILIES)
    ):
        raise TypeError(f"{source} as {kind}")
    if types.is_temporal(kind):
        return pc.cast(column, options=pc.CastOptions(kind, allow_time_truncate=True))
    if types.is_integer(source) and types.is_decimal(kind):
        column = pc.cast(column, pa.decimal128(19, 0))
    return pc.cast(column, kind)


def _texts(column: Any) -> Any:
    if pa.types.is_binary(column.type):
        return pc.cast(column, pa.string())
    return json_writer.column(column) if is_nested(column.type) else pc.cast(values.to_text(column), pa.string())


def _parsed(column: Any, kind: Any) -> Any:
    if pa.types.is_binary(kind):
        return pc.cast(column, kind)
    return _read((values.from_text(pc.cast(column, pa.binary()), kind), None), column)


def _read(found: Converted, column: Any = None) -> Any:
    """Return the converted array. Raises ArrowInvalid if any text was not parsed."""
    made, wrong = found
    if wrong is not None or (column is not None and made.null_count > column.null_count):
        raise pa.ArrowInvalid("a text is not of the type")
    return made
