"""One segment file: its format, and references to its records.

    header   32 bytes: magic, version, the file's number; its CRC-32 last
    records  each starts at a multiple of 8: a head of 32 bytes, then the bytes of a segment's entries
             (`engine.core.streams.compressed.disk_entries.payload`), and zeros up to the next multiple of 8

A head has the length and CRC-32 of the bytes after it, the file's number and the head's offset, and a CRC-32 of its
own: both misplaced and changed bytes are detected. A reference to a record also has its length and checksum. Bytes
after the last referenced record are ignored: a crash may have left part of a record there.
"""

from __future__ import annotations

import os
import struct
import weakref
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.shell.durability.files import Files
from engine.shell.observation.log_lines import LOG
from engine.text import messages

MAGIC = b"PSSEGMENTFILE\r\n\0"
_VERSION = 1
_HEADER = struct.Struct("<16sII4xI")
_RECORD = b"PSsg"
_HEAD = struct.Struct("<4sIIIQ4xI")
HEADER_SIZE, HEAD_SIZE = _HEADER.size, _HEAD.size
#: Maximum number of segment files held open for reading, because descriptors are scarce. Other segment files are opened
#: when they are read.
MOST_OPEN = 32
#: Maximum length in bytes of a record without its head: the head stores the length as a 32-bit number.
MOST_BYTES = (1 << 32) - 1


def header(number: int) -> bytes:
    """Return the header of the file with this number."""
    begin = _HEADER.pack(MAGIC, _VERSION, number, 0)[:-4]
    return begin + zlib.crc32(begin).to_bytes(4, "little")


def head(number: int, offset: int, size: int, total: int) -> bytes:
    """Return the head, at ``offset``, of a record of ``size`` bytes whose CRC-32 is ``total``."""
    begin = _HEAD.pack(_RECORD, size, total, number, offset, 0)[:-4]
    return begin + zlib.crc32(begin).to_bytes(4, "little")


def padded_size(size: int) -> int:
    """Return the number of bytes that a record of ``size`` bytes takes in its file."""
    return HEAD_SIZE + size + -size % 8


class _Descriptor:
    """A file open for reading, closed when its last reference is dropped: another thread may be reading it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.fd)


class OpenFiles:
    """Segment files open for reading, closed in the order of opening. Thread-safe."""

    def __init__(self) -> None:
        self._files: deque[SegmentFile] = deque()

    def add(self, file: SegmentFile) -> None:
        """Add a newly opened file, and close the oldest if there are too many."""
        self._files.append(file)
        while len(self._files) > MOST_OPEN:
            with suppress(IndexError):
                self._files.popleft().close()


class SegmentFile:
    """An existing segment file. ``size``: number of bytes up to the end of the last complete record."""

    __slots__ = ("__weakref__", "_descriptor", "_files", "_open_files", "live", "number", "path", "places", "size")

    def __init__(self, files: Files, path: Path, number: int, size: int, open_files: OpenFiles) -> None:
        self._files = files
        self._open_files = open_files
        self._descriptor: _Descriptor | None = None
        self.path = path
        self.number = number
        self.size = size
        #: Size in bytes of the header, and of the records that memory refers to.
        self.live = HEADER_SIZE
        #: Weak references to the places that are in use, by offset in the file.
        self.places: dict[int, PlaceRef] = {}

    def open(self) -> _Descriptor:
        """Open the file for reading; `read` also opens it if necessary."""
        descriptor = self._descriptor = _Descriptor(self._files.open_read(self.path))
        self._open_files.add(self)
        return descriptor

    def close(self) -> None:
        """Release the descriptor; the next read opens the file again."""
        self._descriptor = None

    @property
    def dead(self) -> int:
        """Size in bytes of the records that memory does not refer to."""
        return max(self.size - self.live, 0)

    def read(self, size: int, offset: int) -> bytes:
        """Read ``size`` bytes of the file, or fewer at its end."""
        descriptor = self._descriptor or self.open()
        return self._files.read_at(descriptor.fd, size, offset)


class SegmentPlace:
    """Location of a record in a segment file."""

    __slots__ = ("__weakref__", "location", "size", "total")

    def __init__(self, file: SegmentFile, offset: int, size: int, total: int) -> None:
        #: File and offset of the record. They change together when the record is moved.
        self.location = file, offset
        #: Number of bytes after the head.
        self.size = size
        #: CRC-32 of the bytes after the head.
        self.total = total

    def read(self) -> bytes:
        """Read the record; see `engine.core.streams.compressed.disk_entries.Place`."""
        file, offset = self.location
        try:
            data = file.read(HEAD_SIZE + self.size, offset)
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from None
        if data[:HEAD_SIZE] != head(file.number, offset, self.size, self.total):
            raise self._unreadable("the head of the segment is damaged, or the file ends too early")
        found = data[HEAD_SIZE:]
        if len(found) != self.size or zlib.crc32(found) != self.total:
            raise self._unreadable(f"checksum mismatch in the segment's {self.size} bytes")
        return found

    def _unreadable(self, reason: str) -> UnreadableError:
        file, offset = self.location
        LOG.error("%s, byte %d: %s", file.path, offset, reason)
        return UnreadableError(messages.unreadable(f"{file.path}, byte {offset}: {reason}"))


class PlaceRef(weakref.ref[SegmentPlace]):
    """A weak reference that reports when its place is no longer in use."""

    __slots__ = ("file", "offset", "size")

    file: SegmentFile
    offset: int
    size: int


def records(data: memoryview, number: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the offset and length of each record with an intact head, and whether the checksum of its bytes is right.

    Bytes that belong to no record are skipped up to the next head: a crash or a full disk may have left them.
    """
    offset = HEADER_SIZE
    while offset + HEAD_SIZE <= len(data):
        found = bytes(data[offset : offset + HEAD_SIZE])
        _, size, total, _, _, _ = _HEAD.unpack(found)
        if found != head(number, offset, size, total):
            offset += 8
            continue
        begin = offset + HEAD_SIZE
        good = begin + size <= len(data) and zlib.crc32(data[begin : begin + size]) == total
        yield offset, size, good
        offset += padded_size(size) if good else 8


def number_of(data: memoryview) -> int | None:
    """Return the number in a file's header; None if the header is damaged."""
    if len(data) < HEADER_SIZE or bytes(data[: len(MAGIC)]) != MAGIC:
        return None
    number = int(_HEADER.unpack(bytes(data[:HEADER_SIZE]))[2])
    return number if bytes(data[:HEADER_SIZE]) == header(number) else None
