"""Writing RDB: a value as pieces of bytes, as DUMP encodes it, or a whole file, which is an image of the keyspace.

Each piece is made in a few milliseconds at most, so a writer on the event loop can let other tasks run in between. The
file's version may not support some parts of a stream. These are written before the key, as auxiliary fields. The engine
restores them from these fields; other servers skip the fields. A stream's live entries are written as new nodes, and
deleted entries are left out.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from engine.core.formats.rdb import group_fields
from engine.core.formats.rdb.group_fields import (
    CONSUMER,
    GROUP,
    REST_VERSION,
    SAME_FIELDS,
    V7_0,
    V8_6,
    V8_8,
    pair,
    signed,
)
from engine.core.formats.rdb.primitives import (
    SMALL_ELEMENTS,
    RunningSum,
    element,
    elements,
    length,
    listpack_of,
    string,
)
from engine.core.formats.rdb.value_reader import HASH, STRING
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.image import DatabaseImage, Image
from engine.core.protocol import ids, pace
from engine.core.streams.group import Consumer, Group, shown
from engine.core.streams.idempotency import Producers
from engine.core.streams.pending import NOBODY
from engine.core.streams.segment import Segment
from engine.core.streams.stream import Stream
from engine.version import REDIS_VERSION
from streamwire.frames import split_fields

# -- streams -----------------------------------------------------------------------------------------------------------

#: Maximum entries of a node.
NODE_ENTRIES = 100
#: Approximate maximum size of a node's frames in bytes.
_NODE_BYTES = 6144
_SMALL = len(SMALL_ELEMENTS)


def _raw(entry_id: int) -> bytes:
    return entry_id.to_bytes(16, "big")


def _stream(stream: Stream, form: int) -> Iterator[bytes]:
    """Yield the stream's value in one of the four encodings, in pieces of one or several nodes."""
    cuts = [(segment, _entries_in_node(segment)) for segment in stream.segments() if segment.live]
    yield length(sum(-(-segment.live // size) for segment, size in cuts))
    for segment, size in cuts:
        yield from _nodes(segment, size)
    counters = length(shown(stream.entries_added)) + length(len(stream.groups))
    yield length(stream.length) + b"".join(map(pair, (stream.last_id, stream.first_id, stream.max_deleted_id)))
    yield counters
    for name in sorted(stream.groups):
        yield from _group(name, stream.groups[name], form)
    if form >= V8_6:
        yield _producers(stream.producers)


def _entries_in_node(segment: Segment) -> int:
    return max(min(_NODE_BYTES * len(segment) // max(segment.body.data_size, 1), NODE_ENTRIES), 1)


def _nodes(segment: Segment, size: int) -> Iterator[bytes]:
    """Yield nodes of a segment's live entries, ``size`` per node. A deleted entry does not end a node."""
    frames: list[bytes] = []
    ms, seq = array("Q"), array("Q")
    for first, last in segment.runs(0, len(segment)):
        while first < last:
            end = min(first + size - len(ms), last)
            frames += segment.entries.frames(first, end)
            more_ms, more_seq = segment.entries.id_columns(first, end)
            ms += more_ms
            seq += more_seq
            first = end
            if len(ms) == size:
                yield _node(frames, ms, seq)
                frames, ms, seq = [], array("Q"), array("Q")
    if ms:
        yield _node(frames, ms, seq)


def _node(frames: list[bytes], ms: array[int], seq: array[int]) -> bytes:
    """Return the node of these frames and their IDs."""
    names = split_fields(frames[0])[::2]
    fields, count, small = len(names), len(frames), SMALL_ELEMENTS
    head = [element(count), small[0], element(fields), *elements(names), small[0]]
    columns = _columns(frames, names)
    later, further = _differences(ms), _differences(seq)
    if columns is None:
        return _with_head(ms[0], seq[0], head, _any_fields(frames, names, later, further))
    parts = [b""] * (count * (fields + 4))
    columns = [[small[SAME_FIELDS]] * count, later, further, *map(elements, columns), [element(fields + 3)] * count]
    for number, column in enumerate(columns):
        parts[number :: fields + 4] = column
    return _with_head(ms[0], seq[0], head, parts)


def _columns(frames: list[bytes], names: list[bytes]) -> list[list[bytes]] | None:
    """Return the values of each field; None for one entry, for other fields, or if a value has a line end.

    If all frames have their lines at the same places as the first one, and every length is that of the next line, there
    is only one way to read the frames.
    """
    lines = b"".join(frames).split(b"\r\n")
    step, count = 4 * len(names) + 4, len(frames)
    columns = []
    if count == 1 or len(lines) != step * count + 1 or lines[3::step].count(lines[3]) != count:
        return None
    for number, name in enumerate(names):
        at = 4 + 4 * number
        values = lines[at + 3 :: step]
        if lines[at::step].count(b"$%d" % len(name)) != count or lines[at + 1 :: step].count(name) != count:
            return None
        if any(line != b"$%d" % size for line, size in set(zip(lines[at + 2 :: step], map(len, values), strict=True))):
            return None
        columns.append(values)
    return columns


def _differences(numbers: array[int]) -> list[bytes]:
    """Return the differences to the first of these numbers, as elements."""
    first, small = numbers[0], SMALL_ELEMENTS
    return [small[more] if 0 <= (more := number - first) < _SMALL else element(signed(more)) for number in numbers]


def _any_fields(frames: list[bytes], names: list[bytes], later: list[bytes], further: list[bytes]) -> list[bytes]:
    """Return the elements of the entries, which may have other fields than ``names``."""
    parts: list[bytes] = []
    same, other = element(SAME_FIELDS), element(0)
    for entry, *entry_ids in zip(frames, later, further, strict=True):
        words = split_fields(entry)
        if words[::2] == names:
            parts += (same, *entry_ids, *elements(words[1::2]), element(3 + len(names)))
        else:
            parts += (other, *entry_ids, element(len(words) // 2), *elements(words), element(4 + len(words)))
    return parts


def _with_head(ms: int, seq: int, head: list[bytes], parts: list[bytes]) -> bytes:
    """Return a node with its ID, and the elements of its head and of its entries."""
    packed = listpack_of(head + parts)
    return b"".join((length(16), struct.pack(">QQ", ms, seq), length(len(packed)), packed))


def _group(name: bytes, group: Group, form: int) -> Iterator[bytes]:
    yield string(name) + group_fields.packed(GROUP, group, form)
    ownerless = group.pending.per_owner.get(NOBODY, 0)
    yield length(len(group.pending) - (ownerless if form < V8_8 else 0))
    hidden = NOBODY if form < V8_8 and ownerless else None
    records = (
        _raw(block.id_at(index)) + struct.pack("<q", block.times[index]) + length(block.counts[index])
        for block, index in group.pending.records(ids.MIN_ID, ids.MAX_ID)
        if hidden is None or block.owners[index] != hidden
    )
    while part := b"".join(islice(records, pace.ELEMENTS)):
        yield part
    yield length(len(group.consumers))
    for consumer in group.sorted_consumers():
        yield from _consumer(group, consumer, form)
    if form == V8_8:
        yield length(len(group.nacked)) + b"".join(map(_raw, group.nacked))


def _consumer(group: Group, consumer: Consumer, form: int) -> Iterator[bytes]:
    values = group_fields.packed(CONSUMER, consumer, form)
    yield string(consumer.name) + values + length(group.pending_of(consumer))
    owned = group.pending.records(ids.MIN_ID, ids.MAX_ID, consumer.number)
    while part := b"".join([_raw(block.id_at(index)) for block, index in islice(owned, pace.ELEMENTS)]):
        yield part


def _producers(producers: Producers | None) -> bytes:
    if producers is None:
        producers = Producers(0, 0)
    parts = [length(producers.duration), length(producers.maxsize), length(len(producers.by_producer))]
    for producer, sent in producers.by_producer.items():
        parts += (string(producer), length(len(sent)))
        for iid, entry_id in sent.items():
            parts += (string(iid), pair(entry_id))
    parts += (length(producers.added), length(producers.duplicates))
    return b"".join(parts)


def _needed_form(stream: Stream) -> int:
    groups = stream.groups.items()
    if any(group.nacked for _, group in groups):
        return V8_8
    oldest = V7_0 if stream.producers is None else V8_6
    return max([oldest, *(group_fields.needed_form(stream, name, group) for name, group in groups)])


def form_of(stream: Stream) -> int:
    """Return the type byte of the oldest lossless encoding of the stream, or of the newest if none is lossless."""
    return min(_needed_form(stream), V8_8)


def rest(stream: Stream, form: int) -> bytes:
    """Return the parts of the stream that this encoding lacks; empty if the encoding is lossless.

    The result consists of a version, the groups (name, values, records without an owner), and the producers.
    """
    if form >= _needed_form(stream):
        return b""
    parts = [length(REST_VERSION), length(len(stream.groups))]
    for name, group in stream.groups.items():
        parts += (string(name), group_fields.packed_rest(stream, name, group, form))
        found = [(entry_id, group.pending.find(entry_id)) for entry_id in group.nacked]
        records = [(entry_id, record) for entry_id, record in found if record is not None]
        parts.append(length(len(records)))
        for entry_id, (block, index) in records:
            parts.append(_raw(entry_id) + struct.pack("<q", block.times[index]) + length(block.counts[index]))
    producers = stream.producers if form < V8_6 else None
    parts.append(length(producers is not None))
    if producers is not None:
        parts.append(_producers(producers))
    return b"".join(parts)


# -- values ------------------------------------------------------------------------------------------------------------

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
        form = form_of(value)
        return group_fields.RDB_VERSIONS[form], chain((bytes((form,)),), _stream(value, form))
    kind, pieces = encoded(value, _OLDEST_VERSION)
    return _OLDEST_VERSION, chain((bytes((kind,)),), pieces)


def encoded(value: Any, version: int) -> tuple[int, Iterator[bytes]]:
    """Return the type byte of a value in a file of this version, and the rest of its encoding in pieces."""
    if isinstance(value, Stream):
        form = min(group_fields.newest_form(version), form_of(value))
        return form, _stream(value, form)
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


# -- files -------------------------------------------------------------------------------------------------------------

# Auxiliary fields of the engine. Binary content is in hexadecimal digits, because tools print these fields.
#: Auxiliary field with the time of the data in milliseconds since the epoch.
TAKEN_AT = b"pystreams-ms"
#: Auxiliary field with the parts of a stream that RDB files do not support.
REST_OF_STREAM = b"pystreams-stream"

EXPIRE_MS, SELECT, RESIZE, AUX, END = 0xFC, 0xFE, 0xFB, 0xFA, 0xFF
#: Approximate size of pieces into which short values are combined.
_PIECE = 4096


def write(image: Image, version: int, about: Mapping[bytes, bytes] | None = None) -> Iterator[bytes]:
    """Yield the file in pieces, in a version of Redis's format.

    ``about`` contains additional auxiliary fields.
    An empty piece only lets other tasks run.
    """
    total = RunningSum()
    for piece in _pieces(image, version, about or {}):
        yield piece
        if total.add(piece):
            yield b""
    yield total.total().to_bytes(8, "little")


def _pieces(image: Image, version: int, about: Mapping[bytes, bytes]) -> Iterator[bytes]:
    seconds, ms = b"%d" % (image.now // 1000), b"%d" % image.now
    yield b"REDIS%04d" % version + b"".join(
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
