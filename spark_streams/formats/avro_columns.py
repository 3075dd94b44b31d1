"""Fast conversion of many Avro records to columns. Its scalar fallback is `fastavro`.

All records are decoded in parallel, field by field, each from its own offset. Only records with plain fields are
supported: numbers, booleans, texts, bytes and enums, each with or without null. Every step moves the offsets forward.
The result is used only if each record ends exactly at the end of its value, which also proves that no step has read
past a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.formats.avro_types import AvroType

_PADDING = 16  # maximum number of bytes that a step reads after the last value
_LONGEST = 10  # maximum number of bytes of an integer


@dataclass(frozen=True)
class PlainField:
    """A plain field. `null`: index of null in the field's union; None if the field is not a union."""

    name: str
    kind: str
    null: int | None
    arrow: Any
    symbols: tuple[str, ...] = ()


def plain_fields(record: Any, types: dict[str, AvroType]) -> tuple[PlainField, ...] | None:
    """Return the fields of a record; None if one of them is not plain."""
    found = []
    for field in record["fields"]:
        kind, null = field["type"], None
        if isinstance(kind, list):
            if len(kind) != 2 or "null" not in kind:
                return None
            null = kind.index("null")
            kind = kind[1 - null]
        symbols: tuple[str, ...] = ()
        if isinstance(kind, dict):
            if kind.get("logicalType") == "decimal":
                return None
            symbols = tuple(kind.get("symbols", ()))
            kind = kind["type"]
        if kind not in _READERS:
            return None
        found.append(PlainField(field["name"], kind, null, types[field["name"]].arrow, symbols))
    return tuple(found)


def columns(values: Any, skipped: int, fields: tuple[PlainField, ...], names: set[str]) -> dict[str, Any] | None:
    """Return the fields `names` of the records in `values`; None if only the fallback can decode the records.

    `values`: a binary array without nulls. `skipped`: number of bytes before each record.
    """
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    octets = np.concatenate([np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]], np.zeros(_PADDING, np.uint8)])
    bounds -= bounds[0]
    walk = _Walk(octets, bounds[:-1] + skipped, bounds[1:])
    found: dict[str, Any] = {}
    for field in fields:
        try:
            column = _column(walk, field, is_needed=field.name in names)
        except (_DeclinedError, pa.ArrowInvalid):
            return None
        if column is not None:
            found[field.name] = column
    return found if np.array_equal(walk.at, walk.ends) else None


class _DeclinedError(Exception):
    """A value that only the fallback can decode."""


class _Walk:
    """Current offset and end of each record."""

    def __init__(self, octets: Any, at: Any, ends: Any) -> None:
        self.octets = octets
        self.at = at
        self.ends = ends

    def numbers(self, rows: Any) -> Any:
        """Decode the next integer of each of these rows as int64, and advance their offsets."""
        at = self.at[rows]
        octets = self.octets[at]
        made = (octets & 127).astype(np.uint64)
        at += 1
        left = np.flatnonzero(octets > 127)
        for shift in range(7, 7 * _LONGEST, 7):
            if not len(left):
                break
            octets = self.octets[at[left]]
            if shift == 7 * (_LONGEST - 1) and np.any(octets > 1):
                raise _DeclinedError
            made[left] |= (octets & 127).astype(np.uint64) << np.uint64(shift)
            at[left] += 1
            left = left[octets > 127]
        self.move(rows, at)
        return (made >> np.uint64(1)).astype(np.int64) ^ -(made & np.uint64(1)).astype(np.int64)

    def move(self, rows: Any, at: Any) -> None:
        """Set the offsets of these rows. Raises _DeclinedError if an offset is after its record's end."""
        if np.any(at > self.ends[rows]):
            raise _DeclinedError
        self.at[rows] = at

    def read(self, rows: Any, size: int) -> Any:
        """Return the next `size` bytes of each of these rows, and advance their offsets."""
        at = self.at[rows]
        self.move(rows, at + size)
        return self.octets[at[:, None] + np.arange(size)]


def _column(walk: _Walk, field: PlainField, *, is_needed: bool) -> Any:
    """Decode the next field of all records, and advance.

    Returns the field's values as an array; None if the field is not needed.
    """
    everywhere = np.arange(len(walk.at))
    rows, nulls = everywhere, None
    if field.null is not None:
        branches = walk.read(everywhere, 1)[:, 0]
        nulls = branches == 2 * field.null
        if np.any(branches[~nulls] != 2 * (1 - field.null)):
            raise _DeclinedError
        rows = np.flatnonzero(~nulls)
    made = _READERS[field.kind](walk, rows, field)
    if not is_needed:
        return None
    if nulls is None or not nulls.any():
        return made
    indexes = np.cumsum(~nulls) - 1
    return made.take(pa.array(indexes, pa.int64(), mask=nulls))


def _integers(walk: _Walk, rows: Any, field: PlainField) -> Any:
    found = walk.numbers(rows)
    if field.kind == "long":
        return pa.array(found).view(field.arrow)
    if len(found) and (found.min() < -(2**31) or found.max() >= 2**31):
        raise _DeclinedError
    return pa.array(found.astype(np.int32)).view(field.arrow)


def _symbols(walk: _Walk, rows: Any, field: PlainField) -> Any:
    found = walk.numbers(rows)
    if len(found) and (found.min() < 0 or found.max() >= len(field.symbols)):
        raise _DeclinedError
    return pa.array(field.symbols, pa.string()).take(pa.array(found))


def _booleans(walk: _Walk, rows: Any, _: PlainField) -> Any:
    found = walk.read(rows, 1)[:, 0]
    if np.any(found > 1):
        raise _DeclinedError
    return pa.array(found.astype(bool))


def _floats(walk: _Walk, rows: Any, field: PlainField) -> Any:
    kind = np.dtype("<f4" if field.kind == "float" else "<f8")
    return pa.array(np.ascontiguousarray(walk.read(rows, kind.itemsize)).view(kind)[:, 0])


def _texts(walk: _Walk, rows: Any, field: PlainField) -> Any:
    sizes = walk.numbers(rows)
    starts = walk.at[rows]
    if np.any(sizes < 0) or np.any(sizes > walk.ends[rows] - starts):
        raise _DeclinedError
    walk.move(rows, starts + sizes)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    positions = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(walk.octets[positions])]
    made = pa.BinaryArray.from_buffers(pa.binary(), len(sizes), buffers)
    return made if field.kind == "bytes" else made.cast(pa.string())  # the cast raises if a text is not UTF-8


_READERS = {
    "boolean": _booleans,
    "int": _integers,
    "long": _integers,
    "float": _floats,
    "double": _floats,
    "string": _texts,
    "bytes": _texts,
    "enum": _symbols,
}
