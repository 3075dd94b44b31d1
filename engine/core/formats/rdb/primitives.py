"""The building blocks of Redis's RDB format: lengths, strings, compression, listpacks.

The written encodings are uncompressed, and every server since 7.0 can read them. All encodings that these servers write
can be read, including compressed strings. Input is untrusted. Damage raises ``BadFormatError``, or a built-in error of
Python, such as ValueError, that callers handle in the same way.

Strings are compressed with LZF. Compressed data is a sequence of pieces: runs of literal bytes, and copies of earlier
output::

    000LLLLL  literals                     L + 1 bytes follow
    LLLooooo  oooooooo                     copy L + 2 bytes from o + 1 bytes back
    111ooooo  LLLLLLLL  oooooooo           copy L + 9 bytes from o + 1 bytes back

Many strings are decompressed at once by Arrow, after a translation to Snappy's format, which encodes the same
operations differently. The start of each piece depends on the piece before it, so all strings are walked in parallel,
one piece per string at a time. Damaged data raises ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

#: Lowest first byte of a copy.
_COPY = 32
#: Lowest first byte of a long copy.
_LONG_COPY = 224
#: Size of a piece by its first byte.
_TOKEN_SIZES = np.array([*range(2, _COPY + 2), *[2] * (_LONG_COPY - _COPY), *[3] * 32])
#: Number of pieces walked in each string before checking whether all strings have ended.
_PIECES = 16
#: Maximum length of a copy in Snappy's format with a two-byte offset.
_SNAPPY_COPY = 64


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


def decompressed_many(parts: Sequence[bytes], sizes: Sequence[int]) -> Generator[bool, None, bytes]:
    """Decompress strings to these sizes (in bytes) and return them joined; yield False when other tasks can run."""
    if not all(parts):
        raise ValueError("a compressed string is empty")
    # The walk of a string stops at the zero byte that follows the string. One more zero byte is read if the last piece
    # is incomplete.
    data = np.frombuffer(b"\0".join((*parts, b"", b"")), np.uint8)
    lengths = np.array(list(map(len, parts)))
    ends = np.cumsum(lengths + 1) - 1
    at = yield from _pieces(data, ends - lengths, ends)
    first = data[at]
    are_copies, are_long = first >= _COPY, first >= _LONG_COPY
    counts = np.where(are_copies, (first >> 5) + np.uint8(2), first + np.uint8(1)).astype(np.int64)
    counts[are_long] = data[at[are_long] + 1] + np.int64(9)
    begins = np.searchsorted(at, ends - lengths)
    if (np.add.reduceat(counts, begins) != sizes).any():
        raise ValueError("the decompressed size is wrong")
    # Copies must not start before their string.
    copies = np.flatnonzero(are_copies)
    back = ((first[copies] & 31).astype(np.int64) << 8 | data[at[copies] + 1 + are_long[copies]]) + 1
    there = np.cumsum(counts) - counts
    if (back > (there - there[begins][np.searchsorted(ends, at)])[copies]).any():
        raise ValueError("a copy is outside the string")
    yield False
    literals = at[~are_copies]
    snappy = _translated(data, ends, literals, (at[copies], counts[copies], back), are_long[copies])
    yield False
    total = int(counts.sum())
    return pa.Codec("snappy").decompress(_varint(total) + snappy, total, asbytes=True)  # type: ignore[no-any-return]


def _pieces(data: _Bytes, begins: _Ints, ends: _Ints) -> Generator[bool, None, _Ints]:
    """Return the starts of the pieces of all strings, in ascending order."""
    behind = np.minimum(np.arange(len(data)) + _TOKEN_SIZES[data], len(data) - 1)
    behind[ends] = ends
    rows = [begins]
    while (rows[-1] < ends).any():
        for _ in range(_PIECES):
            rows.append(behind[rows[-1]])
        yield False
    if (rows[-1] != ends).any():
        raise ValueError("the data ends within an operation")
    table = np.array(rows).T
    return table[table < ends[:, None]]


def _translated(
    data: _Bytes, ends: _Ints, literals: _Ints, copies: tuple[_Ints, _Ints, _Ints], are_long: npt.NDArray[np.bool_]
) -> bytes:
    """Translate the pieces to Snappy's format.

    ``literals`` are the starts of literals, ``copies`` the starts, lengths and distances of copies. In Snappy's format,
    a copy takes three bytes (one with its length, two with its offset) and copies at most 64 bytes.
    """
    at, counts, back = copies
    source = data.copy()
    source[literals] <<= np.uint8(2)
    last = at + 1 + are_long
    more = (counts - 1) // _SNAPPY_COPY
    # Number of result bytes for each source byte; 0 for the byte after each string.
    repeats = np.ones(len(data), np.int64)
    repeats[ends] = repeats[-1] = 0
    repeats[last] += ~are_long + 3 * more
    out = np.repeat(source, repeats)
    to = (np.cumsum(repeats) - repeats)[at]
    for number in range(int(more.max(initial=0)) + 1):
        some = more >= number
        begin, count, offset = (
            to[some] + 3 * number,
            np.minimum(counts[some] - _SNAPPY_COPY * number, _SNAPPY_COPY),
            back[some],
        )
        out[begin] = count - 1 << 2 | 2
        out[begin + 1], out[begin + 2] = offset & 255, offset >> 8
    return out.tobytes()


def _varint(value: int) -> bytes:
    """Encode a number in groups of seven bits, the lowest first."""
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes((*groups, value))


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


def _bare_element(word: bytes | int) -> bytes:
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


def element(word: bytes | int) -> bytes:
    """Encode an element of a listpack, including the length after it."""
    bare = _bare_element(word)
    return bare + _back_length(len(bare))


#: Precomputed elements of small integers.
SMALL_ELEMENTS = [element(value) for value in range(4096)]
#: Size of a short string -> the bytes before it.
SHORT_HEADS = [bytes((0x80 | size,)) for size in range(64)]
#: Size of a short string -> the bytes after it.
SHORT_TAILS = [_back_length(size + 1) for size in range(64)]


def add_elements(parts: list[bytes], words: Iterable[bytes]) -> None:
    """Append the elements of many words to the parts of a listpack."""
    heads, tails, small = SHORT_HEADS, SHORT_TAILS, SMALL_ELEMENTS
    for word in words:
        size = len(word)
        if size < 64 and not word.isdigit() and word[:1] != b"-":
            parts += (heads[size], word, tails[size])
        elif size < 4 and word[:1] != b"-" and (word[:1] != b"0" or size == 1):
            parts.append(small[int(word)])
        else:
            parts.append(element(word))


def listpack_of(parts: list[bytes], count: int) -> bytes:
    """Return the listpack of ``count`` elements, given as parts."""
    body = b"".join(parts)
    return struct.pack("<IH", len(body) + 7, min(count, 65535)) + body + b"\xff"


def listpack(words: Iterable[bytes | int]) -> bytes:
    """Return a listpack of words and integers."""
    parts = [element(word) for word in words]
    return listpack_of(parts, len(parts))


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
    at, last = 6, size - 1
    from_bytes = int.from_bytes
    while at < last:
        first = data[at]
        # ``end`` is the end of the element's content, where its length starts.
        if first < 0x80:
            end = at + 1
            words.append(first)
        elif first < 0xC0:
            end = at + 1 + (first & 63)
            words.append(data[at + 1 : end])
        elif first < 0xE0:
            end = at + 2
            value = (first & 31) << 8 | data[at + 1]
            words.append(value - (1 << 13) if value >= 1 << 12 else value)
        elif first < 0xF0:
            end = at + 2 + ((first & 15) << 8 | data[at + 1])
            words.append(data[at + 2 : end])
        elif first == 0xF0:
            end = at + 5 + from_bytes(data[at + 1 : at + 5], "little")
            words.append(data[at + 5 : end])
        elif first in _SIZES:
            end = at + 1 + _SIZES[first]
            words.append(from_bytes(data[at + 1 : end], "little", signed=True))
        else:
            raise BadFormatError
        if end >= last:
            raise BadFormatError
        if end - at < 128:
            if data[end] != end - at:
                raise BadFormatError
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
