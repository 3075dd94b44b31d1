"""Values in Redis's RDB format: their type bytes, and decoding in steps, with the reader for each type byte.

Values of unsupported types are read past, without their content, so that reading can continue after them. A file is
also scanned in this way for types that the engine does not store.
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
    read_zipmap,
    whole,
)
from engine.core.keyspace.hash import Hash
from engine.core.protocol import pace
from engine.core.streams.stream import Stream
from engine.settings.config import Config

STRING, LIST, SET, SORTED_SET, HASH, SORTED_SET_2, MODULE = 0, 1, 2, 3, 4, 5, 7
HASH_ZIPMAP, LIST_ZIPLIST, INTSET, SORTED_SET_ZIPLIST, HASH_ZIPLIST, QUICKLIST = 9, 10, 11, 12, 13, 14
HASH_LISTPACK, SORTED_SET_LISTPACK, QUICKLIST_2, SET_LISTPACK = 16, 17, 18, 20
#: Redis's encodings of hashes with expiring fields.
EXPIRING_HASH, EXPIRING_LISTPACK = 24, 25
#: Valkey's encoding of hashes with expiring fields.
VALKEY_HASH = 22
#: Type byte of a value that the engine does not store -> name of its type.
UNSUPPORTED = {
    **dict.fromkeys((LIST, LIST_ZIPLIST, QUICKLIST, QUICKLIST_2), LISTS),
    **dict.fromkeys((SET, INTSET, SET_LISTPACK), SETS),
    **dict.fromkeys((SORTED_SET, SORTED_SET_2, SORTED_SET_ZIPLIST, SORTED_SET_LISTPACK), SORTED_SETS),
}
#: The newest version of Redis's files.
NEWEST_VERSION = 14
#: The version of Valkey 9's own files.
VALKEY_VERSION = 80
#: The version of Redis's files that has the same encodings as Valkey 9's files.
_LIKE = 11


def forms_version(version: int) -> int:
    """Return the version of Redis's files with the same encodings as this version."""
    return _LIKE if version == VALKEY_VERSION else version


# -- reading past values --------------------------------------------------------------------------------------------

#: Bytes in place of the length of a score's text: the score is infinite or not a number, and has no text.
_NO_TEXT = (253, 254, 255)
#: Opcode of the end of a module's value.
_MODULE_END = 0
#: Opcode of a string in a module's value.
_MODULE_STRING = 5
#: Opcodes of integers in a module's value.
_MODULE_NUMBERS = (1, 2)
#: Opcodes of floating-point numbers in a module's value -> size of the number in bytes.
_MODULE_FLOATS = {3: 4, 4: 8}
_ID_SIZE, _TIME_SIZE = 16, 8
_NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def skip(reader: Reader, kind: int) -> Steps[None]:
    """Read past a value with the type byte ``kind``, which must not be that of a module or an expiring hash."""
    if kind in group_fields.FORMS:
        yield from _stream(reader, kind)
    elif kind in _ELEMENTS:
        yield from _elements(reader, _ELEMENTS[kind])
    else:
        # A string, or elements packed into a string.
        yield from whole(reader, reader.stored)


def module_name(number: int) -> str:
    """Return the name of a module's type from its number: nine letters of six bits, followed by ten bits of version."""
    return "".join(_NAME_LETTERS[number >> 10 + 6 * letter & 63] for letter in range(8, -1, -1))


def skip_module_data(reader: Reader) -> Steps[None]:
    """Read past a module's data, including the end opcode."""

    def read_item() -> bool:
        opcode = reader.length()
        if opcode in _MODULE_NUMBERS:
            reader.length()
        elif opcode in _MODULE_FLOATS:
            reader.read(_MODULE_FLOATS[opcode])
        elif opcode == _MODULE_STRING:
            reader.stored()
        elif opcode != _MODULE_END:
            raise BadFormatError
        return opcode != _MODULE_END

    while (yield from whole(reader, read_item)):
        yield False


