"""Table of scalar types. To add a type, define its `ScalarType` in this package, and add it to `SCALARS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_streams.columns import variants
from spark_streams.columns.types.durations import INTERVAL, TIME
from spark_streams.columns.types.moments import DATE, TIMESTAMP
from spark_streams.columns.types.numbers import BOOLEAN, DECIMAL, FLOAT, INTEGER, NULL
from spark_streams.columns.types.scalar import ScalarType
from spark_streams.columns.types.strings import BINARY, STRING
from streamwire.lazy import compute as pc

SCALARS = (STRING, BINARY, BOOLEAN, INTEGER, FLOAT, DECIMAL, DATE, TIMESTAMP, TIME, INTERVAL, NULL)
_BY_ID = {number: each for each in SCALARS for number in each.ids}


def scalar(kind: Any) -> ScalarType:
    """Return the record of an Arrow type that is not nested. Raises TypeError if the type has no text form."""
    found = _BY_ID.get(kind.id)
    if found is None:
        raise TypeError(f"{kind} has no text form")
    return found


def is_nested(kind: Any) -> bool:
    """Return whether values of the type are written as JSON in a field."""
    return bool(pa.types.is_list(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind))


def with_scalars(kind: Any, changed: Callable[[Any], Any]) -> Any:
    """Return the type with each scalar type in it replaced by the result of `changed`. Variants are not changed."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_scalars(kind.value_type, changed)))
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(with_scalars(kind.key_type, changed))
        return pa.map_(key, kind.item_field.with_type(with_scalars(kind.item_type, changed)))
    if variants.is_variant(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_scalars(field.type, changed)) for field in kind])
    return changed(kind)


_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.null(): pa.string()}


def nullable(kind: Any) -> Any:
    """Return the type with all fields nullable, because Arrow cannot cast a null struct whose fields are not; with
    32-bit offsets in place of Spark's `useLargeVarTypes`; and without nulls as a type, because Arrow casts parts of a
    list of them to invalid arrays.
    """
    types = pa.types
    if types.is_list(kind):
        return pa.list_(_nullable_field(kind.value_field))
    if types.is_map(kind):
        return pa.map_(kind.key_field.with_type(nullable(kind.key_type)), _nullable_field(kind.item_field))
    if types.is_struct(kind):
        return pa.struct([_nullable_field(field) for field in kind])
    return _PLAIN.get(kind, kind)


def _nullable_field(field: Any) -> Any:
    return field.with_type(nullable(field.type)).with_nullable(True)


def retyped(column: Any, kind: Any) -> Any:
    """Return the array as a type that differs only in zones and in nullability.

    Unlike Arrow's cast, this keeps nulls in fields that are not nullable, e.g. of a null variant.
    """
    types = pa.types
    if column.type == kind:
        return column
    if types.is_struct(kind):
        parts = [retyped(column.field(at), field.type) for at, field in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if types.is_list(kind):
        return pa.ListArray.from_arrays(nullable_offsets(column), retyped(column.values, kind.value_type), kind)
    if types.is_map(kind):
        keys, items = retyped(column.keys, kind.key_type), retyped(column.items, kind.item_type)
        return pa.MapArray.from_arrays(nullable_offsets(column), keys, items, kind)
    return column.cast(kind)


def nullable_offsets(column: Any) -> Any:
    """Return the offsets of a list or map array; an offset is null if its value is null."""
    if not column.null_count:
        return column.offsets
    nulls = pa.concat_arrays([column.is_null(), pa.array([False])])
    return pc.if_else(nulls, pa.scalar(None, pa.int32()), column.offsets)
