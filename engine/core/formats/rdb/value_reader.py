"""Decoding of values in Redis's RDB format, in steps, with the reader for each type byte.

Values of unsupported types are read past, without their content, so that reading can continue after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.core.formats.rdb.packed import read_ziplist, read_zipmap
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
    LIST,
    MODULE,
    QUICKLIST,
    QUICKLIST_2,
    SET,
    SORTED_SET,
    SORTED_SET_2,
    STRING,
    UNSUPPORTED,
    VALKEY_HASH,
)
from engine.core.formats.unsupported_types import FIELD_EXPIRY, module_values
from engine.core.keyspace.hash import Hash
from engine.core.streams.stream import Stream
from engine.settings.config import Config

#: Types that occur only in files of Redis, or only in files of Valkey.
_OF_ONE_PRODUCT = (EXPIRING_HASH, EXPIRING_LISTPACK, VALKEY_HASH)
#: Number of elements added to a value per step, after all have been read.
_IN_MEMORY = 1024
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
    if kind in forms.FORMS:
        return (yield from stream_reader.load(reader, kind, makers.new_stream(), makers.idmp_defaults))
    if kind == MODULE:
        number = yield from whole(reader, reader.length)
        yield from skip_module_data(reader)
        return Unsupported(module_values(module_name(number)))
    if kind in UNSUPPORTED:
        yield from _skip(reader, kind)
        return Unsupported(UNSUPPORTED[kind])
    if kind not in _HASHES or (kind in _OF_ONE_PRODUCT and is_valkey != (kind == VALKEY_HASH)):
        raise BadFormatError(f"a value of type {kind} is not supported")
    words = yield from _HASHES[kind](reader)
    if words is None:
        return Unsupported(FIELD_EXPIRY)
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
        some = min(count - len(words), ELEMENTS)
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
        if not number % ELEMENTS:
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


# -- values that are read past ----------------------------------------------------------------------------------------


def _skip(reader: Reader, kind: int) -> Steps[None]:
    """Read past a value of one of the types in ``UNSUPPORTED``."""
    skip_element = _ELEMENTS.get(kind)
    if skip_element is None:
        # All elements are packed into one string.
        yield from whole(reader, reader.stored)
        return
    left = yield from whole(reader, reader.length)
    while left:
        left -= 1
        yield from whole(reader, lambda: skip_element(reader))
        if not left % ELEMENTS:
            yield False


def _skip_scored_text(reader: Reader) -> None:
    """Read past a member and the text of its score."""
    reader.stored()
    size = reader.byte()
    if size not in _NO_TEXT:
        reader.read(size)


#: Type byte -> the function that reads past one element, for values that are preceded by the number of their elements.
_ELEMENTS: dict[int, Callable[[Reader], object]] = {
    **dict.fromkeys((LIST, SET, QUICKLIST), Reader.stored),
    QUICKLIST_2: lambda reader: (reader.length(), reader.stored()),
    SORTED_SET: _skip_scored_text,
    SORTED_SET_2: lambda reader: (reader.stored(), reader.read(8)),
}


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


_NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def module_name(number: int) -> str:
    """Return the name of a module's type from its number: nine letters of six bits, followed by ten bits of version."""
    return "".join(_NAME_LETTERS[number >> 10 + 6 * letter & 63] for letter in range(8, -1, -1))
