"""What all streams of a core share: the limits of nodes, which segments may go cold, and what of them is laid out.

A sealed segment is cold once nobody needs its bytes at hand any more. It is then *packed*: kept compressed in pieces
(:mod:`engine.core.streams.packed`), a tenth of its size or less. Pieces are laid out when somebody reads them, and
those laid out last stay for a while.

A thread that reads packed segments needs a storage of its own.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.core.streams.codecs import Decompressor, decompressor

if TYPE_CHECKING:
    from engine.core.streams.packed import Span
    from engine.core.streams.segment import Segment

#: Bytes of packed segments that may be laid out at a time, beside what replies hold.
LAID_OUT_BYTES = 64 << 20


@dataclass(slots=True)
class Storage:
    """One core's. ``max_bytes`` and ``max_entries`` are the stream-node directives; 0 means none (for bytes: 1 GiB)."""

    max_bytes: int = 4096
    max_entries: int = 100
    #: Sealed segments that are not packed yet, in the order in which they were sealed.
    sealed: deque[weakref.ref[Segment]] = field(default_factory=deque)
    #: The pieces of packed segments that are laid out at the moment, by number, each with where it lies.
    laid_out: dict[int, Span] = field(default_factory=dict)
    #: (number of the first piece, number behind the last) of those laid out together, in the order in which they were.
    _spans: deque[tuple[int, int]] = field(default_factory=deque)
    _laid_out_bytes: int = 0
    _decompressors: dict[str, Decompressor] = field(default_factory=dict)

    def note_sealed(self, segment: Segment) -> None:
        """The segment will not change any more."""
        self.sealed.append(weakref.ref(segment))

    def take_sealed(self, oldest: int, most: int) -> tuple[list[Segment], int]:
        """Those of the ``oldest`` sealed ones that are still there and not packed, at most so many; how many are done.

        They will not be named again.
        """
        found: list[Segment] = []
        done = 0
        while done < oldest and len(found) < most:
            segment = self.sealed.popleft()()
            done += 1
            if segment is not None and not segment.is_packed:
                found.append(segment)
        return found, done

    def decompress(self, codec: str, blob: bytes | memoryview, places: Sequence[int], sizes: Sequence[int]) -> bytes:
        """What was compressed: see :meth:`~engine.core.streams.codecs.Decompressor.decompress`."""
        undoes = self._decompressors.get(codec)
        if undoes is None:
            undoes = self._decompressors[codec] = decompressor(codec)
        return undoes.decompress(blob, places, sizes)

    def keep_laid_out(self, first: int, end: int, span: Span) -> None:
        """The pieces with the numbers [first, end) were laid out for reading: those laid out longest ago make room."""
        laid_out = self.laid_out
        for number in range(first, end):
            laid_out[number] = span
        self._spans.append((first, end))
        self._laid_out_bytes += span.size
        while self._laid_out_bytes > LAID_OUT_BYTES and len(self._spans) > 1:
            first, end = self._spans.popleft()
            self._laid_out_bytes -= laid_out[first].size
            for number in range(first, end):
                del laid_out[number]

    def note_grown(self, span: Span, size: int) -> None:
        """What is laid out takes so many bytes more."""
        span.size += size
        self._laid_out_bytes += size
