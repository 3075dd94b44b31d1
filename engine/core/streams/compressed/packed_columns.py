r"""Packed columns: entries with the same field names. The names are stored once, and the values field by field.

A chunk consists of the lengths of all words (one byte each, column by column), followed by the words in the same order.
The first column holds the texts of the IDs without their common prefix, and the other columns hold values. The prefix
and the names are stored between the index and the chunks. Frames are rebuilt on demand.
Differences from the layout of ``Packed``::

    head       the IDs' common prefix, preceded by its length in one byte; then for each name:
               its length in 32 bits, its bytes, and the maximum length of its values in one byte
    least      size of the chunk's columns in bytes
    sizes      not stored

The cache holds decompressed columns. Frames are rebuilt from them by each read, one by one, which takes half a
microsecond or more per entry.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from engine.core.streams.compressed.packed import Packed, Span, SpanCache
from streamwire.entry_batch import EntryBatch, Values

#: Starts of words in columns.
Starts = npt.NDArray[np.int32] | npt.NDArray[np.uint16]
#: Lengths of words in columns.
Lengths = npt.NDArray[np.uint8]

#: Maximum length of an ID: two numbers of twenty digits and a hyphen.
MOST_ID = 41
#: Size of a chunk's frames, as a multiple of ``CHUNK_BYTES``.
CHUNKS_AT_ONCE = 2
#: Maximum length of a value in a column.
MOST_LENGTH = 255

_SIZE = struct.Struct("<I")


def encoded_head(prefix: bytes, names: Sequence[bytes], most: Sequence[int]) -> bytes:
    """Return the head that is stored before the chunks. ``most``: the maximum length of each field's values."""
    rest = [b"%b%b%c" % (_SIZE.pack(len(name)), name, length) for name, length in zip(names, most, strict=True)]
    return b"".join([b"%c" % len(prefix), prefix, *rest])


class _Head:
    """Decoded result of ``encoded_head``: ``prefix``, ``names``, and the maximum length of each column's words."""

    __slots__ = ("frame", "most", "names", "prefix")

    def __init__(self, data: bytes) -> None:
        names: list[bytes] = []
        most: list[int] = []
        try:
            at = 1 + data[0]
            self.prefix = data[1:at]
            while at < len(data):
                begin = at + _SIZE.size
                at = begin + _SIZE.unpack_from(data, at)[0]
                names.append(data[begin:at])
                most.append(data[at])
                at += 1
        except (struct.error, IndexError):
            names.clear()
        if not names or len(self.prefix) > MOST_ID:
            raise OSError("the names of compressed columns are damaged")
        self.names = tuple(names)
        #: Maximum word length of each column. The IDs' column is the first.
        self.most = np.array([MOST_ID - len(self.prefix), *most], np.uint8)
        fixed = [b"*2\r\n$", b"\r\n" + self.prefix, b"\r\n*%d\r\n" % (2 * len(names))]
        fixed += [b"$%d\r\n%b\r\n$" % (len(name), name) for name in names]
        start, prefix, number, *fields = (part.replace(b"%", b"%%") for part in fixed)
        #: Format of a frame. Its arguments are the length and the rest of the ID, and each value's length and bytes.
        self.frame = start + b"%d" + prefix + b"%b" + number + b"".join(field + b"%d\r\n%b\r\n" for field in fields)


class _Words(Span):
    """Span with the decompressed columns of adjacent chunks. ``begin`` is the index of the first chunk."""

    __slots__ = ("chunks",)

    #: For each chunk: its columns' bytes, and the starts and lengths of their words, with one row per column.
    chunks: list[tuple[memoryview, Starts, Lengths]]


