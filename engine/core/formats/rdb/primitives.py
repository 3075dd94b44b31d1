"""The building blocks of Redis's RDB format: lengths, strings, compression, checksums, listpacks, ziplists.

The written encodings are uncompressed, and every server since 7.0 can read them. All encodings that these servers write
can be read, including compressed strings. Input is untrusted. Damage raises ``BadFormatError``, or a built-in error of
Python, such as ValueError, that callers handle in the same way.

Strings are compressed with LZF. Compressed data is a sequence of pieces: runs of literal bytes, and copies of earlier
output::

    000LLLLL  literals                     L + 1 bytes follow
    LLLooooo  oooooooo                     copy L + 2 bytes from o + 1 bytes back
    111ooooo  LLLLLLLL  oooooooo           copy L + 9 bytes from o + 1 bytes back

The checksum is CRC-64/Jones. It is linear: the checksum of A + B is the checksum of A + (zeros of B's length), XOR the
checksum of B. So the checksums of all words of eight bytes are found at once, and joined pairwise. Zeros before the
data change nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

# -- checksums ------------------------------------------------------------------------------------------------------

_Sums = npt.NDArray[np.uint64]
_POLYNOMIAL = 0x95AC9329AC4BC9B5
#: Data of fewer bytes than this is processed byte by byte.
_SHORT = 512
#: Most efficient number of bytes to process at once.
_BLOCK = 1 << 18


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


class RunningSum:
    """Checksum of data that arrives in pieces. Short pieces are slow to process, so they are collected first."""

    def __init__(self) -> None:
        self._sum = 0
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> bool:
        """Add the next bytes; return whether this call processed collected bytes, which takes a millisecond or two."""
        self._waiting.append(piece)
        self._size += len(piece)
        if self._size < _BLOCK:
            return False
        self._sum = self.total()
        self._waiting, self._size = [], 0
        return True

    def total(self) -> int:
        """Return the checksum of all added bytes."""
        return crc64(b"".join(self._waiting), self._sum)


def crc64(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the checksum of ``data``, continuing from ``crc``, the checksum of the preceding bytes."""
    if len(data) < _SHORT:
        for byte in data:
            crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
        return crc
    before = -len(data) % 8
    room = np.frombuffer(bytearray().join((bytes(before), data)), np.uint8)
    # The preceding checksum is applied to the first eight bytes.
    room[before : before + 8] ^= np.frombuffer(crc.to_bytes(8, "little"), np.uint8)
    size = 8
    sums = _over_zeros(room.view("<u8"), size)
    while len(sums) > 1:
        if len(sums) % 2:
            sums = np.concatenate((np.zeros(1, np.uint64), sums))
        sums = _over_zeros(sums[::2], size) ^ sums[1::2]
        size *= 2
    return int(sums[0])


def _over_zeros(sums: _Sums, size: int) -> _Sums:
    """Return these checksums, extended over ``size`` zeros, a power of two from 8 on."""
    parts = np.ascontiguousarray(sums, "<u8").view(np.uint8).reshape(-1, 8)
    tables = _tables(size)
    result: _Sums = tables[0].take(parts[:, 0])
    for column in range(1, 8):
        result ^= tables[column].take(parts[:, column])
    return result


