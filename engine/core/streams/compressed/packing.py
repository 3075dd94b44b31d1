"""Packing: plain entries become packed ones (:mod:`engine.core.streams.compressed.packed`) in three steps.

1. ``Packing(plain, ...)`` makes the index, on the event loop.
2. :func:`~engine.core.streams.compressed.codecs.compress` compresses its ``chunks``. This takes five times as long as
   the other steps together and needs no Python: it is what another thread does.
3. :meth:`Packing.finish` assembles the packed entries, on the event loop.

A thread that ran steps 1 and 3 as well would contend with commands for the GIL, which costs them more than doing these
steps on their own thread.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from engine.core.streams.compressed import packed as layout
from engine.core.streams.compressed.codecs import compress
from engine.core.streams.compressed.packed import TYPES, Packed
from engine.core.streams.compressed.span_cache import SpanCache
from engine.core.streams.entries import Plain


class Packing:
    """The packing of entries that do not change any more: the index is made, the chunks are to be compressed."""

    __slots__ = ("_columns", "_packed", "chunks", "plain")

    def __init__(self, plain: Plain, codec: str, cache: SpanCache) -> None:
        self.plain = plain
        self._packed = packed = Packed(codec, plain.last_id, cache)
        ends = np.append(np.frombuffer(plain.offsets, np.uint32), np.uint32(len(plain.data)))
        # A chunk begins with the first frame at or behind a multiple of its size.
        cuts = np.searchsorted(ends[:-1], np.arange(0, len(plain.data), layout.CHUNK_BYTES))
        cuts = cuts[(np.diff(cuts, prepend=-1) > 0) & (cuts < len(plain))]
        packed.offsets = array("I", ends[[*cuts, -1]].tobytes())
        packed.starts = array("I", [*cuts.tolist(), len(plain)])
        ms, seq = np.frombuffer(plain.ms, np.uint64), np.frombuffer(plain.seq, np.uint64)
        packed.firsts_ms, packed.firsts_seq = (array("Q", half[cuts].tobytes()) for half in (ms, seq))
        sizes = np.diff(ends)
        least = np.minimum.reduceat(sizes, cuts)
        packed.least = array("I", [*least.tolist(), 0])
        counts = np.diff(packed.starts)
        rests = np.append(np.uint64(0), seq[1:] - np.where(ms[1:] == ms[:-1], seq[:-1] + np.uint64(1), np.uint64(0)))
        parts: list[bytes] = []
        for number, deltas in enumerate((sizes - np.repeat(least, counts), ms - np.repeat(ms[cuts], counts), rests)):
            begin = sum(map(len, parts))
            width, column, places = _as_column(deltas, cuts, packed.starts)
            parts.append(column)
            packed.column_bounds[3 * number : 3 * number + 3] = array("I", [width, begin, begin + len(column)])
            # See Packed._column: of a column of bytes they count from the beginning of the blob.
            begins = array("I", [at + begin if width == 1 else at for at in places])
            setattr(packed, ("sizes_at", "ms_at", "seq_at")[number], begins)
        self._columns = b"".join(parts)
        data = memoryview(plain.data)
        #: The frames, cut as they are to be compressed.
        self.chunks = [data[low:high] for low, high in pairwise(packed.offsets)]

    def finish(self, compressed: list[bytes]) -> Packed:
        """The packed entries, given the compressed form of each chunk."""
        packed = self._packed
        packed.begins = array("I", accumulate(map(len, compressed), initial=len(self._columns)))
        packed.blob = b"".join([self._columns, *compressed])
        packed.bind()
        return packed


def pack(plain: Plain, codec: str, cache: SpanCache) -> Packed:
    """Pack entries that do not change any more, all steps at once."""
    packing = Packing(plain, codec, cache)
    return packing.finish(compress(codec, packing.chunks))


def _as_column(
    deltas: npt.NDArray[np.unsignedinteger], cuts: npt.NDArray[np.int64], starts: array[int]
) -> tuple[int, bytes, list[int]]:
    """A column: the width of its numbers, their bytes, and at which of its numbers each chunk begins (and one more)."""
    most = np.maximum.reduceat(deltas, cuts)
    if not most.any():
        return 0, b"", [0] * len(starts)
    width = next(width for width in TYPES if int(most.max()) < 1 << 8 * width)
    numbers = deltas.astype(f"u{width}")
    # It begins with zeros, for all chunks whose numbers are all 0.
    end = max(behind - begin for begin, behind in pairwise(starts))
    parts, places = [bytes(end * width)], []
    for greatest, (begin, behind) in zip(most.tolist(), pairwise(starts), strict=True):
        places.append(end if greatest else 0)
        if greatest:
            parts.append(numbers[begin:behind].tobytes())
            end += behind - begin
    return width, b"".join(parts), [*places, 0]
