"""Encoding of values in Redis's RDB format, in pieces: as DUMP encodes them, or for a file of a given version."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from engine.core.formats.rdb.packed import intset
from engine.core.formats.rdb.primitives import length, listpack, string
from engine.core.formats.rdb.streams import forms, stream_writer
from engine.core.formats.rdb.value_forms import (
    ELEMENTS,
    EXPIRING_HASH,
    EXPIRING_SINCE,
    HASH,
    HASH_LISTPACK,
    INTSET,
    LIST,
    PACKED,
    PLAIN,
    QUICKLIST_2,
    SET,
    SET_LISTPACK,
    SORTED_SET_2,
    SORTED_SET_LISTPACK,
    STRING,
    VALKEY_HASH,
    VALKEY_VERSION,
    forms_version,
)
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.members import Form, Members
from engine.core.keyspace.order import Pair
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.streams.stream import Stream
from engine.text import doubles

#: The first file version in which sets are written as listpacks.
_SET_LISTPACK_SINCE = 11
#: Approximate size in bytes of a list node in DUMP's encoding (longer elements have nodes of their own), and of a piece
#: of strings in other encodings.
_NODE_BYTES = 4096
_SCORE = struct.Struct("<d")
_DEADLINE = struct.Struct("<q")
#: Integral scores of up to this absolute value are stored in a listpack as integers.
_WHOLE_SCORE = 1 << 62


def dumped(value: Any) -> tuple[int, Iterator[bytes]]:
    """Return the oldest RDB version that supports DUMP's encoding of a value, and that encoding in pieces.

    The encoding starts with the type byte; pieces can be empty. The value must not change before the last piece is
    created.
    """
    if isinstance(value, Stream):
        form = stream_writer.form_of(value)
        return forms.RDB_VERSIONS[form], chain((bytes((form,)),), stream_writer.encode(value, form))
    if isinstance(value, deque):
        return 10, _list_pieces(value)
    version = EXPIRING_SINCE if isinstance(value, Hash) and value.deadlines else 10
    kind, pieces = encoded(value, version)
    return version, chain((bytes((kind,)),), pieces)


def dumped_fields(count: int, words: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """Encode a big hash of ``count`` fields as ``dumped`` does, given its fields and values."""
    return 10, chain((bytes((HASH,)),), _strings(count, words))


def dumped_expiring_fields(words: list[bytes]) -> tuple[int, Iterator[bytes]]:
    """Encode a big hash with expiring fields, given [field, value, deadline, ...]. A deadline of 0 means no expiry."""
    return EXPIRING_SINCE, chain((bytes((EXPIRING_HASH,)),), _expiring(words))


def dumped_members(count: int, words: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """Encode a big set of ``count`` members as ``dumped`` does."""
    return 10, chain((bytes((SET,)),), _strings(count, words))


def dumped_scores(count: int, pairs: Iterator[Pair]) -> tuple[int, Iterator[bytes]]:
    """Encode a big sorted set of ``count`` members as ``dumped`` does, given pairs of score and member."""
    return 10, chain((bytes((SORTED_SET_2,)),), _scores(count, pairs))


def encoded(value: Any, version: int) -> tuple[int, Iterator[bytes]]:
    """Return the type byte of a value in a file of this version, and the rest of its encoding in pieces."""
    if isinstance(value, Stream):
        form = min(forms.newest_form(forms_version(version)), stream_writer.form_of(value))
        return form, stream_writer.encode(value, form)
    if isinstance(value, Hash):
        if value.deadlines and version == VALKEY_VERSION:
            return VALKEY_HASH, _expiring_of_valkey(list(with_deadlines(value)))
        if value.deadlines and version >= EXPIRING_SINCE:
            return EXPIRING_HASH, _expiring(list(with_deadlines(value)))
        if not value.big:
            packed = listpack([word for pair in value.items() for word in pair])
            return HASH_LISTPACK, iter((length(len(packed)) + packed,))
        return HASH, _strings(len(value), (word for pair in value.items() for word in pair))
    if isinstance(value, Members):
        return _set_pieces(value, version)
    if isinstance(value, SortedSet):
        if not value.big:
            packed = listpack([part for score, member in value.order for part in (member, _packed_score(score))])
            return SORTED_SET_LISTPACK, iter((length(len(packed)) + packed,))
        # As in Redis, the highest score comes first, so that a reader always adds at the same end.
        return SORTED_SET_2, _scores(len(value), reversed(value.order))
    if isinstance(value, deque):
        return LIST, _strings(len(value), iter(value))
    return STRING, iter((string(bytes(value)),))


def with_deadlines(fields: Hash) -> Iterator[bytes]:
    """Yield each field with its value and its deadline in milliseconds since the epoch; 0: no expiry."""
    deadlines = fields.deadlines or {}
    return (word for field, value in fields.items() for word in (field, value, b"%d" % deadlines.get(field, 0)))


def _expiring(words: list[bytes]) -> Iterator[bytes]:
    """Yield Redis's encoding: the earliest deadline, then the time, the name and the value of each field.

    A time is 1 plus the difference between the deadline and the earliest deadline, or 0 without expiry.
    """
    first = min((int(word) for word in words[2::3] if word != b"0"), default=0)
    yield first.to_bytes(8, "little") + length(len(words) // 3)
    for at in range(0, len(words), 3 * ELEMENTS):
        part = words[at : at + 3 * ELEMENTS]
        rows = zip(part[::3], part[1::3], map(int, part[2::3]), strict=True)
        yield b"".join(
            length(deadline - first + 1 if deadline else 0) + string(field) + string(value)
            for field, value, deadline in rows
        )


def _expiring_of_valkey(words: list[bytes]) -> Iterator[bytes]:
    """Yield each field with its value and its deadline; -1: no expiry."""
    yield length(len(words) // 3)
    for at in range(0, len(words), 3 * ELEMENTS):
        part = words[at : at + 3 * ELEMENTS]
        rows = zip(part[::3], part[1::3], map(int, part[2::3]), strict=True)
        yield b"".join(string(field) + string(value) + _DEADLINE.pack(end or -1) for field, value, end in rows)


def _set_pieces(members: Members, version: int) -> tuple[int, Iterator[bytes]]:
    if members.form is Form.NUMBERS:
        return INTSET, iter((string(intset(sorted(map(int, members)))),))
    if members.form is Form.SMALL and version >= _SET_LISTPACK_SINCE:
        packed = listpack(list(members))
        return SET_LISTPACK, iter((length(len(packed)) + packed,))
    return SET, _strings(len(members), iter(members))


def _strings(count: int, words: Iterator[bytes]) -> Iterator[bytes]:
    parts = [length(count)]
    size = 0
    for word in words:
        parts.append(string(word))
        size += len(word)
        if len(parts) >= ELEMENTS or size > _NODE_BYTES:
            yield b"".join(parts)
            parts.clear()
            size = 0
    yield b"".join(parts)


def _packed_score(score: float) -> bytes | int:
    if score.is_integer() and -_WHOLE_SCORE <= score <= _WHOLE_SCORE:
        return int(score)
    return doubles.text(score)


def _scores(count: int, pairs: Iterator[Pair]) -> Iterator[bytes]:
    yield length(count)
    pack = _SCORE.pack
    while some := list(islice(pairs, ELEMENTS)):
        yield b"".join([part for score, member in some for part in (string(member), pack(score))])


def _list_pieces(items: deque[bytes]) -> Iterator[bytes]:
    nodes: list[bytes] = []
    for node in _list_nodes(items):
        # The number of nodes precedes the nodes, so all nodes must be created first.
        nodes.append(node)
        yield b""
    yield bytes((QUICKLIST_2,)) + length(len(nodes))
    yield from nodes


def _list_nodes(items: deque[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0

    def packed() -> Iterator[bytes]:
        if waiting:
            node = listpack(waiting)
            yield length(PACKED) + length(len(node)) + node
            waiting.clear()

    for item in items:
        if size + len(item) > _NODE_BYTES:
            yield from packed()
            size = 0
        if len(item) > _NODE_BYTES:
            yield length(PLAIN) + length(len(item)) + item
        else:
            waiting.append(item)
            size += len(item)
    yield from packed()
