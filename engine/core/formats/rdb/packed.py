"""The packed encodings of Redis before 7.0, which newer servers still read: ziplists, zipmaps and intsets.

The engine writes only intsets.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from engine.core.formats.rdb.primitives import BadFormatError

_BIG = 0xFE


def read_ziplist(data: bytes) -> list[bytes]:
    """Return the words of a ziplist, numbers as text."""
    if len(data) < 11:
        raise BadFormatError
    total, _, count = struct.unpack_from("<IIH", data)
    if total != len(data) or data[-1] != 0xFF:
        raise BadFormatError
    words: list[bytes] = []
    at, last = 10, len(data) - 1
    try:
        while at < last:
            # An element starts with the length of the preceding element, for reading backwards.
            at += 1 if data[at] < _BIG else 5
            at, word = _ziplist_element(data, at)
            words.append(word)
    except IndexError:
        raise BadFormatError from None
    if at != last or count not in (len(words), 65535):
        raise BadFormatError
    return words


def _ziplist_element(data: bytes, at: int) -> tuple[int, bytes]:
    """Return the end of the element whose encoding starts at ``at``, and the element as text."""
    first = data[at]
    if first < 0xC0:
        if first < 0x40:
            size, at = first, at + 1
        elif first < 0x80:
            size, at = (first & 63) << 8 | data[at + 1], at + 2
        else:
            size, at = int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
        if at + size >= len(data):
            raise BadFormatError
        return at + size, data[at : at + size]
    width = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}.get(first)
    if width is not None:
        end = at + 1 + width
        if end >= len(data):
            raise BadFormatError
        return end, b"%d" % int.from_bytes(data[at + 1 : end], "little", signed=True)
    if 0xF1 <= first <= 0xFD:
        return at + 1, b"%d" % ((first & 15) - 1)
    raise BadFormatError


def read_zipmap(data: bytes) -> list[bytes]:
    """Return the [field, value, ...] of a zipmap."""
    words: list[bytes] = []
    at = 1
    try:
        while data[at] != 0xFF:
            size, at = _zipmap_length(data, at)
            # A value's length is followed by a byte with the number of unused bytes after the value.
            free = 0
            if len(words) % 2:
                free = data[at]
                at += 1
            if at + size + free >= len(data):
                raise BadFormatError
            words.append(data[at : at + size])
            at += size + free
    except IndexError:
        raise BadFormatError from None
    if at != len(data) - 1 or len(words) % 2:
        raise BadFormatError
    return words


def _zipmap_length(data: bytes, at: int) -> tuple[int, int]:
    if data[at] < _BIG:
        return data[at], at + 1
    if data[at] > _BIG:
        raise BadFormatError
    return int.from_bytes(data[at + 1 : at + 5], "little"), at + 5


def intset(numbers: list[int]) -> bytes:
    """Encode ascending integers as an intset. All take 2, 4 or 8 bytes, as required by the largest."""
    bits = max(numbers[-1], ~numbers[0]).bit_length() + 1
    width, letter = (2, "h") if bits <= 16 else (4, "i") if bits <= 32 else (8, "q")
    return struct.pack(f"<II{len(numbers)}{letter}", width, len(numbers), *numbers)


def read_intset(data: bytes) -> list[bytes]:
    """Return the members of an intset as text, in ascending order."""
    if len(data) < 8:
        raise BadFormatError
    width, count = struct.unpack_from("<II", data)
    if width not in (2, 4, 8) or len(data) != 8 + width * count:
        raise BadFormatError
    parts = (data[at : at + width] for at in range(8, len(data), width))
    numbers = [int.from_bytes(part, "little", signed=True) for part in parts]
    if any(current >= following for current, following in pairwise(numbers)):
        raise BadFormatError
    return [b"%d" % number for number in numbers]
