"""Memory size of a value, for MEMORY USAGE: estimates from the sizes of its parts.

Strings, fields of hashes and segments of streams are measured as the interpreter reports them; many are sampled. Groups
and producers are estimated from their numbers of records. The cache of decompressed entries is not counted: its budget
belongs to the server, so a size would depend on past readers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from operator import methodcaller
from typing import Any

from engine.core.keyspace.hash import Hash
from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.compressed.packed import Packed
from engine.core.streams.segment import Segment
from engine.core.streams.stream import Stream

#: Shallow size of an object in bytes.
_size_of: Callable[[object], int] = methodcaller("__sizeof__")

#: Size of a dictionary entry: hash, key, value, and its share of an index table that is two thirds full.
_DICT_ENTRY = 36
#: Overhead of a key besides its bytes: its entry in the table of slots, its slot, and its element in each of three
#: lists.
_PER_KEY = _DICT_ENTRY + 32 + 3 * 8
#: Approximate sizes of a consumer group, a consumer, a pending record, a producer, and an idempotent ID.
_GROUP, _CONSUMER, _PENDING, _PRODUCER, _IDEMPOTENT_ID = 1000, 250, 36, 350, 130
#: Maximum number of fields of a hash, and minimum number of segments of a stream, that are measured.
_FIELDS, _SEGMENTS = 20_000, 200


def of_key(key: bytes, value: Any, *, expires: bool, samples: int = 0) -> int:
    """Return the size of a key and its value in bytes.

    A long value is estimated from ``samples`` elements, or from the maximum if ``samples`` is 0.
    """
    size = _size_of(key) + _PER_KEY + (2 * _DICT_ENTRY if expires else 0) + _size_of(value)
    if isinstance(value, Stream):
        return size + of_stream(value, samples)
    if isinstance(value, Hash) and value:
        count = min(samples or _FIELDS, _FIELDS, len(value))
        sizes = (_size_of(field) + _size_of(word) for field, word in islice(value.items(), count))
        size += sum(sizes) * len(value) // count
    return size


def of_stream(stream: Stream, samples: int = 0) -> int:
    """Return the size of a stream's segments, groups and producers. ``samples``: see ``of_key``."""
    segments = stream.pieces()
    count = min(max(samples, _SEGMENTS), len(segments)) if samples else len(segments)
    size = sum(of_segment(segments[len(segments) * at // count]) for at in range(count))
    size = size * len(segments) // max(count, 1)
    for group in stream.groups.values():
        size += _GROUP + _CONSUMER * len(group.consumers) + _PENDING * len(group.pending)
    if stream.producers is not None:
        sent = stream.producers.by_producer
        size += _PRODUCER * len(sent) + _IDEMPOTENT_ID * sum(map(len, sent.values()))
    return size


def of_segment(segment: Segment) -> int:
    """Return the current size of a segment (plain, packed, or on disk)."""
    body, dead = segment.body, segment.dead or b""
    size = _size_of(segment) + _size_of(body) + len(dead)
    if isinstance(body, Stored):
        return size + _size_of(body.place)
    if isinstance(body, Packed):
        return size + len(body.blob) + sum(map(_size_of, body.index_arrays))
    return size + len(body.data) + sum(map(_size_of, (body.offsets, body.ms, body.seq)))
