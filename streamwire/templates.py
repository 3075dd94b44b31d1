"""RESP templates: copies of common bytes, into which the values of each row are written.

Between two values all rows have the same bytes, except for the digits of a value's length. So rows whose values have
the same lengths can share one template. Values and rows are copied as numpy items of their size: one copy each, not
byte by byte, and without a Python object per value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamwire.digits import Ints
from streamwire.entry_batch import Values
from streamwire.walker import overlapping

_LINE_END = b"\r\n"
_POWERS = 10 ** np.arange(1, 10)


@dataclass(slots=True)
class _Template:
    """Bytes that all rows share, with holes for values of fixed size, and an optional bulk string of varying length at
    the end.

    `holes`: for each value of fixed size its offset in `text`, its size, and the values.
    """

    text: bytearray = field(default_factory=bytearray)
    holes: list[tuple[int, int, Values]] = field(default_factory=list)
    varying: Values | None = None

    def sizes(self) -> int | Ints:
        """Return the template's size in each row, in bytes."""
        if self.varying is None:
            return len(self.text)
        return length_sizes(self.varying.lengths) + len(self.text)

    def filled(self, count: int, rows: Ints | None = None, length: int = 0) -> tuple[bytearray, int]:
        """Return `count` filled copies, concatenated, and the size of a copy.

        `rows`: the rows that provide the values (None: all). `length`: length of the varying value in these rows.
        """
        text, holes = bytes(self.text), self.holes
        if self.varying is not None:
            text += b"%d\r\n" % length
            holes = [*holes, (len(text), length, self.varying)]
            text += bytes(length) + _LINE_END
        data = bytearray(text) * count
        for at, size, values in holes:
            if size:
                kind = np.dtype((np.void, size))
                np.ndarray((count,), kind, data, at, (len(text),))[:] = values.items(size, rows)
        return data, len(text)

    def write(self, target: NDArray[np.uint8], at: Ints, count: int) -> None:
        """Write the template's part of each row at these offsets of `target`."""
        if self.varying is None:
            filled, size = self.filled(count)
            overlapping(target, size)[at] = np.frombuffer(filled, np.dtype((np.void, size)))
            return
        for length in self.varying.variety().tolist():
            rows = np.flatnonzero(self.varying.lengths == length)
            filled, size = self.filled(len(rows), rows, length)
            overlapping(target, size)[at[rows]] = np.frombuffer(filled, np.dtype((np.void, size)))


class Templates:
    """Layout of a row, built from left to right. Only a value of varying length ends a template."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts = [_Template()]

    def _last(self) -> _Template:
        if self._parts[-1].varying is not None:
            self._parts.append(_Template())
        return self._parts[-1]

    def text(self, text: bytes) -> None:
        """Append bytes that all rows have."""
        self._last().text += text

    def fixed(self, values: Values, size: int) -> None:
        """Append values of this size, without a length prefix or line end."""
        part = self._last()
        part.holes.append((len(part.text), size, values))
        part.text += bytes(size)

    def bulk(self, before: bytes, values: Values) -> None:
        """Append `before`, which ends with `$`, and the values as bulk strings."""
        part = self._last()
        part.text += before
        if values.length is None:
            part.varying = values
        else:
            part.text += b"%d\r\n" % values.length
            self.fixed(values, values.length)
            part.text += _LINE_END

    def rows(self, count: int) -> tuple[bytearray, Ints]:
        """Return `count` rows, concatenated, and their `count + 1` bounds."""
        parts = [(part, part.sizes()) for part in self._parts]
        bounds = np.zeros(count + 1, np.int64)
        np.cumsum(np.broadcast_to(sum(size for _, size in parts), count), out=bounds[1:])
        if len(parts) == 1 and self._parts[0].varying is None:
            return self._parts[0].filled(count)[0], bounds
        data = bytearray(int(bounds[-1]))
        target, at = np.frombuffer(data, np.uint8), bounds[:-1]
        for part, size in parts:
            part.write(target, at, count)
            at = at + size
        return data, bounds


def length_sizes(lengths: NDArray[Any]) -> Ints:
    """Return the encoded sizes of bulk strings of these lengths, without their `$`."""
    digits = np.searchsorted(_POWERS, lengths, side="right") + 1
    sizes: Ints = digits + lengths + 2 * len(_LINE_END)
    return sizes
