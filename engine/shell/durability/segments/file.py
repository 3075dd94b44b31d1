"""One segment file: what its bytes mean, and the places in it.

    header   32 bytes: magic, version, the file's number; its CRC-32 last
    records  each begins at a multiple of 8: a head of 32 bytes, then the bytes of a segment's entries
             (:func:`engine.core.streams.compressed.stored.payload`), and zeros up to the next multiple of 8

A head tells the length of what comes behind it, its CRC-32, the file's number and where in it the head is, and has a
CRC-32 of its own: bytes that are at the wrong place are found as well as bytes that have changed. Whoever refers to a
record knows its length and sum, too. What follows the last record that somebody refers to means nothing: a crash may
have left half a record there.
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

from engine.core.streams.compressed.stored import UnreadableError
from engine.shell.durability.files import Files
from engine.shell.observation.reporting import LOG
from engine.text.messages import streams

MAGIC = b"PSSEGMENTFILE\r\n\0"
_VERSION = 1
_HEADER = struct.Struct("<16sII4xI")
_RECORD = b"PSsg"
_HEAD = struct.Struct("<4sIIIQ4xI")
HEADER_SIZE, HEAD_SIZE = _HEADER.size, _HEAD.size
#: So many segment files are held open for reading, however many there are: descriptors are scarce. Another one is
#: opened when it is read.
MOST_OPEN = 32
#: A record's length and sum take 32 bits.
MOST_BYTES = (1 << 32) - 1


def header(number: int) -> bytes:
    """How the file with a number begins."""
    begin = _HEADER.pack(MAGIC, _VERSION, number, 0)[:-4]
    return begin + zlib.crc32(begin).to_bytes(4, "little")


def head(number: int, offset: int, size: int, total: int) -> bytes:
    """The head, at ``offset``, of a record of ``size`` bytes whose CRC-32 is ``total``."""
    begin = _HEAD.pack(_RECORD, size, total, number, offset, 0)[:-4]
    return begin + zlib.crc32(begin).to_bytes(4, "little")


def padded(size: int) -> int:
    """Bytes that a record of ``size`` bytes takes in its file."""
    return HEAD_SIZE + size + -size % 8


class _Descriptor:
    """A file that is open for reading, as long as somebody holds this: another thread may be reading it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.fd)


class OpenFiles:
    """The segment files that are open for reading, the one that was opened first closed first. For several threads."""

    def __init__(self) -> None:
        self._files: deque[SegmentFile] = deque()

    def add(self, file: SegmentFile) -> None:
        """A file has been opened: close others, where there are too many."""
        self._files.append(file)
        while len(self._files) > MOST_OPEN:
            with suppress(IndexError):
                self._files.popleft().close()


class SegmentFile:
    """A segment file that is there. ``size``: bytes that are in use."""

    __slots__ = ("__weakref__", "_descriptor", "_files", "_open_files", "live", "number", "path", "places", "size")

    def __init__(self, files: Files, path: Path, number: int, size: int, open_files: OpenFiles) -> None:
        self._files = files
        self._open_files = open_files
        self._descriptor: _Descriptor | None = None
        self.path = path
        self.number = number
        self.size = size
        #: Bytes of records that somebody in memory refers to.
        self.live = HEADER_SIZE
        #: The places in it that somebody in memory refers to, by offset.
        self.places: dict[int, PlaceRef] = {}

    def open(self) -> _Descriptor:
        """Open it for reading, which a read does as well."""
        descriptor = self._descriptor = _Descriptor(self._files.open_read(self.path))
        self._open_files.add(self)
        return descriptor

    def close(self) -> None:
        """Hold no descriptor; the next read opens the file again."""
        self._descriptor = None

    @property
    def dead(self) -> int:
        """Bytes of records that nobody in memory refers to."""
        return max(self.size - self.live, 0)

    def read(self, size: int, offset: int) -> bytes:
        """Bytes of the file; fewer where it ends."""
        descriptor = self._descriptor or self.open()
        return self._files.read_at(descriptor.fd, size, offset)


class SegmentPlace:
    """A record of a segment file: what is to be read there."""

    __slots__ = ("__weakref__", "location", "size", "total")

    def __init__(self, file: SegmentFile, offset: int, size: int, total: int) -> None:
        #: The file and where in it the record begins. They change together, when the record is moved.
        self.location = file, offset
        #: Bytes behind the head, and their CRC-32.
        self.size = size
        self.total = total

    def read(self) -> bytes:
        """See :class:`engine.core.streams.compressed.stored.Place`."""
        file, offset = self.location
        try:
            data = file.read(HEAD_SIZE + self.size, offset)
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from None
        if data[:HEAD_SIZE] != head(file.number, offset, self.size, self.total):
            raise self._unreadable("the head of the segment is not what was written, or the file ends too early")
        found = data[HEAD_SIZE:]
        if len(found) != self.size or zlib.crc32(found) != self.total:
            raise self._unreadable(f"the sum of the segment's {self.size} bytes is not what was written")
        return found

    def _unreadable(self, what: str) -> UnreadableError:
        file, offset = self.location
        LOG.error("%s, byte %d: %s", file.path, offset, what)
        return UnreadableError(streams.unreadable(f"{file.path}, byte {offset}: {what}"))


class PlaceRef(weakref.ref[SegmentPlace]):
    """Notices when nobody refers to a place any more."""

    __slots__ = ("file", "offset", "size")

    file: SegmentFile
    offset: int
    size: int


def records(data: memoryview, number: int) -> Iterator[tuple[int, int, bool]]:
    """What a file holds, as far as it can be told from the file alone: where each record begins, its length, and
    whether its bytes are what was written.

    A place without a head is passed over up to the next one: a crash, or a full disk, may have left it.
    """
    place = HEADER_SIZE
    while place + HEAD_SIZE <= len(data):
        found = bytes(data[place : place + HEAD_SIZE])
        _, size, total, _, _, _ = _HEAD.unpack(found)
        if found != head(number, place, size, total):
            place += 8
            continue
        begin = place + HEAD_SIZE
        good = begin + size <= len(data) and zlib.crc32(data[begin : begin + size]) == total
        yield place, size, good
        place += padded(size) if good else 8


def number_of(data: memoryview) -> int | None:
    """The number that a file's header tells; None where the header is not what was written."""
    if len(data) < HEADER_SIZE or bytes(data[: len(MAGIC)]) != MAGIC:
        return None
    number = int(_HEADER.unpack(bytes(data[:HEADER_SIZE]))[2])
    return number if bytes(data[:HEADER_SIZE]) == header(number) else None
