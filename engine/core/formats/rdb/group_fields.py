"""The encodings of streams in Redis's RDB format, and the persisted fields of groups and consumers, as one table.

Snapshots, the RDB encodings, the record in ``writer.rest``, and the commands of a log all use this table. A new
field needs an attribute of `Group` or `Consumer`, a row here, and the command that sets it. Snapshots store the values
in this order.

Names, pending entries and released entries are not in the table, because they have no fixed size; each format has its
own code for them.

The encoding of 7.0 lacks entries released by XNACK (added in 8.8), idempotent producers (8.6), and a consumer's active
time (7.2). The active time is lost only if it differs from the seen time. DUMP writes the oldest lossless encoding. A
file is limited to the encoding of its version; an auxiliary field of the engine contains the missing values. Change
``writer`` and ``stream_reader`` together: each is the inverse of the other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from engine.core.formats.rdb.primitives import BadFormatError, Reader, length, string
from engine.core.protocol import ids
from engine.core.streams.group import MOST, UNKNOWN, Consumer, Group, estimate_read, shown
from engine.core.streams.pending import NOBODY
from engine.core.streams.stream import Stream

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


# -- fields of groups and consumers -----------------------------------------------------------------------------------

Owner = Group | Consumer


class Kind(NamedTuple):
    """Functions that write and read values of one kind in each format."""

    #: To and from the value in a snapshot: a number or a text.
    plain: Callable[[int], Any]
    parse: Callable[[Any], int]
    #: To and from the bytes in an RDB encoding.
    packed: Callable[[int], bytes]
    load: Callable[[Reader], int]
    #: To the word in a command.
    word: Callable[[int], bytes]


def _packed_count(count: int) -> bytes:
    return length(shown(count) % (1 << 64))


def _count_word(count: int) -> bytes:
    # Same value as ``shown``, without a call: this runs for every XREADGROUP.
    return b"%d" % min(MOST, count)


def _load_count(reader: Reader) -> int:
    count = signed(reader.length())
    if count < UNKNOWN:
        raise BadFormatError
    return count


_ID = Kind(ids.text, ids.parse, pair, load_pair, ids.text)
#: A number of entries, or UNKNOWN.
_COUNT = Kind(shown, int, _packed_count, _load_count, _count_word)
#: Milliseconds since the epoch; -1: never.
_TIME = Kind(int, int, struct.Struct("<q").pack, lambda reader: reader.unpack("<q"), b"%d".__mod__)
#: The number of a consumer in its group's pending entries list.
_NUMBER = Kind(int, lambda number: max(number, NOBODY), length, Reader.length, b"%d".__mod__)


class Field(NamedTuple):
    """One field: an attribute of a group or consumer."""

    name: str
    kind: Kind
    #: The first RDB encoding that has the field.
    since: int = V5_0
    #: Function that returns the value if an RDB encoding lacks the field, given the stream and the group or consumer.
    #: None: an encoding that lacks the field leaves its initial value.
    missing: Callable[[Stream, Any], int] | None = None
    #: The first version of the record in ``writer.rest`` that has the field; 0: no version has it.
    rest: int = 0
    #: The field's option in XGROUP CREATE and XGROUP SETID.
    option: bytes = b""


GROUP = (
    Field("last_id", _ID),
    Field("entries_read", _COUNT, V7_0, lambda stream, group: estimate_read(stream, group.last_id), 0, b"ENTRIESREAD"),
    Field("last_number", _NUMBER, OURS),
)
CONSUMER = (
    Field("number", _NUMBER, OURS),
    Field("seen_time", _TIME),
    Field("active_time", _TIME, V7_2, lambda _, consumer: consumer.seen_time, 1),
)
#: Option, attribute and encoder of each field with an option.
_OPTIONS = [(field.option, attrgetter(field.name), field.kind.word) for field in GROUP if field.option]
#: The newest version of the record in ``writer.rest``.
REST_VERSION = max(field.rest for field in GROUP + CONSUMER)


def plain(fields: Sequence[Field], owner: Owner) -> list[Any]:
    """Return the values of a group or consumer for a snapshot."""
    return [field.kind.plain(getattr(owner, field.name)) for field in fields]


def restore(fields: Sequence[Field], owner: Owner, values: Sequence[Any]) -> None:
    """Set the values from a snapshot. Raises ValueError if the number of values is wrong."""
    for field, value in zip(fields, values, strict=True):
        setattr(owner, field.name, field.kind.parse(value))


def packed(fields: Sequence[Field], owner: Owner, form: int) -> bytes:
    """Encode the values of the fields that an RDB encoding has."""
    return b"".join([field.kind.packed(getattr(owner, field.name)) for field in fields if field.since <= form])


def load(fields: Sequence[Field], reader: Reader, form: int) -> list[int]:
    """Read the values of the fields that an RDB encoding has, for `accept`."""
    return [field.kind.load(reader) for field in fields if field.since <= form]


def accept(fields: Sequence[Field], owner: Owner, form: int, values: list[int], stream: Stream) -> None:
    """Set the values that `load` has read, and the default values of the fields that the encoding lacks."""
    present = [field for field in fields if field.since <= form]
    for field, value in zip(present, values, strict=True):
        setattr(owner, field.name, value)
    for field in fields:
        if field.since > form and field.missing is not None:
            setattr(owner, field.name, field.missing(stream, owner))


def needed_form(stream: Stream, name: bytes, group: Group) -> int:
    """Return the oldest RDB encoding that loses no value of a field with ``rest``; OURS if each loses one."""
    needed = V7_0
    # No ``_tables``, because a stream can have very many groups.
    for fields, owners in (GROUP, None), (CONSUMER, group.consumers):
        for field in fields:
            if field.rest and field.since > needed:
                values = {name: group} if owners is None else owners
                if values and _differing(field, stream, values):
                    needed = field.since
    return needed


def packed_rest(stream: Stream, name: bytes, group: Group, form: int) -> bytes:
    """Encode the values that an encoding lacks.

    For each field with ``rest``: the number of values, then the name of each owner and its value.
    """
    parts = []
    for fields, owners in _tables(name, group):
        for field in fields:
            if field.rest:
                lost = _differing(field, stream, owners) if form < field.since else []
                parts.append(length(len(lost)))
                parts += [string(owner) + field.kind.packed(getattr(owners[owner], field.name)) for owner in lost]
    return b"".join(parts)


def load_rest(reader: Reader, name: bytes, group: Group, version: int) -> None:
    """Read the result of `packed_rest` from a record of this version, and set the values."""
    for fields, owners in _tables(name, group):
        for field in fields:
            if 0 < field.rest <= version:
                for _ in range(reader.length()):
                    setattr(owners[reader.string()], field.name, field.kind.load(reader))


def _tables(name: bytes, group: Group) -> list[tuple[Sequence[Field], Mapping[bytes, Owner]]]:
    return [(GROUP, {name: group}), (CONSUMER, group.consumers)]


def _differing(field: Field, stream: Stream, owners: Mapping[bytes, Owner]) -> list[bytes]:
    """Return the names of the owners whose value differs from the result of ``field.missing``."""
    assumed = field.missing
    return [name for name, owner in owners.items() if assumed and getattr(owner, field.name) != assumed(stream, owner)]


def options(group: Group) -> list[bytes]:
    """Return the options of XGROUP CREATE and XGROUP SETID that recreate a group."""
    words: list[bytes] = []
    for option, value, word in _OPTIONS:
        words += option, word(value(group))
    return words
