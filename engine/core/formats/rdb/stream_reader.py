"""Decoding of streams in Redis's RDB format, in steps, so that streams of any size do not block other clients.

Input is untrusted. An inconsistency raises BadFormatError, or a built-in error that callers handle in the same way.

A group has the records of all pending entries (ID, delivery time, delivery count) first, in ID order. The IDs of each
consumer's records follow.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import lt

from engine.core.formats.rdb import group_fields
from engine.core.formats.rdb.group_fields import (
    CONSUMER,
    DELETED,
    GROUP,
    REST_VERSION,
    SAME_FIELDS,
    V7_0,
    V8_6,
    V8_8,
    load_pair,
)
from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, read_elements
from engine.core.protocol.replies import at_once
from engine.core.streams.group import Group
from engine.core.streams.idempotency import MOST_IDMP_IDS, MOST_IDMP_SECONDS, Producers
from engine.core.streams.pending import BLOCK, NOBODY, Block, PendingList
from engine.core.streams.stream import Stream
from streamwire.frames import frame
from streamwire.stream_id import columns

#: The owner of a record whose consumer has not been read yet.
_NOT_YET = 0xFFFF_FFFF


class Pending:
    """The records of one group while they are being read: columns in ID order."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._times = array("q")
        self._counts = array("q")
        self._owners = array("I")

    def read(self, reader: Reader, count: int) -> Steps[None]:
        """Read ``count`` records."""
        last = -1
        for number in range(1, count + 1):
            entry_id, (time, deliveries) = _load_record(reader)
            if entry_id <= last:
                raise BadFormatError
            last = entry_id
            self._ids.append(entry_id)
            self._times.append(time)
            self._counts.append(deliveries)
            self._owners.append(_NOT_YET)
            if not number % BLOCK:
                yield

    def assign(self, reader: Reader, count: int, owner: int) -> Steps[list[int]]:
        """Read the IDs of ``count`` records that belong to ``owner``, and return them."""
        ids, owners, found = self._ids, self._owners, list[int]()
        for number in range(1, count + 1):
            entry_id = _load_raw(reader)
            at = bisect_left(ids, entry_id)
            if at == len(ids) or ids[at] != entry_id or owners[at] != _NOT_YET:
                raise BadFormatError
            owners[at] = owner
            found.append(entry_id)
            if not number % BLOCK:
                yield
        return found

    def finish(self) -> Steps[PendingList]:
        """Return the pending list after all owners have been read.

        The IDs are freed block by block, because freeing all of them at once would take long.
        """
        pending, ids = PendingList(), self._ids
        ids.reverse()
        for at in range(0, len(ids), BLOCK):
            part = slice(at, at + BLOCK)
            owners, times, counts = self._owners[part], self._times[part], self._counts[part]
            if _NOT_YET in owners:
                raise BadFormatError
            block = Block(*columns(ids[: -BLOCK - 1 : -1]), owners, times, counts)
            del ids[-BLOCK:]
            block.oldest = min(times)
            pending.append_block(block)
            yield
        return pending


_U64 = 1 << 64
_ID_SIZE = 16

Defaults = Callable[[], tuple[int, int]]


def load(reader: Reader, form: int, stream: Stream, defaults: Defaults) -> Steps[Stream]:
    """Read a stream's value into the empty ``stream``, and return it.

    ``defaults`` returns the server's limits for idempotent producers: seconds and maximum number of IDs.
    """
    for _ in range(reader.length()):
        key = reader.string()
        _add_node(stream, key, reader.string())
        yield
    last_id, max_deleted, added, groups = _load_counters(reader, form, stream)
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
    """Add the result of ``writer.rest`` to a loaded stream."""
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


def _add_node(stream: Stream, key: bytes, packed: bytes) -> None:
    if len(key) != _ID_SIZE:
        raise BadFormatError
    first = int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")
    # Elements that should be numbers may be strings. Arithmetic with strings raises an error, like other damage.
    words: list[int] = read_elements(packed)  # type: ignore[assignment]
    live, deleted, fields = words[:3]
    names = _texts(words[3 : 3 + fields])
    at = 4 + fields
    # ``live`` can be 0: Redis may leave such a node if it trims entries one by one and the last entry is deleted.
    if words[at - 1] or live < 0 or deleted < 0 or len(names) != fields:
        raise BadFormatError
    step, entries = fields + 4, words[at:]
    if fields and len(entries) == live * step and entries[::step].count(SAME_FIELDS) == live == live + deleted:
        if entries[step - 1 :: step].count(step - 1) != live:
            raise BadFormatError
        frames, ms_of, seq_of = _same_fields(names, first, entries)
    else:
        frames, ms_of, seq_of = _any_fields(names, first, entries, live + deleted)
    if len(frames) != live:
        raise BadFormatError
    if frames:
        entry_ids = [ms << 64 | seq for ms, seq in zip(ms_of, seq_of, strict=True)]
        if entry_ids[0] <= stream.last_id or not all(map(lt, entry_ids, entry_ids[1:])):
            raise BadFormatError
        stream.extend(b"".join(frames), list(map(len, frames)), ms_of, seq_of)


