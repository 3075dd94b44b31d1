"""Batch of entries with the same fields: IDs, field names, and the values of each field.

Entries have two bulk forms: this one, and frames, in which streams store them. `streamwire.frames.uniform` converts
frames to a batch (docs/design/decisions/frames.md). In frames, a field's values are scattered among
other bytes; in a command or reply with columns, they are contiguous and divided by bounds. `Values` represents both
without copying: by the buffer, and the start and length of each byte string in the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamwire.digits import Ints, Lengths, Words
from streamwire.walker import Bulks, overlapping

_WORD = 8
#: `Values.varieties` does not count distinct lengths if a value has at least this many bytes: the count needs memory
#: for every length up to the largest one.
_LONG = 1 << 16
#: Average length in bytes above which `Values.gathered` slices each value. Shorter values use an index per byte.
_LONG_ON_AVERAGE = 64
_Bytes = NDArray[np.uint8]


class Values:
    """One byte string per row. `data`: their bytes; `starts`: the start of each; `lengths`: the size of each.

    `bounds`: the start of each value and the end of the last one, as int32; None if the values were not created by
    `divided`. `length`: the common size of the values; None if their sizes differ.
    """

    __slots__ = ("_length", "_lengths", "_near", "bounds", "data", "starts")

    def __init__(self, data: _Bytes, starts: NDArray[Any], lengths: NDArray[Any] | int | None) -> None:
        self.data = data
        self.starts = starts
        self.bounds: NDArray[np.int32] | None = None
        #: None: not computed yet from the bounds.
        self._lengths: Any = lengths
        #: -1: not known yet.
        self._length: int | None = lengths if isinstance(lengths, int) else -1
        #: Bulk strings that contain the values, with the first characters loaded; None if there are none.
        self._near: Bulks | None = None

    @classmethod
    def divided(cls, data: bytes | memoryview | _Bytes, bounds: NDArray[np.int32]) -> Values:
        """Return contiguous values divided by these bounds, which must be valid."""
        found = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
        values = cls(found, bounds[:-1], None)
        values.bounds = bounds
        return values

    @classmethod
    def checked(cls, data: bytes | memoryview | _Bytes, bounds: bytes | memoryview, count: int) -> Values:
        """Return `count` values divided by `bounds` (32-bit little-endian). Raises ValueError for invalid bounds."""
        if len(bounds) != 4 * (count + 1):
            raise ValueError("too many or too few positions")
        found = np.frombuffer(bounds, "<i4")
        values = cls.divided(data, found)
        if found[0] or found[-1] != len(data) or (count and values.lengths.min() < 0):
            raise ValueError("positions that are not within their values")
        return values

    @classmethod
    def of_bulks(cls, data: _Bytes, bulks: Bulks) -> Values:
        """Return the contents of one bulk string per row."""
        values = cls(data, bulks.begins, bulks.sizes)
        values._near = bulks
        return values

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> NDArray[Any]:
        if self._lengths is None:
            assert self.bounds is not None
            self._lengths = np.diff(self.bounds).astype(np.int64)
        elif isinstance(self._lengths, int):
            self._lengths = np.broadcast_to(np.int64(self._lengths), self.starts.shape)
        lengths: NDArray[Any] = self._lengths
        return lengths

    @property
    def length(self) -> int | None:
        if self._length == -1:
            first = int(self.lengths[0])
            self._length = first if (self.lengths == first).all() else None
        return self._length

    @property
    def ends(self) -> NDArray[Any]:
        ends: NDArray[Any] = self.starts + self.lengths
        return ends

    def variety(self) -> Ints:
        """Return the distinct lengths, ascending."""
        return np.flatnonzero(np.bincount(self.lengths))

    def varieties(self) -> int:
        """Return the number of distinct lengths.

        If there are no rows, or a value has `_LONG` bytes or more, return the number of rows plus one instead.
        """
        return self.variety().size if len(self) and self.lengths.max() < _LONG else len(self) + 1

    def items(self, length: int, rows: Ints | slice | None) -> Any:
        """Return the values of `rows` (None: all rows) as numpy items. Each of these values must have this length."""
        starts = self.starts if rows is None else self.starts[rows]
        first, last = int(starts[0]), int(starts[-1])
        if rows is None and last - first == length * (len(starts) - 1):  # contiguous
            return self.data[first : last + length].view(np.dtype((np.void, length)))
        return overlapping(self.data, length)[starts]

    def cut(self, first: int, end: int) -> Values:
        """Return the rows [first, end)."""
        return Values(self.data, self.starts[first:end], self.lengths[first:end])

    def texts(self, rows: slice) -> list[bytes]:
        """Return the values of `rows`."""
        data = self.data.data
        return [
            bytes(data[begin:end])
            for begin, end in zip(self.starts[rows].tolist(), self.ends[rows].tolist(), strict=True)
        ]

    def gathered(self) -> bytes:
        """Return the values concatenated."""
        starts, lengths = self.starts, self.lengths
        size = int(lengths.sum())
        if size > _LONG_ON_AVERAGE * len(starts):
            data = self.data.data
            return b"".join([data[begin:end] for begin, end in zip(starts.tolist(), self.ends.tolist(), strict=True)])
        # Byte i of the result comes from i + (start of its value in data - start of its value in the result).
        positions = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        positions += np.arange(size)
        return self.data.take(positions, mode="clip").tobytes()

    def words(self) -> tuple[Words, Lengths]:
        """Return the first eight bytes of each value as a word, and its length. Bytes after a shorter value are
        arbitrary.
        """
        length, near = self.length, self._near
        lengths: Lengths = self.lengths if length is None else length
        if near is not None and near.skipped:
            bits = np.uint64(8 * near.skipped)
            words = near.near[:, 0] >> bits
            if np.max(near.sizes) > _WORD - near.skipped:
                words |= near.near[:, 1] << np.uint64(64) - bits
            return words, lengths
        data = self.data
        if len(data) < int(self.starts[-1]) + _WORD:
            data = np.append(data, np.zeros(_WORD, np.uint8))
        if length and self.bounds is not None:
            return np.ndarray((len(self),), np.dtype("<u8"), data, 0, (length,)).copy(), lengths
        return overlapping(data, _WORD)[self.starts].view(np.dtype("<u8")), lengths


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """`count` entries with the same fields.

    `values`: the values of each field; None if they were not sent. `ids`: their texts, or milliseconds and sequence
    numbers (uint64); None if the entries have no IDs yet.
    """

    count: int
    names: tuple[bytes, ...]
    values: tuple[Values | None, ...]
    ids: Values | tuple[Words, Words] | None = None

    @property
    def known(self) -> list[Values]:
        """The values of the fields that were sent."""
        return [values for values in self.values if values is not None]
