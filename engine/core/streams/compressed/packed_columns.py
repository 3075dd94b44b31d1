r"""Packed columns: entries with the same field names. The names are stored once, and the values field by field.

A chunk consists of the lengths of all words (one byte each, column by column), followed by the words in the same order.
The first column holds the texts of the IDs without their common prefix, and the other columns hold values. The prefix
and the names are stored between the index and the chunks. Frames are rebuilt on demand.
Differences from the layout of ``Packed``::

    head       the IDs' common prefix, preceded by its length in one byte; then for each name:
               its length in 32 bits, its bytes, and the maximum length of its values in one byte
    least      size of the chunk's columns in bytes
    sizes      not stored

The cache holds two kinds of spans: decompressed columns, and rebuilt frames with their index. A short read rebuilds
only the frames that it needs. Longer reads rebuild whole chunks, which the cache keeps.

When frames are rebuilt (`FrameMaker`), each word of a frame (the ID and the values) is preceded by a *head*: line ends,
field name and lengths. In one column, a head depends only on the word's length. The head of an ID is followed by the
*prefix*, which all IDs of a segment share, and then by the rest of the ID, which is the first column. In this example,
``|`` separates the pieces::

    \r\n*2\r\n$15\r\n | 17951633 | 72693-12 | \r\n*4\r\n$9\r\nsensor-id\r\n$4\r\n | 1234 | \r\n$11\r\n...

The leading line end belongs to the preceding frame. All these pieces are in one buffer, the *source*: the prefix, the
columns, and a head for each length. Numpy copies the pieces in order, all as items of the size of the longest piece;
each item overwrites the excess bytes of the previous item. A call costs 20 us, plus about 10 ns per piece.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from engine.core.streams.compressed import packed as layout
from engine.core.streams.compressed.packed import Packed, Span, SpanCache
from engine.core.streams.entries import Plain
from streamwire.digits import Ints
from streamwire.entry_batch import EntryBatch, Values
from streamwire.frames import frame
from streamwire.walker import overlapping

#: Starts of words in columns.
Starts = npt.NDArray[np.int32] | npt.NDArray[np.uint16]
#: Lengths of words in columns.
Lengths = npt.NDArray[np.uint8]

#: Maximum length of an ID: two numbers of twenty digits and a hyphen.
MOST_ID = 41
#: Space for columns in the source, between the prefix and the heads, in bytes.
_ROOM = 1 << 15
_COLUMNS = MOST_ID + _ROOM
#: Fewer frames than this are assembled one by one.
_FEW = 6


class FrameMaker:
    """Assembles frames of entries that have the field names ``names``. Not thread-safe."""

    __slots__ = ("_at", "_begins", "_item", "_lengths", "_names", "_source", "_windows")

    def __init__(self, names: Sequence[bytes], most: Sequence[int]) -> None:
        """``most``: the maximum length of each name's values."""
        self._names = names
        heads = [b"\r\n*2\r\n$%d\r\n" % length for length in range(MOST_ID + 1)]
        begins = [0]
        for number, name in enumerate(names):
            lead = b"\r\n%b$%d\r\n%b\r\n$" % (b"" if number else b"*%d\r\n" % (2 * len(names)), len(name), name)
            begins.append(len(heads))
            heads += [b"%b%d\r\n" % (lead, length) for length in range(most[number] + 1)]
        #: Length of each head.
        self._lengths: Ints = np.array(list(map(len, heads)), np.int64)
        #: Offset of each head in the source.
        self._at: Ints = np.cumsum(self._lengths) - self._lengths + _COLUMNS
        #: For each word of a frame, the index of its head for length 0.
        self._begins: Ints = np.array(begins, np.int64)[:, None]
        self._item = max(MOST_ID, *map(len, heads), *most)
        self._source = np.frombuffer(bytearray(_COLUMNS) + b"".join(heads) + bytes(self._item), np.uint8)
        self._windows = overlapping(self._source, self._item)

    def frames(self, prefix: bytes, data: memoryview, starts: Starts, lengths: Lengths) -> tuple[bytes, Ints]:
        """Return the frames of at least one entry, concatenated, and the start of each frame.

        ``starts`` and ``lengths`` locate the words in ``data``. They have a column for each entry, and a row for the ID
        (without the prefix) and for each field.
        """
        words, count = lengths.shape
        if count < _FEW:
            return self._few(prefix, data, starts, lengths)
        source, windows, columns_at = self._source, self._windows, MOST_ID
        if len(data) > _ROOM:
            columns_at = len(source)
            source = np.concatenate((source, np.frombuffer(data, np.uint8), np.zeros(self._item, np.uint8)))
            windows = overlapping(source, self._item)
        else:
            source[columns_at : columns_at + len(data)] = data
        source[: len(prefix)] = bytearray(prefix)
        # The offset in the source and the size of each piece: a row per piece, a column per frame.
        offsets, sizes = np.zeros((2, 1 + 2 * words, count), np.int64)
        heads = lengths + self._begins
        heads[0] += len(prefix)
        offsets[2::2], sizes[2::2] = starts, lengths
        offsets[2::2] += columns_at
        heads_at, head_sizes = self._at.take(heads), self._lengths.take(heads)
        offsets[0], sizes[0], sizes[1] = heads_at[0], head_sizes[0], len(prefix)
        offsets[3::2], sizes[3::2] = heads_at[1:], head_sizes[1:]
        sizes = sizes.T.ravel()
        at = sizes.cumsum()
        total = int(at[-1])
        at -= sizes
        made = np.empty(total + self._item, np.uint8)
        overlapping(made, self._item)[at] = windows[offsets.T.ravel()]
        # Drop the line end before the first frame, and add a line end after the last frame.
        made[total], made[total + 1] = b"\r\n"
        return made[2 : total + 2].tobytes(), at[:: 1 + 2 * words]

    def _few(self, prefix: bytes, data: memoryview, starts: Starts, lengths: Lengths) -> tuple[bytes, Ints]:
        """Assemble the frames one by one, and return the same result as ``frames``."""
        names, found, text = self._names, [], bytes(data)
        for begins, sizes in zip(starts.T.tolist(), lengths.T.tolist(), strict=True):
            entry_id, *values = (text[begin : begin + size] for begin, size in zip(begins, sizes, strict=True))
            words = [word for field in zip(names, values, strict=True) for word in field]
            found.append(frame(prefix + entry_id, words))
        edges = np.fromiter(accumulate(map(len, found), initial=0), np.int64)
        return b"".join(found), edges[:-1]


