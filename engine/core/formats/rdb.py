"""The building blocks of Redis's RDB format, as DUMP and RESTORE use it: lengths, strings, listpacks, the checksum.

It writes what every server since 7.0 reads, without compression. It reads what those servers write, compressed strings
included. Payloads come from outside: whatever is wrong with one raises :class:`BadFormatError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache, lru_cache

import numpy as np

_POLYNOMIAL = 0x95AC9329AC4BC9B5


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_CRC_TABLE = _table()
_CRC_ARRAY = np.array(_CRC_TABLE, np.uint64)
#: Long payloads are cut into lanes of so many bytes, whose checksums are computed together; short ones are not.
_LANE_BYTES, _FEWEST_LANES = 512, 16


class BadFormatError(Exception):
    """The payload is damaged, or of an unknown form."""


def crc64(data: bytes | memoryview, crc: int = 0) -> int:
    """The 64-bit checksum at the end of a payload; ``crc`` is that of what stands before ``data``."""
    lanes = len(data) // _LANE_BYTES
    if lanes >= _FEWEST_LANES:
        crc = _crc_of_lanes(data, lanes, crc)
    table = _CRC_TABLE
    for byte in data[lanes * _LANE_BYTES :] if lanes >= _FEWEST_LANES else data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc


def _crc_of_lanes(data: bytes | memoryview, lanes: int, before: int) -> int:
    """The checksum of the first ``lanes`` stretches of :data:`_LANE_BYTES`: of all at once, byte by byte of each.

    A checksum is linear: that of two stretches is the first one's, taken on over as many zeros as the second has bytes,
    XOR the second one's.
    """
    columns = np.ascontiguousarray(np.frombuffer(data, np.uint8, lanes * _LANE_BYTES).reshape(lanes, _LANE_BYTES).T)
    crcs = np.zeros(lanes, np.uint64)
    crcs[0] = before
    for column in columns:
        crcs = _CRC_ARRAY[(crcs & 255).astype(np.uint8) ^ column] ^ (crcs >> np.uint64(8))
    crc, shifted = 0, _after_zeros()
    for one in crcs.tolist():
        for at in range(8):
            one ^= shifted[at][crc >> 8 * at & 255]
        crc = one
    return crc


@cache
def _after_zeros() -> list[list[int]]:
    """For each byte of a checksum, by its place: what it becomes over :data:`_LANE_BYTES` zeros."""
    places = np.arange(8, dtype=np.uint64) * 8
    crcs = np.arange(256, dtype=np.uint64) << places[:, None]
    crcs = _CRC_ARRAY[crcs & 255] ^ (crcs >> np.uint64(8))
    zeros = 1
    while zeros < _LANE_BYTES:
        # Over twice as many: the same once more, for each byte of what came of it.
        crcs = np.bitwise_xor.reduce([crcs[at][(crcs >> place) & 255] for at, place in enumerate(places)])
        zeros *= 2
    table: list[list[int]] = crcs.tolist()
    return table


def small_number(word: bytes) -> int | None:
    """The signed 64-bit number whose canonical text ``word`` is, None where it is none."""
    digits = word[1:] if word[:1] == b"-" else word
    if not digits.isdigit() or len(word) > 20 or (digits[:1] == b"0" and word != b"0"):
        return None
    value = int(word)
    return value if -(1 << 63) <= value < 1 << 63 else None


# -- writing --------------------------------------------------------------------------------------------------------


def length(value: int) -> bytes:
    """A length (or any unsigned 64-bit number)."""
    if value < 1 << 6:
        return bytes((value,))
    if value < 1 << 14:
        return struct.pack(">H", 1 << 14 | value)
    if value < 1 << 32:
        return struct.pack(">BI", 0x80, value)
    return struct.pack(">BQ", 0x81, value)


def string(word: bytes) -> bytes:
    """A string; the text of a number of up to 32 bits is stored as that number."""
    value = small_number(word) if len(word) <= 11 else None
    if value is not None and -(1 << 31) <= value < 1 << 31:
        for code, form, bits in ((0xC0, "<Bb", 7), (0xC1, "<Bh", 15), (0xC2, "<Bi", 31)):
            if -(1 << bits) <= value < 1 << bits:
                return struct.pack(form, code, value)
    return length(len(word)) + word


#: Shorter words of listpacks are cached.
_SHORT_WORD = 64


def _back_length(size: int) -> bytes:
    """The length of an element, which stands behind it, to be read backwards."""
    if size <= 127:
        return bytes((size,))
    groups = 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5
    first, *others = ((size >> 7 * place) & 127 for place in range(groups - 1, -1, -1))
    return bytes((first, *(other | 128 for other in others)))


@lru_cache(4096)
def _with_back_length(word: bytes | int) -> bytes:
    """An element of a listpack with its length behind it. Most words are short, and come often."""
    element = _element(word)
    return element + _back_length(len(element))


def _element(word: bytes | int) -> bytes:
    value = word if isinstance(word, int) else small_number(word)
    if value is None:
        assert isinstance(word, bytes)
        size = len(word)
        if size < 64:
            return bytes((0x80 | size,)) + word
        if size < 4096:
            return bytes((0xE0 | size >> 8, size & 255)) + word
        return b"\xf0" + struct.pack("<I", size) + word
    if 0 <= value < 128:
        return bytes((value,))
    if -4096 <= value < 4096:
        return struct.pack(">H", 0xC000 | value & 0x1FFF)
    for code, size in ((0xF1, 2), (0xF2, 3), (0xF3, 4)):
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return bytes((code,)) + value.to_bytes(size, "little", signed=True)
    return b"\xf4" + value.to_bytes(8, "little", signed=True)


def listpack(words: Iterable[bytes | int]) -> bytes:
    """A listpack of words and numbers."""
    parts: list[bytes] = []
    for word in words:
        if isinstance(word, int) or len(word) < _SHORT_WORD:
            parts.append(_with_back_length(word))
        else:
            element = _element(word)
            parts.append(element + _back_length(len(element)))
    body = b"".join(parts)
    return struct.pack("<IH", len(body) + 7, min(len(parts), 65535)) + body + b"\xff"


# -- reading --------------------------------------------------------------------------------------------------------


class Reader:
    """A cursor over bytes."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        part = self.data[self.at : self.at + size]
        if len(part) != size:
            raise BadFormatError
        self.at += size
        return part

    def byte(self) -> int:
        """The next byte."""
        return self.read(1)[0]

    def unpack(self, form: str) -> int:
        """The next number; ``form`` is its format for :mod:`struct`."""
        value: int = struct.unpack(form, self.read(struct.calcsize(form)))[0]
        return value

    def length(self) -> int:
        """A length."""
        first = self.byte()
        if first < 0x40:
            return first
        if first < 0x80:
            return (first & 63) << 8 | self.byte()
        if first in (0x80, 0x81):
            return self.unpack(">I" if first == 0x80 else ">Q")
        raise BadFormatError

    def string(self) -> bytes:
        """A string, in any of its forms."""
        first = self.data[self.at : self.at + 1]
        if first < b"\xc0":
            return self.read(self.length())
        code = self.byte()
        if code in (0xC0, 0xC1, 0xC2):
            return b"%d" % self.unpack({0xC0: "<b", 0xC1: "<h", 0xC2: "<i"}[code])
        if code != 0xC3:
            raise BadFormatError
        packed, raw = self.length(), self.length()
        return _decompressed(self.read(packed), raw)


