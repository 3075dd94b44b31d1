"""Decoding of streams in Redis's RDB format, in steps, so that streams of any size do not block other clients.

Input is untrusted. An inconsistency raises BadFormatError, or a built-in error that callers handle in the same way.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby, pairwise

from engine.core.formats.rdb import primitives
from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, at_once, read_elements, whole
from engine.core.formats.rdb.streams import group_fields
from engine.core.formats.rdb.streams.forms import (
    DELETED,
    SAME_FIELDS,
    V7_0,
    V8_6,
    V8_8,
    load_pair,
)
from engine.core.formats.rdb.streams.group_fields import CONSUMER, GROUP, REST_VERSION
from engine.core.formats.rdb.streams.pending_reader import Pending
from engine.core.formats.rdb.streams.uniform_reader import UniformNodes
from engine.core.streams.group import Group
from engine.core.streams.idempotency import MOST_IDMP_IDS, MOST_IDMP_SECONDS, Producers
from engine.core.streams.pending import NOBODY
from engine.core.streams.stream import Stream
from streamwire.frames import frame

_U64 = 1 << 64
_ID_SIZE = 16
#: Maximum number of nodes read at once.
_NODES = 64
#: Approximate maximum total size in bytes of the nodes read at once.
_NODES_BYTES = 1 << 17
#: Fewer nodes than this are read one by one.
_FEWEST = 8

Defaults = Callable[[], tuple[int, int]]


def load(reader: Reader, form: int, stream: Stream, defaults: Defaults) -> Steps[Stream]:
    """Read a stream's value into the empty ``stream``, and return it.

    ``defaults`` returns the server's limits for idempotent producers: seconds and maximum number of IDs.
    """
    left = yield from whole(reader, reader.length)
    while left:
        left -= yield from _load_nodes(reader, stream, left)
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
    """Add the result of ``stream_writer.rest`` to a loaded stream."""
    reader = Reader(data)
    version = reader.length()
    if version > REST_VERSION:
        raise BadFormatError("the stream data has a newer version")
    for _ in range(reader.length()):
        name = reader.string()
        group = stream.groups[name]
        group_fields.load_rest(reader, name, group, version)
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


def _load_count(reader: Reader) -> int:
    """Read a count below 2**63. Greater numbers raise BadFormatError: they could not be logged or saved."""
    count = reader.length()
    if count >= 1 << 63:
        raise BadFormatError
    return count


def _load_raw(reader: Reader) -> int:
    return int.from_bytes(reader.read(16), "big")


def _load_counters(reader: Reader, form: int, stream: Stream) -> tuple[int, int, int, int]:
    """Read the last ID, greatest deleted ID, entries added, and number of groups."""
    count, last_id = reader.length(), load_pair(reader)
    if count != stream.length or last_id < stream.last_id:
        raise BadFormatError
    max_deleted = added = 0
    if form >= V7_0:
        load_pair(reader)
        max_deleted, added = load_pair(reader), _load_count(reader)
        if added < count or max_deleted > last_id:
            raise BadFormatError
    return last_id, max_deleted, added, reader.length()


def _load_nodes(reader: Reader, stream: Stream, left: int) -> Steps[int]:
    """Read some of the ``left`` remaining nodes; return their number."""
    keys: list[bytes] = []
    stored: list[tuple[bytes, int]] = []
    size = 0
    while len(keys) < min(left, _NODES) and size < _NODES_BYTES:
        key, node = yield from whole(reader, lambda: (reader.string(), reader.stored()))
        keys.append(key)
        stored.append(node)
        size += max(len(node[0]), node[1])
    nodes = yield from _decompressed(stored)
    alike = UniformNodes(nodes)
    if len(nodes) >= _FEWEST:
        yield from alike.find(keys)
    for are, group in groupby(range(len(nodes)), alike.are.tolist().__getitem__):
        numbers = list(group)
        if are:
            for entries in alike.entries(numbers[0], numbers[-1] + 1):
                _, _, ms, seq = entries
                if ms[0] << 64 | seq[0] <= stream.last_id:
                    raise BadFormatError
                stream.extend(*entries)
                yield False
            continue
        for number in numbers:
            _add_node(stream, keys[number], nodes[number])
            yield False
    return len(nodes)


def _decompressed(stored: Sequence[tuple[bytes, int]]) -> Steps[list[bytes]]:
    """Return these strings without compression. ``stored`` has results of ``Reader.stored``."""
    packed = [(data, size) for data, size in stored if size > 0]
    if len(packed) < _FEWEST:
        return [data if size < 0 else primitives.decompressed(data, size) for data, size in stored]
    joined = yield from primitives.decompressed_many(*zip(*packed, strict=True))
    yield False
    cuts = accumulate((size for _, size in packed), initial=0)
    words = (joined[begin:end] for begin, end in pairwise(cuts))
    return [data if size < 0 else next(words) if size else primitives.decompressed(data, size) for data, size in stored]


def _add_node(stream: Stream, key: bytes, packed: bytes) -> None:
    if len(key) != 16:
        raise BadFormatError
    first_ms, first_seq = int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")
    # Elements that should be numbers may be strings. Arithmetic with strings raises an error, like other damage.
    words: list[int] = read_elements(packed)  # type: ignore[assignment]
    live, deleted, fields = words[:3]
    names = _texts(words[3 : 3 + fields])
    at = 4 + fields
    # ``live`` can be 0: Redis may leave such a node if it trims entries one by one and the last entry is deleted.
    if words[at - 1] or live < 0 or deleted < 0 or len(names) != fields:
        raise BadFormatError
    ms_of, seq_of = array("Q"), array("Q")
    frames: list[bytes] = []
    last_id = stream.last_id
    shape = _shape_of(names)
    for _ in range(live + deleted):
        flags, ms, seq = words[at : at + 3]
        begin = at + 3 if flags & SAME_FIELDS else at + 4
        end = begin + fields if flags & SAME_FIELDS else begin + 2 * words[at + 3]
        if end < begin or end >= len(words):
            raise BadFormatError
        words[end] & 1  # Raises an error unless this element, the distance to the previous entry, is a number.
        at = end + 1
        if flags & DELETED:
            continue
        ms, seq = (first_ms + ms) % _U64, (first_seq + seq) % _U64
        entry_id = ms << 64 | seq
        if begin == end or entry_id <= last_id:
            raise BadFormatError
        last_id = entry_id
        ms_of.append(ms)
        seq_of.append(seq)
        name = b"%d-%d" % (ms, seq)
        if flags & SAME_FIELDS:
            parts: list[int | bytes] = [len(name), name]
            for value in words[begin:end]:
                text = b"%d" % value if value.__class__ is int else value
                parts += (len(text), text)  # type: ignore[arg-type]  # no longer an int
            frames.append(shape % tuple(parts))
        else:
            frames.append(frame(name, _texts(words[begin:end])))
    if len(frames) != live or at != len(words):
        raise BadFormatError
    if frames:
        stream.extend(b"".join(frames), list(map(len, frames)), ms_of, seq_of)


def _shape_of(names: Sequence[bytes]) -> bytes:
    """Return a format string for frames with these field names.

    Its placeholders are the size and text of the ID, then of each value.
    """
    fields = [b"\r\n$%d\r\n%b\r\n$%%d\r\n%%b" % (len(name), name.replace(b"%", b"%%")) for name in names]
    return b"*2\r\n$%%d\r\n%%b\r\n*%d%b\r\n" % (2 * len(names), b"".join(fields))


def _texts(words: Sequence[int | bytes]) -> list[bytes]:
    return [b"%d" % word if word.__class__ is int else word for word in words]  # type: ignore[misc]


def _load_group(reader: Reader, form: int, stream: Stream) -> Steps[tuple[bytes, Group]]:
    def header() -> tuple[bytes, list[int], int]:
        return reader.string(), group_fields.load(GROUP, reader, form), reader.length()

    name, values, count = yield from whole(reader, header)
    group = Group(0)
    group_fields.accept(GROUP, group, form, values, stream)
    pending = Pending()
    yield from pending.read(reader, count)
    for _ in range((yield from whole(reader, reader.length))):
        yield from _load_consumer(reader, form, group, pending, stream)
    if form == V8_8:
        for _ in range((yield from whole(reader, reader.length))):
            word = yield from whole(reader, lambda: reader.read(_ID_SIZE))
            pending.assign(word, NOBODY)
            group.nacked[int.from_bytes(word, "big")] = None
    group.pending = yield from pending.finish()
    return name, group


def _load_record(reader: Reader) -> tuple[int, tuple[int, int]]:
    return _load_raw(reader), (reader.unpack("<q"), _load_count(reader))


def _load_consumer(reader: Reader, form: int, group: Group, pending: Pending, stream: Stream) -> Steps[None]:
    def header() -> tuple[bytes, list[int], int]:
        return reader.string(), group_fields.load(CONSUMER, reader, form), reader.length()

    name, values, count = yield from whole(reader, header)
    if name in group.consumers:
        raise BadFormatError
    consumer, _ = group.consumer(name, 0)
    group_fields.accept(CONSUMER, consumer, form, values, stream)
    yield from pending.read_owned(reader, count, consumer.number)


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
        sent = dict(producers.by_producer.get(producer, {}))
        for _ in range(count):
            iid, entry_id = yield from whole(reader, lambda: (reader.string(), load_pair(reader)))
            sent[iid] = entry_id
        if b"" in sent:
            raise BadFormatError
        producers.restore(producer, sent)
        yield False
    producers.added, producers.duplicates = yield from whole(reader, lambda: (_load_count(reader), _load_count(reader)))
    return producers
