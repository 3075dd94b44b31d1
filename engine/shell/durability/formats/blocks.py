r"""Blocks of the append-only file: an iteration's commands behind a line that says how long they are and their sum.

The line is a comment to whoever reads the file as Redis's (a line that begins with ``#`` is skipped between
commands), so the file stays what ``redis-server`` reads and writes, and a flipped bit is still found::

    #PS <length> <CRC-32 of the commands> <CRC-32 of this line so far, seeded with its place in the file>\r\n

each number eight hexadecimal digits, 32 bytes in all. The length stands in front, so that a file that ends too early (a
torn write: cut there) is told from one whose bytes have changed (refused). Commands that stand without such a line were
written by a real Redis; there only their form can be checked.

Another comment says where in a replication history the data are (:mod:`engine.shell.durability.formats.position`).

The pieces of a file, as :func:`pieces` finds them, cover it without a gap.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.formats.damage import DamagedError
from engine.shell.durability.formats.position import LINE_SIZE, line_at

HEAD_SIZE = 32
#: The longest block; an iteration that brings more is cut between commands.
BLOCK_LIMIT = 0xFFFF_FFFF
#: So many bytes at a time are looked at for zeros.
_ZEROS = 1 << 16
_HEAD = re.compile(rb"#PS ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8})\r\n")
_TIME = re.compile(rb"#TS:[0-9]{1,20}\r?\n")
#: What a head looks like that ends too early.
_TORN_HEAD = re.compile(rb"#(P(S( ([0-9a-f]{0,8}|[0-9a-f]{8} ([0-9a-f]{0,8}|[0-9a-f]{8} [0-9a-f]{0,8}\r?))?)?)?)?")
_TORN_TIME = re.compile(rb"#(T(S(:[0-9]{0,20}\r?)?)?)?")
_TORN_POSITION = re.compile(rb"#(P(R( [0-9a-f ]{0,76}\r?)?)?)?")


class TornError(Exception):
    """The file ends in the middle of something. ``offset`` is where that begins: up to there all is well."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self.offset = offset


def end_of_writing(data: memoryview) -> int:
    """Where the zeros at the end of a file begin; whatever is written to it ends with a line end."""
    end = len(data)
    while end:
        begin = max(end - _ZEROS, 0)
        there = len(bytes(data[begin:end]).rstrip(b"\0"))
        if there:
            return begin + there
        end = begin
    return 0


def head(place: int, commands: bytes) -> bytes:
    """The line for commands whose block begins at ``place`` in the file."""
    line = b"#PS %08x %08x " % (len(commands), zlib.crc32(commands))
    return b"%b%08x\r\n" % (line, zlib.crc32(line, place & 0xFFFF_FFFF))


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, end) of a file. ``proven``: a sum says that they are what was written, whole commands."""

    start: int
    end: int
    proven: bool


def pieces(data: memoryview) -> Iterator[Piece]:
    """The stretches of commands in a file, in order; raises at the first place where it is damaged or torn.

    A stretch without a head goes up to the end: its reader knows where commands end, and calls again from there
    (:func:`pieces_from`).
    """
    return pieces_from(data, 0)


def pieces_from(data: memoryview, place: int) -> Iterator[Piece]:
    """As :func:`pieces`, from a place between two commands on."""
    size = len(data)
    while place < size:
        line = bytes(data[place : place + HEAD_SIZE])
        if line[:1] == b"*":
            yield Piece(place, size, proven=False)
            return
        found = _HEAD.fullmatch(line)
        if found is None:
            if line_at(data, place) is not None:
                place += LINE_SIZE
                continue
            time = _TIME.match(line)
            if time is None:
                _raise(bytes(data[place : place + LINE_SIZE]), place, size)
                return
            place += time.end()
            continue
        length, total, own = (int(word, 16) for word in found.groups())
        if zlib.crc32(line[:-10], place & 0xFFFF_FFFF) != own:
            raise DamagedError(place, "the head of a block is not what was written")
        begin = place + HEAD_SIZE
        end = begin + length
        if end > size:
            raise TornError(place)
        if zlib.crc32(data[begin:end]) != total:
            raise DamagedError(begin, f"the sum of the {length} bytes from here on is not what was written")
        yield Piece(begin, end, proven=True)
        place = end


def blocks_behind(data: memoryview, place: int) -> Iterator[Piece]:
    """The whole blocks that begin at ``place`` or later, whatever stands between them."""
    for found in _HEAD.finditer(data, place):
        start, end = found.end(), found.end() + int(found[1], 16)
        own = zlib.crc32(data[found.start() : start - 10], found.start() & 0xFFFF_FFFF)
        if own == int(found[3], 16) and end <= len(data) and zlib.crc32(data[start:end]) == int(found[2], 16):
            yield Piece(start, end, proven=True)


def _raise(line: bytes, place: int, size: int) -> None:
    if place + len(line) == size and any(one.fullmatch(line) for one in (_TORN_HEAD, _TORN_TIME, _TORN_POSITION)):
        raise TornError(place)
    raise DamagedError(place, "neither a command nor the head of a block")
