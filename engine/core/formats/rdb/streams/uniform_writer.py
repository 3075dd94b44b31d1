"""Fast path for writing RDB stream nodes whose entries all have the same field names, and short values.

The results equal those of the entry-by-entry writer (``engine.core.formats.rdb.streams.stream_writer``), which also
writes the entries declined here. A frame contains the data of the entry's listpack elements in the same order, with
enough bytes between the values for their heads and tails. So the frames of all entries are copied at once, the heads
and tails are written in place, and the elements are extracted from the copy.

`streamwire.frames` validates the frames and finds their values.
"""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from engine.core.formats.rdb.primitives import add_elements, element, length
from engine.core.formats.rdb.streams.forms import SAME_FIELDS
from streamwire.frames import fields_of, find_starts, uniform
from streamwire.walker import AFTER, BEFORE

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int64]
_IdColumns = tuple["array[int] | memoryview[int]", "array[int] | memoryview[int]"]

#: Maximum size of a value in bytes.
_MOST_LENGTH = 999
#: Minimum length of a string whose element has a head of two bytes instead of one.
_SHORT = 64
#: Maximum size of an element whose length takes one byte instead of two.
_SHORT_ELEMENT = 127
_LINE_END = b"\r\n"
#: Maximum number of digits of a 64-bit integer.
_DIGITS = 19
_MINUS, _ZERO = b"-0"
#: Size of an integer element, including the length byte -> its first byte.
_CODES = {4: 0xF1, 5: 0xF2, 6: 0xF3, 10: 0xF4}


def uniform_nodes(data: bytes, ids: _IdColumns, size: int) -> list[bytes] | None:
    """Return the nodes for the frames in ``data``, as pieces to be joined.

    A node has ``size`` entries; the last node may have fewer. ``ids`` are the columns of the entries' IDs.
    Returns None if the entries do not all have the same field names, or a value has more than ``_MOST_LENGTH`` bytes.
    Also returns None if the part of a frame before its first value is shorter than the bytes that the node needs there.
    """
    count = len(ids[0])
    room = bytearray().join((bytes(BEFORE - len(_LINE_END)), _LINE_END, data, bytes(AFTER)))
    starts = find_starts(room, BEFORE, BEFORE + len(data), count)
    if starts is None:
        return None
    names = fields_of(data)[::2]
    batch = uniform(room, np.append(starts, BEFORE + len(data)), names)
    if batch is None or any(column.lengths.max() > _MOST_LENGTH for column in batch.known):
        return None
    buffer = np.frombuffer(room, np.uint8)
    spans = [_write_value(buffer, column.starts, column.ends) for column in batch.known]
    tail = element(3 + len(names))
    spans[0] = _write_head(buffer, ids, size, tail, spans[0])
    if (spans[0][0] < starts).any():
        return None
    return _nodes(buffer, ids, size, spans, names, tail)


# -- elements in place of words ---------------------------------------------------------------------------------------


