"""Decoding of values in Redis's RDB format, in steps, with the reader for each type byte.

Values of unsupported types are read past, without their content, so that reading can continue after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.core.formats.rdb import skipper
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
    MODULE,
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
        yield from skipper.skip_module_data(reader)
        return Unsupported(module_values(skipper.module_name(number)))
    if kind in _OF_ONE_PRODUCT:
        if is_valkey != (kind == VALKEY_HASH):
            raise _unknown(kind)
        return Unsupported(FIELD_EXPIRY) if (yield from _HASHES[kind](reader)) is None else None
    if kind not in UNSUPPORTED and kind not in _HASHES and kind not in forms.FORMS and kind != STRING:
        raise _unknown(kind)
    yield from skipper.skip(reader, kind)
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
