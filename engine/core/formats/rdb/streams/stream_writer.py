"""Encoding of streams in Redis's RDB format, in pieces, so that streams of any size do not block other clients.

Live entries are written as new nodes; deleted entries are left out.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice

from engine.core.formats.rdb.primitives import SMALL_ELEMENTS, add_elements, element, length, listpack_of, string
from engine.core.formats.rdb.streams import group_fields
from engine.core.formats.rdb.streams.forms import RECORDS, SAME_FIELDS, V7_0, V8_6, V8_8, pair, signed
from engine.core.formats.rdb.streams.group_fields import CONSUMER, GROUP, REST_VERSION
from engine.core.formats.rdb.streams.uniform_writer import uniform_nodes
from engine.core.protocol import ids
from engine.core.streams.group import Consumer, Group
from engine.core.streams.group_progress import shown
from engine.core.streams.idempotency import Producers
from engine.core.streams.pending import NOBODY
from engine.core.streams.segment import Segment
from engine.core.streams.stream import Stream
from streamwire.frames import split_fields

#: Maximum number of entries to write one by one: the fast path takes at least 0.35 ms.
_FEW = 120
#: Maximum entries of a node.
_NODE_ENTRIES = 100
#: Approximate maximum size of a node's frames in bytes.
_NODE_BYTES = 6144
#: Bytes of frames converted to nodes at once.
_BATCH_BYTES = 1 << 17
_U64 = 1 << 64
_SMALL = len(SMALL_ELEMENTS)


def _raw(entry_id: int) -> bytes:
    return entry_id.to_bytes(16, "big")


def encode(stream: Stream, form: int) -> Iterator[bytes]:
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
    return max(min(_NODE_BYTES * len(segment) // max(segment.body.data_size, 1), _NODE_ENTRIES), 1)


def _nodes(segment: Segment, size: int) -> Iterator[bytes]:
    """Yield nodes of a segment's live entries, ``size`` per node. A deleted entry does not end a node."""
    frames: list[bytes] = []
    ms, seq = array("Q"), array("Q")

    def gather(first: int, last: int) -> None:
        nonlocal ms, seq
        frames.extend(segment.frames(first, last))
        more_ms, more_seq = segment.id_columns(first, last)
        ms += more_ms
        seq += more_seq

    for first, last in segment.runs(0, len(segment)):
        if frames:
            end = min(first + size - len(frames), last)
            gather(first, end)
            first = end
            if len(frames) == size:
                yield _node(frames, ms, seq)
                frames, ms, seq = [], array("Q"), array("Q")
        end = last if last == len(segment) else last - (last - first) % size
        yield from _whole_nodes(segment, first, end, size)
        if end < last:
            gather(end, last)
    if frames:
        yield _node(frames, ms, seq)


def _whole_nodes(segment: Segment, first: int, last: int, size: int) -> Iterator[bytes]:
    """Yield the nodes of the live entries [first, last); many nodes at once if the entries are uniform."""
    at_once = max(_BATCH_BYTES * len(segment) // (max(segment.body.data_size, 1) * size), 1) * size
    for begin in range(first, last, at_once):
        end = min(begin + at_once, last)
        nodes = _alike(segment, begin, end, size) if end - begin > _FEW else b""
        if nodes:
            yield nodes
            continue
        for at in range(begin, end, size):
            behind = min(at + size, end)
            yield _node(segment.frames(at, behind), *segment.id_columns(at, behind))


def _alike(segment: Segment, first: int, last: int, size: int) -> bytes:
    """Return the nodes of these entries; empty if the entries are not uniform."""
    nodes = uniform_nodes(b"".join(segment.views(first, last)), segment.id_columns(first, last), size)
    return b"".join(nodes) if nodes is not None else b""


def _node(frames: Sequence[bytes], ms: Sequence[int], seq: Sequence[int]) -> bytes:
    small = SMALL_ELEMENTS
    names = split_fields(frames[0])[::2]
    first_ms, first_seq = ms[0], seq[0]
    parts = [element(len(frames)), small[0], element(len(names))]
    add_elements(parts, names)
    parts.append(small[0])
    count = 4 + len(names)
    same, same_tail = small[SAME_FIELDS], element(3 + len(names))
    for at, entry in enumerate(frames):
        words = split_fields(entry)
        is_same = words[::2] == names
        parts.append(same if is_same else small[0])
        later, further = ms[at] - first_ms, seq[at] - first_seq
        parts.append(small[later] if 0 <= later < _SMALL else element(signed(later)))
        parts.append(small[further] if 0 <= further < _SMALL else element(signed(further)))
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
    yield string(name) + group_fields.packed(GROUP, group, form)
    ownerless = group.pending.per_owner.get(NOBODY, 0)
    yield length(len(group.pending) - (ownerless if form < V8_8 else 0))
    hidden = NOBODY if form < V8_8 and ownerless else None
    records = (
        _raw(block.id_at(index)) + struct.pack("<q", block.time_at(index)) + length(block.count_at(index))
        for block, index in group.pending.records(ids.MIN_ID, ids.MAX_ID)
        if hidden is None or block.owner_at(index) != hidden
    )
    while part := b"".join(islice(records, RECORDS)):
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
    while part := b"".join([_raw(block.id_at(index)) for block, index in islice(owned, RECORDS)]):
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
            parts.append(_raw(entry_id) + struct.pack("<q", block.time_at(index)) + length(block.count_at(index)))
    producers = stream.producers if form < V8_6 else None
    parts.append(length(producers is not None))
    if producers is not None:
        parts.append(_producers(producers))
    return b"".join(parts)