#: Size of a chunk's frames, as a multiple of ``CHUNK_BYTES``.
CHUNKS_AT_ONCE = 2
#: Offset from a chunk's number to the number of its decompressed columns in the cache.
_OF_COLUMNS = 1 << 31
#: Maximum length of a value in a column.
MOST_LENGTH = 255

_SIZE = struct.Struct("<I")


def encoded_head(prefix: bytes, names: Sequence[bytes], most: Sequence[int]) -> bytes:
    """Return the head that is stored before the chunks. ``most``: the maximum length of each field's values."""
    rest = [b"%b%b%c" % (_SIZE.pack(len(name)), name, length) for name, length in zip(names, most, strict=True)]
    return b"".join([b"%c" % len(prefix), prefix, *rest])


class _Head:
    """Decoded result of ``encoded_head``: ``prefix``, ``names`` and ``most``.

    ``key`` has the bytes of ``names`` and ``most``.
    """

    __slots__ = ("key", "most", "names", "prefix")

    def __init__(self, data: bytes) -> None:
        names: list[bytes] = []
        most: list[int] = []
        try:
            at = 1 + data[0]
            self.prefix = data[1:at]
            self.key = data[at:]
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


class _Words(Span):
    """Span with the decompressed columns of adjacent chunks."""

    __slots__ = ("chunks",)

    #: For each chunk: its columns' bytes, and the starts and lengths of their words, with one row per column.
    chunks: list[tuple[memoryview, Starts, Lengths]]


