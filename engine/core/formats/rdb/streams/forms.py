"""The forms in which Redis's RDB format has streams: the oldest that keeps a stream whole, the newest of a version.

The form of 7.0 lacks a consumer's active time (7.2), which matters where it differs from its seen time, idempotent
producers (8.6), and entries given back by XNACK (8.8). DUMP writes the oldest form that keeps everything. A file has a
version, which says what its reader knows: there a record of our own has what the form does not keep.
:mod:`~engine.core.formats.rdb.streams.writer` and :mod:`~engine.core.formats.rdb.streams.reader` are each other's
inverse: what is changed in one is changed in both.
"""

from __future__ import annotations

from engine.core.streams.stream import Stream

#: Type byte of each form -> the RDB version of the first server that reads it.
V7_0, V7_2, V8_6, V8_8 = 19, 21, 26, 27
RDB_VERSIONS = {V7_0: 10, V7_2: 11, V8_6: 13, V8_8: 14}
#: The forms that are read: 5.0's too.
FORMS = (15, V7_0, V7_2, V8_6, V8_8)
#: The version of the record that has the rest of a stream.
REST_VERSION = 1

#: Flags of an entry in a node.
DELETED, SAME_FIELDS = 1, 2
#: Pending records that are written or read in one step.
RECORDS = 256


def signed(value: int) -> int:
    """The signed number that 64 bits stand for."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def form_of(stream: Stream) -> int:
    """The type byte of the oldest form that keeps all of the stream."""
    groups = stream.groups.values()
    if any(group.nacked for group in groups):
        return V8_8
    if stream.producers is not None:
        return V8_6
    consumers = (consumer for group in groups for consumer in group.consumers.values())
    return V7_0 if all(one.active_time == one.seen_time for one in consumers) else V7_2


def newest_form(version: int) -> int:
    """The newest form that a reader of this RDB version knows."""
    return max(form for form, since in RDB_VERSIONS.items() if since <= version)
