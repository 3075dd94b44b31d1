"""The packed encodings of hashes in Redis before 7.0: ziplists and zipmaps. The engine only reads them."""

from __future__ import annotations

import struct

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
