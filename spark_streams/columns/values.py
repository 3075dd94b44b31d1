"""Text to typed columns, and typed columns to text: what a field's bytes mean as a value of Spark.

`from_text` reads text as Spark's CSV source does, if that defines it; text that is not of the type becomes null.
`to_text` writes a form that `from_text` turns back into the same value. Both work on whole Arrow arrays. `from_text`
leaves an array to its slow twin, `from_text_slowly`, unless Arrow is sure to agree with it. What a type's texts are is
said in `spark_streams.columns.types`. Knows nothing of streams, servers or Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_streams.columns.types.scalar import reading
from spark_streams.columns.types.table import scalar


def from_text(column: Any, target: Any, epochs: int | None = None) -> Any:
    """Return the binary array `column` as the type `target`; null where the text is missing or is not of that type.

    A time that names no zone is in the zone of `target`. `epochs`: whether numbers are times, see `moments.epochs_of`.
    """
    fast = scalar(target).read_fast
    if fast is not None:
        try:
            result = fast(column, target, epochs)
        except pa.ArrowInvalid:  # Arrow does not say which value it cannot read; the twin finds out
            result = None
        if result is not None:
            return result
    return from_text_slowly(column, target, epochs)


def from_text_slowly(column: Any, target: Any, epochs: int | None = None) -> Any:
    """Return the same, one value at a time: it defines what a text means."""
    if pa.types.is_binary(target):
        return column
    read = scalar(target).read(target, epochs)
    return pa.array([None if value is None else reading(read, value) for value in column.to_pylist()], target)


def without(column: Any, text: bytes) -> Any:
    """The binary array with null wherever it has that text."""
    same = pc.equal(column, pa.scalar(text, column.type))
    if not pc.any(same, min_count=0).as_py():
        return column
    return pc.if_else(same, pa.scalar(None, column.type), column)


def to_text(column: Any) -> Any:
    """Return the column as a binary array of text, null for null. TypeError for types that have no text.

    A time with a zone is written in that zone, with its offset.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return scalar(column.type).show(column)
