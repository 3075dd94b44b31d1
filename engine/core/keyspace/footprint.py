"""Memory size of a value, for MEMORY USAGE: the sum of the sizes that the interpreter reports.

A stream is measured in parts: frames (plain or packed), their index, marks of deleted entries, nodes, groups with their
consumers and pending entries, and idempotent producers. Long values (hashes, and each part of a stream) are estimated
from samples. Objects shared by several values (interned numbers, code) are not counted, and neither is the cache of
decompressed entries: its budget belongs to the server, so a size would depend on past readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from engine.core.keyspace.hash import Hash
from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.compressed.packed import Packed
from engine.core.streams.group import Group
from engine.core.streams.pending import size_of
from engine.core.streams.segment import Segment
from engine.core.streams.stream import Stream

#: Size of a dictionary entry: hash, key, value, and its share of an index table that is two thirds full.
_DICT_ENTRY = 36
#: Overhead of a key besides its bytes: its entry in the table of slots, its slot, and its element in each of three
#: lists.
_PER_KEY = _DICT_ENTRY + 32 + 3 * 8

#: Maximum number of fields of a hash that are measured. Measuring them takes a few milliseconds.
_FIELDS = 20_000
#: Minimum number of sampled segments of a stream.
_SEGMENTS = 200
#: Minimum number of sampled groups of a stream, and of sampled idempotent IDs of a producer.
_GROUPS = 50
#: Minimum number of sampled consumers of a group, and of sampled blocks of its pending entries.
_MEMBERS = 20
T = TypeVar("T")
_Groups = list[tuple[bytes, Group]]


def of_key(key: bytes, value: Any, *, expires: bool, samples: int = 0) -> int:
    """Return the size of a key and its value in bytes.

    A long value is estimated from ``samples`` elements. If ``samples`` is 0, all elements are measured, but not more
    than ``_FIELDS`` of a hash.
    """
    return size_of(key) + _PER_KEY + (2 * _DICT_ENTRY if expires else 0) + of_value(value, samples)


def of_value(value: Any, samples: int = 0) -> int:
    """Return the size of a value in bytes. ``samples``: see ``of_key``."""
    if isinstance(value, Stream):
        return of_stream(value, samples)
    if isinstance(value, Hash):
        sizes = (size_of(field) + size_of(word) for field, word in value.items())
        return size_of(value) + _sampled(sizes, len(value), min(samples or _FIELDS, _FIELDS))
    return size_of(value)


def _sampled(sizes: Iterable[int], count: int, samples: int) -> int:
    if not samples or count <= samples:
        return sum(sizes)
    return sum(islice(sizes, samples)) * count // samples


def _spread(some: Sequence[T], samples: int) -> Iterable[T]:
    """Return ``samples`` evenly spread elements of a sequence; all elements if ``samples`` is 0."""
    return some if not samples or len(some) <= samples else (some[len(some) * at // samples] for at in range(samples))


def of_stream(stream: Stream, samples: int = 0) -> int:
    """Return the size of a stream with its groups and producers. ``samples`` is raised to a minimum for each part."""
    of_parts, of_groups = (max(samples, _SEGMENTS), max(samples, _GROUPS)) if samples else (0, 0)
    pieces = stream.pieces()
    size = size_of(stream)
    # 8 + 8: the stream's references to a segment and to its first ID.
    sizes = (of_segment(segment) + 8 + 8 for segment in _spread(pieces, of_parts))
    size += _sampled(sizes, len(pieces), of_parts)
    largest, others = _by_size(list(stream.groups.items()), of_groups)
    size += sum(_of_named_group(item, samples) for item in largest)
    size += _sampled((_of_named_group(item, samples) for item in _spread(others, of_groups)), len(others), of_groups)
    if stream.producers is not None:
        by_producer = stream.producers.by_producer
        size += _sampled((_of_producer(*item, of_groups) for item in by_producer.items()), len(by_producer), of_groups)
    return size


def _by_size(groups: _Groups, samples: int) -> tuple[_Groups, _Groups]:
    """Return the largest ``samples`` groups, which are all measured, and the other groups, which are sampled.

    If ``samples`` is 0, all groups are measured.
    """
    if not samples or len(groups) <= samples:
        return groups, []
    groups.sort(key=lambda item: len(item[1].pending) + len(item[1].consumers), reverse=True)
    return groups[:samples], groups[samples:]


def _of_named_group(named: tuple[bytes, Group], samples: int) -> int:
    return _DICT_ENTRY + size_of(named[0]) + of_group(named[1], samples)


def _of_producer(producer: bytes, sent: Mapping[bytes, int], samples: int) -> int:
    of_sent = (size_of(iid) + size_of(entry_id) for iid, entry_id in sent.items())
    return _DICT_ENTRY + size_of(producer) + size_of(sent) + _sampled(of_sent, len(sent), samples)


def of_segment(segment: Segment) -> int:
    """Return the current size of a segment (plain, packed, or on disk)."""
    size = size_of(segment)
    if segment.dead is not None:
        size += size_of(segment.dead)
    body = segment.body
    if isinstance(body, Stored):
        return size + size_of(body) + size_of(body.place)
    size += size_of(body)
    if isinstance(body, Packed):
        return size + size_of(body.blob) + sum(map(size_of, body.index_arrays))
    if isinstance(body.data, memoryview):
        size += body.data.nbytes
    return size + sum(map(size_of, (body.data, body.offsets, body.ms, body.seq)))


def of_group(group: Group, samples: int = 0) -> int:
    """Return the size of a consumer group: its consumers and its pending entries list."""
    some = max(samples, _MEMBERS) if samples else 0
    size = size_of(group) + size_of(group.consumers) + size_of(group.by_number) + size_of(group.nacked)
    sizes = (size_of(consumer) + size_of(consumer.name) for consumer in group.consumers.values())
    return size + _sampled(sizes, len(group.consumers), some) + group.pending.footprint(some)
