"""The cache of what reads have decompressed: spans of neighbouring chunks, the oldest evicted first. And of the blocks
that were read from the disk for it (:mod:`engine.core.streams.compressed.disk_entries`), the one that was not asked for
longest evicted first.

One cache serves all streams of a core. It belongs to one thread: whoever reads the same compressed entries in another
thread needs a cache of his own (:meth:`engine.core.streams.stream.Stream.copy` takes one).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import count
from typing import Any

from engine.core.streams.compressed.codecs import Decompressor, decompressor
from engine.core.streams.entries import Plain

#: Bytes of decompressed spans and of blocks that are kept, unless the cache is told otherwise; what replies still hold
#: comes on top.
CACHE_BYTES = 64 << 20
#: Blocks take this part of them at the most.
_BLOCKS_SHARE = 4
#: So many makers of frames are kept, of 130 kB each.
_FRAME_MAKERS = 16
#: Each segment numbers its chunks from a multiple of this, so that chunk numbers are unique among all segments.
_NUMBERS = 1 << 32
_segments = count()


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
    """Decompressed spans by chunk number, the decompressors that make them, and blocks from the disk."""

    __slots__ = ("_block_bytes", "_blocks", "_bytes", "_decompressors", "_order", "frame_makers", "limit", "spans")

    def __init__(self) -> None:
        #: Bytes that are kept; None: :data:`CACHE_BYTES`.
        self.limit: int | None = None
        #: Chunk number, unique among all segments -> the span that holds the chunk. To be read only.
        self.spans: dict[int, Span] = {}
        #: (number of the first chunk, number behind the last) of each span, oldest first.
        self._order: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._decompressors: dict[str, Decompressor] = {}
        #: Packed entries that were read from the disk by the number of their first chunk, with their bytes.
        self._blocks: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._block_bytes = 0
        #: What makes frames of columns, by the names of their fields as they are stored. To be read only.
        self.frame_makers: dict[bytes, Any] = {}

    @staticmethod
    def new_number() -> int:
        """The number of the first chunk of a segment, which no other has."""
        return next(_segments) * _NUMBERS

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return self._bytes + self._block_bytes

    def _limit(self) -> int:
        return CACHE_BYTES if self.limit is None else self.limit

    def block(self, number: int) -> Any:
        """The packed entries with this first number, None where they must be read."""
        found = self._blocks.get(number)
        if found is None:
            return None
        self._blocks.move_to_end(number)
        return found[0]

    def add_block(self, number: int, packed: Any, size: int) -> None:
        """Keep packed entries that were read from the disk, ``size`` bytes, and evict others beyond their share."""
        self._blocks[number] = packed, size
        self._block_bytes += size
        most = self._limit() // _BLOCKS_SHARE
        while self._block_bytes > most and len(self._blocks) > 1:
            _, (_, gone) = self._blocks.popitem(last=False)
            self._block_bytes -= gone

    def add_frame_maker(self, header: bytes, maker: Any) -> None:
        """Keep one, and drop the one that was added longest ago where there are many."""
        if len(self.frame_makers) == _FRAME_MAKERS:
            del self.frame_makers[next(iter(self.frame_makers))]
        self.frame_makers[header] = maker

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
        most = self._limit() - self._block_bytes
        while self._bytes > most and len(self._order) > 1:
            first, end = self._order.popleft()
            self._bytes -= spans[first].size
            for number in range(first, end):
                del spans[number]

    def clear(self) -> None:
        """Keep nothing; who goes on reading decompresses again."""
        self.spans.clear()
        self._order.clear()
        self._bytes = 0
        self._blocks.clear()
        self._block_bytes = 0

    def add_bytes(self, span: Span, size: int) -> None:
        """Count ``size`` more bytes for a span that is in the cache."""
        span.size += size
        self._bytes += size
