"""How cold frames are compressed: many small pieces, each by itself, so that each can be read without the others.

zstd comes from ``zstandard``, which compresses all pieces in one call that holds no lock, and keeps its state from one
piece to the next. Arrow's codecs make a new state for each, which takes longer than the work (it asks the processor for
its features, and on a virtual machine that is a trip to the host), and give the lock back and forth at every piece,
which others who run notice. lz4, which is Arrow's, has next to no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import pyarrow as pa
import zstandard

_ZSTD_LEVEL = 1


def compress(codec: str, pieces: Sequence[memoryview]) -> list[bytes]:
    """Each piece, compressed by itself."""
    if codec == "zstd":
        found = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).multi_compress_to_buffer(list(pieces), threads=0)
        return [found[number].tobytes() for number in range(len(found))]
    compressor = pa.Codec("lz4_raw")
    return [compressor.compress(piece, asbytes=True) for piece in pieces]


class Decompressor(Protocol):
    """Undoes :func:`compress`. Of one thread."""

    def decompress(self, blob: bytes | memoryview, places: Sequence[int], sizes: Sequence[int]) -> bytes:
        """The pieces that lie back to back in ``blob``, one behind the other.

        They begin at ``places``, whose last is where the last piece ends, and are of these ``sizes``. An OSError where
        it is not those.
        """


def decompressor(codec: str) -> Decompressor:
    """What undoes compression by ``codec``."""
    return _Zstd() if codec == "zstd" else _Lz4()


class _Zstd:
    def __init__(self) -> None:
        self._state = zstandard.ZstdDecompressor()

    def decompress(self, blob: bytes | memoryview, places: Sequence[int], sizes: Sequence[int]) -> bytes:
        # One call for all of them: what is known of each piece's size is in the piece.
        reader = self._state.stream_reader(blob[places[0] : places[-1]], read_across_frames=True)
        size = sum(sizes)
        try:
            return _checked(reader.read(size), size)
        except zstandard.ZstdError as error:
            raise OSError(f"what was compressed is damaged: {error}") from None


class _Lz4:
    def __init__(self) -> None:
        self._codec = pa.Codec("lz4_raw")

    def decompress(self, blob: bytes | memoryview, places: Sequence[int], sizes: Sequence[int]) -> bytes:
        return b"".join(
            _checked(self._codec.decompress(blob[begin:end], size, asbytes=True), size)
            for (begin, end), size in zip(pairwise(places), sizes, strict=True)
        )


def _checked(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise OSError(f"what was compressed is damaged: {len(data)} bytes instead of {size}")
    return data