def _elements(reader: Reader, skip_element: Callable[[Reader], object]) -> Steps[None]:
    """Read past elements, which are preceded by their number."""
    left = yield from whole(reader, reader.length)
    while left:
        left -= 1
        yield from whole(reader, lambda: skip_element(reader))
        if not left % pace.ELEMENTS:
            yield False


def _scored_text(reader: Reader) -> None:
    """Read past a member and the text of its score."""
    reader.stored()
    size = reader.byte()
    if size not in _NO_TEXT:
        reader.read(size)


#: Type byte -> the function that reads past one element, for values that are preceded by the number of their elements.
_ELEMENTS: dict[int, Callable[[Reader], object]] = {
    **dict.fromkeys((LIST, SET, QUICKLIST), Reader.stored),
    HASH: lambda reader: (reader.stored(), reader.stored()),
    QUICKLIST_2: lambda reader: (reader.length(), reader.stored()),
    SORTED_SET: _scored_text,
    SORTED_SET_2: lambda reader: (reader.stored(), reader.read(8)),
}


# -- streams ----------------------------------------------------------------------------------------------------------


def _stream(reader: Reader, form: int) -> Steps[None]:
    # Each node is its key and its entries.
    yield from _elements(reader, lambda reader: (reader.stored(), reader.stored()))
    # Length and last ID; since 7.0, also the first ID, the greatest deleted ID and the number of added entries.
    yield from whole(reader, lambda: _lengths(reader, 8 if form >= group_fields.V7_0 else 3))
    for _ in range((yield from whole(reader, reader.length))):
        yield from _named(reader, group_fields.GROUP, form)
        yield from _elements(reader, lambda reader: (reader.read(_ID_SIZE + _TIME_SIZE), reader.length()))
        for _ in range((yield from whole(reader, reader.length))):
            yield from _named(reader, group_fields.CONSUMER, form)
            yield from _elements(reader, _entry_id)
        if form == group_fields.V8_8:
            yield from _elements(reader, _entry_id)
    if form >= group_fields.V8_6:
        yield from whole(reader, lambda: _lengths(reader, 2))
        for _ in range((yield from whole(reader, reader.length))):
            yield from whole(reader, reader.stored)
            yield from _elements(reader, _sent_id)
        yield from whole(reader, lambda: _lengths(reader, 2))


def _lengths(reader: Reader, count: int) -> None:
    for _ in range(count):
        reader.length()


def _sent_id(reader: Reader) -> None:
    """Read past an idempotent ID and the ID of its entry."""
    reader.stored()
    _lengths(reader, 2)


def _entry_id(reader: Reader) -> bytes:
    return reader.read(_ID_SIZE)


def _named(reader: Reader, fields: tuple[group_fields.Field, ...], form: int) -> Steps[None]:
    """Read past the name and the fields of a group or consumer."""
    yield from whole(reader, lambda: (reader.stored(), group_fields.load(fields, reader, form)))


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
        return (yield from whole(reader, reader.string))
    if kind in group_fields.FORMS:
        return (yield from stream_reader.load(reader, kind, makers.new_stream(), makers.idmp_defaults))
    if kind not in _HASHES:
        return (yield from scan(reader, kind))
    if kind in _OF_ONE_PRODUCT and is_valkey != (kind == VALKEY_HASH):
        raise _unknown(kind)
    words = yield from _HASHES[kind](reader)
    if words is None:
        return Unsupported(FIELD_EXPIRY)
    return (yield from _hash_of(words))


def scan(reader: Reader, kind: int, *, is_valkey: bool = False) -> Steps[Unsupported | None]:
    """Read past a value with the type byte ``kind``; return whether its type is ``Unsupported``, or None."""
    if kind == MODULE:
        number = yield from whole(reader, reader.length)
        yield from skip_module_data(reader)
        return Unsupported(module_values(module_name(number)))
    if kind in _OF_ONE_PRODUCT:
        if is_valkey != (kind == VALKEY_HASH):
            raise _unknown(kind)
        return Unsupported(FIELD_EXPIRY) if (yield from _HASHES[kind](reader)) is None else None
    if kind not in UNSUPPORTED and kind not in _HASHES and kind not in group_fields.FORMS and kind != STRING:
        raise _unknown(kind)
    yield from skip(reader, kind)
    return Unsupported(UNSUPPORTED[kind]) if kind in UNSUPPORTED else None


