"""Rows to commands by templates, for commands that have the same words around their values.

Between two values all commands have the same bytes, except for the digits of a value's length. So rows whose values
have the same lengths are copies of one template with the values written into it. Values and rows are copied as numpy
void items of their size: one copy each, never a character or a Python object at a time.

Knows bytes and Arrow's binary arrays, nothing of commands. Declines (None) if there would be too many templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Slot = tuple[bytes, Any]
"""The bytes before a value's length, and the value of each row: a `pyarrow.BinaryArray` without nulls."""

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]
_FEWEST = 64  # rows; with fewer, joining is as fast
_MOST_LENGTHS = 64  # different lengths in a column
_MAX_BYTES = 2**31 - 1
_END = b"\r\n"


class _Values:
    """The values of a column: their bytes, where each begins, how long it is."""

    def __init__(self, array: Any) -> None:
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        self._data: _Bytes = np.frombuffer(b"" if data is None else data, np.uint8)
        self._starts = bounds[:-1]
        self.lengths: NDArray[np.int32] = np.diff(bounds)
        first = int(self.lengths[0])
        self.length = first if np.all(self.lengths == first) else None
        """The length that all values have; None if they differ."""

    def items(self, length: int, rows: _Ints | None) -> Any:
        """The values of these rows (None: all), which have this length, as items of that size."""
        starts = self._starts if rows is None else self._starts[rows]
        return _items(self._data, length)[starts]


@dataclass
class _Template:
    """Bytes that all rows share, with room for values of fixed length, and at its end a value of varying length.

    `holes`: for each value of fixed length its offset in `text`, its length, and the values.
    """

    text: bytearray = field(default_factory=bytearray)
    holes: list[tuple[int, int, _Values]] = field(default_factory=list)
    varying: _Values | None = None

    def lengths(self) -> Any:
        """Its size in bytes in each row."""
        if self.varying is None:
            return len(self.text)
        lengths = self.varying.lengths.astype(np.int64)
        digits = np.searchsorted(10 ** np.arange(1, 10), lengths, side="right") + 1
        return lengths + digits + (len(self.text) + 2 * len(_END))

    def stamp(self, rows: _Ints | None, count: int, length: int = 0) -> tuple[bytearray, int]:
        """The template filled for each of these rows, and its size; `length` is the varying value's."""
        text, holes = bytes(self.text), self.holes
        if self.varying is not None:
            text += b"%d\r\n" % length
            holes = [*holes, (len(text), length, self.varying)]
            text += bytes(length) + _END
        stamped = bytearray(text) * count
        for at, size, values in holes:
            if size:
                kind = np.dtype((np.void, size))
                np.ndarray((count,), kind, stamped, at, (len(text),))[:] = values.items(size, rows)
        return stamped, len(text)


def rows(slots: Sequence[Slot], count: int) -> Any:
    """Each row's bytes: for each slot its bytes, the value's length, a line end, the value and a line end.

    A binary array whose elements are contiguous in its data; None to decline.
    """
    if count < _FEWEST:
        return None
    columns = [(before, _Values(array)) for before, array in slots]
    if any(values.length is None and _too_many(values.lengths) for _, values in columns):
        return None
    templates = _templates(columns)
    lengths = [template.lengths() for template in templates]
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.broadcast_to(sum(lengths), count), out=bounds[1:])
    size = int(bounds[-1])
    if size > _MAX_BYTES:
        return None
    if len(templates) == 1 and templates[0].varying is None:
        data, _ = templates[0].stamp(None, count)
    else:
        data = bytearray(size)
        at = bounds[:-1]
        for template, length in zip(templates, lengths, strict=True):
            _put(data, template, at, count)
            at = at + length
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(data)])


def _too_many(lengths: NDArray[np.int32]) -> bool:
    return bool(lengths.max() >= 1 << 16 or np.count_nonzero(np.bincount(lengths)) > _MOST_LENGTHS)


def _templates(columns: Sequence[tuple[bytes, _Values]]) -> list[_Template]:
    """The fewest templates: each but the last ends with a value of varying length."""
    templates = [_Template()]
    for before, values in columns:
        if templates[-1].varying is not None:
            templates.append(_Template())
        template = templates[-1]
        template.text += before
        if values.length is None:
            template.varying = values
        else:
            template.text += b"%d\r\n" % values.length
            template.holes.append((len(template.text), values.length, values))
            template.text += bytes(values.length) + _END
    return templates


def _put(data: bytearray, template: _Template, at: _Ints, count: int) -> None:
    """Write a template's part of each row at these offsets in `data`."""
    target = np.frombuffer(data, np.uint8)
    if template.varying is None:
        stamped, size = template.stamp(None, count)
        _items(target, size)[at] = np.frombuffer(stamped, np.dtype((np.void, size)))
        return
    lengths = template.varying.lengths
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        chosen = np.flatnonzero(lengths == length)
        stamped, size = template.stamp(chosen, chosen.size, length)
        _items(target, size)[at[chosen]] = np.frombuffer(stamped, np.dtype((np.void, size)))


def _items(data: _Bytes, size: int) -> Any:
    """The items of this size that begin at each byte of the data; they overlap."""
    return np.ndarray((data.size - size + 1,), np.dtype((np.void, size)), data, 0, (1,))
