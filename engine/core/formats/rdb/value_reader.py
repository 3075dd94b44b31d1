"""Decoding of values in Redis's RDB format, in steps, with the reader for each type byte.

Values of unsupported types (data of modules) are also read, so that reading can continue after them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.core.formats.rdb import sorted_set_reader
from engine.core.formats.rdb.packed import read_intset, read_ziplist, read_zipmap
from engine.core.formats.rdb.primitives import BadFormatError, Reader, Steps, read_listpack, whole
from engine.core.formats.rdb.streams import forms, stream_reader
from engine.core.formats.rdb.value_forms import (
    ELEMENTS,
    EXPIRING_HASH,
    EXPIRING_LISTPACK,
    HASH,
    HASH_LISTPACK,
    HASH_ZIPLIST,
    HASH_ZIPMAP,
    INTSET,
    LIST,
    LIST_ZIPLIST,
    MODULE,
    PACKED,
    PLAIN,
    QUICKLIST,
    QUICKLIST_2,
    SET,
    SET_LISTPACK,
    STRING,
    VALKEY_HASH,
)
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.members import Members, SetLimits, set_limits
from engine.core.keyspace.sorted_set import SortedSetLimits, sorted_set_limits
from engine.core.streams.stream import Stream
from engine.settings.config import Config

#: Types that occur only in files of Redis, or only in files of Valkey.
_OF_ONE_PRODUCT = (EXPIRING_HASH, EXPIRING_LISTPACK, VALKEY_HASH)
#: Number of elements added to a value per step, after all have been read.
_IN_MEMORY = 1024
#: Opcode of the end of a module's value.
_MODULE_END = 0
#: Opcode of a string in a module's value.
_MODULE_STRING = 5
#: Opcodes of integers in a module's value.
_MODULE_NUMBERS = (1, 2)
#: Opcodes of floating-point numbers in a module's value -> size of the number in bytes.
_MODULE_FLOATS = {3: 4, 4: 8}


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of an unsupported type; ``kind`` is its name for messages."""

    kind: str


@dataclass(frozen=True, slots=True)
class Makers:
    """Dependencies for creating values: new streams, and the settings that apply."""

    new_stream: Callable[[], Stream]
    #: Returns stream-idmp-duration and stream-idmp-maxsize.
    idmp_defaults: Callable[[], tuple[int, int]]
    #: Returns the maximum number of fields and the maximum length of a word of a small hash.
    hash_limits: Callable[[], tuple[int, int]]
    set_limits: Callable[[], SetLimits]
    sorted_set_limits: Callable[[], SortedSetLimits]


def makers(config: Config, new_stream: Callable[[], Stream]) -> Makers:
    """Return the dependencies for creating values under this configuration."""
    integer = config.integer
    return Makers(
        new_stream,
        lambda: (integer("stream-idmp-duration"), integer("stream-idmp-maxsize")),
        lambda: (integer("hash-max-listpack-entries"), integer("hash-max-listpack-value")),
        lambda: set_limits(config),
        lambda: sorted_set_limits(config),
    )


def load(reader: Reader, kind: int, makers: Makers, *, is_valkey: bool = False) -> Steps[Any]:
    """Read a value with the type byte ``kind``; return ``Unknown`` if the engine does not support its type.

    Raises BadFormatError if the value is damaged, empty, or of an unknown type. ``is_valkey``: whether the file is in
    Valkey's own format.
    """
    if kind == STRING:
        return (yield from whole(reader, reader.string))
    if kind in forms.FORMS:
        return (yield from stream_reader.load(reader, kind, makers.new_stream(), makers.idmp_defaults))
    if kind in sorted_set_reader.FORMS:
        return (yield from sorted_set_reader.load(reader, kind, makers.sorted_set_limits()))
    if kind == MODULE:
        number = yield from whole(reader, reader.length)
        yield from skip_module_data(reader)
        return Unknown(f"value of the module type {module_name(number)}")
    shape = _SHAPES.get(kind)
    if shape is None or (kind in _OF_ONE_PRODUCT and is_valkey != (kind == VALKEY_HASH)):
        raise BadFormatError(f"a value of type {kind} is not supported")
    words = yield from shape(reader)
    if not words:
        raise BadFormatError("a value without elements")
    if kind in _LISTS:
        return words if isinstance(words, deque) else deque(words)
    if kind in _OF_ONE_PRODUCT:
        return (yield from _expiring_hash_of(words, makers))
    return (yield from _set_of(words, makers) if kind in _SETS else _hash_of(words, makers))


def _set_of(words: list[bytes], makers: Makers) -> Steps[Members]:
    members, limits = Members(), makers.set_limits()
    members.expect(len(words), limits)
    for part in _consumed(words):
        for word in part:
            if not members.put(word, limits):
                raise BadFormatError
        yield False
    return members


def _hash_of(words: list[bytes], makers: Makers) -> Steps[Hash]:
    fields, limits = Hash(), makers.hash_limits()
    if len(words) % 2:
        raise BadFormatError
    for part in _consumed(words):
        for at in range(0, len(part), 2):
            if not fields.put(part[at], part[at + 1], limits):
                raise BadFormatError
        yield False
    return fields


def _consumed(words: list[bytes]) -> Iterator[list[bytes]]:
    """Yield parts of the words, and remove each, because freeing all of them at the end would block the server."""
    words.reverse()
    while words:
        yield words[: -_IN_MEMORY - 1 : -1]
        del words[-_IN_MEMORY:]


