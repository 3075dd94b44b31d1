r"""Snapshot file: the keyspace at one moment, in the engine's own format. It is the base of an append-only file, and
SAVE's file if ``save-format`` is ``psb``.

    header      64 bytes: magic, version, byte order, time, position in a replication history; its CRC-32 last
    parts       each starts at a multiple of 8; its CRC-32 covers all its bytes, including the padding after it
    directory   three 64-bit numbers per part: offset, length, CRC-32 (bit 32: the part contains records, bit 33: the
                part contains the numbers of segment files)
    footer      64 bytes: offset, length and CRC-32 of the directory, size of the file; its own CRC-32 last

A binary part contains the frames and index of a segment as they are in memory, or the arrays of a pending list. Other
parts contain records, one per key, in RESP (`engine.shell.durability.formats.records`). Every byte of the file is
covered by a checksum: a flipped bit is detected, and the offset of the damaged part reported, before any key is loaded.

If streams are stored on disk (``stream-storage``), a snapshot may refer to the segment files with their entries
(`engine.shell.durability.segments`) instead of containing them. Such a snapshot has version 5, and its last part has
the numbers of these files.

Numbers have the byte order of the writing machine, which is in the header; a machine with the other byte order rejects
the file. The magic number differs from that of Redis's files, so Redis rejects the file.
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
from engine.core.formats.unsupported_types import UnsupportedTypes
from engine.core.keyspace.image import Image
from engine.shell.durability.files import Buffer, Files, write_all
from engine.shell.durability.formats import records
from engine.shell.durability.formats.position import PACKED_SIZE, Position, from_packed
from engine.shell.durability.segments.store import SegmentFiles

MAGIC = b"PYSTREAMS-BASE\r\n"
_END = b"PYSTREAMS-END\r\n\0"
#: Format version of a file without references to segment files.
_VERSION = 4
#: Format version of a file with references to segment files.
_VERSION_NAMING = 5
_NATIVE = {"little": 1, "big": 2}[sys.byteorder]
_HEADER = struct.Struct("<16sIIQ28sI")
_FOOTER = struct.Struct("<16sQQIQ16xI")
#: Marks next to the CRC-32 of a part: it contains records, or the numbers of segment files.
_RECORDS, _FILES = 1 << 32, 1 << 33
_SUM = (1 << 32) - 1
_WRONG_SUM = "checksum mismatch in the part that starts here"

#: Approximate size in bytes at which gathered records become a part.
_RECORD_PART = 1 << 20
#: Approximate size in bytes at which gathered parts are written.
_WRITE = 4 << 20
#: Maximum size in bytes of a part whose buffers are joined: the part of a small stream has a dozen tiny buffers.
_JOINED = 16 << 10
#: Bytes between two syncs while the file is written, so that the last sync is short.
_SYNC_EVERY = 64 << 20


class _Writer:
    """A snapshot file being written."""

    def __init__(self, files: Files, fd: int, check: Callable[[], None]) -> None:
        self._files = files
        self._fd = fd
        self._check = check
        self._buffers: list[Buffer] = []
        self._waiting = 0
        self._not_synced = 0
        self.offset = 0
        #: Offset, length, and CRC-32 with mark bits, of each part.
        self.directory = array("Q")

    def part(self, buffers: Sequence[Buffer], mark: int = 0) -> int:
        """Add a part; return its number."""
        size = sum(map(len, buffers))
        written = [*buffers, bytes(-size % 8)]
        if size <= _JOINED:
            written = [b"".join(written)]
        total = 0
        for buffer in written:
            total = zlib.crc32(buffer, total)
        self.directory.extend((self.offset, size, total | mark))
        self.write(written)
        return len(self.directory) // 3 - 1

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Append bytes."""
        size = sum(map(len, buffers))
        self._buffers += buffers
        self._waiting += size
        self.offset += size
        if self._waiting >= _WRITE:
            self.flush()

    def flush(self) -> None:
        """Write the waiting buffers to the file."""
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
    """Write a snapshot to a new file and sync it. Its name in the directory may not be on disk yet.

    With ``segments``, the snapshot refers to entries in segment files, and these files are synced, too. Return the
    numbers of these files. Without ``segments``, the snapshot contains all entries. ``check`` is called before each
    large write, and aborts the writing if it raises OSError. ``pause`` is called after each key, and within long
    streams.
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
    packed = position.packed if position is not None else bytes(PACKED_SIZE)
    version = _VERSION if named is None else _VERSION_NAMING
    header = _HEADER.pack(MAGIC, version, _NATIVE, max(image.now, 0), packed, 0)
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
    end = writer.offset + len(directory) + _FOOTER.size
    footer = _FOOTER.pack(_END, writer.offset, len(directory), zlib.crc32(directory), end, 0)
    writer.write([directory, footer[:-4], zlib.crc32(footer[:-4]).to_bytes(4, "little")])
    writer.flush()


# -- reading ----------------------------------------------------------------------------------------------------------


def is_snapshot(data: memoryview) -> bool:
    """Return whether a file starts like a snapshot."""
    return bytes(data[:9]) == MAGIC[:9]


def taken_at(data: memoryview) -> int:
    """Return the time of a snapshot in milliseconds since the epoch. Raises DamagedError if its header is damaged."""
    if len(data) < _HEADER.size:
        raise DamagedError(len(data), "the file ends too early")
    moment: int = _header(data)[3]
    return moment


def position_of(data: memoryview) -> Position | None:
    """Return the position in a replication history from a snapshot's header; None if the header has no position."""
    return from_packed(_header(data)[4])


