"""Scalar types: the record of one type, and what the families share: texts of numbers, tests of whole arrays."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: A text as a value that `pyarrow.array` takes. None, ValueError or ArithmeticError if the text is not of the type.
Read = Callable[[str], Any]
#: A value, as `to_pylist` gives it, as JSON text.
Write = Callable[[Any], str]


@dataclass(frozen=True, kw_only=True)
class ScalarType:
    """One scalar type of columns. `kind` is always the Arrow type.

    Every `..._fast` works on whole arrays, and declines with None what it is not sure to do as its slow twin does.
    """

    #: Arrow's ids of its types.
    ids: tuple[int, ...]
    #: Names of Spark's types; those that a release of Spark does not have are left out.
    spark: tuple[str, ...]
    #: From the type and the microseconds of an epoch's unit (`epochs_of`): what a text means.
    read: Callable[[Any, int | None], Read]
    #: The same of a binary array, its type and the unit. May raise ArrowInvalid, to decline.
    read_fast: Callable[[Any, Any, int | None], Any] | None = None
    #: The column as a binary array of texts that `read` turns back.
    show: Callable[[Any], Any]
    #: From the type: what a value of JSON means. Raises ValueError or TypeError for misfits.
    from_json: Callable[[Any], Callable[[Any], Any]]
    #: From the type: the JSON text of a value, or of the integer if there is a `stored_kind`.
    to_json: Callable[[Any], Write]
    #: The column as JSON texts.
    to_json_fast: Callable[[Any], Any] | None = None
    #: The type as which Arrow's JSON parser reads it: a cast or `read_fast` does the rest. None: it cannot.
    json_kind: Callable[[Any], Any] | None = None
    #: The Arrow type of integers that stands for it in lists; None if Python's types have all its values.
    stored_kind: Any = None
    #: Whether an empty text is null, as in Spark's CSV source.
    empty_is_null: bool = True
    #: From a page, a field's name and the type: the column, without making texts of it first.
    from_page: Callable[[Any, bytes, Any], Any] | None = None


def as_is(kind: Any) -> Any:
    return kind


def made_of(characters: bytes, column: Any) -> bool:
    """Return whether all text consists of these characters only. Arrow also reads other forms, such as hexadecimal
    numbers.
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
    """Return whether all numbers are at or above the first limit and below the second one."""
    found = pc.min_max(pc.cast(numbers, pa.int64())).as_py()
    return found["min"] is None or (limits[0] <= found["min"] and found["max"] < limits[1])


def mixed(numbers: Any, limits: tuple[int, int], fast: Callable[[Any], Any], slow: Callable[[int], str]) -> Any:
    """Return the texts of numbers: by `fast`, of the whole array, within the limits, by `slow` of the few outside."""
    if within(limits, numbers):
        return fast(numbers)
    outside = pc.fill_null(pc.or_(pc.less(numbers, limits[0]), pc.greater_equal(numbers, limits[1])), False)
    texts = fast(pc.if_else(outside, pa.scalar(0, numbers.type), numbers))
    return pc.replace_with_mask(texts, outside, pa.array(map(slow, numbers.filter(outside).to_pylist()), pa.string()))


def shown(show: Callable[[Any], str], column: Any) -> Any:
    """Return the values as a binary array of texts, one at a time."""
    return pa.array([None if value is None else show(value).encode() for value in column.to_pylist()], pa.binary())


def arrow_text(column: Any) -> Any:
    """Return the column as Arrow shows it, a binary array."""
    return pc.cast(pc.cast(column, pa.string()), pa.binary())


def of(kind: type, value: Any) -> Any:
    """Return the JSON value, if it is of that type of Python's. Raises TypeError."""
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def refuse(value: Any) -> Any:
    raise ValueError(value)


def parsed(read: Read, text: str) -> Any:
    """Return the value of a text in JSON. Raises ValueError if it is not of the type."""
    found = reading(read, text.encode("utf-8", "surrogatepass"))
    return refuse(text) if found is None else found


def reading(read: Read, text: bytes) -> Any:
    """Return the value of a text; None if it is not of the type."""
    try:
        return read(text.decode("utf-8"))
    except (ValueError, ArithmeticError, OSError, zoneinfo.ZoneInfoNotFoundError):  # UnicodeDecodeError is a ValueError
        return None