def _expiring_hash_of(words: list[bytes], makers: Makers) -> Steps[Hash]:
    """Build a hash from [field, value, deadline, ...]; a deadline of 0 means no expiry."""
    if len(words) % 3:
        raise BadFormatError
    pairs = [word for at in range(0, len(words), 3) for word in words[at : at + 2]]
    fields = yield from _hash_of(pairs, makers)
    deadlines = {field: int(word) for field, word in zip(words[::3], words[2::3], strict=True) if word != b"0"}
    if deadlines and not 0 < min(deadlines.values()) <= max(deadlines.values()) < 1 << 63:
        raise BadFormatError
    fields.set_deadlines(deadlines)
    return fields


def _words(reader: Reader, per_element: int = 1) -> Steps[list[bytes]]:
    """Read elements of ``per_element`` strings each, preceded by the number of elements."""
    count = per_element * (yield from whole(reader, reader.length))
    words: list[bytes] = []
    while len(words) < count:
        some = min(count - len(words), ELEMENTS)
        words += yield from whole(reader, lambda: [reader.string() for _ in range(some)])  # noqa: B023
        yield False
    return words


_Unpack = Callable[[bytes], list[bytes]]


def _packed(unpack: _Unpack) -> Callable[[Reader], Steps[list[bytes]]]:
    """Return a function that reads a value encoded as one string."""

    def read(reader: Reader) -> Steps[list[bytes]]:
        return unpack((yield from whole(reader, reader.string)))

    return read


def _pairs(reader: Reader) -> Steps[list[bytes]]:
    return (yield from _words(reader, 2))


def _expiring(reader: Reader) -> Steps[list[bytes]]:
    """Read Redis's encoding: the earliest deadline, then the time, the name and the value of each field.

    A time is 1 plus the difference between the deadline and the earliest deadline, or 0 without expiry.
    """
    first = int.from_bytes((yield from whole(reader, lambda: reader.read(8))), "little", signed=True)

    def read_field() -> tuple[bytes, bytes, int]:
        later, field, value = reader.length(), reader.string(), reader.string()
        return field, value, first + later - 1 if later else 0

    left = yield from whole(reader, reader.length)
    return (yield from _fields(reader, left, read_field))


def _valkey(reader: Reader) -> Steps[list[bytes]]:
    """Read Valkey's encoding: each field with its value and its deadline; -1: no expiry."""

    def read_field() -> tuple[bytes, bytes, int]:
        field, value, deadline = reader.string(), reader.string(), reader.unpack("<q")
        return field, value, 0 if deadline == -1 else deadline

    left = yield from whole(reader, reader.length)
    return (yield from _fields(reader, left, read_field))


def _fields(reader: Reader, count: int, read_field: Callable[[], tuple[bytes, bytes, int]]) -> Steps[list[bytes]]:
    """Read ``count`` fields; return [field, value, deadline, ...], the deadlines in decimal digits."""
    words: list[bytes] = []
    for number in range(count):
        field, value, deadline = yield from whole(reader, read_field)
        words += (field, value, b"%d" % deadline)
        if not number % ELEMENTS:
            yield False
    return words


def _expiring_listpack(reader: Reader) -> Steps[list[bytes]]:
    """Read Redis's listpack encoding: the earliest deadline, then [field, value, deadline, ...]; 0: no expiry."""
    return (yield from whole(reader, lambda: (reader.read(8), read_listpack(reader.string()))[1]))


def _quicklist(reader: Reader) -> Steps[deque[bytes]]:
    items: deque[bytes] = deque()
    for _ in range((yield from whole(reader, reader.length))):
        items += read_ziplist((yield from whole(reader, reader.string)))
        yield False
    return items


def _quicklist_2(reader: Reader) -> Steps[deque[bytes]]:
    items: deque[bytes] = deque()
    for _ in range((yield from whole(reader, reader.length))):
        container, node = yield from whole(reader, lambda: (reader.length(), reader.string()))
        if container == PLAIN:
            items.append(node)
        elif container == PACKED:
            items += read_listpack(node)
        else:
            raise BadFormatError
        yield False
    return items


def skip_module_data(reader: Reader) -> Steps[None]:
    """Read past a module's data, including the end opcode."""

    def read_item() -> bool:
        opcode = reader.length()
        if opcode in _MODULE_NUMBERS:
            reader.length()
        elif opcode in _MODULE_FLOATS:
            reader.read(_MODULE_FLOATS[opcode])
        elif opcode == _MODULE_STRING:
            reader.string()
        elif opcode != _MODULE_END:
            raise BadFormatError
        return opcode != _MODULE_END

    while (yield from whole(reader, read_item)):
        yield False


_NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def module_name(number: int) -> str:
    """Return the name of a module's type from its number: nine letters of six bits, followed by ten bits of version."""
    return "".join(_NAME_LETTERS[number >> 10 + 6 * letter & 63] for letter in range(8, -1, -1))


_Shapes = dict[int, Callable[[Reader], Steps[Any]]]
_LISTS: _Shapes = {
    LIST: _words,
    LIST_ZIPLIST: _packed(read_ziplist),
    QUICKLIST: _quicklist,
    QUICKLIST_2: _quicklist_2,
}
_HASHES: _Shapes = {
    HASH: _pairs,
    HASH_ZIPMAP: _packed(read_zipmap),
    HASH_ZIPLIST: _packed(read_ziplist),
    HASH_LISTPACK: _packed(read_listpack),
    EXPIRING_HASH: _expiring,
    EXPIRING_LISTPACK: _expiring_listpack,
    VALKEY_HASH: _valkey,
}
_SETS: _Shapes = {SET: _words, INTSET: _packed(read_intset), SET_LISTPACK: _packed(read_listpack)}
_SHAPES = _LISTS | _HASHES | _SETS
