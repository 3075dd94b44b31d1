"""Values in Redis's RDB format, both ways: which type byte stands for what, and how it is read in steps.

What the engine has no type for (sorted sets, data of modules, hashes whose fields expire) is read as well, to the
same exactness, so that a file can be read on behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from engine.core.formats.rdb import stream_forms, stream_reader, stream_writer
from engine.core.formats.rdb.packed import intset, read_intset, read_ziplist, read_zipmap
from engine.core.formats.rdb.primitives import (
    BadFormatError,
    Reader,
    Steps,
    length,
    listpack,
    read_listpack,
    string,
    whole,
)
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.members import Form, Members, SetLimits, set_limits
from engine.core.streams.stream import Stream
from engine.settings.config import Config

_STRING, _LIST, _SET, _SORTED_SET, _HASH, _SORTED_SET_2, _MODULE = 0, 1, 2, 3, 4, 5, 7
_HASH_ZIPMAP, _LIST_ZIPLIST, _INTSET, _SORTED_SET_ZIPLIST, _HASH_ZIPLIST, _QUICKLIST = 9, 10, 11, 12, 13, 14
_HASH_LISTPACK, _SORTED_SET_LISTPACK, _QUICKLIST_2, _SET_LISTPACK = 16, 17, 18, 20
#: Hashes whose fields may expire: Redis's two forms, and Valkey's.
_EXPIRING_HASH, _EXPIRING_LISTPACK, _VALKEY_HASH = 24, 25, 22
_OF_ONE_PRODUCT = (_EXPIRING_HASH, _EXPIRING_LISTPACK, _VALKEY_HASH)
#: The version of files from which on sets are written as listpacks.
_SET_LISTPACK_SINCE = 11
_PLAIN, _PACKED = 1, 2
#: Elements of a list in a node of DUMP's form have about this many bytes together; longer ones stand alone.
_NODE_BYTES = 4096
#: Elements in one step.
_AT_ONCE = 64
_IN_MEMORY = 1024
#: What a value of a module consists of: its end, two kinds of numbers, two of floating-point ones, strings.
_MODULE_END, _MODULE_STRING, _MODULE_NUMBERS, _MODULE_FLOATS = 0, 5, (1, 2), {3: 4, 4: 8}
_EXPIRES = "hash with fields that expire"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of which the engine can keep nothing; ``kind`` says what it is, as a message names it."""

    kind: str


@dataclass(frozen=True, slots=True)
class Makers:
    """What values are made with: new streams, and the settings that they depend on."""

    new_stream: Callable[[], Stream]
    #: stream-idmp-duration and stream-idmp-maxsize.
    idmp_defaults: Callable[[], tuple[int, int]]
    #: The most fields and the longest word of a small hash.
    hash_limits: Callable[[], tuple[int, int]]
    set_limits: Callable[[], SetLimits]


def makers(config: Config, new_stream: Callable[[], Stream]) -> Makers:
    """What values are made with under this configuration."""
    integer = config.integer
    return Makers(
        new_stream,
        lambda: (integer("stream-idmp-duration"), integer("stream-idmp-maxsize")),
        lambda: (integer("hash-max-listpack-entries"), integer("hash-max-listpack-value")),
        lambda: set_limits(config),
    )


# -- writing --------------------------------------------------------------------------------------------------------


def dumped(value: Any) -> tuple[int, Iterator[bytes]]:
    """The RDB version of the first server that reads a value in DUMP's form, and that form in pieces, type byte first.

    The value must not change before the last piece is made.
    """
    if isinstance(value, Stream):
        form = stream_forms.form_of(value)
        return stream_forms.RDB_VERSIONS[form], chain((bytes((form,)),), stream_writer.encode(value, form))
    if isinstance(value, deque):
        return 10, _list_pieces(value)
    kind, pieces = encoded(value, 10)
    return 10, chain((bytes((kind,)),), pieces)


