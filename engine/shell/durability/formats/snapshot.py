r"""A snapshot file: one moment of the keyspace, in our own format. The base of an append-only file, and SAVE's file
where ``save-format`` is ``psb``.

    header      64 bytes: magic, version, byte order, when it was taken, where in a replication history; its CRC-32 last
    parts       each begins at a multiple of 8 and has a CRC-32 over all its bytes, the padding behind it included
    directory   three 64-bit numbers a part: where it begins, its length, its CRC-32 (bit 32: it holds records, bit 33:
                it holds the numbers of segment files)
    footer      64 bytes: where the directory begins, its length, its CRC-32, the file's size; its own CRC-32 last

A part is either binary (a segment's frames and index as they lie in memory, the arrays of a pending list) or a
sequence of records, one a key, in RESP (:mod:`engine.shell.durability.formats.records`). Every byte of the file has a
sum, so a flipped bit anywhere is found, and said with its place, before anything of it is used.

Where streams are kept on the disk (``stream-storage``), a snapshot may name the segment files that hold their entries
(:mod:`engine.shell.durability.segments`) instead of holding them again. It is of version 5 then, and its last part
holds the numbers of these files.

Numbers are in the writing machine's byte order, which the header tells; a machine with the other one refuses the
file. The magic is nothing that Redis takes for one of its files: it refuses this one.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from engine.core.formats.damage import DamagedError
from engine.core.keyspace.image import Image
from engine.shell.durability.files import Buffer, Files, write_all
from engine.shell.durability.formats import records
from engine.shell.durability.formats.position import PACKED_SIZE, Position, from_packed
from engine.shell.durability.segments.store import SegmentFiles

MAGIC = b"PYSTREAMS-BASE\r\n"
_END = b"PYSTREAMS-END\r\n\0"
#: Without segment files, and with them.
_VERSION, _VERSION_NAMING = 4, 5
_NATIVE = {"little": 1, "big": 2}[sys.byteorder]
_HEADER = struct.Struct("<16sIIQ28sI")
_FOOTER = struct.Struct("<16sQQIQ16xI")
_RECORDS, _FILES = 1 << 32, 1 << 33
_SUM = (1 << 32) - 1

#: Records are gathered to parts of about this size, and writes to calls of about that.
_RECORD_PART = 1 << 20
_WRITE = 4 << 20
#: The buffers of a part of at most so many bytes are joined: a small stream has a part of a dozen tiny ones.
_JOINED = 16 << 10
#: After so many bytes the disk is asked to catch up, lest it has all of them to write at the end.
_SYNC_EVERY = 64 << 20


class _Writer:
    """The file while it is written."""

    def __init__(self, files: Files, fd: int, check: Callable[[], None]) -> None:
        self._files = files
        self._fd = fd
        self._check = check
        self._buffers: list[Buffer] = []
        self._waiting = 0
        self._not_synced = 0
        self.place = 0
        #: Offset, length, and sum with mark, of each part.
        self.directory = array("Q")

    def part(self, buffers: Sequence[Buffer], mark: int = 0) -> int:
        """Add a part; its number."""
        size = sum(map(len, buffers))
        written = [*buffers, bytes(-size % 8)]
        if size <= _JOINED:
            written = [b"".join(written)]
        total = 0
        for buffer in written:
            total = zlib.crc32(buffer, total)
        self.directory.extend((self.place, size, total | mark))
        self.write(written)
        return len(self.directory) // 3 - 1

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Add bytes at the end."""
        size = sum(map(len, buffers))
        self._buffers += buffers
        self._waiting += size
        self.place += size
        if self._waiting >= _WRITE:
            self.flush()

    def flush(self) -> None:
        """Hand over what waits."""
        self._check()
        write_all(self._files, self._fd, [buffer for buffer in self._buffers if len(buffer)])
        self._not_synced += self._waiting
        self._buffers = []
        self._waiting = 0
        if self._not_synced >= _SYNC_EVERY:
            self._files.sync(self._fd)
            self._not_synced = 0


def write(
    files: Files,
    path: Path,
    image: Image,
    check: Callable[[], None] = lambda: None,
    pause: Callable[[], None] = lambda: None,
    position: Position | None = None,
    segments: SegmentFiles | None = None,
) -> frozenset[int]:
    """Write a snapshot to a new file, on the disk when this returns. Its name may not be there yet.

    Entries that lie in the files of ``segments`` stay there, and are on the disk as well when this returns: the numbers
    of these files. Without it the snapshot holds everything. ``check`` is called before each large write: an OSError of
    it ends the writing. ``pause`` is called after each key.
    """
    fd = files.create(path)
    named: set[int] | None = None if segments is None else set()
    try:
        _write(_Writer(files, fd, check), image, pause, position, named)
        if segments is not None:
            segments.sync()
        files.sync(fd)
    finally:
        files.close(fd)
    return frozenset(named or ())


def _write(
    writer: _Writer, image: Image, pause: Callable[[], None], position: Position | None, named: set[int] | None
) -> None:
    place = position.packed if position is not None else bytes(PACKED_SIZE)
    version = _VERSION if named is None else _VERSION_NAMING
    header = _HEADER.pack(MAGIC, version, _NATIVE, max(image.now, 0), place, 0)
    writer.write([header[:-4], zlib.crc32(header[:-4]).to_bytes(4, "little")])
    gathered: list[bytes] = []
    size = 0
    for record in records.encode(image, writer.part, named, pause):
        gathered.append(record)
        size += len(record)
        pause()
        if size >= _RECORD_PART:
            writer.part(gathered, _RECORDS)
            gathered, size = [], 0
    if gathered:
        writer.part(gathered, _RECORDS)
    if named is not None:
        writer.part([array("Q", sorted(named)).tobytes()], _FILES)
    directory = writer.directory.tobytes()
    end = writer.place + len(directory) + _FOOTER.size
    footer = _FOOTER.pack(_END, writer.place, len(directory), zlib.crc32(directory), end, 0)
    writer.write([directory, footer[:-4], zlib.crc32(footer[:-4]).to_bytes(4, "little")])
    writer.flush()


