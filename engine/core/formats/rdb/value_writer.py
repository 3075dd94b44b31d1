"""Encoding of values in Redis's RDB format, in pieces: as DUMP encodes them, or for a file of a given version."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from engine.core.formats.rdb.primitives import length, string
from engine.core.formats.rdb.streams import forms, stream_writer
from engine.core.formats.rdb.value_forms import ELEMENTS, HASH, STRING, forms_version
from engine.core.keyspace.hash import Hash, HashImage
from engine.core.streams.stream import Stream

#: The RDB version of strings and hashes in DUMP's encoding, which every server since Redis 7.0 reads.
_OLDEST_VERSION = 10
#: Approximate size in bytes of a piece of strings.
_PIECE_BYTES = 4096


def dumped(value: Any) -> tuple[int, Iterator[bytes]]:
    """Return the oldest RDB version that supports DUMP's encoding of a value, and that encoding in pieces.

    The encoding starts with the type byte; pieces can be empty. The value must not change before the last piece is
    created.
    """
    if isinstance(value, Stream):
        form = stream_writer.form_of(value)
        return forms.RDB_VERSIONS[form], chain((bytes((form,)),), stream_writer.encode(value, form))
    kind, pieces = encoded(value, _OLDEST_VERSION)
    return _OLDEST_VERSION, chain((bytes((kind,)),), pieces)


def encoded(value: Any, version: int) -> tuple[int, Iterator[bytes]]:
    """Return the type byte of a value in a file of this version, and the rest of its encoding in pieces."""
    if isinstance(value, Stream):
        form = min(forms.newest_form(forms_version(version)), stream_writer.form_of(value))
        return form, stream_writer.encode(value, form)
    if isinstance(value, Hash | HashImage):
        return HASH, _pairs(value)
    return STRING, iter((string(value),))


def _pairs(fields: Hash | HashImage) -> Iterator[bytes]:
    parts = [length(len(fields))]
    size = 0
    for field, value in fields.items():
        parts += (string(field), string(value))
        size += len(field) + len(value)
        if len(parts) >= ELEMENTS or size > _PIECE_BYTES:
            yield b"".join(parts)
            parts.clear()
            size = 0
    yield b"".join(parts)
