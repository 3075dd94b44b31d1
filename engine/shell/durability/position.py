"""Position of data in a replication history, as stored in files: replication may continue from there after loading.

An RDB file stores it in auxiliary fields, as Redis does, a snapshot in its header, and a log in its last line. The line
is ignored if commands follow it, because they change the data.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

_ID, _OFFSET, _DB = b"repl-id", b"repl-offset", b"repl-stream-db"
_IS_ID = re.compile(rb"[0-9a-f]{40}")
_LINE = re.compile(rb"#PR ([0-9a-f]{40}) ([0-9a-f]{16}) ([0-9a-f]{8}) ([0-9a-f]{8})\r\n")
#: Size in bytes of `Position.line`.
LINE_SIZE = 81
#: Size in bytes of `Position.packed`.
PACKED_SIZE = 28
#: Size in bytes of the ID in `Position.packed`.
_ID_BYTES = 20
#: Size in bytes of the offset in `Position.packed`.
_OFFSET_BYTES = 6
#: Size in bytes of the database number in `Position.packed`.
_DB_BYTES = 2
#: Maximum number of digits accepted for an offset.
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Position:
    """Position of data that results from the history ``id`` (40 hexadecimal digits) up to ``offset``, in bytes. ``db``
    is the database selected for the next command of the stream.
    """

    id: bytes
    offset: int
    db: int

    @property
    def about(self) -> dict[bytes, bytes]:
        """Return the auxiliary fields of an RDB file."""
        return {_DB: b"%d" % self.db, _ID: self.id, _OFFSET: b"%d" % self.offset}

    @property
    def packed(self) -> bytes:
        """Return the bytes for a snapshot's header; all zeros (no position) if a number is too large."""
        if self.offset >> 8 * _OFFSET_BYTES or self.db >> 8 * _DB_BYTES:
            return bytes(PACKED_SIZE)
        return bytes.fromhex(self.id.decode()) + self.offset.to_bytes(_OFFSET_BYTES) + self.db.to_bytes(_DB_BYTES)

    def line(self, file_offset: int) -> bytes:
        """Return the position as a line at ``file_offset`` of a log file. Redis skips the line as a comment."""
        text = b"#PR %b %016x %08x " % (self.id, self.offset, self.db)
        return b"%b%08x\r\n" % (text, zlib.crc32(text, file_offset & 0xFFFF_FFFF))


def from_about(about: Mapping[bytes, bytes]) -> Position | None:
    """Return the position in the auxiliary fields of an RDB file; None if it is missing or invalid."""
    history, offset, db = (about.get(name, b"") for name in (_ID, _OFFSET, _DB))
    numbers = all(word.isdigit() and len(word) <= _MOST_DIGITS for word in (offset, db))
    return Position(history, int(offset), int(db)) if numbers and _IS_ID.fullmatch(history) else None


def from_packed(data: bytes) -> Position | None:
    """Return the position in the header of a snapshot; None if the header has no position."""
    if not any(data):
        return None
    history, rest = data[:_ID_BYTES], data[_ID_BYTES:]
    offset, db = rest[:_OFFSET_BYTES], rest[_OFFSET_BYTES:]
    return Position(history.hex().encode(), int.from_bytes(offset), int.from_bytes(db))


def line_at(data: memoryview, file_offset: int) -> Position | None:
    """Return the position in the line at ``file_offset`` in a log; None if there is no valid line."""
    line = bytes(data[file_offset : file_offset + LINE_SIZE])
    found = _LINE.fullmatch(line)
    if found is None or zlib.crc32(line[:-10], file_offset & 0xFFFF_FFFF) != int(found[4], 16):
        return None
    return Position(found[1], int(found[2], 16), int(found[3], 16))
