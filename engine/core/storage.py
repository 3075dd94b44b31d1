"""What all streams of a core share: the limits of nodes, and which segments may go cold.

A sealed segment is cold once nobody needs its bytes at hand any more. Its frames and its index are then kept compressed
(:class:`Packed`), a tenth of their size or less, and laid out anew when somebody reads them; what was laid out last
stays for a while. Packing is pure work on immutable bytes, so that the shell may do it beside the event loop.
"""

from __future__ import annotations

import weakref
from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from engine.core.segment import Segment

#: Bytes of cold segments' frames that may be laid out at a time, beside what replies hold.
LAID_OUT_BYTES = 64 << 20

Index = tuple["array[int]", "array[int]", "array[int]"]


@dataclass(slots=True)
class Storage:
    """One core's. ``max_bytes`` and ``max_entries`` are the stream-node directives; 0 means none (for bytes: 1 GiB)."""

    max_bytes: int = 4096
    max_entries: int = 100
    #: Sealed segments that are not packed yet, in the order in which they were sealed.
    sealed: deque[weakref.ref[Segment]] = field(default_factory=deque)
    #: Packed segments that are laid out at the moment, the one read last at the end.
    _laid_out: OrderedDict[Segment, int] = field(default_factory=OrderedDict)
    _laid_out_bytes: int = 0

    def note_sealed(self, segment: Segment) -> None:
        """The segment will not change any more."""
        self.sealed.append(weakref.ref(segment))

    def next_sealed(self) -> Segment | None:
        """The segment that was sealed longest ago and is not packed; it will not be named again."""
        while self.sealed:
            segment = self.sealed.popleft()()
            if segment is not None and segment.packed is None:
                return segment
        return None

    def keep_laid_out(self, segment: Segment, size: int) -> None:
        """A packed segment was laid out for reading: those read longest ago make room."""
        self._laid_out[segment] = size
        self._laid_out_bytes += size
        while self._laid_out_bytes > LAID_OUT_BYTES and len(self._laid_out) > 1:
            oldest, freed = self._laid_out.popitem(last=False)
            self._laid_out_bytes -= freed
            oldest.put_away()

    def has_laid_out(self, segment: Segment) -> bool:
        """Whether a packed segment is laid out at the moment."""
        return segment in self._laid_out

    def forget(self, segment: Segment) -> None:
        """The segment is no longer a packed one that is laid out."""
        self._laid_out_bytes -= self._laid_out.pop(segment, 0)


@dataclass(frozen=True, slots=True)
class Packed:
    """A segment's frames and index, compressed. Sizes are in bytes, laid out."""

    codec: str
    count: int
    data: bytes
    data_size: int
    index: bytes

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.data) + len(self.index)


def pack(data: bytes, index: Index, codec: str) -> Packed:
    """Compress frames and the index over them (offsets, milliseconds, sequence numbers)."""
    compressor = pa.Codec(codec)
    planes = b"".join(_planes(np.frombuffer(column, column.typecode)) for column in index)
    return Packed(
        codec,
        len(index[0]),
        compressor.compress(data, asbytes=True),
        len(data),
        compressor.compress(planes, asbytes=True),
    )


def unpack(packed: Packed) -> tuple[bytes, Index]:
    """The inverse of :func:`pack`."""
    codec, count = pa.Codec(packed.codec), packed.count
    data = codec.decompress(packed.data, packed.data_size, asbytes=True)
    planes = codec.decompress(packed.index, 20 * count, asbytes=True)
    offsets = _column("I", planes[: 4 * count], count)
    ms = _column("Q", planes[4 * count : 12 * count], count)
    return data, (offsets, ms, _column("Q", planes[12 * count :], count))


def _planes(column: npt.NDArray[np.uint32] | npt.NDArray[np.uint64]) -> bytes:
    """Differences, first all their lowest bytes, then all the next ones: mostly zeros, which compress to nothing."""
    differences = column.copy()
    differences[1:] -= column[:-1]
    return differences.view(np.uint8).reshape(len(column), -1).T.tobytes()


def _column(typecode: str, planes: bytes, count: int) -> array[int]:
    column = array(typecode)
    differences = np.frombuffer(planes, np.uint8).reshape(-1, count).T.copy().view(typecode).ravel()
    column.frombytes(np.cumsum(differences, dtype=typecode).tobytes())
    return column