def _write_value(buffer: _Bytes, begins: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
    """Replace the words in these spans with listpack elements; return the spans of the elements."""
    sizes = ends - begins
    begins_of, ends_of = begins - 1, ends + 1
    numbers, values = _numbers_among(buffer, begins, sizes)
    if len(numbers) < len(begins):
        strings = np.ones(len(begins), np.bool_)
        strings[numbers] = False
        if (sizes[strings] >= _SHORT).any():
            _write_long_strings(buffer, begins_of, ends_of, sizes, strings)
        else:
            at = np.flatnonzero(strings)
            buffer[begins_of[at]] = 0x80 | sizes[at]
            buffer[ends[at]] = sizes[at] + 1
    if len(numbers):
        widths = _int_sizes(values)
        _write_numbers(buffer, begins_of[numbers], values, widths)
        ends_of[numbers] = begins_of[numbers] + widths
    return begins_of, ends_of


def _write_long_strings(
    buffer: _Bytes, begins_of: _Ints, ends_of: _Ints, sizes: _Ints, strings: npt.NDArray[np.bool_]
) -> None:
    long = strings & (sizes >= _SHORT)
    at = np.flatnonzero(strings & ~long)
    buffer[begins_of[at]] = 0x80 | sizes[at]
    buffer[ends_of[at] - 1] = sizes[at] + 1
    at = np.flatnonzero(long)
    some = sizes[at]
    buffer[begins_of[at]], buffer[begins_of[at] - 1] = some & 255, 0xE0 | some >> 8
    begins_of[at] -= 1
    some = some + 2
    behind = ends_of[at] - 1
    buffer[behind] = np.where(some > _SHORT_ELEMENT, some >> 7, some)
    at, some, behind = at[some > _SHORT_ELEMENT], some[some > _SHORT_ELEMENT], behind[some > _SHORT_ELEMENT]
    buffer[behind + 1] = some & 127 | 128
    ends_of[at] += 1


def _write_numbers(buffer: _Bytes, begins: _Ints, values: _Ints, widths: _Ints) -> None:
    """Write integers as listpack elements that start at ``begins`` and have these ``widths``, in bytes."""
    for width in np.flatnonzero(np.bincount(widths)).tolist():
        at = np.flatnonzero(widths == width)
        begin, value = begins[at], values[at]
        if width == 2:
            buffer[begin] = value
        elif width == 3:
            buffer[begin], buffer[begin + 1] = 0xC0 | value >> 8 & 0x1F, value & 255
        else:
            buffer[begin] = _CODES[width]
            for byte in range(width - 2):
                buffer[begin + 1 + byte] = value >> 8 * byte & 255
        buffer[begin + width - 1] = width - 1


def _write_head(
    buffer: _Bytes, ids: _IdColumns, size: int, tail: bytes, span: tuple[_Ints, _Ints]
) -> tuple[_Ints, _Ints]:
    """Write the bytes before the first value of each entry; return the values' spans, extended by these bytes.

    The bytes are the end of the previous entry (unless the entry is the first of a node), the flags, and the difference
    between the entry's ID and the node's ID.
    """
    begins = span[0]
    for column in reversed(ids):
        numbers = np.frombuffer(column, np.uint64)
        differences = (numbers - np.repeat(numbers[::size], size)[: len(numbers)]).view(np.int64)
        widths = _int_sizes(differences)
        begins = begins - widths
        _write_numbers(buffer, np.maximum(begins, 0), differences, widths)
    for byte in reversed(tail + element(SAME_FIELDS)):
        begins = begins - 1
        buffer[np.maximum(begins, 0)] = byte
    begins[::size] += len(tail)
    return begins, span[1]


# -- nodes ------------------------------------------------------------------------------------------------------------


def _nodes(
    buffer: _Bytes, ids: _IdColumns, size: int, spans: list[tuple[_Ints, _Ints]], names: list[bytes], tail: bytes
) -> list[bytes]:
    """Return the pieces of the nodes whose elements are in these spans of the buffer.

    ``spans`` has two arrays for each field: the starts and the ends of its elements in all entries.
    """
    begins = np.array([span[0] for span in spans]).T
    sizes = np.array([span[1] for span in spans]).T - begins
    elements = _gathered(buffer, begins.ravel(), sizes.ravel())
    sizes = sizes.sum(axis=1)
    cuts = [0, *np.cumsum(np.add.reduceat(sizes, np.arange(0, len(sizes), size))).tolist()]
    parts: list[bytes] = [element(0), element(len(names))]
    add_elements(parts, names)
    fields = b"".join((*parts, element(0)))
    nodes: list[bytes] = []
    for number, (begin, end) in enumerate(pairwise(cuts)):
        first = number * size
        count = min(size, len(sizes) - first)
        head = element(count) + fields
        bytes_of = 6 + len(head) + end - begin + len(tail) + 1
        nodes += (
            length(16),
            struct.pack(">QQ", ids[0][first], ids[1][first]),
            length(bytes_of),
            struct.pack("<IH", bytes_of, min((count + 1) * (4 + len(names)), 65535)),
            head,
            elements[begin:end],
            tail + b"\xff",
        )
    return nodes


def _gathered(buffer: _Bytes, begins: _Ints, sizes: _Ints) -> bytes:
    """Return the contents of these spans of the buffer, back to back."""
    ends = np.cumsum(sizes)
    # Offset in the buffer of each byte of the result.
    moved = np.repeat(begins - ends + sizes, sizes)
    moved += np.arange(len(moved))
    return buffer[moved].tobytes()


# -- integers ---------------------------------------------------------------------------------------------------------


def _int_sizes(values: _Ints) -> _Ints:
    """Return the sizes of integers in a listpack, in bytes."""
    sizes = np.where(values < 0, ~values, values)
    wider = (sizes >= 1 << 12) + (sizes >= 1 << 15).astype(np.int64) + (sizes >= 1 << 23) + 4 * (sizes >= 1 << 31)
    return np.where((values >= 0) & (values < 128), 2, 3 + wider)


def _numbers_among(buffer: _Bytes, begins: _Ints, sizes: _Ints) -> tuple[_Ints, _Ints]:
    """Return the indices of the words that are stored as integers, and their values."""
    first = buffer[begins]
    indices = np.flatnonzero(((first - np.uint8(_ZERO) < 10) | (first == _MINUS)) & (sizes <= _DIGITS + 1))
    if not len(indices):
        return indices, np.zeros(0, np.int64)
    are, values = _numbers(buffer, begins[indices], sizes[indices])
    return indices[are], values[are]


def _numbers(buffer: _Bytes, begins: _Ints, sizes: _Ints) -> tuple[npt.NDArray[np.bool_], _Ints]:
    """Return which of these words are canonical texts of signed 64-bit integers, and their values."""
    minus = buffer[begins] == _MINUS
    begins, digits = begins + minus, sizes - minus
    are = (digits > 0) & (digits <= _DIGITS) & ((buffer[begins] != _ZERO) | (sizes == 1))
    values = np.zeros(len(begins), np.uint64)
    for index in range(min(int(digits.max()), _DIGITS)):
        inside = index < digits
        digit = buffer[np.where(inside, begins + index, 0)] - np.uint8(_ZERO)
        are &= ~inside | (digit < 10)
        values = np.where(inside, values * np.uint64(10) + digit, values)
    are &= values <= np.uint64((1 << 63) - 1) + minus
    return are, np.where(minus, np.uint64(0) - values, values).view(np.int64)
