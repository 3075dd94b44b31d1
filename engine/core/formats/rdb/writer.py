"""Writing RDB: a value as pieces of bytes, as DUMP encodes it, or a whole file, which is an image of the keyspace.

Each piece is made in a few milliseconds at most, so a writer on the event loop can let other tasks run in between. The
file's version may not support some parts of a stream. These are written before the key, as auxiliary fields. The engine
restores them from these fields; other servers skip the fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from engine.core.formats.rdb import group_fields, stream_writer
from engine.core.formats.rdb.primitives import RunningSum, length, string
from engine.core.formats.rdb.stream_writer import rest
from engine.core.formats.rdb.value_reader import HASH, STRING, VALKEY_VERSION, forms_version
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.image import DatabaseImage, Image
from engine.core.protocol import pace
from engine.core.streams.stream import Stream
from engine.version import REDIS_VERSION

#: The RDB version of strings and hashes in DUMP's encoding, which every server since Redis 7.0 reads.
_OLDEST_VERSION = 10
#: Approximate size in bytes of a piece of strings.
PIECE_BYTES = 4096


def dumped(value: Any) -> tuple[int, Iterator[bytes]]:
    """Return the oldest RDB version that supports DUMP's encoding of a value, and that encoding in pieces.

    The encoding starts with the type byte; pieces can be empty. The value must not change before the last piece is
    created.
    """
    if isinstance(value, Stream):
        form = stream_writer.form_of(value)
        return group_fields.RDB_VERSIONS[form], chain((bytes((form,)),), stream_writer.encode(value, form))
    kind, pieces = encoded(value, _OLDEST_VERSION)
    return _OLDEST_VERSION, chain((bytes((kind,)),), pieces)


def encoded(value: Any, version: int) -> tuple[int, Iterator[bytes]]:
    """Return the type byte of a value in a file of this version, and the rest of its encoding in pieces."""
    if isinstance(value, Stream):
        form = min(group_fields.newest_form(forms_version(version)), stream_writer.form_of(value))
        return form, stream_writer.encode(value, form)
    if isinstance(value, Hash):
        return HASH, _pairs(value)
    return STRING, iter((string(value),))


def _pairs(fields: Hash) -> Iterator[bytes]:
    parts = [length(len(fields))]
    size = 0
    for field, value in fields.items():
        parts += (string(field), string(value))
        size += len(field) + len(value)
        if len(parts) >= pace.ELEMENTS or size > PIECE_BYTES:
            yield b"".join(parts)
            parts.clear()
            size = 0
    yield b"".join(parts)


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
