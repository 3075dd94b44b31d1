"""Writing a whole RDB file: an image of the keyspace as pieces of bytes, for a file or a socket.

Each piece is made in a few milliseconds at most, so a writer on the event loop can let other tasks run in between. The
file's version may not support some parts of a stream. These are written before the key, as auxiliary fields. The engine
restores them from these fields; other servers skip the fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from engine.core.formats.rdb.checksum import RunningSum
from engine.core.formats.rdb.primitives import length, string
from engine.core.formats.rdb.streams.stream_writer import rest
from engine.core.formats.rdb.value_forms import VALKEY_VERSION
from engine.core.formats.rdb.value_writer import encoded
from engine.core.keyspace.image import DatabaseImage, Image
from engine.core.streams.stream import Stream
from engine.version import REDIS_VERSION

# Auxiliary fields of the engine. Binary content is in hexadecimal digits, because tools print these fields.
#: Auxiliary field with the time of the data in milliseconds since the epoch.
TAKEN_AT = b"pystreams-ms"
#: Auxiliary field with the parts of a stream that RDB files do not support.
REST_OF_STREAM = b"pystreams-stream"

EXPIRE_MS, SELECT, RESIZE, AUX, END = 0xFC, 0xFE, 0xFB, 0xFA, 0xFF
#: Approximate size of pieces into which short values are combined.
_PIECE = 4096


def write(
    image: Image, version: int, *, checksum: bool = True, about: Mapping[bytes, bytes] | None = None
) -> Iterator[bytes]:
    """Yield the file in pieces, in a version of Redis's or Valkey's format.

    Without ``checksum``, the checksum is 0, which means "not computed". ``about`` contains additional auxiliary fields.
    An empty piece only lets other tasks run.
    """
    total = RunningSum()
    for piece in _pieces(image, version, about or {}):
        yield piece
        if checksum and total.add(piece):
            yield b""
    yield total.total().to_bytes(8, "little")


def _pieces(image: Image, version: int, about: Mapping[bytes, bytes]) -> Iterator[bytes]:
    seconds, ms = b"%d" % (image.now // 1000), b"%d" % image.now
    yield (b"VALKEY%03d" if version == VALKEY_VERSION else b"REDIS%04d") % version + b"".join(
        _aux(name, value)
        for name, value in (
            (b"redis-ver", REDIS_VERSION.encode()),
            (b"redis-bits", b"64"),
            (b"ctime", seconds),
            (TAKEN_AT, ms),
            (b"aof-base", b"0"),
            *about.items(),
        )
    )
    for db in image.databases:
        yield bytes((SELECT,)) + length(db.index)
        yield bytes((RESIZE,)) + length(db.keys) + length(db.expiring)
        yield from _keys(db, version)
    yield bytes((END,))


def _aux(name: bytes, value: bytes) -> bytes:
    return bytes((AUX,)) + string(name) + string(value)


def _keys(db: DatabaseImage, version: int) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for key, value, deadline in db.items():
        if deadline is not None:
            parts.append(struct.pack("<Bq", EXPIRE_MS, deadline))
        if value.__class__ is bytes:
            text = string(value)
            parts += (b"\0", string(key), text)
            size += len(key) + len(text) + 8
        else:
            yield b"".join(parts)
            parts, size = [], 0
            yield from _large(key, value, version)
        if size >= _PIECE:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


def _large(key: bytes, value: Any, version: int) -> Iterator[bytes]:
    kind, pieces = encoded(value, version)
    head = bytes((kind,)) + string(key)
    if isinstance(value, Stream):
        more = rest(value, kind)
        if more:
            head = _aux(REST_OF_STREAM, more.hex().encode()) + head
    yield head
    yield from pieces
