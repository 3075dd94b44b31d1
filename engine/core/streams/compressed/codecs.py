"""The codecs of cold segments. Each chunk is compressed separately, so it can be read without the other chunks.

The package ``zstandard`` compresses all chunks in one call, without the GIL, and keeps the compressor's state between
chunks. Arrow's zstd creates a new state for each chunk, which takes longer than compressing the chunk. The reason is
that a new state queries the CPU's features, which traps to the hypervisor on a virtual machine. Arrow also acquires and
releases the GIL for every chunk, which delays the event loop. Arrow still decompresses the lz4 chunks that earlier
versions of the engine could write.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import pyarrow as pa
import zstandard

#: The codec of new chunks.
CODEC = "zstd"
_ZSTD_LEVEL = 1

Buffer = bytes | memoryview


def compress(chunks: Sequence[Buffer]) -> list[bytes]:
    """Compress each chunk separately with `CODEC`."""
    found = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).multi_compress_to_buffer(list(chunks), threads=0)
    return [found[number].tobytes() for number in range(len(found))]


class Decompressor(Protocol):
    """Decompressor for the output of ``compress``. Not thread-safe."""

    def decompress(self, blob: bytes | memoryview, begins: Sequence[int], sizes: Sequence[int]) -> bytes:
        """Decompress adjacent chunks and join them.

        ``begins`` are the offsets of the chunks in ``blob``, followed by the end of the last chunk. ``sizes`` are their
        decompressed sizes in bytes. Raises OSError if the bytes are damaged.
        """


def decompressor(codec: str) -> Decompressor:
    """Return a new decompressor for ``codec``, "zstd" or "lz4"."""
    return _Zstd() if codec == CODEC else _Lz4()


class _Zstd:
    def __init__(self) -> None:
        self._state = zstandard.ZstdDecompressor()

    def decompress(self, blob: bytes | memoryview, begins: Sequence[int], sizes: Sequence[int]) -> bytes:
        # One call decompresses all chunks, because every zstd frame contains its length.
        reader = self._state.stream_reader(blob[begins[0] : begins[-1]], read_across_frames=True)
        size = sum(sizes)
        try:
            return _checked(reader.read(size), size)
        except zstandard.ZstdError as error:
            raise OSError(f"a compressed chunk is damaged: {error}") from None


class _Lz4:
    def __init__(self) -> None:
        self._codec = pa.Codec("lz4_raw")

    def decompress(self, blob: bytes | memoryview, begins: Sequence[int], sizes: Sequence[int]) -> bytes:
        return b"".join(
            _checked(self._codec.decompress(blob[begin:end], size, asbytes=True), size)
            for (begin, end), size in zip(pairwise(begins), sizes, strict=True)
        )


def _checked(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise OSError(f"a compressed chunk is damaged: {len(data)} bytes instead of {size}")
    return data
