"""The encodings of streams in Redis's RDB format: the oldest lossless one, and the newest one of an RDB version.

The encoding of 7.0 lacks a consumer's active time (7.2), which matters if it differs from its seen time, idempotent
producers (8.6), and entries released by XNACK (8.8). DUMP writes the oldest lossless encoding. A file has a
version that its reader must support, so there a record of our own holds what the encoding lacks.
``writer`` and ``reader`` are each other's
inverse: change both together.
"""

from __future__ import annotations

from engine.core.streams.stream import Stream

#: Type byte of each encoding -> the RDB version of the first server that reads it.
V7_0, V7_2, V8_6, V8_8 = 19, 21, 26, 27
RDB_VERSIONS = {V7_0: 10, V7_2: 11, V8_6: 13, V8_8: 14}
#: The encodings that can be read, including that of 5.0.
FORMS = (15, V7_0, V7_2, V8_6, V8_8)
#: The version of the record with the rest of a stream.
REST_VERSION = 1

#: Flags of an entry in a node.
DELETED, SAME_FIELDS = 1, 2
#: Pending records written or read per step.
RECORDS = 256


def signed(value: int) -> int:
    """Interpret a 64-bit number as signed."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def form_of(stream: Stream) -> int:
    """Return the type byte of the oldest lossless encoding of the stream."""
    groups = stream.groups.values()
    if any(group.nacked for group in groups):
        return V8_8
    if stream.producers is not None:
        return V8_6
    consumers = (consumer for group in groups for consumer in group.consumers.values())
    return V7_0 if all(one.active_time == one.seen_time for one in consumers) else V7_2


def newest_form(version: int) -> int:
    """Return the newest encoding that a reader of this RDB version supports."""
    return max(form for form, since in RDB_VERSIONS.items() if since <= version)
