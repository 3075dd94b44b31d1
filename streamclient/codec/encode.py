"""Encoding of Arrow columns as XADD commands: one buffer for all rows, without a Python object per value.

If no value is missing, the commands are copies of templates (`streamwire.templates`); otherwise Arrow joins the parts
of each command. Does not depend on sockets or Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamwire.entry_batch import Values
from streamwire.lazy import compute as pc
from streamwire.templates import Templates

#: A field's name, and a binary array of its values. Null means that the entry does not have the field.
Column = tuple[bytes, Any]

_FEWEST_ROWS = 64  # minimum number of rows for templates; with fewer rows, joining is as fast
_MOST_LENGTHS = 64  # maximum number of distinct lengths of a column's values, for templates
_MOST_BYTES = 2**31 - 1  # maximum size of an Arrow array with 32-bit offsets
_LENGTH_BYTES = 16  # maximum size of the digits of a value's length, and of the line ends around the value


def encode_adds(
    key: bytes,
    ids: Any | None,
    columns: Sequence[Column],
    fields: tuple[Any, Any, Any] | None,
    rows: int,
) -> Any:
    """Return one XADD command per row: a binary array whose elements are contiguous in its data buffer.

    `ids`: a binary array, null for `*`; None for `*` in all rows. `columns`: the fields that are the same in all rows.
    `fields`: the fields that differ by row (`rows + 1` int32 offsets, names, values without nulls). The result is null
    for a row without fields: the caller must refuse it.
    """
    if fields is None and columns:
        stamped = _stamped(key, ids, columns, rows)
        if stamped is not None:
            return stamped
    present: NDArray[np.int64] = np.zeros(rows, np.int64)
    pieces: list[Any] = []
    for name, values in columns:
        lengths = _decimal_text(pc.binary_length(values))
        piece = _join([_bytes(_bulk(name) + b"$"), lengths, _bytes(b"\r\n"), values, _bytes(b"\r\n")])
        if values.null_count:
            present += np.asarray(values.is_valid())
            piece = pc.fill_null(piece, b"")
        else:
            present += 1
        pieces.append(piece)
    if fields is not None:
        offsets, names, values = fields
        pairs = _join([*_bulks(names), *_bulks(values)])
        pieces.append(pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), b""))
        present += np.diff(np.asarray(offsets))

    if rows and np.all(present == present[0]):
        head: list[Any] = [_bytes(b"*%d\r\n$4\r\nXADD\r\n" % (3 + 2 * int(present[0])))]
    else:
        number = _decimal_text(pa.array(3 + 2 * present))
        head = [_bytes(b"*"), number, _bytes(b"\r\n$4\r\nXADD\r\n")]
    if ids is None:
        head.append(_bytes(_bulk(key) + _bulk(b"*")))
    else:
        head += [_bytes(_bulk(key)), *_bulks(pc.fill_null(ids, b"*"))]
    commands = _join(head + pieces, rows)
    empty = present == 0
    if empty.any():
        return pc.if_else(pa.array(empty), pa.scalar(None, pa.binary()), commands)
    return commands


def _stamped(key: bytes, ids: Any | None, columns: Sequence[Column], rows: int) -> Any:
    """Return the commands made from templates.

    Return None if a value or an ID is missing, if there are too few rows or too many distinct lengths, or if the
    commands might exceed two gigabytes.
    """
    if rows < _FEWEST_ROWS or any(values.null_count for _, values in columns) or (ids is not None and ids.null_count):
        return None
    before = b"*%d\r\n$4\r\nXADD\r\n" % (3 + 2 * len(columns)) + _bulk(key)
    slots: list[tuple[bytes, Values]] = []
    if ids is None:
        before += _bulk(b"*")
    else:
        slots.append((before + b"$", _values(ids)))
        before = b""
    for name, values in columns:
        slots.append((before + _bulk(name) + b"$", _values(values)))
        before = b""
    if any(values.length is None and values.varieties() > _MOST_LENGTHS for _, values in slots):
        return None
    if sum(rows * (len(text) + _LENGTH_BYTES) + int(values.lengths.sum()) for text, values in slots) > _MOST_BYTES:
        return None
    templates = Templates()
    for text, values in slots:
        templates.bulk(text, values)
    data, bounds = templates.rows(rows)
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, offsets, pa.py_buffer(data)])


def _values(array: Any) -> Values:
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return Values(np.frombuffer(b"" if data is None else data, np.uint8), bounds[:-1], np.diff(bounds))


def _bytes(value: bytes) -> Any:
    return pa.scalar(value, pa.binary())


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _bulks(values: Any) -> list[Any]:
    return [_bytes(b"$"), _decimal_text(pc.binary_length(values)), _bytes(b"\r\n"), values, _bytes(b"\r\n")]


def _decimal_text(numbers: Any) -> Any:
    return pc.cast(pc.cast(numbers, pa.string()), pa.binary())


def _join(pieces: list[Any], rows: int | None = None) -> Any:
    if rows is not None and all(isinstance(piece, pa.Scalar) for piece in pieces):
        pieces = [pa.repeat(pieces[0], rows), *pieces[1:]]
    return pc.binary_join_element_wise(*pieces, _bytes(b""))