class PackedColumns(Packed):
    """Entries packed as columns, with the methods of ``Packed``."""

    __slots__ = ("_known_head",)

    def __init__(self, last_id: int, cache: SpanCache, number: int | None = None) -> None:
        self._known_head: _Head | None = None
        super().__init__(last_id, cache, number)

    @property
    def _head(self) -> _Head:
        if self._known_head is None:
            self._known_head = _Head(bytes(self.blob[self.column_bounds[-1] : self.begins[0]]))
        return self._known_head

    def copy(self, cache: SpanCache) -> Self:
        """Return the same entries with another cache."""
        other = super().copy(cache)
        other._known_head = self._known_head
        return other

    # -- columns ------------------------------------------------------------------------------------------------------

    def _words_of(self, chunk: int, end: int) -> tuple[memoryview, Starts, Lengths]:
        """Return a chunk's columns, and the starts and lengths of its words.

        If the columns are not cached, the following chunks up to ``end``, which the caller will read next, are
        decompressed too.
        """
        span = self.cache.spans.get(self.number + chunk)
        if span is None:
            span = self._decompress_columns(chunk, end)
        assert isinstance(span, _Words)
        return span.chunks[chunk - span.begin]

    def _decompress_columns(self, chunk: int, end: int) -> _Words:
        """Decompress the columns of the chunks up to ``end`` or the first cached chunk."""
        spans, first, behind = self.cache.spans, self.number, chunk + 1
        while behind < end and first + behind not in spans:
            behind += 1
        sizes = self.least[chunk:behind]
        data = memoryview(self.cache.decompress(self.blob, self.begins[chunk : behind + 1], sizes))
        span, at = _Words(data, chunk, behind), 0
        span.chunks = []
        for number, size in enumerate(sizes, chunk):
            starts, lengths = self._locate(data[at : at + size], self.starts[number + 1] - self.starts[number])
            span.chunks.append((data[at : at + size], starts, lengths))
            span.size += starts.nbytes
            at += size
        self.cache.add(first + chunk, first + behind, span)
        return span

    def _locate(self, data: memoryview, count: int) -> tuple[Starts, Lengths]:
        """Return starts and lengths of all words in the columns of ``count`` entries.

        Raises OSError if the columns are damaged.
        """
        most = self._head.most
        size = count * len(most)
        if size <= len(data):
            lengths = np.frombuffer(data, np.uint8, size).reshape(len(most), count)
            starts = lengths.cumsum(dtype=np.int32)
            starts += size
            if starts[-1] == len(data) and (lengths.max(axis=1) <= most).all():
                starts = starts.reshape(len(most), count)
                starts -= lengths
                # 16-bit integers halve the arrays' share of the cache. (Only tests make chunks of more than 64 KiB.)
                return starts.astype(np.uint16) if len(data) < 1 << 16 else starts, lengths
        raise OSError("a compressed chunk is damaged: its values do not match their lengths")

    def columns(self, low: int, high: int) -> EntryBatch | None:
        """Return the fields of the entries [low, high) (at least one) as columns, without building frames."""
        names = self._head.names
        chunk, end = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)
        table: list[Lengths] = []
        values: list[list[memoryview]] = [[] for _ in names]
        for number in range(chunk, end):
            data, starts, lengths = self._words_of(number, end)
            first = self.starts[number]
            last = min(high, self.starts[number + 1]) - first - 1
            wanted = slice(max(low - first, 0), last + 1)
            table.append(lengths[1:, wanted])
            begins = starts[1:, wanted.start].tolist()
            ends = np.add(starts[1:, last], lengths[1:, last], dtype=np.int32).tolist()
            for parts, begin, behind in zip(values, begins, ends, strict=True):
                parts.append(data[begin:behind])
        bounds = np.zeros((len(names), high - low + 1), np.int32)
        np.cumsum(np.concatenate(table, axis=1), axis=1, dtype=np.int32, out=bounds[:, 1:])
        columns = map(Values.divided, map(b"".join, values), bounds)
        return EntryBatch(high - low, names, tuple(columns))

    # -- frames -------------------------------------------------------------------------------------------------------

    def frames(self, low: int, high: int) -> list[bytes]:
        """Return a list of the frames [low, high)."""
        head, found, last = self._head, list[bytes](), bisect_left(self.starts, high)
        for chunk in range(bisect_right(self.starts, low) - 1, last):
            data, starts, lengths = self._words_of(chunk, last)
            first, text = self.starts[chunk], bytes(data)
            entries = slice(max(low - first, 0), high - first)
            columns: list[Sequence[int | bytes]] = []
            for begins, sizes in zip(starts[:, entries].tolist(), lengths[:, entries].tolist(), strict=True):
                words = [text[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
                columns += [[len(head.prefix) + size for size in sizes] if not columns else sizes, words]
            made = [head.frame % row for row in zip(*columns, strict=True)]
            if len(made) == len(starts[0]) and sum(map(len, made)) != self.offsets[chunk + 1] - self.offsets[chunk]:
                raise OSError("a compressed chunk is damaged: its frames have another size")
            found += made
        return found

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """Return the frames [low, high) as one buffer."""
        return [b"".join(self.frames(low, high))]

    def frame_at(self, index: int) -> bytes:
        """Return the frame at ``index``."""
        return self.frames(index, index + 1)[0]
