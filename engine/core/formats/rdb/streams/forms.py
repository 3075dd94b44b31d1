"""The encodings of streams in Redis's RDB format, and the newest one of an RDB version.

The encoding of 7.0 lacks a consumer's active time (7.2), which matters if it differs from its seen time, idempotent
producers (8.6), and entries released by XNACK (8.8). DUMP writes the oldest lossless encoding. A file uses the encoding
of its version, and a record of our own holds the parts that this encoding lacks. ``writer`` and ``reader`` are inverse
to each other: change both together.
"""

from __future__ import annotations

from engine.core.formats.rdb.primitives import Reader, length
from engine.core.protocol import ids

#: Type byte of each encoding -> the RDB version of the first server that reads it.
V5_0, V7_0, V7_2, V8_6, V8_8 = 15, 19, 21, 26, 27
#: Stands for an encoding later than all: no encoding of Redis has the field.
OURS = 256
RDB_VERSIONS = {V7_0: 10, V7_2: 11, V8_6: 13, V8_8: 14}
#: The encodings that can be read, including that of 5.0.
FORMS = (V5_0, V7_0, V7_2, V8_6, V8_8)

#: Flags of an entry in a node.
DELETED, SAME_FIELDS = 1, 2
#: Pending records written or read per step.
RECORDS = 256


def signed(value: int) -> int:
    """Interpret a 64-bit number as signed."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def pair(entry_id: int) -> bytes:
    """Encode an ID as two lengths."""
    return length(entry_id >> 64) + length(entry_id & ids.U64_MAX)


def load_pair(reader: Reader) -> int:
    """Read an ID that consists of two lengths."""
    ms = reader.length()
    return ids.make(ms, reader.length())


def newest_form(version: int) -> int:
    """Return the newest encoding that a reader of this RDB version supports."""
    return max(form for form, since in RDB_VERSIONS.items() if since <= version)
