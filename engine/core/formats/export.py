"""The keyspace as commands that Redis 7.0 and later can load, for a base file of the log without an RDB preamble.

The order within a stream is fixed: entries, last ID and counters, groups by name, consumers by name, and their pending
entries. Commands that only newer servers support are written only if needed: for released entries (at the end of their
group), and for idempotent producers (at the end of the stream).

No command sets the following state: pending records of deleted entries, a consumer's last-seen time, and the IDs of
deleted entries. Snapshots (``engine.shell.durability.psb``) store it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from engine.core.formats.rdb import group_fields
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.image import Image
from engine.core.protocol import ids
from engine.core.streams.group import Consumer, Group, shown
from engine.core.streams.pending import NOBODY
from engine.core.streams.stream import Stream

#: Maximum number of fields in one command.
_AT_ONCE = 64


def encode(argv: list[bytes]) -> bytes:
    """Encode a command as RESP."""
    return b"*%d\r\n%b" % (len(argv), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in argv]))


def commands(image: Image) -> Iterator[bytes]:
    """Yield the commands that recreate the image on an empty server, as RESP: one or several commands at a time."""
    for db in image.databases:
        yield encode([b"SELECT", b"%d" % db.index])
        for key, value, deadline in db.items():
            if isinstance(value, Stream):
                yield from _stream(key, value, image.idmp_defaults)
            elif isinstance(value, Hash):
                pairs = iter(value.items())
                while some := list(islice(pairs, _AT_ONCE)):
                    yield encode([b"HSET", key, *(word for pair in some for word in pair)])
            else:
                yield encode([b"SET", key, value])
            if deadline is not None:
                yield encode([b"PEXPIREAT", key, b"%d" % deadline])


def _stream(key: bytes, stream: Stream, idmp_defaults: tuple[int, int]) -> Iterator[bytes]:
    if stream.length:
        yield from _entries(key, stream)
    else:
        yield encode([b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"])
    counters = [b"ENTRIESADDED", b"%d" % shown(stream.entries_added), b"MAXDELETEDID", ids.text(stream.max_deleted_id)]
    yield encode([b"XSETID", key, ids.text(stream.last_id), *counters])
    for name in sorted(stream.groups):
        yield from _group(key, name, stream, stream.groups[name])
    yield from _producers(key, stream, idmp_defaults)


def _entries(key: bytes, stream: Stream) -> Iterator[bytes]:
    """Yield an XADD for each entry. The ID, fields and values are copied from the entry's frame."""
    begin = b"$4\r\nXADD\r\n$%d\r\n%b\r\n" % (len(key), key)
    heads: dict[bytes, bytes] = {}
    out: list[bytes] = []
    for segment, first, last in stream.runs(0, ids.MAX_ID):
        for frame in segment.entries.frames(first, last):
            # A frame: *2\r\n $15\r\n <ID> \r\n*4\r\n <words>
            id_end = frame.index(b"\r\n*", 6) + 2
            count_end = frame.index(b"\r\n", id_end) + 2
            count = frame[id_end:count_end]
            head = heads.get(count)
            if head is None:
                head = heads[count] = b"*%d\r\n%b" % (int(count[1:-2]) + 3, begin)
            out += (head, frame[4:id_end], frame[count_end:])
        if len(out) > 3000:
            yield b"".join(out)
            out.clear()
    yield b"".join(out)


def _group(key: bytes, name: bytes, stream: Stream, group: Group) -> Iterator[bytes]:
    yield encode([b"XGROUP", b"CREATE", key, name, ids.text(group.last_id), *group_fields.options(group)])
    for consumer in group.sorted_consumers():
        yield from _consumer(key, name, stream, group, consumer)
    nacked = [(entry_id, group.pending.find(entry_id)) for entry_id in group.nacked]
    for entry_id, record in nacked:
        if record is not None and record[0].owners[record[1]] == NOBODY and entry_id in stream:
            count = b"%d" % record[0].counts[record[1]]
            words = [b"IDS", b"1", ids.text(entry_id), b"RETRYCOUNT", count, b"FORCE"]
            yield encode([b"XNACK", key, name, b"FAIL", *words])


def _consumer(key: bytes, group_name: bytes, stream: Stream, group: Group, consumer: Consumer) -> Iterator[bytes]:
    claims: list[bytes] = []
    for block, index in group.pending.records(0, ids.MAX_ID, consumer.number):
        entry_id = block.id_at(index)
        if entry_id not in stream:
            continue
        options = b"TIME %d RETRYCOUNT %d JUSTID FORCE" % (block.times[index], block.counts[index])
        words = [b"XCLAIM", key, group_name, consumer.name, b"0", ids.text(entry_id), *options.split()]
        claims.append(encode(words))
    if claims:
        yield b"".join(claims)
    else:
        yield encode([b"XGROUP", b"CREATECONSUMER", key, group_name, consumer.name])


def _producers(key: bytes, stream: Stream, defaults: tuple[int, int]) -> Iterator[bytes]:
    producers = stream.producers
    if producers is None:
        return
    if (producers.duration, producers.maxsize) != defaults:
        limits = [b"IDMP-DURATION", b"%d" % producers.duration, b"IDMP-MAXSIZE", b"%d" % producers.maxsize]
        yield encode([b"XCFGSET", key, *limits])
    for producer, sent in producers.by_producer.items():
        for iid, entry_id in sent.items():
            if entry_id in stream:
                yield encode([b"XIDMPRECORD", key, producer, iid, ids.text(entry_id)])
