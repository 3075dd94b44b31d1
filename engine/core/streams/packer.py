"""Packing plain entries (``engine.core.streams.compressed.packed``) in three steps.

1. ``Packing(plain, ...)`` creates the index, and the columns if any, on the event loop.
2. ``compress`` compresses its ``chunks``. This step takes five times as long as the other steps together and does not
   hold the GIL, so it runs in another thread.
3. ``Packing.finish`` assembles the packed entries, on the event loop.

In another thread, steps 1 and 3 would contend with commands for the GIL. This would delay commands more than running
these steps on the event loop.

`batch_of` finds the columns, if all entries have the same field names.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from engine.core.streams.compressed import packed as layout
from engine.core.streams.compressed.packed import TYPES, Packed, SpanCache, compress
from engine.core.streams.compressed.packed_columns import CHUNKS_AT_ONCE, MOST_LENGTH, PackedColumns, encoded_head
from engine.core.streams.segment import Plain
from streamwire.entry_batch import EntryBatch, Values
from streamwire.frames import fields_of, uniform
from streamwire.walker import AFTER, BEFORE

#: Maximum number of fields of uniform entries. Each field costs about twenty numpy calls, regardless of the number of
#: entries.
MOST_FIELDS = 64
_LINE_END = b"\r\n"
#: ``batch_of`` declines larger buffers, in bytes, because offsets are signed 32-bit integers.
_MOST_BYTES = (1 << 31) - 1


def batch_of(
    data: bytes | bytearray | memoryview, offsets: Sequence[int] | npt.NDArray[np.integer]
) -> EntryBatch | None:
    """Return the entries of uniform frames, in a copy of ``data``; None if the frames are not uniform.

    Frame i is ``data[offsets[i]:offsets[i + 1]]``. ``offsets`` has the start of each frame (at least one), and the end
    of the last frame. The first frame must be valid; the others may be any bytes. A frame that differs from the output
    of `streamwire.frames.frame` is not uniform, so columns and IDs reproduce the exact bytes.
    """
    view = memoryview(data)
    names = fields_of(view[offsets[0] : offsets[1]])[::2]
    if len(names) > MOST_FIELDS or len(view) > _MOST_BYTES:
        return None
    begin, end = int(offsets[0]), int(offsets[-1])
    edges = np.array(offsets, np.int64) + (BEFORE - begin)
    before = bytes(BEFORE - len(_LINE_END)) + _LINE_END
    return uniform(b"".join((before, view[begin:end], bytes(AFTER))), edges, names)


#: Maximum number of fields of entries that are packed as columns.
_MOST_FIELDS = 32
#: Entries are packed as columns only if values make up at most this share of their frames' bytes. Columns save only the
#: bytes that are not values, and rebuilding frames takes time for every byte.
MOST_VALUES = 0.5

_Fields = tuple[tuple[bytes, ...], bytes, list[Values]]


class Packing:
    """Immutable entries that are being packed: the index exists, and the chunks are not compressed yet."""

    __slots__ = ("_head", "_packed", "chunks", "plain")

    def __init__(self, plain: Plain, cache: SpanCache, as_columns: bool) -> None:
        self.plain = plain
        edges = np.append(np.frombuffer(plain.offsets, np.uint32), np.uint32(len(plain.data)))
        fields = _worthwhile_columns(plain, edges) if as_columns else None
        self._packed: Packed
        if fields is None:
            self._packed, chunk_bytes = Packed(plain.last_id, cache), layout.CHUNK_BYTES
        else:
            self._packed = PackedColumns(plain.last_id, cache)
            chunk_bytes = layout.CHUNK_BYTES * CHUNKS_AT_ONCE
        packed = self._packed
        # A chunk starts with the first frame at or after a multiple of ``chunk_bytes``.
        cuts = np.searchsorted(edges[:-1], np.arange(0, len(plain.data), chunk_bytes))
        cuts = cuts[(np.diff(cuts, prepend=-1) > 0) & (cuts < len(plain))]
        packed.offsets = array("I", edges[[*cuts, -1]].tobytes())
        packed.starts = array("I", [*cuts.tolist(), len(plain)])
        ms, seq = np.frombuffer(plain.ms, np.uint64), np.frombuffer(plain.seq, np.uint64)
        packed.firsts_ms, packed.firsts_seq = (array("Q", half[cuts].tobytes()) for half in (ms, seq))
        counts = np.diff(packed.starts)
        rests = np.append(np.uint64(0), seq[1:] - np.where(ms[1:] == ms[:-1], seq[:-1] + np.uint64(1), np.uint64(0)))
        data, names = memoryview(plain.data), b""
        sizes: npt.NDArray[np.unsignedinteger] = np.zeros(len(plain), np.uint8)
        #: The uncompressed chunks: frames or columns.
        self.chunks: list[memoryview] | list[bytes]
        if fields is None:
            sizes = np.diff(edges)
            least = np.minimum.reduceat(sizes, cuts)
            sizes = sizes - np.repeat(least, counts)
            self.chunks = [data[low:high] for low, high in pairwise(packed.offsets)]
        else:
            packed_names, prefix, columns = fields
            names = encoded_head(prefix, packed_names, [int(values.lengths.max()) for values in columns[1:]])
            self.chunks = _chunks(columns, packed.starts)
            least = np.array(list(map(len, self.chunks)))
        packed.least = array("I", [*least.tolist(), 0])
        parts: list[bytes] = []
        for number, deltas in enumerate((sizes, ms - np.repeat(ms[cuts], counts), rests)):
            begin = sum(map(len, parts))
            width, column, begins = _as_column(deltas, cuts, packed.starts)
            parts.append(column)
            packed.column_bounds[3 * number : 3 * number + 3] = array("I", [width, begin, begin + len(column)])
            # The chunks' starts in a column of one-byte numbers are offsets in the blob: see Packed._column.
            at = array("I", [start + begin if width == 1 else start for start in begins])
            setattr(packed, ("sizes_at", "ms_at", "seq_at")[number], at)
        self._head = b"".join([*parts, names])

    def finish(self, compressed: list[bytes]) -> Packed:
        """Return the packed entries, given the compressed chunks."""
        packed = self._packed
        packed.begins = array("I", accumulate(map(len, compressed), initial=len(self._head)))
        packed.blob = b"".join([self._head, *compressed])
        packed.bind()
        return packed


def pack(plain: Plain, cache: SpanCache, as_columns: bool = False) -> Packed:
    """Pack immutable entries in all three steps. With ``as_columns``, pack them as columns if that saves enough."""
    packing = Packing(plain, cache, as_columns)
    return packing.finish(compress(packing.chunks))


def unpacked(packed: Packed) -> Plain:
    """Return packed entries as immutable plain entries."""
    frames, plain = packed.frames(0, len(packed)), Plain()
    plain.extend(b"".join(frames), list(map(len, frames)), *packed.id_columns(0, len(packed)))
    plain.freeze()
    return plain


def _worthwhile_columns(plain: Plain, edges: npt.NDArray[np.unsignedinteger]) -> _Fields | None:
    """Return the field names, the IDs' common prefix, and the columns; None if columns do not save enough.

    The first column holds the IDs without their prefix, and the others hold the values of each field.
    """
    batch = batch_of(plain.data, edges)
    if batch is None or len(batch.names) > _MOST_FIELDS:
        return None
    names, texts, fields = batch.names, batch.ids, batch.known
    assert isinstance(texts, Values)
    lengths = [values.lengths for values in fields]
    if max(map(len, names)) > MOST_LENGTH or max(int(column.max()) for column in lengths) > MOST_LENGTH:
        return None
    if sum(int(column.sum()) for column in lengths) > MOST_VALUES * len(plain.data):
        return None
    # IDs ascend: if the first and the last have the same number of digits, their common prefix is the prefix of all
    # IDs.
    first, last = (b"%d" % plain.ms[index] for index in (0, -1))
    size = (
        0
        if len(first) != len(last)
        else next((at for at, (digit, other) in enumerate(zip(first, last, strict=True)) if digit != other), len(first))
    )
    prefix = first[:size]
    rests = Values(texts.data, texts.starts + len(prefix), texts.lengths - len(prefix))
    return names, prefix, [rests, *fields]


def _chunks(columns: list[Values], starts: array[int]) -> list[bytes]:
    """Serialise the columns of each chunk: the words' lengths, then the words."""
    edges = list(pairwise(starts))
    begins = np.concatenate([values.starts[low:high] for low, high in edges for values in columns])
    sizes = np.concatenate([values.lengths[low:high] for low, high in edges for values in columns])
    words, lengths = Values(columns[0].data, begins, sizes).gathered(), sizes.astype(np.uint8).tobytes()
    firsts = [low * len(columns) for low in starts]
    ends = np.cumsum(sizes)[np.array(firsts[1:]) - 1].tolist()
    return [
        lengths[low:high] + words[begin:end]
        for (low, high), (begin, end) in zip(pairwise(firsts), pairwise([0, *ends]), strict=True)
    ]


def _as_column(
    deltas: npt.NDArray[np.unsignedinteger], cuts: npt.NDArray[np.int64], starts: array[int]
) -> tuple[int, bytes, list[int]]:
    """Return a column: the width of its numbers, their bytes, and the start of each chunk, followed by a 0."""
    most = np.maximum.reduceat(deltas, cuts)
    if not most.any():
        return 0, b"", [0] * len(starts)
    width = next(width for width in TYPES if int(most.max()) < 1 << 8 * width)
    numbers = deltas.astype(f"u{width}")
    # The column starts with zeros, shared by all chunks whose numbers are all 0.
    end = max(behind - begin for begin, behind in pairwise(starts))
    parts, begins = [bytes(end * width)], []
    for greatest, (begin, behind) in zip(most.tolist(), pairwise(starts), strict=True):
        begins.append(end if greatest else 0)
        if greatest:
            parts.append(numbers[begin:behind].tobytes())
            end += behind - begin
    return width, b"".join(parts), [*begins, 0]
