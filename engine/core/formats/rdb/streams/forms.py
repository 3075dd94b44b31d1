"""The encodings of streams in Redis's RDB format, and the newest encoding that each RDB version allows.

The encoding of 7.0 lacks entries released by XNACK (added in 8.8), idempotent producers (8.6), and a consumer's active
time (7.2). The active time is lost only if it differs from the seen time. DUMP writes the oldest lossless encoding. A
file is limited to the encoding of its version; an auxiliary field of the engine contains the missing values. Change
``stream_writer`` and ``stream_reader`` together: each is the inverse of the other.
"""

from __future__ import annotations

from engine.core.formats.rdb.primitives import Reader, length
from engine.core.protocol import ids

#: Type bytes of the encodings, named after the first server that reads them.
V5_0, V7_0, V7_2, V8_6, V8_8 = 15, 19, 21, 26, 27
#: Encoding number for fields that no encoding of Redis has; greater than all type bytes.
OURS = 256
#: Encoding -> the RDB version of the first server that reads it.
RDB_VERSIONS = {V7_0: 10, V7_2: 11, V8_6: 13, V8_8: 14}
#: The encodings that can be read, including the encoding of 5.0.
FORMS = (V5_0, V7_0, V7_2, V8_6, V8_8)

#: Flag of an entry in a node: the entry is deleted.
DELETED = 1
#: Flag of an entry in a node: the entry has the fields of the node's first entry, and stores only values.
SAME_FIELDS = 2
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
