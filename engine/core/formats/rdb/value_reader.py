"""Values in Redis's RDB format: their type bytes, and decoding in steps, with the reader for each type byte.

Values of unsupported types are read past, without their content, so that reading can continue after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.core.formats.damage import FIELD_EXPIRY, LISTS, SETS, SORTED_SETS, module_values
from engine.core.formats.rdb import group_fields, stream_reader
from engine.core.formats.rdb.primitives import (
    BadFormatError,
    Reader,
    Steps,
    read_listpack,
    read_ziplist,
)
from engine.core.keyspace.hash import Hash
from engine.core.protocol import pace
from engine.core.streams.stream import Stream
from engine.settings.config import Config

STRING, LIST, SET, HASH, SORTED_SET, MODULE = 0, 1, 2, 4, 5, 7
INTSET, SORTED_SET_ZIPLIST, HASH_ZIPLIST, QUICKLIST = 11, 12, 13, 14
HASH_LISTPACK, SORTED_SET_LISTPACK, QUICKLIST_2, SET_LISTPACK = 16, 17, 18, 20
#: Redis's encodings of hashes with expiring fields, also if none of the fields expires any more.
EXPIRING_HASH, EXPIRING_LISTPACK = 24, 25
#: Valkey's encoding of hashes with expiring fields.
VALKEY_HASH = 22
#: Type byte of a value that the engine does not store -> name of its type.
UNSUPPORTED = {
    **dict.fromkeys((LIST, QUICKLIST, QUICKLIST_2), LISTS),
    **dict.fromkeys((SET, INTSET, SET_LISTPACK), SETS),
    **dict.fromkeys((SORTED_SET, SORTED_SET_ZIPLIST, SORTED_SET_LISTPACK), SORTED_SETS),
    **dict.fromkeys((EXPIRING_HASH, EXPIRING_LISTPACK, VALKEY_HASH), FIELD_EXPIRY),
}
#: The newest version of Redis's files.
NEWEST_VERSION = 14
#: The version of Valkey 9's own files.
VALKEY_VERSION = 80


# -- reading past values --------------------------------------------------------------------------------------------

#: Opcode of the end of a module's value.
_MODULE_END = 0
#: Opcode of a string in a module's value.
_MODULE_STRING = 5
#: Opcodes of integers in a module's value.
_MODULE_NUMBERS = (1, 2)
#: Opcodes of floating-point numbers in a module's value -> size of the number in bytes.
_MODULE_FLOATS = {3: 4, 4: 8}
_NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def module_name(number: int) -> str:
    """Return the name of a module's type from its number: nine letters of six bits, followed by ten bits of version."""
    return "".join(_NAME_LETTERS[number >> 10 + 6 * letter & 63] for letter in range(8, -1, -1))


def skip_module_data(reader: Reader) -> Steps[None]:
    """Read past a module's data, including the end opcode."""
    while (opcode := reader.length()) != _MODULE_END:
        if opcode in _MODULE_NUMBERS:
            reader.length()
        elif opcode in _MODULE_FLOATS:
            reader.read(_MODULE_FLOATS[opcode])
        elif opcode == _MODULE_STRING:
            reader.stored()
        else:
            raise BadFormatError
        yield


#: Type byte -> the function that reads past one element, for values that are preceded by the number of their elements.
_ELEMENTS: dict[int, Callable[[Reader], object]] = {
    **dict.fromkeys((LIST, SET, QUICKLIST), Reader.stored),
    QUICKLIST_2: lambda reader: (reader.length(), reader.stored()),
    SORTED_SET: lambda reader: (reader.stored(), reader.read(8)),
    # The deadline, the name and the value of each field; Valkey writes the deadline last.
    EXPIRING_HASH: lambda reader: (reader.length(), reader.stored(), reader.stored()),
    VALKEY_HASH: lambda reader: (reader.stored(), reader.stored(), reader.read(8)),
}