def dumped_fields(count: int, words: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """The same of a big hash of so many fields, given its fields and values."""
    return 10, chain((bytes((_HASH,)),), _strings(count, words))


def dumped_members(count: int, words: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """The same of a big set of so many members, given these."""
    return 10, chain((bytes((_SET,)),), _strings(count, words))


def encoded(value: Any, version: int) -> tuple[int, Iterator[bytes]]:
    """The type byte of a value in a file of this version, and the rest in pieces."""
    if isinstance(value, Stream):
        form = min(stream_forms.newest_form(version), stream_forms.form_of(value))
        return form, stream_writer.encode(value, form)
    if isinstance(value, Hash):
        if not value.big:
            packed = listpack([word for pair in value.items() for word in pair])
            return _HASH_LISTPACK, iter((length(len(packed)) + packed,))
        return _HASH, _strings(len(value), (word for pair in value.items() for word in pair))
    if isinstance(value, Members):
        return _set_pieces(value, version)
    if isinstance(value, deque):
        return _LIST, _strings(len(value), iter(value))
    return _STRING, iter((string(bytes(value)),))


def _set_pieces(members: Members, version: int) -> tuple[int, Iterator[bytes]]:
    if members.form is Form.NUMBERS:
        return _INTSET, iter((string(intset(sorted(map(int, members)))),))
    if members.form is Form.SMALL and version >= _SET_LISTPACK_SINCE:
        packed = listpack(list(members))
        return _SET_LISTPACK, iter((length(len(packed)) + packed,))
    return _SET, _strings(len(members), iter(members))


def _strings(count: int, words: Iterator[bytes]) -> Iterator[bytes]:
    parts = [length(count)]
    size = 0
    for word in words:
        parts.append(string(word))
        size += len(word)
        if len(parts) >= _AT_ONCE or size > _NODE_BYTES:
            yield b"".join(parts)
            parts.clear()
            size = 0
    yield b"".join(parts)


def _list_pieces(items: deque[bytes]) -> Iterator[bytes]:
    nodes: list[bytes] = []
    for node in _list_nodes(items):
        # (How many nodes there are stands before the first one.)
        nodes.append(node)
        yield b""
    yield bytes((_QUICKLIST_2,)) + length(len(nodes))
    yield from nodes


def _list_nodes(items: deque[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0

    def packed() -> Iterator[bytes]:
        if waiting:
            node = listpack(waiting)
            yield length(_PACKED) + length(len(node)) + node
            waiting.clear()

    for item in items:
        if size + len(item) > _NODE_BYTES:
            yield from packed()
            size = 0
        if len(item) > _NODE_BYTES:
            yield length(_PLAIN) + length(len(item)) + item
        else:
            waiting.append(item)
            size += len(item)
    yield from packed()


# -- reading --------------------------------------------------------------------------------------------------------


def load(reader: Reader, kind: int, makers: Makers, *, is_valkey: bool = False) -> Steps[Any]:
    """The value whose type byte was ``kind``, :class:`Unknown` where the engine has no such type; a BadFormatError
    where it is damaged, empty, or of a type that nobody knows. ``is_valkey``: it is of Valkey's own format.
    """
    if kind == _STRING:
        return (yield from whole(reader, reader.string))
    if kind in stream_forms.FORMS:
        return (yield from stream_reader.load(reader, kind, makers.new_stream(), makers.idmp_defaults))
    if kind == _MODULE:
        number = yield from whole(reader, reader.length)
        yield from skip_module_data(reader)
        return Unknown(f"value of the module type {module_name(number)}")
    shape = _SHAPES.get(kind)
    if shape is None or (kind in _OF_ONE_PRODUCT and is_valkey != (kind == _VALKEY_HASH)):
        raise BadFormatError(f"a value of type {kind} is not known here")
    words = yield from shape(reader)
    if not words:
        raise BadFormatError("a value without elements")
    if kind in _SORTED_SETS:
        return Unknown("sorted set")
    if isinstance(words, Unknown):
        return words
    if kind in _LISTS:
        return deque(words)
    return (yield from _set_of(words, makers) if kind in _SETS else _hash_of(words, makers))


def _set_of(words: list[bytes], makers: Makers) -> Steps[Members]:
    members, limits = Members(), makers.set_limits()
    members.expect(len(words), limits)
    for at, word in enumerate(words):
        if not members.put(word, limits):
            raise BadFormatError
        if not at % _IN_MEMORY:
            yield False
    return members


def _hash_of(words: list[bytes], makers: Makers) -> Steps[Hash]:
    fields, limits = Hash(), makers.hash_limits()
    if len(words) % 2:
        raise BadFormatError
    for at in range(0, len(words), 2):
        if not fields.put(words[at], words[at + 1], limits):
            raise BadFormatError
        if not at % _IN_MEMORY:
            yield False
    return fields


def _words(reader: Reader, per_element: int = 1) -> Steps[list[bytes]]:
    """Strings, of which so many make up an element; how many elements stands first."""
    count = per_element * (yield from whole(reader, reader.length))
    words: list[bytes] = []
    while len(words) < count:
        some = min(count - len(words), _AT_ONCE)
        words += yield from whole(reader, lambda: [reader.string() for _ in range(some)])  # noqa: B023
        yield False
    return words


_Unpack = Callable[[bytes], list[bytes]]


def _packed(unpack: _Unpack) -> Callable[[Reader], Steps[list[bytes]]]:
    """A shape that is one string."""

    def read(reader: Reader) -> Steps[list[bytes]]:
        return unpack((yield from whole(reader, reader.string)))

    return read


def _pairs(reader: Reader) -> Steps[list[bytes]]:
    return (yield from _words(reader, 2))


def _expiring(reader: Reader) -> Steps[list[bytes] | Unknown]:
    """Redis's: the nearest expiry, then for each field how much later it expires, plus 1; 0: never."""
    yield from whole(reader, lambda: reader.read(8))
    left = yield from whole(reader, reader.length)
    return (yield from _fields(reader, left, lambda: (reader.length(), reader.string(), reader.string()), 0))


def _valkey(reader: Reader) -> Steps[list[bytes] | Unknown]:
    """Valkey's: each field with its expiry in milliseconds since the epoch; -1: never."""

    def one() -> tuple[int, bytes, bytes]:
        field, value = reader.string(), reader.string()
        return reader.unpack("<q"), field, value

    left = yield from whole(reader, reader.length)
    return (yield from _fields(reader, left, one, -1))


def _fields(
    reader: Reader, count: int, one: Callable[[], tuple[int, bytes, bytes]], never: int
) -> Steps[list[bytes] | Unknown]:
    words: list[bytes] = []
    expires = False
    for number in range(count):
        expiry, field, value = yield from whole(reader, one)
        expires = expires or expiry != never
        words += (field, value)
        if not number % _AT_ONCE:
            yield False
    return Unknown(_EXPIRES) if expires else words


def _expiring_listpack(reader: Reader) -> Steps[list[bytes] | Unknown]:
    """Redis's: the nearest expiry, then [field, value, expiry, ...]; 0: never."""
    words = yield from whole(reader, lambda: (reader.read(8), read_listpack(reader.string()))[1])
    if len(words) % 3:
        raise BadFormatError
    if any(word != b"0" for word in words[2::3]):
        return Unknown(_EXPIRES)
    return [word for at in range(0, len(words), 3) for word in words[at : at + 2]]


def _quicklist(reader: Reader) -> Steps[list[bytes]]:
    items: list[bytes] = []
    for _ in range((yield from whole(reader, reader.length))):
        items += read_ziplist((yield from whole(reader, reader.string)))
        yield False
    return items


def _quicklist_2(reader: Reader) -> Steps[list[bytes]]:
    items: list[bytes] = []
    for _ in range((yield from whole(reader, reader.length))):
        container, node = yield from whole(reader, lambda: (reader.length(), reader.string()))
        if container == _PLAIN:
            items.append(node)
        elif container == _PACKED:
            items += read_listpack(node)
        else:
            raise BadFormatError
        yield False
    return items


def _sorted_set(reader: Reader) -> Steps[list[bytes]]:
    def member() -> bytes:
        word = reader.string()
        size = reader.byte()
        reader.read(size if size < 253 else 0)
        return word

    return (yield from _members(reader, member))


def _sorted_set_2(reader: Reader) -> Steps[list[bytes]]:
    return (yield from _members(reader, lambda: (reader.string(), reader.read(8))[0]))


def _members(reader: Reader, member: Callable[[], bytes]) -> Steps[list[bytes]]:
    words = []
    for number in range((yield from whole(reader, reader.length))):
        words.append((yield from whole(reader, member)))
        if not number % _AT_ONCE:
            yield False
    return words


def _packed_sorted_set(unpack: _Unpack) -> Callable[[Reader], Steps[list[bytes]]]:
    """Members and scores in one string."""

    def read(reader: Reader) -> Steps[list[bytes]]:
        words = unpack((yield from whole(reader, reader.string)))
        if len(words) % 2:
            raise BadFormatError
        return words[::2]

    return read


def skip_module_data(reader: Reader) -> Steps[None]:
    """What a module has written, up to its end."""

    def one() -> bool:
        what = reader.length()
        if what in _MODULE_NUMBERS:
            reader.length()
        elif what in _MODULE_FLOATS:
            reader.read(_MODULE_FLOATS[what])
        elif what == _MODULE_STRING:
            reader.string()
        elif what != _MODULE_END:
            raise BadFormatError
        return what != _MODULE_END

    while (yield from whole(reader, one)):
        yield False


_NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def module_name(number: int) -> str:
    """The name of a module's type: nine letters of six bits, before a version of ten."""
    return "".join(_NAME_LETTERS[number >> 10 + 6 * place & 63] for place in range(8, -1, -1))


_Shapes = dict[int, Callable[[Reader], Steps[Any]]]
_LISTS: _Shapes = {
    _LIST: _words,
    _LIST_ZIPLIST: _packed(read_ziplist),
    _QUICKLIST: _quicklist,
    _QUICKLIST_2: _quicklist_2,
}
_HASHES: _Shapes = {
    _HASH: _pairs,
    _HASH_ZIPMAP: _packed(read_zipmap),
    _HASH_ZIPLIST: _packed(read_ziplist),
    _HASH_LISTPACK: _packed(read_listpack),
    _EXPIRING_HASH: _expiring,
    _EXPIRING_LISTPACK: _expiring_listpack,
    _VALKEY_HASH: _valkey,
}
_SETS: _Shapes = {_SET: _words, _INTSET: _packed(read_intset), _SET_LISTPACK: _packed(read_listpack)}
_SORTED_SETS: _Shapes = {
    _SORTED_SET: _sorted_set,
    _SORTED_SET_2: _sorted_set_2,
    _SORTED_SET_ZIPLIST: _packed_sorted_set(read_ziplist),
    _SORTED_SET_LISTPACK: _packed_sorted_set(read_listpack),
}
_SHAPES = _LISTS | _HASHES | _SETS | _SORTED_SETS
