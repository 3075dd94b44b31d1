"""Packing: plain entries become packed ones (:mod:`engine.core.streams.packed`).

It has three parts, so that only the middle one, which takes five times as long as the others together and needs no
Python, has to be another thread's: a :class:`Packing` is made, its ``pieces`` are compressed
(:func:`engine.core.streams.codecs.compress`), and it is finished with what came of that. A thread that ran the other
two as well would contend for the interpreter's lock with commands, which costs them more than doing it themselves.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from engine.core.streams import packed as layout
from engine.core.streams.codecs import compress
from engine.core.streams.entries import Plain
from engine.core.streams.laid_out import Storage
from engine.core.streams.packed import TYPES, Packed


class Packing:
    """Entries that do not change any more, on their way: the index is made, the frames are yet to be compressed."""

    __slots__ = ("_packed", "_rows", "pieces", "plain")

    def __init__(self, plain: Plain, codec: str, storage: Storage) -> None:
        self.plain = plain
        self._packed = packed = Packed(codec, plain.last_id, storage)
        ends = np.append(np.frombuffer(plain.offsets, np.uint32), np.uint32(len(plain.data)))
        # A piece begins with the first frame at or behind a multiple of its size.
        cuts = np.searchsorted(ends[:-1], np.arange(0, len(plain.data), layout.PIECE_BYTES))
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
        for number, values in enumerate((sizes - np.repeat(least, counts), ms - np.repeat(ms[cuts], counts), rests)):
            begin = sum(map(len, parts))
            width, row, ats = _as_row(values, cuts, packed.starts)
            parts.append(row)
            packed.rows[3 * number : 3 * number + 3] = array("I", [width, begin, begin + len(row)])
            places = array("I", [at + begin if width == 1 else at for at in ats])
            setattr(packed, ("sizes_at", "ms_at", "seq_at")[number], places)
        self._rows = b"".join(parts)
        data = memoryview(plain.data)
        #: The frames, as they are to be compressed, each by itself.
        self.pieces = [data[low:high] for low, high in pairwise(packed.offsets)]

    def finish(self, pieces: list[bytes]) -> Packed:
        """The packed entries, given what the pieces were compressed to."""
        packed = self._packed
        packed.begins = array("I", accumulate(map(len, pieces), initial=len(self._rows)))
        packed.blob = b"".join([self._rows, *pieces])
        packed.bind()
        return packed


def pack(plain: Plain, codec: str, storage: Storage) -> Packed:
    """Pack entries that do not change any more, at once."""
    packing = Packing(plain, codec, storage)
    return packing.finish(compress(codec, packing.pieces))


def _as_row(
    values: npt.NDArray[np.unsignedinteger], cuts: npt.NDArray[np.int64], starts: array[int]
) -> tuple[int, bytes, list[int]]:
    """A row: the width of its numbers, their bytes, and where among them each piece begins (and one more)."""
    most = np.maximum.reduceat(values, cuts)
    if not most.any():
        return 0, b"", [0] * len(starts)
    width = next(width for width in TYPES if int(most.max()) < 1 << 8 * width)
    numbers = values.astype(f"u{width}")
    # At first the zeros that pieces share which have nothing else.
    place = max(end - begin for begin, end in pairwise(starts))
    parts, ats = [bytes(place * width)], []
    for greatest, (begin, end) in zip(most.tolist(), pairwise(starts), strict=True):
        ats.append(place if greatest else 0)
        if greatest:
            parts.append(numbers[begin:end].tobytes())
            place += end - begin
    return width, b"".join(parts), [*ats, 0]
