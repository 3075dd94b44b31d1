"""Streams in Redis's RDB format, written in the oldest form that keeps everything.

The form of 7.0 lacks a consumer's active time (7.2), which matters where it differs from its seen time, and entries
given back by XNACK and idempotent producers (8.8). Nodes are cut anew; deleted entries are not written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator, Sequence

from engine.core.formats.rdb import BadFormatError, Reader, length, listpack, read_listpack, string
from engine.core.protocol import ids
from engine.core.streams.frames import fields_of, frame
from engine.core.streams.group import Consumer, Group
from engine.core.streams.idempotency import MOST_IDMP_IDS, MOST_IDMP_SECONDS, Producers
from engine.core.streams.pending import NOBODY
from engine.core.streams.position import UNKNOWN, estimate_read, shown
from engine.core.streams.stream import Stream

#: Type byte of each form -> the RDB version of the first server that reads it.
V7_0, V7_2, V8_8 = 19, 21, 27
RDB_VERSIONS = {V7_0: 10, V7_2: 11, V8_8: 14}
#: The forms that are read: 5.0's, 7.0's, 7.2's, 8.6's, 8.8's.
FORMS = (15, V7_0, V7_2, 26, V8_8)

#: Records of pending entries that are read at once.
_PIECE = 150
_NODE_ENTRIES = 100
_NODE_BYTES = 4096
_DELETED, _SAME_FIELDS = 1, 2
_U64 = 1 << 64


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
    if stream.producers is not None or any(group.nacked for group in groups):
        return V8_8
    consumers = (consumer for group in groups for consumer in group.consumers.values())
    return V7_0 if all(one.active_time == one.seen_time for one in consumers) else V7_2


def dump(stream: Stream, form: int) -> Iterator[bytes]:
    """The stream's value in one of the three forms."""
    entries = list(nodes(stream))
    yield length(len(entries))
    yield from entries
    yield from behind_nodes(stream, form)


def behind_nodes(stream: Stream, form: int) -> Iterator[bytes]:
    """What follows the nodes: counters, groups, producers; record by record."""
    yield length(stream.length)
    yield from map(_pair, (stream.last_id, stream.first_id, stream.max_deleted_id))
    yield length(shown(stream.entries_added)) + length(len(stream.groups))
    for name in sorted(stream.groups):
        group = stream.groups[name]
        yield string(name) + _pair(group.last_id) + length(shown(group.entries_read) % _U64)
        yield from _pending(group)
        yield length(len(group.consumers))
        for consumer in group.sorted_consumers():
            yield from _consumer(group, consumer, form)
        if form == V8_8:
            yield length(len(group.nacked))
            yield from map(_raw, group.nacked)
    if form == V8_8:
        yield from _producers(stream.producers)


def nodes(stream: Stream) -> Iterator[bytes]:
    """The entries, in nodes of up to a hundred; a stream's value begins with how many there are."""
    entries: list[tuple[int, list[bytes]]] = []
    size = 0
    for segment, begin, end in stream.runs(ids.MIN_ID, ids.MAX_ID):
        for entry_id, data in segment.pairs(begin, end):
            if entries and (len(entries) == _NODE_ENTRIES or size + len(data) > _NODE_BYTES):
                yield _node(entries)
                entries, size = [], 0
            entries.append((entry_id, fields_of(data)))
            size += len(data)
    if entries:
        yield _node(entries)