def _decompressed(data: bytes, size: int) -> bytes:
    """LZF: literal runs, and copies of what came before."""
    out = bytearray()
    reader = Reader(data)
    while reader.at < len(data):
        control = reader.byte()
        if control < 32:
            out += reader.read(control + 1)
            continue
        count = control >> 5
        if count == 7:
            count += reader.byte()
        start = len(out) - ((control & 31) << 8 | reader.byte()) - 1
        count += 2
        if start < 0 or len(out) + count > size:
            raise BadFormatError
        for place in range(start, start + count):
            out.append(out[place])
    if len(out) != size:
        raise BadFormatError
    return bytes(out)


def _read_element(reader: Reader) -> bytes:
    first = reader.byte()
    if first < 0x80:
        return b"%d" % first
    if first < 0xC0:
        return reader.read(first & 63)
    if first < 0xE0:
        value = (first & 31) << 8 | reader.byte()
        return b"%d" % (value - (1 << 13) if value >= 1 << 12 else value)
    if first < 0xF0:
        return reader.read((first & 15) << 8 | reader.byte())
    if first == 0xF0:
        return reader.read(reader.unpack("<I"))
    sizes = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}
    if first not in sizes:
        raise BadFormatError
    return b"%d" % int.from_bytes(reader.read(sizes[first]), "little", signed=True)


_DIGITS = [b"%d" % number for number in range(128)]


def read_listpack(data: bytes) -> list[bytes]:
    """The words of a listpack, numbers as text."""
    reader = Reader(data)
    total, count = reader.unpack("<I"), reader.unpack("<H")
    if total != len(data) or data[-1:] != b"\xff":
        raise BadFormatError
    words: list[bytes] = []
    while reader.at < len(data) - 1:
        start = reader.at
        first = data[start]
        if first < 0xC0:
            # The most frequent forms, without the calls: small numbers, and words of up to 63 bytes.
            size = 1 if first < 0x80 else 1 + (first & 63)
            if data[start + size] != size:
                raise BadFormatError
            words.append(_DIGITS[first] if first < 0x80 else data[start + 1 : start + size])
            reader.at = start + size + 1
            continue
        words.append(_read_element(reader))
        back = _back_length(reader.at - start)
        if reader.read(len(back)) != back:
            raise BadFormatError
    if reader.at != len(data) - 1 or count not in (len(words), 65535):
        raise BadFormatError
    return words
