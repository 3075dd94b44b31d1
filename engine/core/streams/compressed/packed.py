"""Packed entries: frames compressed in chunks, with an index small enough to stay uncompressed in memory.

A chunk holds about ``CHUNK_BYTES`` of frames. A read decompresses the chunks that it touches, and joins adjacent chunks
in one span of the cache. The index alone determines the offset and ID of an entry.

The index is a directory with one row per chunk, and three columns of deltas with one number per entry::

    directory  starts       index of the chunk's first entry
               offsets      offset of that entry's frame among all frames, in bytes
               begins       offset of the compressed chunk in ``blob``
               least        size of the chunk's smallest frame
               firsts_*     ID of the chunk's first entry
               *_at         offset of the chunk's deltas in each column
    columns    sizes        size of the frame - ``least``
               ms           milliseconds - those of the chunk's first entry
               seq          sequence number; minus (the previous entry's + 1) if that entry has the same milliseconds

A column's numbers are as wide as its greatest number requires: 0, 1, 2, 4 or 8 bytes. Chunks whose deltas are all 0
share one run of zeros, which is the normal case for ``seq`` and frequent in the other columns. To find an entry, the
deltas of at most one chunk are added up. Columns and chunks share one buffer, because small buffers would each waste
part of a page.

``engine.core.streams.packer`` creates packed entries. If all entries have the same field names, it can store
columns instead of frames (``engine.core.streams.compressed.packed_columns``).

Each chunk is compressed separately, so it can be read without the other chunks. The package ``zstandard`` compresses
all chunks in one call, without the GIL, and keeps the compressor's state between chunks. Arrow's zstd creates a new
state for each chunk, which takes longer than compressing the chunk. The reason is that a new state queries the CPU's
features, which traps to the hypervisor on a virtual machine. Arrow also acquires and releases the GIL for every chunk,
which delays the event loop.

The cache holds spans, and *blocks*: the compressed entries of one segment, read from disk
(``engine.core.streams.compressed.disk_entries``). It evicts the oldest spans, and the least recently used blocks. One
cache serves all streams of a core. It is not thread-safe: another thread that reads the same compressed entries needs
its own cache (see ``engine.core.streams.stream.Stream.copy``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, count, pairwise
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import zstandard

from engine.core.protocol.ids import U64_MAX, IdColumns, position
from streamwire.entry_batch import EntryBatch

_ZSTD_LEVEL = 1

Buffer = bytes | memoryview


def compress(chunks: Sequence[Buffer]) -> list[bytes]:
    """Compress each chunk separately."""
    found = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).multi_compress_to_buffer(list(chunks), threads=0)
    return [found[number].tobytes() for number in range(len(found))]


#: Default maximum size in bytes of the cached spans and blocks. Data still held by replies is not included.
CACHE_BYTES = 64 << 20
#: The maximum size of all blocks is the cache's maximum size divided by this number.
_BLOCKS_SHARE = 4
#: Each segment's chunk numbers start at a multiple of this, so that numbers are unique across segments.
_NUMBERS = 1 << 32
_segments = count()


class Span:
    """Adjacent chunks of one segment, decompressed together."""

    __slots__ = ("begin", "data", "end_chunk", "size")

    def __init__(self, data: memoryview, begin: int, end_chunk: int) -> None:
        self.data = data
        #: Size in bytes that counts towards the cache's size.
        self.size = len(data)
        #: Offset of ``data`` among all frames of the segment.
        self.begin = begin
        #: Index of the chunk after the last one.
        self.end_chunk = end_chunk


class SpanCache:
    """Decompressed spans by chunk number, and blocks from the disk."""

    __slots__ = ("_block_bytes", "_blocks", "_bytes", "_decompressor", "_order", "ids", "limit", "spans")

    def __init__(self, limit: int | None = None) -> None:
        #: Maximum size in bytes; None: ``CACHE_BYTES``.
        self.limit = limit
        #: Chunk number, unique across segments -> the span with this chunk. Callers must not modify the dictionary.
        self.spans: dict[int, Span] = {}
        #: (number of the first chunk, number after the last chunk) of each span, oldest first.
        self._order: deque[tuple[int, int]] = deque()
        self._bytes = 0
        #: None: not needed yet.
        self._decompressor: zstandard.ZstdDecompressor | None = None
        #: Chunk number -> the IDs of the chunk's entries; kept by ``Packed``.
        self.ids: dict[int, IdColumns] = {}
        #: Packed entries read from disk, with their sizes, by the number of their first chunk.
        self._blocks: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._block_bytes = 0

    @staticmethod
    def new_number() -> int:
        """Return a unique number for the first chunk of a segment."""
        return next(_segments) * _NUMBERS

    @property
    def size(self) -> int:
        """Size of the cached data in bytes."""
        return self._bytes + self._block_bytes

    def _limit(self) -> int:
        return CACHE_BYTES if self.limit is None else self.limit

    def block(self, number: int) -> Any:
        """Return the cached block whose first chunk has this number; None if it must be read from disk."""
        found = self._blocks.get(number)
        if found is None:
            return None
        self._blocks.move_to_end(number)
        return found[0]

    def add_block(self, number: int, packed: Any, size: int) -> None:
        """Cache packed entries of ``size`` bytes read from disk; evict old blocks beyond the blocks' share."""
        self._blocks[number] = packed, size
        self._block_bytes += size
        most = self._limit() // _BLOCKS_SHARE
        while self._block_bytes > most and len(self._blocks) > 1:
            _, (_, freed) = self._blocks.popitem(last=False)
            self._block_bytes -= freed

    def decompress(self, blob: bytes | memoryview, begins: Sequence[int], sizes: Sequence[int]) -> bytes:
        """Decompress adjacent chunks and join them.

        ``begins`` are the offsets of the chunks in ``blob``, followed by the end of the last chunk. ``sizes`` are their
        decompressed sizes in bytes. Raises OSError if the bytes are damaged.
        """
        if self._decompressor is None:
            self._decompressor = zstandard.ZstdDecompressor()
        # One call decompresses all chunks, because every zstd frame contains its length.
        reader = self._decompressor.stream_reader(blob[begins[0] : begins[-1]], read_across_frames=True)
        size = sum(sizes)
        try:
            data = reader.read(size)
        except zstandard.ZstdError as error:
            raise OSError(f"a compressed chunk is damaged: {error}") from None
        if len(data) != size:
            raise OSError(f"a compressed chunk is damaged: {len(data)} bytes instead of {size}")
        return data

    def add(self, first: int, end: int, span: Span) -> None:
        """Cache the span of the chunks [first, end), and evict the oldest spans beyond the cache's size."""
        spans = self.spans
        for number in range(first, end):
            spans[number] = span
        self._order.append((first, end))
        self._bytes += span.size
        most = self._limit() - self._block_bytes
        while self._bytes > most and len(self._order) > 1:
            first, end = self._order.popleft()
            self._bytes -= spans[first].size
            for number in range(first, end):
                del spans[number]

    def clear(self) -> None:
        """Drop all spans and blocks. Later reads load and decompress the data again."""
        self.spans.clear()
        self.ids.clear()
        self._order.clear()
        self._bytes = 0
        self._blocks.clear()
        self._block_bytes = 0


