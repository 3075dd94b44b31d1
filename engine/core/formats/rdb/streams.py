"""Streams in Redis's RDB format, both ways.

The form of 7.0 lacks a consumer's active time (7.2), which matters where it differs from its seen time, idempotent
producers (8.6), and entries given back by XNACK (8.8). DUMP writes the oldest form that keeps everything. A file has a
version, which says what its reader knows: there :func:`rest` has what the form does not keep. Nodes are cut anew;
deleted entries are not written.

Both directions go in steps, so that a stream of any size keeps nobody waiting. They share a file of more than 400 lines
because a form is read and changed as one: what is written here must be what is read here.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from engine.core.formats.rdb.primitives import (
    SMALL_ELEMENTS,
    BadFormatError,
    Reader,
    Steps,
    add_elements,
    at_once,
    element,
    length,
    listpack_of,
    read_elements,
    string,
    whole,
)
from engine.core.protocol import ids
from engine.core.streams.frames import fields_of, frame
from engine.core.streams.group import Consumer, Group
from engine.core.streams.idempotency import MOST_IDMP_IDS, MOST_IDMP_SECONDS, Producers
from engine.core.streams.pending import NOBODY
from engine.core.streams.position import UNKNOWN, estimate_read, shown
from engine.core.streams.segment import Segment
from engine.core.streams.stream import Stream

#: Type byte of each form -> the RDB version of the first server that reads it.
V7_0, V7_2, V8_6, V8_8 = 19, 21, 26, 27
RDB_VERSIONS = {V7_0: 10, V7_2: 11, V8_6: 13, V8_8: 14}
#: The forms that are read: 5.0's too.
FORMS = (15, V7_0, V7_2, V8_6, V8_8)

#: A node has up to so many entries, of about so many bytes of frames.
_NODE_ENTRIES = 100
_NODE_BYTES = 6144
_DELETED, _SAME_FIELDS = 1, 2
_U64 = 1 << 64
_SMALL = len(SMALL_ELEMENTS)
#: Pending records in one step.
_RECORDS = 256
_REST_VERSION = 1

Defaults = Callable[[], tuple[int, int]]


def _signed(value: int) -> int:
    return (value + (1 << 63)) % _U64 - (1 << 63)


def _pair(entry_id: int) -> bytes:
    return length(entry_id >> 64) + length(entry_id & ids.U64_MAX)


def _raw(entry_id: int) -> bytes:
    return entry_id.to_bytes(16, "big")


# -- writing --------------------------------------------------------------------------------------------------------


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


def encode(stream: Stream, form: int) -> Iterator[bytes]:
    """The stream's value in one of the four forms, in pieces of a node or less."""
    cuts = [(segment, _entries_in_node(segment)) for segment in stream.segments() if segment.live]
    yield length(sum(-(-segment.live // size) for segment, size in cuts))
    for segment, size in cuts:
        yield from _nodes(segment, size)
    counters = length(shown(stream.entries_added)) + length(len(stream.groups))
    yield length(stream.length) + b"".join(map(_pair, (stream.last_id, stream.first_id, stream.max_deleted_id)))
    yield counters
    for name in sorted(stream.groups):
        yield from _group(name, stream.groups[name], form)
    if form >= V8_6:
        yield _producers(stream.producers)


def _entries_in_node(segment: Segment) -> int:
    return max(min(_NODE_BYTES * len(segment) // max(segment.body.data_size, 1), _NODE_ENTRIES), 1)


def _nodes(segment: Segment, size: int) -> Iterator[bytes]:
    """The live entries of a segment, ``size`` in a node."""
    frames: list[bytes] = []
    ms, seq = array("Q"), array("Q")
    for first, last in segment.runs(0, len(segment)):
        while first < last:
            end = min(first + size - len(frames), last)
            frames += segment.frames(first, end)
            more_ms, more_seq = segment.id_columns(first, end)
            ms += more_ms
            seq += more_seq
            first = end
            if len(frames) == size:
                yield _node(frames, ms, seq)
                frames, ms, seq = [], array("Q"), array("Q")
    if frames:
        yield _node(frames, ms, seq)


def _words(entry: bytes) -> list[bytes]:
    """As :func:`fields_of`, quicker where no word holds a line's end."""
    parts = entry.split(b"\r\n")
    return parts[5::2] if len(parts) == 5 + 2 * int(parts[3][1:]) else fields_of(entry)


def _node(frames: Sequence[bytes], ms: Sequence[int], seq: Sequence[int]) -> bytes:
    small = SMALL_ELEMENTS
    names = _words(frames[0])[::2]
    first_ms, first_seq = ms[0], seq[0]
    parts = [element(len(frames)), small[0], element(len(names))]
    add_elements(parts, names)
    parts.append(small[0])
    count = 4 + len(names)
    same, same_tail = small[_SAME_FIELDS], element(3 + len(names))
    for at, entry in enumerate(frames):
        words = _words(entry)
        is_same = words[::2] == names
        parts.append(same if is_same else small[0])
        later, further = ms[at] - first_ms, seq[at] - first_seq
        parts.append(small[later] if 0 <= later < _SMALL else element(_signed(later)))
        parts.append(small[further] if 0 <= further < _SMALL else element(_signed(further)))
        if is_same:
            add_elements(parts, words[1::2])
            parts.append(same_tail)
            count += 4 + len(names)
        else:
            parts.append(element(len(words) // 2))
            add_elements(parts, words)
            parts.append(element(4 + len(words)))
            count += 5 + len(words)
    packed = listpack_of(parts, count)
    return b"".join((length(16), _raw(first_ms << 64 | first_seq), length(len(packed)), packed))


def _group(name: bytes, group: Group, form: int) -> Iterator[bytes]:
    yield string(name) + _pair(group.last_id) + length(shown(group.entries_read) % _U64)
    ownerless = group.pending.per_owner.get(NOBODY, 0)
    yield length(len(group.pending) - (ownerless if form < V8_8 else 0))
    hidden = NOBODY if form < V8_8 and ownerless else None
    records = (
        _raw(block.id_at(index)) + struct.pack("<q", block.time_at(index)) + length(block.count_at(index))
        for block, index in group.pending.records(ids.MIN_ID, ids.MAX_ID)
        if hidden is None or block.owner_at(index) != hidden
    )
    while part := b"".join(islice(records, _RECORDS)):
        yield part
    yield length(len(group.consumers))
    for consumer in group.sorted_consumers():
        yield from _consumer(group, consumer, form)
    if form == V8_8:
        yield length(len(group.nacked)) + b"".join(map(_raw, group.nacked))


def _consumer(group: Group, consumer: Consumer, form: int) -> Iterator[bytes]:
    times = struct.pack("<q", consumer.seen_time)
    if form >= V7_2:
        times += struct.pack("<q", consumer.active_time)
    yield string(consumer.name) + times + length(group.pending_of(consumer))
    owned = group.pending.records(ids.MIN_ID, ids.MAX_ID, consumer.number)
    while part := b"".join([_raw(block.id_at(index)) for block, index in islice(owned, _RECORDS)]):
        yield part


def _producers(producers: Producers | None) -> bytes:
    if producers is None:
        producers = Producers(0, 0)
    parts = [length(producers.duration), length(producers.maxsize), length(len(producers.by_producer))]
    for producer, sent in producers.by_producer.items():
        parts += (string(producer), length(len(sent)))
        for iid, entry_id in sent.items():
            parts += (string(iid), _pair(entry_id))
    parts += (length(producers.added), length(producers.duplicates))
    return b"".join(parts)


def rest(stream: Stream, form: int) -> bytes:
    """What this form does not keep of the stream, empty where there is nothing.

    Version, groups: name, consumers whose active time is not their seen time, ownerless records; then the producers.
    """
    if form >= form_of(stream):
        return b""
    parts = [length(_REST_VERSION), length(len(stream.groups))]
    for name, group in stream.groups.items():
        active = [one for one in group.consumers.values() if form < V7_2 and one.active_time != one.seen_time]
        parts += (string(name), length(len(active)))
        parts += [string(one.name) + struct.pack("<q", one.active_time) for one in active]
        found = [(entry_id, group.pending.find(entry_id)) for entry_id in group.nacked]
        records = [(entry_id, record) for entry_id, record in found if record is not None]
        parts.append(length(len(records)))
        for entry_id, (block, index) in records:
            parts.append(_raw(entry_id) + struct.pack("<q", block.time_at(index)) + length(block.count_at(index)))
    producers = stream.producers if form < V8_6 else None
    parts.append(length(producers is not None))
    if producers is not None:
        parts.append(_producers(producers))
    return b"".join(parts)


# -- reading --------------------------------------------------------------------------------------------------------


def load(reader: Reader, form: int, stream: Stream, defaults: Defaults) -> Steps[Stream]:
    """Fill an empty stream. ``defaults`` are the server's settings for idempotent producers: duration, most IDs."""
    for _ in range((yield from whole(reader, reader.length))):
        key, packed = yield from whole(reader, lambda: (reader.string(), reader.string()))
        _add_node(stream, key, packed)
        yield False
    last_id, max_deleted, added, groups = yield from whole(reader, lambda: _load_counters(reader, form, stream))
    stream.last_id = last_id
    if form >= V7_0:
        stream.max_deleted_id, stream.entries_added = max_deleted, added
    for _ in range(groups):
        name, group = yield from _load_group(reader, form, stream)
        if name in stream.groups:
            raise BadFormatError
        stream.groups[name] = group
    if form >= V8_6:
        producers = yield from _load_producers(reader, defaults)
        if producers.by_producer or producers.added or (producers.duration, producers.maxsize) != defaults():
            stream.remember_producers(producers)
    return stream


def load_rest(data: bytes, stream: Stream, defaults: Defaults) -> None:
    """Give a stream that was loaded what :func:`rest` has of it."""
    reader = Reader(data)
    if reader.length() != _REST_VERSION:
        raise BadFormatError("it holds more of a stream than is known here")
    for _ in range(reader.length()):
        group = stream.groups[reader.string()]
        for _ in range(reader.length()):
            consumer = group.consumers[reader.string()]
            consumer.active_time = reader.unpack("<q")
        for _ in range(reader.length()):
            entry_id, (time, count) = _load_record(reader)
            if entry_id in group.pending:
                raise BadFormatError
            group.pending.put(entry_id, NOBODY, time, count)
            group.nacked[entry_id] = None
    if reader.length():
        stream.remember_producers(at_once(_load_producers(reader, defaults)))
    if reader.at != len(data):
        raise BadFormatError


def _load_pair(reader: Reader) -> int:
    ms = reader.length()
    return ids.make(ms, reader.length())


def _load_count(reader: Reader) -> int:
    """A number that clients see as a signed one of 64 bits: nothing else could be logged, or saved, and read again."""
    count = reader.length()
    if count >= 1 << 63:
        raise BadFormatError
    return count


def _load_raw(reader: Reader) -> int:
    return int.from_bytes(reader.read(16), "big")


def _load_counters(reader: Reader, form: int, stream: Stream) -> tuple[int, int, int, int]:
    """Last ID, greatest deleted ID, entries added, groups."""
    count, last_id = reader.length(), _load_pair(reader)
    if count != stream.length or last_id < stream.last_id:
        raise BadFormatError
    max_deleted = added = 0
    if form >= V7_0:
        _load_pair(reader)
        max_deleted, added = _load_pair(reader), _load_count(reader)
        if added < count or max_deleted > last_id:
            raise BadFormatError
    return last_id, max_deleted, added, reader.length()


def _add_node(stream: Stream, key: bytes, packed: bytes) -> None:
    if len(key) != 16:
        raise BadFormatError
    first_ms, first_seq = int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")
    # (Where a number is expected and a string stands, arithmetic fails, which is an error as any other.)
    words: list[int] = read_elements(packed)  # type: ignore[assignment]
    live, deleted, fields = words[:3]
    names = _texts(words[3 : 3 + fields])
    at = 4 + fields
    if words[at - 1] or live <= 0 or deleted < 0 or len(names) != fields:
        raise BadFormatError
    ms_of, seq_of = array("Q"), array("Q")
    frames: list[bytes] = []
    last_id = stream.last_id
    shape = _shape_of(names)
    for _ in range(live + deleted):
        flags, ms, seq = words[at : at + 3]
        begin = at + 3 if flags & _SAME_FIELDS else at + 4
        end = begin + fields if flags & _SAME_FIELDS else begin + 2 * words[at + 3]
        if end < begin or end >= len(words):
            raise BadFormatError
        words[end] & 1  # what goes back to the entry before: a number
        at = end + 1
        if flags & _DELETED:
            continue
        ms, seq = (first_ms + ms) % _U64, (first_seq + seq) % _U64
        entry_id = ms << 64 | seq
        if begin == end or entry_id <= last_id:
            raise BadFormatError
        last_id = entry_id
        ms_of.append(ms)
        seq_of.append(seq)
        name = b"%d-%d" % (ms, seq)
        if flags & _SAME_FIELDS:
            parts: list[int | bytes] = [len(name), name]
            for value in words[begin:end]:
                text = b"%d" % value if value.__class__ is int else value
                parts += (len(text), text)  # type: ignore[arg-type]  # no int any more
            frames.append(shape % tuple(parts))
        else:
            frames.append(frame(name, _texts(words[begin:end])))
    if len(frames) != live or at != len(words):
        raise BadFormatError
    stream.extend(b"".join(frames), list(map(len, frames)), ms_of, seq_of)


def _shape_of(names: Sequence[bytes]) -> bytes:
    """The frame of an entry with these field names, to be formatted with the sizes and words of its ID and values."""
    fields = [b"\r\n$%d\r\n%b\r\n$%%d\r\n%%b" % (len(name), name.replace(b"%", b"%%")) for name in names]
    return b"*2\r\n$%%d\r\n%%b\r\n*%d%b\r\n" % (2 * len(names), b"".join(fields))


def _texts(words: Sequence[int | bytes]) -> list[bytes]:
    return [b"%d" % word if word.__class__ is int else word for word in words]  # type: ignore[misc]


def _load_group(reader: Reader, form: int, stream: Stream) -> Steps[tuple[bytes, Group]]:
    def header() -> tuple[bytes, int, int, int]:
        name, last_id = reader.string(), _load_pair(reader)
        read = _signed(reader.length()) if form >= V7_0 else UNKNOWN
        return name, last_id, read, reader.length()

    name, last_id, read, count = yield from whole(reader, header)
    if read < UNKNOWN:
        raise BadFormatError
    group = Group(last_id, read if form >= V7_0 else estimate_read(stream, last_id))
    records: dict[int, tuple[int, int]] = {}
    for left in range(count, 0, -_RECORDS):
        some = min(left, _RECORDS)
        records.update((yield from whole(reader, lambda: [_load_record(reader) for _ in range(some)])))  # noqa: B023
        yield False
    if len(records) != count:
        raise BadFormatError
    owners: dict[int, int] = {}
    for _ in range((yield from whole(reader, reader.length))):
        yield from _load_consumer(reader, form, group, owners)
    if form == V8_8:
        for _ in range((yield from whole(reader, reader.length))):
            entry_id = yield from whole(reader, lambda: _load_raw(reader))
            if entry_id in owners:
                raise BadFormatError
            owners[entry_id] = NOBODY
            group.nacked[entry_id] = None
    if records.keys() != owners.keys():
        raise BadFormatError
    for number, entry_id in enumerate(sorted(records), 1):
        group.pending.put(entry_id, owners[entry_id], *records[entry_id])
        if not number % _RECORDS:
            yield False
    return name, group


def _load_record(reader: Reader) -> tuple[int, tuple[int, int]]:
    return _load_raw(reader), (reader.unpack("<q"), _load_count(reader))


def _load_consumer(reader: Reader, form: int, group: Group, owners: dict[int, int]) -> Steps[None]:
    def header() -> tuple[bytes, int, int, int]:
        name, seen = reader.string(), reader.unpack("<q")
        active = reader.unpack("<q") if form >= V7_2 else seen
        return name, seen, active, reader.length()

    name, seen, active, count = yield from whole(reader, header)
    if name in group.consumers:
        raise BadFormatError
    consumer, _ = group.consumer(name, seen)
    consumer.active_time = active
    for left in range(count, 0, -_RECORDS):
        some = 16 * min(left, _RECORDS)
        data = yield from whole(reader, lambda: reader.read(some))  # noqa: B023
        for at in range(0, some, 16):
            entry_id = int.from_bytes(data[at : at + 16], "big")
            if entry_id in owners:
                raise BadFormatError
            owners[entry_id] = consumer.number
        yield False


def _load_producers(reader: Reader, defaults: Defaults) -> Steps[Producers]:
    duration, maxsize = yield from whole(reader, lambda: (_load_count(reader), _load_count(reader)))
    if not duration or not maxsize:
        duration, maxsize = defaults()
    if duration > MOST_IDMP_SECONDS or maxsize > MOST_IDMP_IDS:
        raise BadFormatError
    producers = Producers(duration, maxsize)
    for _ in range((yield from whole(reader, reader.length))):
        producer, count = yield from whole(reader, lambda: (reader.string(), reader.length()))
        if not producer or count > maxsize:
            raise BadFormatError
        sent = producers.by_producer.setdefault(producer, {})
        for _ in range(count):
            iid, entry_id = yield from whole(reader, lambda: (reader.string(), _load_pair(reader)))
            sent[iid] = entry_id
        if b"" in sent:
            raise BadFormatError
        yield False
    producers.added, producers.duplicates = yield from whole(reader, lambda: (_load_count(reader), _load_count(reader)))
    return producers
