"""Stored entries: packed entries whose bytes are on disk and are read on demand.

Memory holds only the location of the bytes (a ``Place``, provided by the shell), the number of entries, the size of
their frames, and the last ID. A read loads all entries of the segment, compressed and with their index (``Packed``).
The cache keeps the loaded entries for a while, together with data decompressed from them. Every load is verified:
damaged bytes raise ``UnreadableError`` and are never returned as entries.
"""

from __future__ import annotations

import struct
from array import array
from typing import Protocol

from engine.core.protocol.replies import CommandError
from engine.core.streams.compressed.packed import Packed, SpanCache
from engine.core.streams.compressed.packed_columns import PackedColumns

#: Number of a form in files -> its class.
_FORMS: dict[int, type[Packed]] = {1: Packed, 3: PackedColumns}
#: Number from ``form_of``, number of chunks, and size of ``blob`` in bytes. The index arrays and ``blob`` follow.
_HEAD = struct.Struct("<III")
Buffer = bytes | memoryview


class UnreadableError(CommandError, OSError):
    """Stored entries cannot be read: a disk error, or bytes that differ from the written bytes.

    It is a CommandError so that clients receive it as a reply, and an OSError so that code that writes files handles it
    as a disk error.
    """

    def __str__(self) -> str:
        return self.text.decode("utf-8", "surrogateescape")


class Place(Protocol):
    """Location of the bytes of stored entries."""

    def read(self) -> bytes:
        """Read and verify the bytes. If this fails, raise an UnreadableError that names the location."""


class Stored:
    """Stored entries 0 .. n-1 of one segment.

    ``number`` is the cache's number for the first chunk.
    """

    __slots__ = ("_count", "cache", "data_size", "last_id", "number", "place")

    def __init__(
        self, place: Place, count: int, data_size: int, last_id: int, cache: SpanCache, number: int | None = None
    ) -> None:
        self.place = place
        self._count = count
        #: Decompressed size of the frames in bytes.
        self.data_size = data_size
        self.last_id = last_id
        self.cache = cache
        self.number = cache.new_number() if number is None else number

    def __len__(self) -> int:
        return self._count

    def packed(self) -> Packed:
        """Return the packed entries, from the cache or the disk. Raises UnreadableError as ``Place.read`` does."""
        found: Packed | None = self.cache.block(self.number)
        if found is None:
            data = self.place.read()
            found = opened(data, self.last_id, self.cache, self.number)
            self.cache.add_block(self.number, found, len(data))
        return found

    def copy(self, cache: SpanCache) -> Stored:
        """Return the same entries, at the same location on disk, with another cache."""
        return Stored(self.place, self._count, self.data_size, self.last_id, cache, self.number)


def form_of(packed: Packed) -> int:
    """Return the number that represents, in files, whether the chunks are columns."""
    return 3 if isinstance(packed, PackedColumns) else 1


def of_form(form: int, last_id: int, cache: SpanCache, number: int | None = None) -> Packed:
    """Return empty packed entries for a number from ``form_of``. Raises ValueError if the number is unknown."""
    if form not in _FORMS:
        raise ValueError(f"compressed chunks have the format {form}, which this version does not support")
    return _FORMS[form](last_id, cache, number)


def payload(packed: Packed) -> list[Buffer]:
    """Return packed entries as buffers to be written to a file."""
    head = _HEAD.pack(form_of(packed), len(packed.firsts_ms), len(packed.blob))
    return [head, *(memoryview(column).cast("B") for column in packed.index_arrays), packed.blob]


def opened(data: bytes, last_id: int, cache: SpanCache, number: int | None = None) -> Packed:
    """Deserialise the result of ``payload``. ``number``: the cache's number for the first chunk."""
    form, chunks, size = _HEAD.unpack_from(data)
    packed = of_form(form, last_id, cache, number)
    *directory, firsts_ms, firsts_seq, bounds = packed.index_arrays
    del bounds[:]
    at, view = _HEAD.size, memoryview(data)

    def fill(column: array[int], length: int) -> None:
        nonlocal at
        begin, at = at, at + length * column.itemsize
        column.frombytes(view[begin:at])

    for column in directory:
        fill(column, chunks + 1)
    fill(firsts_ms, chunks)
    fill(firsts_seq, chunks)
    fill(bounds, 9)
    packed.blob = view[at : at + size]
    packed.bind()
    return packed