def named_files(data: memoryview) -> frozenset[int]:
    """Return the numbers of the segment files that a snapshot refers to. Raises DamagedError if it is damaged."""
    directory = _directory(data)
    numbers = array("Q")
    for at in range(0, len(directory), 3):
        if directory[at + 2] & _FILES:
            offset, size, total = directory[at : at + 3]
            if not _is_intact(data, offset, size, total):
                raise DamagedError(offset, _WRONG_SUM)
            numbers.frombytes(data[offset : offset + size])
    return frozenset(numbers)


def load(
    data: memoryview,
    core: records.Target,
    pause: Callable[[], None] = lambda: None,
    segments: SegmentFiles | None = None,
    *,
    skip_unsupported: bool = False,
    left_out: UnsupportedTypes | None = None,
) -> int:
    """Load the keys of a mapped snapshot into a core; return their number. Existing keys of the same name are replaced.

    Raises DamagedError if the snapshot is damaged. Keys of types that the engine does not store are counted in
    ``left_out``. Unless ``skip_unsupported``, the caller discards the core if there are such keys, so no key is loaded
    after the first one.

    Afterwards, the core's segments are views of ``data``, or are stored in the files of ``segments``. ``pause`` is
    called repeatedly, so that a thread can yield to other threads.
    """
    directory = _directory(data)
    parts = [data[directory[at] : directory[at] + directory[at + 1]] for at in range(0, len(directory), 3)]
    _check_sums(data, directory)
    keys = 0
    found = UnsupportedTypes() if left_out is None else left_out
    for number, part in enumerate(parts):
        if directory[3 * number + 2] & _RECORDS:
            offset = directory[3 * number]
            try:
                keys += records.decode(
                    part, parts, core, found, offset, pause, segments, only_count=not skip_unsupported
                )
            except records.RecordError as error:
                raise DamagedError(offset, str(error)) from None
    return keys


def _directory(data: memoryview) -> array[int]:
    size = len(data)
    if bytes(data[:16]) != MAGIC:
        raise DamagedError(0, "not a snapshot of the engine")
    if size < _HEADER.size + _FOOTER.size:
        raise DamagedError(size, "the file ends too early")
    _header(data)
    footer = bytes(data[-_FOOTER.size :])
    end, offset, length, sum_of_directory, whole, total = _FOOTER.unpack(footer)
    if end != _END or total != zlib.crc32(footer[:-4]) or whole != size or offset + length + _FOOTER.size != size:
        raise DamagedError(size - _FOOTER.size, "the footer is damaged, or the file ends too early")
    if zlib.crc32(data[offset : offset + length]) != sum_of_directory:
        raise DamagedError(offset, "checksum mismatch in the directory")
    directory = array("Q")
    directory.frombytes(data[offset : offset + length])
    _check_gaps(directory, offset)
    return directory


def _header(data: memoryview) -> tuple[Any, ...]:
    """Return the fields of the header: magic, version, byte order, time, position, checksum; raise if invalid."""
    header = bytes(data[: _HEADER.size])
    fields = _HEADER.unpack(header)
    _, version, order, _, _, total = fields
    if total != zlib.crc32(header[:-4]):
        raise DamagedError(0, "checksum mismatch in the header")
    if version not in (_VERSION, _VERSION_NAMING):
        raise DamagedError(16, f"version {version} of the format is not supported")
    if order != _NATIVE:
        raise DamagedError(20, "written on a machine with the other byte order")
    return fields


def _check_gaps(directory: array[int], end: int) -> None:
    """Check that the parts fill the file from header to directory, so that every byte is covered by a checksum."""
    offset = _HEADER.size
    for at in range(0, len(directory), 3):
        if directory[at] != offset:
            raise DamagedError(directory[at], "a part does not start where the previous part ends")
        offset += directory[at + 1] + (-directory[at + 1] % 8)
    if offset != end:
        raise DamagedError(offset, "the directory does not start at the end of the last part")


def _check_sums(data: memoryview, directory: array[int]) -> None:
    """Verify the checksums of all parts. If there are many, up to eight threads share them: CRC-32 of a large buffer
    releases the GIL.
    """
    count = len(directory) // 3
    workers = min(max(os.cpu_count() or 1, 1), 8)
    share = -(-count // workers)
    bounds = [(first, min(first + share, count)) for first in range(0, count, max(share, 1))]

    def first_wrong(bound: tuple[int, int]) -> int:
        for number in range(*bound):
            offset, size, total = directory[3 * number : 3 * number + 3]
            if not _is_intact(data, offset, size, total):
                return offset
        return -1

    if count < 64:
        wrong = [first_wrong(bound) for bound in bounds]
    else:
        with ThreadPoolExecutor(workers) as pool:
            wrong = list(pool.map(first_wrong, bounds))
    offsets = [offset for offset in wrong if offset >= 0]
    if offsets:
        raise DamagedError(min(offsets), _WRONG_SUM)


def _is_intact(data: memoryview, offset: int, size: int, total: int) -> bool:
    """Return whether a part and its padding match the checksum in ``total``, which may also have mark bits."""
    return zlib.crc32(data[offset : offset + size + (-size % 8)]) == total & _SUM