def _unknown(kind: int) -> BadFormatError:
    return BadFormatError(f"a value of type {kind} is not supported")


# -- hashes -----------------------------------------------------------------------------------------------------------


def _hash_of(words: list[bytes]) -> Steps[Hash]:
    fields = Hash()
    if not words or len(words) % 2:
        raise BadFormatError("a value without elements" if not words else "")
    for part in _consumed(words):
        for at in range(0, len(part), 2):
            if not fields.put(part[at], part[at + 1]):
                raise BadFormatError
        yield False
    return fields


def _consumed(words: list[bytes]) -> Iterator[list[bytes]]:
    """Yield parts of the words, and remove each, because freeing all of them at the end would block the server."""
    words.reverse()
    while words:
        yield words[: -_IN_MEMORY - 1 : -1]
        del words[-_IN_MEMORY:]


def _pairs(reader: Reader) -> Steps[list[bytes]]:
    """Read fields and values, preceded by the number of fields."""
    count = 2 * (yield from whole(reader, reader.length))
    words: list[bytes] = []
    while len(words) < count:
        some = min(count - len(words), pace.ELEMENTS)
        words += yield from whole(reader, lambda: [reader.string() for _ in range(some)])  # noqa: B023
        yield False
    return words


def _packed(unpack: Callable[[bytes], list[bytes]]) -> Callable[[Reader], Steps[list[bytes]]]:
    """Return a function that reads a value encoded as one string."""

    def read(reader: Reader) -> Steps[list[bytes]]:
        return unpack((yield from whole(reader, reader.string)))

    return read


def _expiring(reader: Reader) -> Steps[list[bytes] | None]:
    """Read Redis's encoding: the earliest deadline, then the time, the name and the value of each field.

    A time is 0 if the field does not expire.
    """
    yield from whole(reader, lambda: reader.read(8))
    return (yield from _fields(reader, lambda: (reader.length() != 0, reader.string(), reader.string())))


def _expiring_listpack(reader: Reader) -> Steps[list[bytes] | None]:
    """Read Redis's listpack encoding: the earliest deadline, then [field, value, deadline, ...]; 0: no expiry."""
    words = yield from whole(reader, lambda: (reader.read(8), read_listpack(reader.string()))[1])
    if len(words) % 3:
        raise BadFormatError
    if any(word != b"0" for word in words[2::3]):
        return None
    return [word for at in range(0, len(words), 3) for word in words[at : at + 2]]


def _valkey(reader: Reader) -> Steps[list[bytes] | None]:
    """Read Valkey's encoding: each field with its value and its deadline; -1: no expiry."""

    def field() -> tuple[bool, bytes, bytes]:
        name, value = reader.string(), reader.string()
        return reader.unpack("<q") != -1, name, value

    return (yield from _fields(reader, field))


def _fields(reader: Reader, field: Callable[[], tuple[bool, bytes, bytes]]) -> Steps[list[bytes] | None]:
    """Read fields, preceded by their number; return [field, value, ...], or None if a field expires.

    ``field`` reads a field and returns whether it expires, its name and its value.
    """
    words: list[bytes] = []
    expires = False
    for number in range((yield from whole(reader, reader.length))):
        has_deadline, name, value = yield from whole(reader, field)
        expires = expires or has_deadline
        words += (name, value) if not expires else ()
        if not number % pace.ELEMENTS:
            yield False
    return None if expires else words


#: Type byte -> the function that reads [field, value, ...]; None if a field expires.
_HASHES: dict[int, Callable[[Reader], Steps[Any]]] = {
    HASH: _pairs,
    HASH_ZIPMAP: _packed(read_zipmap),
    HASH_ZIPLIST: _packed(read_ziplist),
    HASH_LISTPACK: _packed(read_listpack),
    EXPIRING_HASH: _expiring,
    EXPIRING_LISTPACK: _expiring_listpack,
    VALKEY_HASH: _valkey,
}
