"""Where in a replication history data are, as files keep it: who loads them may go on from there.

An RDB file has it in the auxiliary fields of Redis, a snapshot in its header, a log in a line that counts only as the
very last one: whatever is written behind it makes the data others.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

_ID, _OFFSET, _DB = b"repl-id", b"repl-offset", b"repl-stream-db"
_IS_ID = re.compile(rb"[0-9a-f]{40}")
_LINE = re.compile(rb"#PR ([0-9a-f]{40}) ([0-9a-f]{16}) ([0-9a-f]{8}) ([0-9a-f]{8})\r\n")
#: The size of a line, and of :attr:`Position.packed`.
LINE_SIZE, PACKED_SIZE = 81, 28
#: Sizes of the parts of a packed one.
_ID_BYTES, _OFFSET_BYTES, _DB_BYTES = 20, 6, 2
#: More digits than an offset has.
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Position:
    """The data are what the history ``id`` (40 hexadecimal digits) has made up to ``offset``, in bytes. ``db`` is the
    database that the next command of the stream is about.
    """

    id: bytes
    offset: int
    db: int

    @property
    def about(self) -> dict[bytes, bytes]:
        """Auxiliary fields of an RDB file."""
        return {_DB: b"%d" % self.db, _ID: self.id, _OFFSET: b"%d" % self.offset}

    @property
    def packed(self) -> bytes:
        """For the header of a snapshot. All zeros, which is none, where the numbers are too large for it."""
        if self.offset >> 8 * _OFFSET_BYTES or self.db >> 8 * _DB_BYTES:
            return bytes(PACKED_SIZE)
        return bytes.fromhex(self.id.decode()) + self.offset.to_bytes(_OFFSET_BYTES) + self.db.to_bytes(_DB_BYTES)

    def line(self, place: int) -> bytes:
        """A line of a log, which begins at ``place`` in its file. To Redis it is a comment."""
        text = b"#PR %b %016x %08x " % (self.id, self.offset, self.db)
        return b"%b%08x\r\n" % (text, zlib.crc32(text, place & 0xFFFF_FFFF))


def from_about(about: Mapping[bytes, bytes]) -> Position | None:
    """What the auxiliary fields of an RDB file say; None where they do not, or it makes no sense."""
    history, offset, db = (about.get(name, b"") for name in (_ID, _OFFSET, _DB))
    numbers = all(one.isdigit() and len(one) <= _MOST_DIGITS for one in (offset, db))
    return Position(history, int(offset), int(db)) if numbers and _IS_ID.fullmatch(history) else None


def from_packed(data: bytes) -> Position | None:
    """What the header of a snapshot says."""
    if not any(data):
        return None
    history, rest = data[:_ID_BYTES], data[_ID_BYTES:]
    offset, db = rest[:_OFFSET_BYTES], rest[_OFFSET_BYTES:]
    return Position(history.hex().encode(), int.from_bytes(offset), int.from_bytes(db))


def line_at(data: memoryview, place: int) -> Position | None:
    """The line that begins at ``place`` in a log; None where there is no whole one."""
    line = bytes(data[place : place + LINE_SIZE])
    found = _LINE.fullmatch(line)
    if found is None or zlib.crc32(line[:-10], place & 0xFFFF_FFFF) != int(found[4], 16):
        return None
    return Position(found[1], int(found[2], 16), int(found[3], 16))