#: The frames of a node's entries, and their IDs: milliseconds and sequence numbers.
_Entries = tuple[list[bytes], "array[int]", "array[int]"]


def _same_fields(names: Sequence[bytes], first: tuple[int, int], entries: list[int]) -> _Entries:
    """Return the entries if all have the field names ``names``. ``first``: the ID from which their IDs are counted."""
    step = len(names) + 4
    ms_of, seq_of = (
        array("Q", [(begin + more) % _U64 for more in entries[1 + half :: step]]) for half, begin in enumerate(first)
    )
    entry_ids = list(map(b"%d-%d".__mod__, zip(ms_of, seq_of, strict=True)))
    columns = [entry_ids, *(_texts(entries[3 + number :: step]) for number in range(len(names)))]
    words = [part for column in columns for part in (map(len, column), column)]
    fields = [b"\r\n$%d\r\n%b\r\n$%%d\r\n%%b" % (len(name), name.replace(b"%", b"%%")) for name in names]
    shape = b"*2\r\n$%%d\r\n%%b\r\n*%d%b\r\n" % (2 * len(names), b"".join(fields))
    return list(map(shape.__mod__, zip(*words, strict=True))), ms_of, seq_of


def _any_fields(names: Sequence[bytes], first: tuple[int, int], words: list[int], count: int) -> _Entries:
    """Return the live ones of ``count`` entries, which may have other fields than ``names``, or be deleted."""
    ms_of, seq_of, frames, at = array("Q"), array("Q"), list[bytes](), 0
    for _ in range(count):
        flags, ms, seq = words[at : at + 3]
        begin = at + 3 if flags & SAME_FIELDS else at + 4
        end = begin + len(names) if flags & SAME_FIELDS else begin + 2 * words[at + 3]
        if end < begin or end >= len(words):
            raise BadFormatError
        words[end] & 1  # Raises an error unless this element, the distance to the previous entry, is a number.
        at = end + 1
        if flags & DELETED:
            continue
        if begin == end:
            raise BadFormatError
        ms_of.append((first[0] + ms) % _U64)
        seq_of.append((first[1] + seq) % _U64)
        fields = _texts(words[begin:end])
        if flags & SAME_FIELDS:
            fields = [word for field in zip(names, fields, strict=True) for word in field]
        frames.append(frame(b"%d-%d" % (ms_of[-1], seq_of[-1]), fields))
    if at != len(words):
        raise BadFormatError
    return frames, ms_of, seq_of


def _texts(words: Sequence[int | bytes]) -> list[bytes]:
    return [b"%d" % word if word.__class__ is int else word for word in words]  # type: ignore[misc]


def _load_group(reader: Reader, form: int, stream: Stream) -> Steps[tuple[bytes, Group]]:
    name, values, count = reader.string(), group_fields.load(GROUP, reader, form), reader.length()
    group = Group(0)
    group_fields.accept(GROUP, group, form, values, stream)
    pending = Pending()
    yield from pending.read(reader, count)
    for _ in range(reader.length()):
        yield from _load_consumer(reader, form, group, pending, stream)
    if form == V8_8:
        group.nacked = dict.fromkeys((yield from pending.assign(reader, reader.length(), NOBODY)))
    group.pending = yield from pending.finish()
    return name, group


def _load_record(reader: Reader) -> tuple[int, tuple[int, int]]:
    return _load_raw(reader), (reader.unpack("<q"), _load_count(reader))


def _load_consumer(reader: Reader, form: int, group: Group, pending: Pending, stream: Stream) -> Steps[None]:
    name, values, count = reader.string(), group_fields.load(CONSUMER, reader, form), reader.length()
    if name in group.consumers:
        raise BadFormatError
    consumer, _ = group.consumer(name, 0)
    group_fields.accept(CONSUMER, consumer, form, values, stream)
    yield from pending.assign(reader, count, consumer.number)


def _load_producers(reader: Reader, defaults: Defaults) -> Steps[Producers]:
    duration, maxsize = _load_count(reader), _load_count(reader)
    if not duration or not maxsize:
        duration, maxsize = defaults()
    if duration > MOST_IDMP_SECONDS or maxsize > MOST_IDMP_IDS:
        raise BadFormatError
    producers = Producers(duration, maxsize)
    for _ in range(reader.length()):
        producer, count = reader.string(), reader.length()
        if not producer or count > maxsize:
            raise BadFormatError
        sent = dict(producers.by_producer.get(producer, {}))
        for _ in range(count):
            iid, entry_id = reader.string(), load_pair(reader)
            sent[iid] = entry_id
        if b"" in sent:
            raise BadFormatError
        producers.restore(producer, sent)
        yield
    producers.added, producers.duplicates = _load_count(reader), _load_count(reader)
    return producers
