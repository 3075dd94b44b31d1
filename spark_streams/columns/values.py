"""Conversion of text to typed columns, and of typed columns to text.

`from_text` reads text as Spark's CSV source does; text that is not of the type becomes null. `to_text` returns text
that `from_text` converts back to the same value. Both convert whole Arrow arrays. `from_text` uses Arrow if the result
certainly equals the result of the scalar fallback, `from_text_slowly`; otherwise it uses the fallback.
`spark_streams.columns.types` defines the text form of each type.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_streams.columns.types.scalar import reading
from spark_streams.columns.types.table import scalar
from streamwire.lazy import compute as pc


def from_text(column: Any, target: Any, epochs: int | None = None) -> Any:
    """Return the binary array `column` as the type `target`; null if a text is missing or is not of the type.

    A time without a zone is in the zone of `target`. `epochs`: unit of times that are numbers, see `moments.epochs_of`.
    """
    fast = scalar(target).read_fast
    if fast is not None:
        try:
            result = fast(column, target, epochs)
        except pa.ArrowInvalid:  # the error does not identify the value; the fallback finds it
            result = None
        if result is not None:
            return result
    return from_text_slowly(column, target, epochs)


def from_text_slowly(column: Any, target: Any, epochs: int | None = None) -> Any:
    """Return the result of `from_text`, converting one value at a time. This is the definition of the text forms."""
    if pa.types.is_binary(target):
        return column
    read = scalar(target).read(target, epochs)
    return pa.array([None if value is None else reading(read, value) for value in column.to_pylist()], target)


def without(column: Any, text: bytes) -> Any:
    """Return the binary array with this text replaced by null."""
    same = pc.equal(column, pa.scalar(text, column.type))
    if not pc.any(same, min_count=0).as_py():
        return column
    return pc.if_else(same, pa.scalar(None, column.type), column)


def to_text(column: Any) -> Any:
    """Return the column as a binary array of text, null for null. Raises TypeError for types without a text form.

    A time with a zone is written in that zone, with its offset.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return scalar(column.type).show(column)