class _Made(Span):
    """Span with the frames rebuilt from a chunk's columns."""

    __slots__ = ("begins",)

    #: The start of each frame in ``data``, and the end of the last frame.
    begins: array[int]


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
        span = self.cache.spans.get(self.number + chunk + _OF_COLUMNS)
        if span is None:
            span = self._decompress_columns(chunk, end)
        assert isinstance(span, _Words)
        return span.chunks[chunk - span.first]

    def _decompress_columns(self, chunk: int, end: int) -> _Words:
        """Decompress the columns of the chunks up to ``end`` or the first cached chunk."""
        spans, first, behind = self.cache.spans, self.number + _OF_COLUMNS, chunk + 1
        while behind < end and first + behind not in spans:
            behind += 1
        sizes = self.least[chunk:behind]
        data = memoryview(self.cache.decompress(self.blob, self.begins[chunk : behind + 1], sizes))
        span, at = _Words(data, 0, behind), 0
        span.first, span.chunks = chunk, []
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

    def _made(self, chunk: int, end: int, entries: slice) -> tuple[bytes, Ints]:
        """Return the frames of a chunk's ``entries`` and the start of each. ``end``: see `_words_of`."""
        head, makers = self._head, self.cache.frame_makers
        maker: FrameMaker | None = makers.get(head.key)
        if maker is None:
            maker = FrameMaker(head.names, head.most.tolist()[1:])
            self.cache.add_frame_maker(head.key, maker)
        data, starts, lengths = self._words_of(chunk, end)
        return maker.frames(head.prefix, data, starts[:, entries], lengths[:, entries])

    def _whole(self, chunk: int, end: int) -> _Made:
        """Return the frames of an uncached chunk as a span. ``end``: see `_words_of`.

        Each chunk has its own span, because large arrays cost more: the system provides new pages for each large array.
        """
        if self.number + chunk - 1 in self.cache.spans:
            # The segment is being read sequentially: decompressing all following chunks at once costs less per chunk.
            end = len(self.firsts_ms)
        data, begins = self._made(chunk, end, slice(None))
        if len(data) != self.offsets[chunk + 1] - self.offsets[chunk]:
            raise OSError(f"a compressed chunk is damaged: {len(data)} bytes of frames")
        span = _Made(memoryview(data), self.offsets[chunk], chunk + 1)
        span.begins = array("I", [*begins.tolist(), len(data)])
        span.first = self.starts[chunk]
        span.size += 4 * len(span.begins)
        self.cache.add(self.number + chunk, self.number + chunk + 1, span)
        return span

    def _index(self, span: Span) -> Plain:
        """Return a span's frames as plain entries, which have a full index."""
        assert isinstance(span, _Made)
        plain = Plain()
        plain.data, plain.offsets = span.data, span.begins[:-1]
        plain.ms, plain.seq = self._id_columns(span.first, self.starts[span.end_chunk])
        self.cache.add_bytes(span, len(plain) * layout.INDEX_BYTES)
        return plain

    def _stretches(self, low: int, high: int) -> Iterator[tuple[memoryview | bytes, Sequence[int]]]:
        """Yield the frames [low, high) in parts: bytes, the start of each frame, and the end of the last frame."""
        spans, last = self.cache.spans, bisect_left(self.starts, high)
        is_short = high - low <= layout.SHORT_READ
        while low < high:
            chunk = bisect_right(self.starts, low) - 1
            first, end = self.starts[chunk], min(self.starts[chunk + 1], high)
            span = spans.get(self.number + chunk)
            if span is None and is_short and not self._is_read_often(chunk):
                data, begins = self._made(chunk, last, slice(low - first, end - first))
                yield data, [*begins.tolist(), len(data)]
            else:
                span = span or self._whole(chunk, last)
                assert isinstance(span, _Made)
                if is_short and span.plain is None:
                    span.plain = self._index(span)
                yield span.data, span.begins[low - span.first : end - span.first + 1]
            low = end

    def _is_read_often(self, chunk: int) -> bool:
        """Count a short read of a chunk; return whether the chunk has had several short reads."""
        span = self.cache.spans.get(self.number + chunk + _OF_COLUMNS)
        if span is None:
            # If the preceding chunk is in the cache, the segment is probably being read sequentially in small steps.
            return self.number + chunk - 1 in self.cache.spans
        span.reads += 1
        return span.reads >= layout.SHORT_READS

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """Return the frames [low, high) as a list of buffers, each with adjacent frames."""
        return [
            data if isinstance(data, bytes) else data[edges[0] : edges[-1]]
            for data, edges in self._stretches(low, high)
        ]

    def frame_at(self, index: int) -> bytes:
        """Return the frame at ``index``."""
        return b"".join(self.views(index, index + 1))

    def frames(self, low: int, high: int) -> list[bytes]:
        """Return a list of the frames [low, high)."""
        return [bytes(data[begin:end]) for data, edges in self._stretches(low, high) for begin, end in pairwise(edges)]
