r"""Blocks of the append-only file: a line with length and checksum, then the commands of one event-loop iteration.

Redis skips the line as a comment, because it starts with ``#``, so ``redis-server`` can read and continue the file. The
checksums let the engine detect a flipped bit::

    #PS <length> <CRC-32 of the commands> <CRC-32 of this line so far, seeded with its offset in the file>\r\n

Each number has eight hexadecimal digits; the line has 32 bytes. The length distinguishes a torn write, after which the
file is truncated, from changed bytes, for which the file is rejected. Commands without such a line were written by
Redis, or exceed ``BLOCK_LIMIT``; only their syntax can be checked.

Another comment contains the data's position in a replication history (`engine.shell.durability.formats.position`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.formats.damage import DamagedError
from engine.shell.durability.formats.position import LINE_SIZE, line_at

HEAD_SIZE = 32
#: Maximum length of a block in bytes. If the commands of an iteration are longer, they are written without the line.
BLOCK_LIMIT = 0xFFFF_FFFF
#: Number of bytes to search for zeros at a time.
_ZEROS = 1 << 16
_HEAD = re.compile(rb"#PS ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8})\r\n")
_TIME = re.compile(rb"#TS:[0-9]{1,20}\r?\n")
#: An incomplete head at the end of a file.
_TORN_HEAD = re.compile(rb"#(P(S( ([0-9a-f]{0,8}|[0-9a-f]{8} ([0-9a-f]{0,8}|[0-9a-f]{8} [0-9a-f]{0,8}\r?))?)?)?)?")
_TORN_TIME = re.compile(rb"#(T(S(:[0-9]{0,20}\r?)?)?)?")
_TORN_POSITION = re.compile(rb"#(P(R( [0-9a-f ]{0,76}\r?)?)?)?")


class TornError(Exception):
    """The file ends within a block, command or transaction that starts at ``offset``, or in zeros that start there. The
    bytes before ``offset`` are good.
    """

    def __init__(self, offset: int) -> None:
        super().__init__()
        self.offset = offset


def written_size(data: memoryview) -> int:
    """Return the size of a file without zeros at its end. (Written content always ends with a line break.)"""
    end = len(data)
    while end:
        begin = max(end - _ZEROS, 0)
        there = len(bytes(data[begin:end]).rstrip(b"\0"))
        if there:
            return begin + there
        end = begin
    return 0


def head(offset: int, commands: bytes) -> bytes:
    """Return the line for commands whose block starts at ``offset`` in the file."""
    line = b"#PS %08x %08x " % (len(commands), zlib.crc32(commands))
    return b"%b%08x\r\n" % (line, zlib.crc32(line, offset & 0xFFFF_FFFF))


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, end) of a file. ``proven``: whether they are complete commands, verified by a checksum."""

    start: int
    end: int
    proven: bool


def pieces(data: memoryview) -> Iterator[Piece]:
    """Yield the parts of a file that contain commands, in order, without comment lines and the heads of blocks.

    Raises DamagedError at the first damage, and TornError if the file ends within a head or block.

    A piece without a head extends to the end of the file. Its reader finds where the commands end, and calls
    `pieces_from` with that offset.
    """
    return pieces_from(data, 0)


def pieces_from(data: memoryview, offset: int) -> Iterator[Piece]:
    """Yield the pieces from ``offset`` on. The offset must lie between two commands."""
    size = len(data)
    while offset < size:
        line = bytes(data[offset : offset + HEAD_SIZE])
        if line[:1] == b"*":
            yield Piece(offset, size, proven=False)
            return
        found = _HEAD.fullmatch(line)
        if found is None:
            if line_at(data, offset) is not None:
                offset += LINE_SIZE
                continue
            time = _TIME.match(line)
            if time is None:
                _raise(bytes(data[offset : offset + LINE_SIZE]), offset, size)
                return
            offset += time.end()
            continue
        length, total, head_sum = (int(word, 16) for word in found.groups())
        if zlib.crc32(line[:-10], offset & 0xFFFF_FFFF) != head_sum:
            raise DamagedError(offset, "checksum mismatch in the head of a block")
        begin = offset + HEAD_SIZE
        end = begin + length
        if end > size:
            raise TornError(offset)
        if zlib.crc32(data[begin:end]) != total:
            raise DamagedError(begin, f"checksum mismatch in the {length} bytes from here on")
        yield Piece(begin, end, proven=True)
        offset = end


def blocks_after(data: memoryview, offset: int) -> Iterator[Piece]:
    """Yield the verified blocks that start at ``offset`` or later, skipping anything between them."""
    for found in _HEAD.finditer(data, offset):
        start, end = found.end(), found.end() + int(found[1], 16)
        head_sum = zlib.crc32(data[found.start() : start - 10], found.start() & 0xFFFF_FFFF)
        if head_sum == int(found[3], 16) and end <= len(data) and zlib.crc32(data[start:end]) == int(found[2], 16):
            yield Piece(start, end, proven=True)


def _raise(line: bytes, offset: int, size: int) -> None:
    if offset + len(line) == size and any(
        pattern.fullmatch(line) for pattern in (_TORN_HEAD, _TORN_TIME, _TORN_POSITION)
    ):
        raise TornError(offset)
    raise DamagedError(offset, "neither a command nor the head of a block")