def _unsupported(reader: Reader, kind: int) -> Steps[Unsupported]:
    """Read past a value of a type in ``UNSUPPORTED``."""
    if kind in (EXPIRING_HASH, EXPIRING_LISTPACK):
        # The earliest deadline of a field.
        reader.read(8)
    skip_element = _ELEMENTS.get(kind)
    if skip_element is None:
        # Elements packed into a string.
        reader.stored()
    else:
        for number in range(reader.length()):
            skip_element(reader)
            if not number % pace.ELEMENTS:
                yield
    return Unsupported(UNSUPPORTED[kind])


#: Types that occur only in files of Redis, or only in files of Valkey.
_OF_ONE_PRODUCT = (EXPIRING_HASH, EXPIRING_LISTPACK, VALKEY_HASH)
#: Number of elements added to a value per step, after all have been read.
_IN_MEMORY = 1024


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A value of a type that the engine does not store; ``kind`` is the name of the type."""

    kind: str


@dataclass(frozen=True, slots=True)
class Makers:
    """Dependencies for creating values: new streams, and the settings that apply."""

    new_stream: Callable[[], Stream]
    #: Returns stream-idmp-duration and stream-idmp-maxsize.
    idmp_defaults: Callable[[], tuple[int, int]]


def makers(config: Config, new_stream: Callable[[], Stream]) -> Makers:
    """Return the dependencies for creating values under this configuration."""
    integer = config.integer
    return Makers(
        new_stream,
        lambda: (integer("stream-idmp-duration"), integer("stream-idmp-maxsize")),
    )


def load(reader: Reader, kind: int, makers: Makers, *, is_valkey: bool = False) -> Steps[Any]:
    """Read a value with the type byte ``kind``; return ``Unsupported`` if the engine does not store its type.

    Raises BadFormatError if the value is damaged, empty, or of an unknown type. ``is_valkey``: whether the file is in
    Valkey's own format.
    """
    if kind == STRING:
        return reader.string()
    if kind in group_fields.FORMS:
        return (yield from stream_reader.load(reader, kind, makers.new_stream(), makers.idmp_defaults))
    if kind == MODULE:
        number = reader.length()
        yield from skip_module_data(reader)
        return Unsupported(module_values(module_name(number)))
    is_of_other = kind in _OF_ONE_PRODUCT and is_valkey != (kind == VALKEY_HASH)
    if is_of_other or (kind not in UNSUPPORTED and kind != HASH and kind not in _PACKED_HASHES):
        raise BadFormatError(f"a value of type {kind} is not supported")
    if kind in UNSUPPORTED:
        return (yield from _unsupported(reader, kind))
    words = (yield from _pairs(reader)) if kind == HASH else _PACKED_HASHES[kind](reader.string())
    return (yield from _hash_of(words))


# -- hashes -----------------------------------------------------------------------------------------------------------


def _hash_of(words: list[bytes]) -> Steps[Hash]:
    fields = Hash()
    if not words or len(words) % 2:
        raise BadFormatError("a value without elements" if not words else "")
    for part in _consumed(words):
        for at in range(0, len(part), 2):
            if not fields.put(part[at], part[at + 1]):
                raise BadFormatError
        yield
    return fields


def _consumed(words: list[bytes]) -> Iterator[list[bytes]]:
    """Yield parts of the words, and remove each, because freeing all of them at the end would block the server."""
    words.reverse()
    while words:
        yield words[: -_IN_MEMORY - 1 : -1]
        del words[-_IN_MEMORY:]


def _pairs(reader: Reader) -> Steps[list[bytes]]:
    """Read fields and values, preceded by the number of fields."""
    count = 2 * reader.length()
    words: list[bytes] = []
    while len(words) < count:
        some = min(count - len(words), pace.ELEMENTS)
        words += [reader.string() for _ in range(some)]
        yield
    return words


#: Type byte of a hash that is packed into a string -> the function that returns [field, value, ...] of the string.
_PACKED_HASHES = {HASH_ZIPLIST: read_ziplist, HASH_LISTPACK: read_listpack}