# -- reading ----------------------------------------------------------------------------------------------------------


def is_snapshot(data: memoryview) -> bool:
    """Whether a file begins as a snapshot."""
    return bytes(data[:9]) == MAGIC[:9]


def taken_at(data: memoryview) -> int:
    """When a snapshot was taken, in milliseconds since the epoch; DamagedError where its header is damaged."""
    if len(data) < _HEADER.size:
        raise DamagedError(len(data), "the file ends too early")
    moment: int = _header(data)[3]
    return moment


def position_of(data: memoryview) -> Position | None:
    """Where in a replication history the data of a snapshot are, whose header is as it was written."""
    return from_packed(_header(data)[4])


def named_files(data: memoryview) -> frozenset[int]:
    """The numbers of the segment files that a mapped snapshot names; DamagedError where it is not what was written."""
    directory = _directory(data)
    numbers = array("Q")
    for at in range(0, len(directory), 3):
        if directory[at + 2] & _FILES:
            place, size, total = directory[at : at + 3]
            if zlib.crc32(data[place : place + size + (-size % 8)]) != total & _SUM:
                raise DamagedError(place, "the sum of the part that begins here is not what was written")
            numbers.frombytes(data[place : place + size])
    return frozenset(numbers)


def load(
    data: memoryview,
    core: records.Target,
    pause: Callable[[], None] = lambda: None,
    segments: SegmentFiles | None = None,
) -> int:
    """Fill an empty core from a mapped snapshot; how many keys. DamagedError where it is not what was written.

    The core's segments are views of ``data`` from then on, or lie in the files of ``segments``. ``pause`` is called all
    along, so that a thread may let others run.
    """
    directory = _directory(data)
    parts = [data[directory[at] : directory[at] + directory[at + 1]] for at in range(0, len(directory), 3)]
    _check_sums(data, directory)
    keys = 0
    for number, part in enumerate(parts):
        if directory[3 * number + 2] & _RECORDS:
            try:
                keys += records.decode(part, parts, core, pause, segments)
            except records.RecordError as error:
                raise DamagedError(directory[3 * number], str(error)) from None
    return keys


def _directory(data: memoryview) -> array[int]:
    size = len(data)
    if bytes(data[:16]) != MAGIC:
        raise DamagedError(0, "this is no snapshot of the engine")
    if size < _HEADER.size + _FOOTER.size:
        raise DamagedError(size, "the file ends too early")
    _header(data)
    footer = bytes(data[-_FOOTER.size :])
    end, place, length, sum_of_directory, whole, total = _FOOTER.unpack(footer)
    if end != _END or total != zlib.crc32(footer[:-4]) or whole != size or place + length + _FOOTER.size != size:
        raise DamagedError(size - _FOOTER.size, "the end is not what was written, or the file ends too early")
    if zlib.crc32(data[place : place + length]) != sum_of_directory:
        raise DamagedError(place, "the directory is not what was written")
    directory = array("Q")
    directory.frombytes(data[place : place + length])
    _check_gaps(directory, place)
    return directory


def _header(data: memoryview) -> tuple[Any, ...]:
    """The fields of the header, which must be there: magic, version, byte order, moment, position, sum."""
    header = bytes(data[: _HEADER.size])
    fields = _HEADER.unpack(header)
    _, version, order, _, _, total = fields
    if total != zlib.crc32(header[:-4]):
        raise DamagedError(0, "the header is not what was written")
    if version not in (_VERSION, _VERSION_NAMING):
        raise DamagedError(16, f"version {version} of the format is not known here")
    if order != _NATIVE:
        raise DamagedError(20, "it was written on a machine with the other byte order")
    return fields


def _check_gaps(directory: array[int], end: int) -> None:
    """The parts must lie one behind the other from the header to the directory: then every byte has a sum."""
    place = _HEADER.size
    for at in range(0, len(directory), 3):
        if directory[at] != place:
            raise DamagedError(directory[at], "a part does not begin where the one before it ends")
        place += directory[at + 1] + (-directory[at + 1] % 8)
    if place != end:
        raise DamagedError(place, "the directory does not begin where the last part ends")


def _check_sums(data: memoryview, directory: array[int]) -> None:
    """All parts' sums, on all cores at once: the sum of a large buffer is taken without Python's lock."""
    count = len(directory) // 3
    workers = min(max(os.cpu_count() or 1, 1), 8)
    share = -(-count // workers)
    bounds = [(first, min(first + share, count)) for first in range(0, count, max(share, 1))]

    def first_wrong(bound: tuple[int, int]) -> int:
        for number in range(*bound):
            place, size, total = directory[3 * number : 3 * number + 3]
            if zlib.crc32(data[place : place + size + (-size % 8)]) != total & _SUM:
                return place
        return -1

    if count < 64:
        wrong = [first_wrong(bound) for bound in bounds]
    else:
        with ThreadPoolExecutor(workers) as pool:
            wrong = list(pool.map(first_wrong, bounds))
    places = [place for place in wrong if place >= 0]
    if places:
        raise DamagedError(min(places), "the sum of the part that begins here is not what was written")