@cache
def _tables(size: int) -> _Sums:
    """Return a table for each byte of a checksum: byte -> its value extended over ``size`` zeros."""
    if size > 8:
        half = _tables(size // 2)
        return _over_zeros(half, size // 2).reshape(half.shape)
    table = np.array(_TABLE, np.uint64)
    crcs = np.arange(256, dtype=np.uint64) << (np.arange(8, dtype=np.uint64) * np.uint64(8))[:, None]
    for _ in range(size):
        crcs = table[(crcs & np.uint64(255)).astype(np.intp)] ^ (crcs >> np.uint64(8))
    return crcs


# -- compressed strings ---------------------------------------------------------------------------------------------

#: Lowest first byte of a copy.
_COPY = 32


def decompressed(data: bytes, size: int) -> bytes:
    """Decompress one string; ``size`` is its decompressed size in bytes."""
    out = bytearray()
    at, end = 0, len(data)
    try:
        while at < end:
            control = data[at]
            at += 1
            if control < _COPY:
                out += data[at : at + control + 1]
                at += control + 1
                continue
            count = (control >> 5) + 2
            if count == 9:
                count += data[at]
                at += 1
            back = ((control & 31) << 8 | data[at]) + 1
            at += 1
            start = len(out) - back
            if start < 0 or len(out) + count > size:
                raise ValueError("a copy is outside the string")
            if back >= count:
                out += out[start : start + count]
            else:
                # The copy overlaps its own output.
                out += (out[start:] * (count // back + 1))[:count]
    except IndexError:
        raise ValueError("the data ends within an operation") from None
    if at != end or len(out) != size:
        raise ValueError("the decompressed size is wrong")
    return bytes(out)


T = TypeVar("T")
#: Work in small steps, between which other tasks can run.
Steps = Generator[None, None, T]

_READ = {form: struct.Struct(form) for form in ("<b", "<h", "<i", "<I", "<H", "<q", "<Q", ">I", ">Q", ">H")}
_STRING_NUMBERS = {0xC0: "<b", 0xC1: "<h", 0xC2: "<i"}
#: Length byte of a compressed string.
_COMPRESSED = 0xC3


class BadFormatError(Exception):
    """The bytes are damaged or in an unknown format."""


def small_number(word: bytes) -> int | None:
    """Return the signed 64-bit integer whose canonical text is ``word``; None for any other word."""
    digits = word[1:] if word[:1] == b"-" else word
    if not digits.isdigit() or len(word) > 20 or (digits[:1] == b"0" and word != b"0"):
        return None
    value = int(word)
    return value if -(1 << 63) <= value < 1 << 63 else None


# -- writing --------------------------------------------------------------------------------------------------------

_SMALL_LENGTHS = [bytes((value,)) for value in range(64)]


def length(value: int) -> bytes:
    """Encode a length (or any unsigned 64-bit integer)."""
    if value < 1 << 6:
        return _SMALL_LENGTHS[value]
    if value < 1 << 14:
        return struct.pack(">H", 1 << 14 | value)
    if value < 1 << 32:
        return struct.pack(">BI", 0x80, value)
    return struct.pack(">BQ", 0x81, value)


def string(word: bytes) -> bytes:
    """Encode a string; the text of an integer of up to 32 bits is stored as that integer."""
    size = len(word)
    if size <= 11:
        value = small_number(word)
        if value is not None and -(1 << 31) <= value < 1 << 31:
            for code, form, bits in ((0xC0, "<Bb", 7), (0xC1, "<Bh", 15), (0xC2, "<Bi", 31)):
                if -(1 << bits) <= value < 1 << bits:
                    return struct.pack(form, code, value)
    return (_SMALL_LENGTHS[size] if size < 64 else length(size)) + word


def _back_length(size: int) -> bytes:
    """Encode the length that follows an element; it is read backwards."""
    if size <= 127:
        return bytes((size,))
    groups = 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5
    first, *others = ((size >> 7 * group) & 127 for group in range(groups - 1, -1, -1))
    return bytes((first, *(other | 128 for other in others)))


def element(word: bytes | int) -> bytes:
    """Encode an element of a listpack, including the length after it."""
    value = word if isinstance(word, int) else small_number(word)
    if value is not None:
        return _number(value)
    assert isinstance(word, bytes)
    size = len(word)
    if size < 64:
        bare = bytes((0x80 | size,)) + word
    elif size < 4096:
        bare = bytes((0xE0 | size >> 8, size & 255)) + word
    else:
        bare = b"\xf0" + struct.pack("<I", size) + word
    return bare + _back_length(len(bare))


_INT13, _INT16, _INT32, _INT64 = (struct.Struct(form).pack for form in (">HB", "<BhB", "<BiB", "<BqB"))


def _number(value: int) -> bytes:
    """Encode a signed 64-bit integer as an element of a listpack."""
    if 0 <= value < 128:
        return bytes((value, 1))
    if -(1 << 12) <= value < 1 << 12:
        return _INT13(0xC000 | value & 0x1FFF, 2)
    if -(1 << 15) <= value < 1 << 15:
        return _INT16(0xF1, value, 3)
    if -(1 << 23) <= value < 1 << 23:
        return b"\xf2%b\4" % value.to_bytes(3, "little", signed=True)
    if -(1 << 31) <= value < 1 << 31:
        return _INT32(0xF3, value, 5)
    return _INT64(0xF4, value, 9)


#: Precomputed elements of small integers.
SMALL_ELEMENTS = [element(value) for value in range(4096)]
#: The text of a small integer -> its element.
_SMALL_TEXTS = {b"%d" % value: word for value, word in enumerate(SMALL_ELEMENTS)}
#: Size of a short string -> the bytes before it, and after it.
_HEADS = [bytes((0x80 | size,)) for size in range(64)]
_TAILS = [bytes((size + 1,)) for size in range(64)]


def elements(words: Iterable[bytes]) -> list[bytes]:
    """Encode words as elements of a listpack."""
    small, heads, tails = _SMALL_TEXTS.get, _HEADS, _TAILS
    return [
        small(word)
        or (
            heads[len(word)] + word + tails[len(word)]
            if len(word) < 64 and not word.isdigit() and word[:1] != b"-"
            else _number(int(word))
            if len(word) < 19 and word[:1] > b"0"
            else element(word)
        )
        for word in words
    ]


def listpack_of(parts: list[bytes]) -> bytes:
    """Return the listpack of these elements."""
    body = b"".join(parts)
    return struct.pack("<IH", len(body) + 7, min(len(parts), 65535)) + body + b"\xff"


# -- reading --------------------------------------------------------------------------------------------------------


class Reader:
    """A cursor over bytes, or over a mapped file, whose slices are bytes, too."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        end = self.at + size
        part = self.data[self.at : end]
        if len(part) != size:
            raise BadFormatError("the data ends too early")
        self.at = end
        return part

    def byte(self) -> int:
        """Return the next byte."""
        return self.read(1)[0]

    def unpack(self, form: str) -> int:
        """Return the next number; ``form`` is its format for ``struct``."""
        shape = _READ[form]
        value: int = shape.unpack(self.read(shape.size))[0]
        return value

    def length(self) -> int:
        """Return the next length."""
        first = self.byte()
        if first < 0x40:
            return first
        if first < 0x80:
            return (first & 63) << 8 | self.byte()
        if first in (0x80, 0x81):
            return self.unpack(">I" if first == 0x80 else ">Q")
        raise BadFormatError

    def string(self) -> bytes:
        """Return the next string, in any of its encodings."""
        at = self.at
        first = self.data[at : at + 1]
        if first and first < b"\x40":
            # Fast path for the most frequent encoding.
            end = at + 1 + first[0]
            part = self.data[at + 1 : end]
            if len(part) == first[0]:
                self.at = end
                return part
        word, size = self.stored()
        return word if size < 0 else decompressed(word, size)

    def stored(self) -> tuple[bytes, int]:
        """Return the next string as stored, and its decompressed size in bytes; -1 if the string is not compressed."""
        if self.data[self.at : self.at + 1] < b"\xc0":
            return self.read(self.length()), -1
        code = self.byte()
        if code in _STRING_NUMBERS:
            return b"%d" % self.unpack(_STRING_NUMBERS[code]), -1
        if code != _COMPRESSED:
            raise BadFormatError
        packed, raw = self.length(), self.length()
        return self.read(packed), raw


_SIZES = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}


def read_elements(data: bytes) -> list[bytes | int]:
    """Return the elements of a listpack: strings and integers."""
    total = len(data)
    if total < 7 or int.from_bytes(data[:4], "little") != total or data[-1] != 0xFF:
        raise BadFormatError
    words: list[bytes | int] = []
    append, from_bytes = words.append, int.from_bytes
    at, last = 6, total - 1
    while at < last:
        first = data[at]
        # Fast paths for numbers below 128, and for strings of up to 63 bytes.
        if first < 0x80:
            if data[at + 1] != 1:
                raise BadFormatError
            append(first)
            at += 2
            continue
        # ``end`` is the end of the element's content, where its length starts.
        if first < 0xC0:
            end = at + first - 0x7F
            if data[end] != end - at:
                raise BadFormatError
            append(data[at + 1 : end])
            at = end + 1
            continue
        if first < 0xE0:
            end = at + 2
            value = (first & 31) << 8 | data[at + 1]
            append(value - (1 << 13) if value >= 1 << 12 else value)
        elif first < 0xF0:
            end = at + 2 + ((first & 15) << 8 | data[at + 1])
            append(data[at + 2 : end])
        elif first == 0xF0:
            end = at + 5 + from_bytes(data[at + 1 : at + 5], "little")
            append(data[at + 5 : end])
        elif first in _SIZES:
            end = at + 1 + _SIZES[first]
            append(from_bytes(data[at + 1 : end], "little", signed=True))
        else:
            raise BadFormatError
        if end >= last:
            raise BadFormatError
        if data[end] == end - at < 128:
            at = end + 1
            continue
        back = _back_length(end - at)
        if data[end : end + len(back)] != back:
            raise BadFormatError
        at = end + len(back)
    if at != last or int.from_bytes(data[4:6], "little") not in (len(words), 65535):
        raise BadFormatError
    return words


def read_listpack(data: bytes) -> list[bytes]:
    """Return the words of a listpack, numbers as text."""
    return [b"%d" % word if word.__class__ is int else word for word in read_elements(data)]  # type: ignore[misc]


# -- packed hashes of Redis before 7.0 ------------------------------------------------------------------------------

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
