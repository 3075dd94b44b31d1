"""The cache of what reads have decompressed: spans of neighbouring chunks, the oldest evicted first.

One cache serves all streams of a core. It belongs to one thread: whoever reads the same compressed entries in another
thread needs a cache of his own (:meth:`engine.core.streams.stream.Stream.copy` takes one).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from engine.core.streams.compressed.codecs import Decompressor, decompressor
from engine.core.streams.entries import Plain

#: Bytes of decompressed spans that are kept; what replies still hold comes on top.
CACHE_BYTES = 64 << 20


class Span:
    """Neighbouring chunks of one segment, decompressed together."""

    __slots__ = ("begin", "data", "end_chunk", "first", "plain", "reads", "size")

    def __init__(self, data: memoryview, begin: int, end_chunk: int) -> None:
        self.data = data
        #: Bytes that it takes, the index in ``plain`` included.
        self.size = len(data)
        #: Where ``data`` begins among all frames of the segment.
        self.begin = begin
        #: The index of the chunk behind its last one.
        self.end_chunk = end_chunk
        #: How many short reads it has served.
        self.reads = 0
        #: Its entries with a full index of their own, made after several short reads; ``first`` is the index in the
        #: segment of the first of them.
        self.plain: Plain | None = None
        self.first = 0


class SpanCache:
    """Decompressed spans by chunk number, and the decompressors that make them."""

    __slots__ = ("_bytes", "_decompressors", "_order", "spans")

    def __init__(self) -> None:
        #: Chunk number, unique among all segments -> the span that holds the chunk. To be read only.
        self.spans: dict[int, Span] = {}
        #: (number of the first chunk, number behind the last) of each span, oldest first.
        self._order: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._decompressors: dict[str, Decompressor] = {}

    def decompress(self, codec: str, blob: bytes | memoryview, begins: Sequence[int], sizes: Sequence[int]) -> bytes:
        """Decompress chunks; see :meth:`~engine.core.streams.compressed.codecs.Decompressor.decompress`."""
        found = self._decompressors.get(codec)
        if found is None:
            found = self._decompressors[codec] = decompressor(codec)
        return found.decompress(blob, begins, sizes)

    def add(self, first: int, end: int, span: Span) -> None:
        """Keep the span of the chunks numbered [first, end), and evict the oldest spans beyond the cache's size."""
        spans = self.spans
        for number in range(first, end):
            spans[number] = span
        self._order.append((first, end))
        self._bytes += span.size
        while self._bytes > CACHE_BYTES and len(self._order) > 1:
            first, end = self._order.popleft()
            self._bytes -= spans[first].size
            for number in range(first, end):
                del spans[number]

    def clear(self) -> None:
        """Keep nothing; who goes on reading decompresses again."""
        self.spans.clear()
        self._order.clear()
        self._bytes = 0

    def add_bytes(self, span: Span, size: int) -> None:
        """Count ``size`` more bytes for a span that is in the cache."""
        span.size += size
        self._bytes += size
