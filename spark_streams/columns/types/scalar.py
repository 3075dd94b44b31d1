"""Scalar types: the record of one type, and helpers that several types share."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
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


def mixed(numbers: Any, limits: tuple[int, int], fast: Callable[[Any], Any], slow: Callable[[int], str]) -> Any:
    """Return the texts of numbers.

    `fast` converts the whole array, and `slow` converts each number outside the limits.
    """
    if within(limits, numbers):
        return fast(numbers)
    outside = pc.fill_null(pc.or_(pc.less(numbers, limits[0]), pc.greater_equal(numbers, limits[1])), False)
    texts = fast(pc.if_else(outside, pa.scalar(0, numbers.type), numbers))
    return pc.replace_with_mask(texts, outside, pa.array(map(slow, numbers.filter(outside).to_pylist()), pa.string()))


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
