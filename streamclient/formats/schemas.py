"""Schemas as values, the header by which a value names its schema, and bounds of decoding.

A value that was written with a registry begins with a zero byte and the schema's ID in four bytes, big-endian. In
Protobuf, the path of the message in its file follows: the number of indexes and the indexes, as zigzag varints. A
single zero byte means the first message.

Bounds keep the time and memory of decoding proportional to the size of a value, which is malformed beyond a bound. It
may be nested in up to 200 levels, and its numbers may have up to 4,300 digits. An empty map of MessagePack has one
byte, and a list member of Avro may have none. So a value in these formats may have one item for every 8 bytes, or
65,536 items if that is more. Items are records, maps, lists, and list members without bytes. In Avro, they are counted
before a value is decoded unless it cannot exceed the bound.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal, get_args

from streamclient.errors import error

#: Types of schemas, named as in registries.
Kind = Literal["AVRO", "PROTOBUF", "JSON"]

#: Formats of a decoder; `auto` recognises the format of each value.
Format = Literal["auto", "json", "msgpack", "avro", "protobuf"]
FORMATS: tuple[Format, ...] = get_args(Format)

HEADER = 5  # size in bytes
_FORMATS = {"fastavro": "Avro", "google": "Protobuf", "msgpack": "MessagePack"}


class UndecodableError(ValueError):
    """A value that is invalid in its format, or does not fit its schema."""


@dataclass(frozen=True)
class Schema:
    """A schema and the schemas that it refers to.

    `text`: JSON for Avro and JSON Schema; for Protobuf, the text of a `.proto` file or the Base64 of a
    FileDescriptorProto. `references`: the schemas to which the text refers by name.
    """

    kind: Kind
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Reference:
    """A schema to which another schema refers by `name`. Outside of registries, `subject` is empty and `version` 0."""

    name: str
    schema: Schema
    subject: str = ""
    version: int = 0


def split(value: bytes) -> tuple[int, bytes]:
    """Return the schema's ID and the bytes after the header. Raises UndecodableError without a header."""
    if len(value) < HEADER or value[0]:
        raise UndecodableError("the value does not begin with a zero byte and the ID of a schema")
    return int.from_bytes(value[1:HEADER], "big"), value[HEADER:]


def header(schema_id: int, indexes: tuple[int, ...] | None = None) -> bytes:
    """Return the header that names a schema and, for Protobuf, the path of the message (`indexes`)."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    if indexes is None:
        return head
    if indexes == (0,):
        return head + b"\0"
    return head + b"".join(map(_varint, (len(indexes), *indexes)))


def split_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the path of a message in its file, and the bytes of the message. Raises UndecodableError if truncated."""
    count, at = _varint_at(payload, 0)
    if not count:
        return (0,), payload[at:]
    if not 0 < count <= len(payload):
        raise UndecodableError(f"the value's header names {count} indexes of a message")
    found: list[int] = []
    for _ in range(count):
        index, at = _varint_at(payload, at)
        found.append(index)
    return tuple(found), payload[at:]


def _varint(number: int) -> bytes:
    number <<= 1  # zigzag encoding of a number that is not negative
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def _varint_at(payload: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(payload) or shift > 63:
            raise UndecodableError("the value's header is cut off")
        number |= (payload[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if payload[at - 1] < 128:
            return (number >> 1) ^ -(number & 1), at


def package(name: str) -> Any:
    """Return a module of an optional package. Raises FORMAT_PACKAGE_MISSING, which names the extra to install."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        top = name.partition(".")[0]
        if missing.name not in (top, name):
            raise
        raise error("FORMAT_PACKAGE_MISSING", format=_FORMATS[top], package=missing.name) from missing


# -- bounds -----------------------------------------------------------------------------------------------------------

#: Maximum number of items in a value of Avro or MessagePack of up to `ITEMS * BYTES_PER_ITEM` bytes.
ITEMS = 65_536
#: Number of bytes per item in longer values.
BYTES_PER_ITEM = 8
#: Maximum number of columns of a schema, including nested members, with all references to named types expanded.
MEMBERS = 10_000
#: Maximum number of nested levels.
LEVELS = 200
#: Maximum number of digits of a number. Python's own limit for integers is the same.
DIGITS = 4_300


def most_items(size: int) -> int:
    """Return the maximum number of items of a value with this size in bytes."""
    return max(ITEMS, size // BYTES_PER_ITEM)


class Budget:
    """Number of items that may still follow in a value. `most`: maximum number of items in the value."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def spend(self, count: int = 1) -> None:
        """Count items. Raises UndecodableError above the maximum."""
        self._left -= count
        if self._left < 0:
            raise UndecodableError(f"there are more than {self._most:,} records, maps and lists")


def is_deep(value: Any, levels: int = LEVELS) -> bool:
    """Return whether a value is nested in more than this number of levels."""
    level = [value]
    for _ in range(levels):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list, tuple))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)
