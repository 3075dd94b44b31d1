"""Cache of decompressed spans, and of *blocks*: the compressed entries of one segment, read from disk.

A span consists of adjacent chunks. The cache evicts the oldest spans, and the least recently used blocks
(``engine.core.streams.compressed.disk_entries``).

One cache serves all streams of a core. It is not thread-safe: another thread that reads the same compressed entries
needs its own cache (see ``engine.core.streams.stream.Stream.copy``).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import count
from typing import Any

from engine.core.streams.compressed.codecs import Decompressor, decompressor
from engine.core.streams.entries import Plain

#: Default maximum size in bytes of the cached spans and blocks. Data still held by replies is not included.
CACHE_BYTES = 64 << 20
#: The maximum size of all blocks is the cache's maximum size divided by this number.
_BLOCKS_SHARE = 4
#: Maximum number of frame makers, of 130 kB each.
_FRAME_MAKERS = 16
#: Each segment's chunk numbers start at a multiple of this, so that numbers are unique across segments.
_NUMBERS = 1 << 32
_segments = count()


class Span:
    """Adjacent chunks of one segment, decompressed together."""

    __slots__ = ("begin", "data", "end_chunk", "first", "plain", "reads", "size")

    def __init__(self, data: memoryview, begin: int, end_chunk: int) -> None:
        self.data = data
        #: Size in bytes, including the index in ``plain``.
        self.size = len(data)
        #: Offset of ``data`` among all frames of the segment.
        self.begin = begin
        #: Index of the chunk after the last one.
        self.end_chunk = end_chunk
        #: Number of short reads served.
        self.reads = 0
        #: The span's entries with a full index, created after several short reads.
        self.plain: Plain | None = None
        #: Index in the segment of the first of these entries.
        self.first = 0


class SpanCache:
    """Decompressed spans by chunk number, the decompressors that make them, and blocks from the disk."""

    __slots__ = ("_block_bytes", "_blocks", "_bytes", "_decompressors", "_order", "frame_makers", "limit", "spans")

    def __init__(self, limit: int | None = None) -> None:
        #: Maximum size in bytes; None: ``CACHE_BYTES``.
        self.limit = limit
        #: Chunk number, unique across segments -> the span with this chunk. Callers must not modify the dictionary.
        self.spans: dict[int, Span] = {}
        #: (number of the first chunk, number after the last chunk) of each span, oldest first.
        self._order: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._decompressors: dict[str, Decompressor] = {}
        #: Packed entries read from disk, with their sizes, by the number of their first chunk.
        self._blocks: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._block_bytes = 0
        #: Frame makers by their stored field names. Callers must not modify the dictionary.
        self.frame_makers: dict[bytes, Any] = {}

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

    def add_frame_maker(self, header: bytes, maker: Any) -> None:
        """Cache a frame maker. Evict the oldest one if the maximum number is already cached."""
        if len(self.frame_makers) == _FRAME_MAKERS:
            del self.frame_makers[next(iter(self.frame_makers))]
        self.frame_makers[header] = maker

    def decompress(self, codec: str, blob: bytes | memoryview, begins: Sequence[int], sizes: Sequence[int]) -> bytes:
        """Decompress chunks; see ``Decompressor.decompress``."""
        found = self._decompressors.get(codec)
        if found is None:
            found = self._decompressors[codec] = decompressor(codec)
        return found.decompress(blob, begins, sizes)

    def add(self, first: int, end: int, span: Span) -> None:
        """Cache the span of the chunks [first, end), and evict the oldest spans beyond the cache's size."""
        spans = self.spans
        for number in range(first, end):
            spans[number] = span
        self._order.append((first, end))
        self._bytes += span.size
        self._evict()

    def add_bytes(self, span: Span, size: int) -> None:
        """Add ``size`` bytes to the size of a cached span, and evict the oldest spans beyond the cache's size."""
        span.size += size
        self._bytes += size
        self._evict()

    def _evict(self) -> None:
        spans, most = self.spans, self._limit() - self._block_bytes
        while self._bytes > most and len(self._order) > 1:
            first, end = self._order.popleft()
            self._bytes -= spans[first].size
            for number in range(first, end):
                del spans[number]

    def clear(self) -> None:
        """Drop all spans and blocks. Later reads load and decompress the data again."""
        self.spans.clear()
        self._order.clear()
        self._bytes = 0
        self._blocks.clear()
        self._block_bytes = 0