#: Approximate bytes of frames in a chunk. A chunk ends with the entry that reaches a multiple of this size. Small
#: chunks make short reads cheaper, large chunks make long reads cheaper. Measured on two-field entries with random
#: values::
#:
#:     chunk    decompression     read of 100 uncached entries, vs. cached   memory, vs. 16 KiB
#:      8 KiB   57 ns per entry   +27 %                                      +5 %
#:     16 KiB   42 ns per entry   +32 %                                       0 %
#:     24 KiB   37 ns per entry   +33 %                                       0 %
#:     32 KiB   35 ns per entry   +36 to 41 %                                +3 %
CHUNK_BYTES = 24 * 1024

#: Maximum number of chunks whose IDs are in the cache, with 16 bytes per entry: usually less than 8 KiB per chunk.
_MOST_IDS = 256
#: Width of a column's numbers in bytes -> their type code.
TYPES: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
#: A column of zeros, at least as long as the number of entries in any chunk.
_ZEROS = bytes(CHUNK_BYTES)
_Column = bytes | memoryview


class Packed:
    """Packed entries 0 .. n-1 of one segment. ``cache`` keeps decompressed data for a while."""

    __slots__ = (
        "begins",
        "blob",
        "cache",
        "column_bounds",
        "firsts_ms",
        "firsts_seq",
        "last_id",
        "least",
        "ms",
        "ms_at",
        "number",
        "offsets",
        "seq",
        "seq_at",
        "sizes",
        "sizes_at",
        "starts",
    )

    def __init__(self, last_id: int, cache: SpanCache, number: int | None = None) -> None:
        self.last_id = last_id
        self.cache = cache
        #: The cache's number for the first chunk.
        self.number = cache.new_number() if number is None else number
        # The directory (see the module's docstring). These arrays have one more row, for the end of the last chunk.
        self.starts = array("I")
        self.offsets = array("I")
        self.begins = array("I")
        self.least = array("I")
        self.sizes_at = array("I")
        self.ms_at = array("I")
        self.seq_at = array("I")
        # These arrays have one row per chunk.
        self.firsts_ms = array("Q")
        self.firsts_seq = array("Q")
        #: For each column: the width of its numbers (0: all zeros), its start in ``blob``, and its end.
        self.column_bounds = array("I", [0] * 9)
        #: The columns, followed by the compressed chunks.
        self.blob: _Column = b""
        self.bind()

    def bind(self) -> None:
        """Set the columns from ``column_bounds`` and ``blob``. Call this whenever these two have been set."""
        self.sizes: _Column
        self.ms: _Column
        self.seq: _Column
        self.sizes, self.ms, self.seq = (self._column(*self.column_bounds[at : at + 3]) for at in (0, 3, 6))

    def _column(self, width: int, begin: int, end: int) -> _Column:
        if width > 1:
            return memoryview(self.blob)[begin:end].cast(TYPES[width])
        # A column of one-byte numbers is ``blob`` itself: its ``*_at`` are offsets in ``blob``.
        return self.blob if width else _ZEROS

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def data_size(self) -> int:
        """Decompressed size of the frames in bytes."""
        return self.offsets[-1]

    @property
    def index_arrays(self) -> tuple[array[int], ...]:
        """The arrays of the index except the columns in ``blob``, in the order in which snapshots store them.

        These are the arrays with an additional row, the two arrays with one row per chunk, and the columns' bounds.
        """
        return (
            self.starts,
            self.offsets,
            self.begins,
            self.least,
            self.sizes_at,
            self.ms_at,
            self.seq_at,
            self.firsts_ms,
            self.firsts_seq,
            self.column_bounds,
        )

    # -- the index --------------------------------------------------------------------------------------------------

    def id_at(self, index: int) -> int:
        """Return the ID of the entry at ``index``."""
        chunk = bisect_right(self.starts, index) - 1
        inside, ms_at, seq_at = index - self.starts[chunk], self.ms_at[chunk], self.seq_at[chunk]
        delta = self.ms[ms_at + inside]
        # Sequence numbers count up from the first entry of the same millisecond.
        same = bisect_left(self.ms, delta, ms_at, ms_at + inside) - ms_at
        seq = self.seq[seq_at + same] if same else self.firsts_seq[chunk]
        seq += inside - same + sum(self.seq[seq_at + same + 1 : seq_at + inside + 1])
        return self.firsts_ms[chunk] + delta << 64 | seq

    def position(self, entry_id: int) -> int:
        """Return the index of the first entry whose ID is not below ``entry_id``."""
        chunk = position(self.firsts_ms, self.firsts_seq, entry_id) - 1
        if chunk < 0:
            return 0
        # The first entry of the chunk is below ``entry_id``: search only the entries after it.
        first, ms_at, seq_at = self.starts[chunk], self.ms_at[chunk], self.seq_at[chunk]
        delta, rest = (entry_id >> 64) - self.firsts_ms[chunk], entry_id & U64_MAX
        end = ms_at + self.starts[chunk + 1] - first
        at = bisect_left(self.ms, delta, ms_at, end)
        low = at - ms_at
        if not rest or at == end or self.ms[at] != delta:
            return first + low
        high = bisect_right(self.ms, delta, at, end) - ms_at
        seq = self.seq[seq_at + low] if low else self.firsts_seq[chunk]
        if self.seq is _ZEROS:
            return first + min(low + max(rest - seq, 0), high)
        sums = list(accumulate(self.seq[seq_at + low + 1 : seq_at + high], initial=seq))
        return first + low + bisect_left(range(len(sums)), rest, key=lambda at: at + sums[at])

    def id_columns(self, low: int, high: int) -> IdColumns:
        """Return the IDs of the entries [low, high)."""
        ms, seq = array("Q"), array("Q")
        for chunk in range(bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)):
            more_ms, more_seq = self._ids(chunk)
            wanted = slice(max(low - self.starts[chunk], 0), high - self.starts[chunk])
            ms += more_ms[wanted]
            seq += more_seq[wanted]
        return ms, seq

    def _ids(self, chunk: int) -> IdColumns:
        """Return the IDs of a chunk's entries. The cache keeps them, because a reader continues where it stopped.

        To find one entry, as XDEL does, takes half the time of adding up a chunk.
        """
        known = self.cache.ids
        found = known.get(self.number + chunk)
        if found is None:
            if len(known) == _MOST_IDS:
                known.clear()
            found = known[self.number + chunk] = self._add_up(chunk)
        return found

    def _add_up(self, chunk: int) -> IdColumns:
        count = self.starts[chunk + 1] - self.starts[chunk]
        ms = _widened(self.ms, self.ms_at[chunk], count)
        ms += np.uint64(self.firsts_ms[chunk])
        seq = _widened(self.seq, self.seq_at[chunk], count)
        seq[0] = self.firsts_seq[chunk]
        is_new = ms[1:] != ms[:-1]
        if not is_new.all():
            # Sequence numbers count up from ``same``, the first entry of each entry's millisecond.
            same = np.zeros(count, np.int64)
            changed = np.flatnonzero(is_new) + 1
            same[changed] = changed
            same = np.maximum.accumulate(same)
            sums = np.cumsum(seq + np.uint64(1))
            seq = sums - sums[same] + seq[same]
        return array("Q", ms.tobytes()), array("Q", seq.tobytes())

    def _offset(self, chunk: int, index: int) -> int:
        """Return the offset, among all frames, of the frame at ``index``, which is in ``chunk`` or just behind it."""
        inside, at = index - self.starts[chunk], self.sizes_at[chunk]
        return self.offsets[chunk] + inside * self.least[chunk] + sum(self.sizes[at : at + inside])

    def _lengths(self, low: int, high: int) -> Iterator[int]:
        """Yield the sizes of the frames [low, high)."""
        chunk = bisect_right(self.starts, low) - 1
        while low < high:
            first, end, least = self.starts[chunk], min(self.starts[chunk + 1], high), self.least[chunk]
            at = self.sizes_at[chunk] - first
            for size in self.sizes[at + low : at + end]:
                yield least + size
            low, chunk = end, chunk + 1

    # -- frames -----------------------------------------------------------------------------------------------------

    def views(self, low: int, high: int) -> list[bytes | memoryview]:
        """Return the frames [low, high) as slices of spans; decompress spans that are not in the cache."""
        spans, views = self.cache.spans, list[bytes | memoryview]()
        chunk, end_chunk = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)
        begin, end = self._offset(chunk, low), self._offset(end_chunk - 1, high)
        while chunk < end_chunk:
            span = spans.get(self.number + chunk)
            if span is None:
                span = self._decompress(chunk, end_chunk)
            views.append(span.data[max(begin - span.begin, 0) : end - span.begin])
            chunk = span.end_chunk
        return views

    def _decompress(self, chunk: int, end: int) -> Span:
        """Decompress a chunk and the following chunks, up to ``end`` or the first cached chunk.

        If the preceding chunk is in the cache, the segment is being read sequentially. All following chunks are then
        decompressed at once, which costs less per chunk and returns few large views.
        """
        spans, behind = self.cache.spans, chunk + 1
        if self.number + chunk - 1 in spans:
            end = len(self.firsts_ms)
        while behind < end and self.number + behind not in spans:
            behind += 1
        offsets = self.offsets[chunk : behind + 1]
        sizes = [stop - start for start, stop in pairwise(offsets)]
        data = self.cache.decompress(self.blob, self.begins[chunk : behind + 1], sizes)
        span = Span(memoryview(data), self.offsets[chunk], behind)
        self.cache.add(self.number + chunk, self.number + behind, span)
        return span

    def frame_at(self, index: int) -> bytes:
        """Return the frame at ``index``."""
        return b"".join(self.views(index, index + 1))

    def frames(self, low: int, high: int) -> list[bytes]:
        """Return a list of the frames [low, high)."""
        data = b"".join(self.views(low, high))
        return [data[begin:end] for begin, end in pairwise(accumulate(self._lengths(low, high), initial=0))]

    def columns(self, low: int, high: int) -> EntryBatch | None:  # noqa: ARG002  # for PackedColumns
        """Return None, because the entries are stored as frames."""
        return None

    def copy(self, cache: SpanCache) -> Self:
        """Return the same entries with another cache."""
        # Avoids __init__, whose empty arrays would be costly when an image copies many segments.
        other = type(self).__new__(type(self))
        for name in Packed.__slots__:
            setattr(other, name, getattr(self, name))
        other.cache = cache
        return other


def _widened(column: _Column, begin: int, count: int) -> npt.NDArray[np.uint64]:
    """Return ``count`` numbers of a column from ``begin`` on, as 64-bit integers."""
    return np.array(memoryview(column)[begin : begin + count], np.uint64)