def _node(entries: Sequence[tuple[int, list[bytes]]]) -> bytes:
    first_id, first_words = entries[0]
    names = first_words[::2]
    words: list[bytes | int] = [len(entries), 0, len(names), *names, 0]
    for entry_id, fields in entries:
        deltas = (
            _signed((entry_id >> 64) - (first_id >> 64)),
            _signed((entry_id & ids.U64_MAX) - (first_id & ids.U64_MAX)),
        )
        if fields[::2] == names:
            words += (_SAME_FIELDS, *deltas, *fields[1::2], 3 + len(names))
        else:
            words += (0, *deltas, len(fields) // 2, *fields, 4 + len(fields))
    packed = listpack(words)
    return length(16) + _raw(first_id) + length(len(packed)) + packed


def _pending(group: Group) -> Iterator[bytes]:
    yield length(len(group.pending))
    for block, index in group.pending.records(ids.MIN_ID, ids.MAX_ID):
        yield _raw(block.id_at(index)) + struct.pack("<q", block.time_at(index)) + length(block.count_at(index))


def _consumer(group: Group, consumer: Consumer, form: int) -> Iterator[bytes]:
    yield string(consumer.name) + struct.pack("<q", consumer.seen_time)
    if form >= V7_2:
        yield struct.pack("<q", consumer.active_time)
    owned = group.pending.records(ids.MIN_ID, ids.MAX_ID, consumer.number)
    yield length(group.pending_of(consumer))
    for block, index in owned:
        yield _raw(block.id_at(index))


def _producers(producers: Producers | None) -> Iterator[bytes]:
    if producers is None:
        producers = Producers(0, 0)
    yield length(producers.duration) + length(producers.maxsize) + length(len(producers.by_producer))
    for producer, sent in producers.by_producer.items():
        yield string(producer) + length(len(sent))
        for iid, entry_id in sent.items():
            yield string(iid) + _pair(entry_id)
    yield length(producers.added) + length(producers.duplicates)


# -- reading --------------------------------------------------------------------------------------------------------


def load(reader: Reader, form: int, stream: Stream, defaults: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Fill an empty stream, in pieces of about a hundred entries.

    ``defaults`` are the server's settings for idempotent producers: duration, most IDs.
    """
    for _ in range(reader.length()):
        _load_node(reader, stream)
        yield
    if reader.length() != stream.length:
        raise BadFormatError
    last_id = _load_pair(reader)
    if last_id < stream.last_id:
        raise BadFormatError
    stream.last_id = last_id
    if form >= V7_0:
        _load_pair(reader)
        stream.max_deleted_id = _load_pair(reader)
        stream.entries_added = _load_count(reader)
        if stream.entries_added < stream.length or stream.max_deleted_id > last_id:
            raise BadFormatError
    for _ in range(reader.length()):
        name = reader.string()
        if name in stream.groups:
            raise BadFormatError
        stream.groups[name] = yield from _load_group(reader, form, stream)
    if form > V7_2:
        _load_producers(reader, stream, defaults)


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


def _load_node(reader: Reader, stream: Stream) -> None:
    key = reader.string()
    if len(key) != 16:
        raise BadFormatError
    first_id = int.from_bytes(key, "big")
    words = iter(read_listpack(reader.string()))

    def number() -> int:
        return int(next(words))

    count, deleted = number(), number()
    names = [next(words) for _ in range(number())]
    if number() or count <= 0:
        raise BadFormatError
    live = 0
    for _ in range(count + deleted):
        flags = number()
        ms = ((first_id >> 64) + number()) % _U64
        entry_id = ids.make(ms, ((first_id & ids.U64_MAX) + number()) % _U64)
        if flags & _SAME_FIELDS:
            fields = [word for name in names for word in (name, next(words))]
        else:
            fields = [next(words) for _ in range(2 * number())]
        number()
        if flags & _DELETED:
            continue
        if not fields or entry_id <= stream.last_id:
            raise BadFormatError
        stream.append(entry_id, frame(ids.text(entry_id), fields))
        live += 1
    if live != count or next(words, None) is not None:
        raise BadFormatError


def _load_group(reader: Reader, form: int, stream: Stream) -> Generator[None, None, Group]:
    last_id = _load_pair(reader)
    if form >= V7_0:
        read = _signed(reader.length())
        if read < UNKNOWN:
            raise BadFormatError
        group = Group(last_id, read)
    else:
        group = Group(last_id, estimate_read(stream, last_id))
    records: dict[int, tuple[int, int]] = {}
    for number in range(reader.length()):
        if not number % _PIECE:
            yield
        entry_id = _load_raw(reader)
        if entry_id in records:
            raise BadFormatError
        records[entry_id] = reader.unpack("<q"), _load_count(reader)
    for _ in range(reader.length()):
        name = reader.string()
        seen = reader.unpack("<q")
        if name in group.consumers:
            raise BadFormatError
        consumer, _ = group.consumer(name, seen)
        consumer.active_time = reader.unpack("<q") if form >= V7_2 else seen
        yield
        for number in range(reader.length()):
            if not number % _PIECE:
                yield
            entry_id = _load_raw(reader)
            group.pending.put(entry_id, consumer.number, *records.pop(entry_id))
    if form == V8_8:
        for _ in range(reader.length()):
            entry_id = _load_raw(reader)
            group.pending.put(entry_id, NOBODY, *records.pop(entry_id))
            group.nacked[entry_id] = None
    if records:
        raise BadFormatError
    return group


def _load_producers(reader: Reader, stream: Stream, defaults: Callable[[], tuple[int, int]]) -> None:
    duration, maxsize = _load_count(reader), _load_count(reader)
    if not duration or not maxsize:
        duration, maxsize = defaults()
    if duration > MOST_IDMP_SECONDS or maxsize > MOST_IDMP_IDS:
        raise BadFormatError
    producers = Producers(duration, maxsize)
    for _ in range(reader.length()):
        producer = reader.string()
        sent = producers.by_producer.setdefault(producer, {})
        for _ in range(reader.length()):
            iid = reader.string()
            sent[iid] = _load_pair(reader)
        if not producer or b"" in sent or len(sent) > maxsize:
            raise BadFormatError
    producers.added, producers.duplicates = _load_count(reader), _load_count(reader)
    if producers.by_producer or producers.added or (duration, maxsize) != defaults():
        stream.remember_producers(producers)
