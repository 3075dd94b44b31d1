"""Decoding of sorted sets in Redis's RDB format, from four encodings of members with scores."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from engine.core.formats.rdb.packed import read_ziplist
from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, read_listpack, whole
from engine.core.formats.rdb.value_forms import (
    ELEMENTS,
    SORTED_SET,
    SORTED_SET_2,
    SORTED_SET_LISTPACK,
    SORTED_SET_ZIPLIST,
)
from engine.core.keyspace.sorted_set import SortedSet, SortedSetLimits
from engine.text import doubles

_Scored = tuple[bytes, float]
_SCORE = struct.Struct("<d")
#: Byte in place of the length of a score's text -> the special score.
_NAMED_SCORES = {254: math.inf, 255: -math.inf}
#: Number of members added per step.
_PUT = 256


def load(reader: Reader, kind: int, limits: SortedSetLimits) -> Steps[SortedSet]:
    """Read a sorted set with the type byte ``kind``, one of ``FORMS``. Raises BadFormatError if the set is damaged."""
    pairs = yield from FORMS[kind](reader)
    if not pairs:
        raise BadFormatError("a value without elements")
    made = SortedSet()
    made.expect(len(pairs), limits)
    # The pairs are removed one by one, because freeing all of them at the end would block the server.
    pairs.reverse()
    while pairs:
        member, score = pairs.pop()
        if math.isnan(score) or not made.put(member, score, limits):
            raise BadFormatError
        if not len(pairs) % _PUT:
            yield False
    return made


def _score(word: bytes) -> float:
    score = doubles.parse(word)
    if score is None:
        raise BadFormatError
    return score


def _with_text(reader: Reader) -> Steps[list[_Scored]]:
    def member() -> _Scored:
        word, size = reader.string(), reader.byte()
        return word, _NAMED_SCORES[size] if size in _NAMED_SCORES else _score(reader.read(size))

    return (yield from _members(reader, member))


def _with_bytes(reader: Reader) -> Steps[list[_Scored]]:
    def member() -> _Scored:
        word = reader.string()
        return word, _SCORE.unpack(reader.read(_SCORE.size))[0]

    return (yield from _members(reader, member))


def _members(reader: Reader, member: Callable[[], _Scored]) -> Steps[list[_Scored]]:
    pairs: list[_Scored] = []
    count = yield from whole(reader, reader.length)
    while len(pairs) < count:
        some = min(count - len(pairs), ELEMENTS)
        pairs += yield from whole(reader, lambda: [member() for _ in range(some)])  # noqa: B023
        yield False
    return pairs


def _packed(unpack: Callable[[bytes], list[bytes]]) -> Callable[[Reader], Steps[list[_Scored]]]:
    """Return a function that reads members and scores from one string."""

    def read(reader: Reader) -> Steps[list[_Scored]]:
        words = unpack((yield from whole(reader, reader.string)))
        if len(words) % 2:
            raise BadFormatError
        return list(zip(words[::2], map(_score, words[1::2]), strict=True))

    return read


#: Type byte -> the function that reads members and scores.
FORMS: dict[int, Callable[[Reader], Steps[list[_Scored]]]] = {
    SORTED_SET: _with_text,
    SORTED_SET_2: _with_bytes,
    SORTED_SET_ZIPLIST: _packed(read_ziplist),
    SORTED_SET_LISTPACK: _packed(read_listpack),
}
