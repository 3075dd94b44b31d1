"""The building blocks of Redis's RDB format: lengths, strings, compression, listpacks.

The written encodings are uncompressed, and every server since 7.0 can read them. All encodings that these servers write
can be read, including compressed strings. Input is untrusted. Damage raises ``BadFormatError``, or a built-in error of
Python, such as ValueError, that callers handle in the same way.

Strings are compressed with LZF. Compressed data is a sequence of pieces: runs of literal bytes, and copies of earlier
output::

    000LLLLL  literals                     L + 1 bytes follow
    LLLooooo  oooooooo                     copy L + 2 bytes from o + 1 bytes back
    111ooooo  LLLLLLLL  oooooooo           copy L + 9 bytes from o + 1 bytes back

Damaged data raises ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

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
#: Incremental reading: yields True if it needs more bytes, False if it can continue after other tasks have run.
Steps = Generator[bool, None, T]

_READ = {form: struct.Struct(form) for form in ("<b", "<h", "<i", "<I", "<H", "<q", "<Q", ">I", ">Q", ">H")}
_STRING_NUMBERS = {0xC0: "<b", 0xC1: "<h", 0xC2: "<i"}
#: Length byte of a compressed string.
_COMPRESSED = 0xC3


class BadFormatError(Exception):
    """The bytes are damaged or in an unknown format."""


class TooShortError(BadFormatError):
    """The bytes end too early: more are expected."""


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


def listpack(words: Iterable[bytes | int]) -> bytes:
    """Return a listpack of words and integers."""
    return listpack_of([element(word) for word in words])


# -- reading --------------------------------------------------------------------------------------------------------


class Reader:
    """A cursor over bytes. If the bytes end too early, it raises the error that ``too_short`` returns."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def too_short(self, size: int) -> BadFormatError:
        """Return the error to raise if the next ``size`` bytes are not all available."""
        del size
        return BadFormatError("the data ends too early")

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        end = self.at + size
        part = self.data[self.at : end]
        if len(part) != size:
            raise self.too_short(size)
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
    size = len(data)
    if size < 7 or int.from_bytes(data[:4], "little") != size or data[-1] != 0xFF:
        raise BadFormatError
    words: list[bytes | int] = []
    append, from_bytes = words.append, int.from_bytes
    at, last = 6, size - 1
    while at < last:
        first = data[at]
        # ``end`` is the end of the element's content, where its length starts.
        if first < 0x80:
            end = at + 1
            append(first)
        elif first < 0xC0:
            end = at + 1 + (first & 63)
            append(data[at + 1 : end])
        elif first < 0xE0:
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


def whole(reader: Reader, read: Callable[[], T]) -> Steps[T]:
    """Call ``read`` until all bytes that it needs are available; each call starts at the same byte.

    ``read`` must not change anything before it has read all its input.
    """
    while True:
        at = reader.at
        try:
            return read()
        except TooShortError:
            reader.at = at
        yield True


def at_once(steps: Steps[T]) -> T:
    """Run all steps and return the result; all bytes must be available."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
