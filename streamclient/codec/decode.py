"""A reply's frames to a page of Arrow columns, without a Python object per value.

`decode_page` tries three ways, the fastest first: frames of one shape (`streamclient.codec.uniform_frames`), frames
of any shape validated by numpy (here), and a parser (`streamclient.codec.decode_reference`, the slow twin). All three
must return the same columns: change one only together with the others. They share a rule: when an entry has a field
twice, the last one counts. Does not depend on sockets, Spark, or the meaning of a column's text.

The proof. Cut the buffer at every line feed. A frame with c field tokens then has 4 + 2c lines: `*2`, `$length`, the
ID, `*c`, and a `$length` line and a content line for each token. If every line ends in CR LF, every frame's head
lines read as they must, and every declared length equals its content line's actual length, then by induction from the
first byte the lines are exactly the tokens a parser would find. A value with a line feed inside breaks an equality,
so it can never be misread. Whatever is not proven is declined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamclient.codec import decode_reference, uniform_frames
from streamclient.codec.reply import Page, last_of

_Ints = NDArray[np.int64]
_LF, _CR, _STAR, _DOLLAR, _DASH = 10, 13, 42, 36, 45
_ZERO = np.uint8(48)
_MAX_BYTES = 2**31 - 1
_MAX_DIGITS = 10  # of a declared length or count; a page never has more
_MS_DIGITS = 13  # milliseconds since 1970 have thirteen digits from 2001 to 2286


def decode_page(buffer: bytes | bytearray, start: int, stop: int, count: int) -> Page:
    """Return the page of the `count` frames in `buffer[start:stop]`. Raises ValueError if it contains anything else.

    The fastest way needs sixteen readable bytes after `stop`, with any content, and the line end before `start`.
    """
    page: Page | None = uniform_frames.scan(buffer, start, stop, count)
    if page is None:
        page = scan(buffer, start, stop, count)
    return page if page is not None else decode_reference.parse(buffer, start, stop, count)


def scan(buffer: bytes | bytearray, start: int, stop: int, count: int) -> VectorPage | None:
    """Return the page, if numpy proves that `buffer[start:stop]` is `count` frames; None to decline."""
    size = stop - start
    if count < 1 or size < 1 or size > _MAX_BYTES:
        return None
    data = np.frombuffer(buffer, np.uint8, size, start)
    if data[-1] != _LF:
        return None
    ends = np.flatnonzero(data == _LF)
    if ends[0] == 0 or not np.all(data.take(ends - 1) == _CR):
        return None
    sizes = np.empty_like(ends)  # of the lines' contents
    sizes[0] = ends[0] - 1
    np.subtract(ends[1:], ends[:-1], out=sizes[1:])
    sizes[1:] -= 2
    if sizes.min() < 0:
        return None
    firsts = ends - sizes - 1
    proven = _one_shape(data, firsts, sizes, count) or _many_shapes(data, firsts, sizes, count)
    return None if proven is None else VectorPage(buffer, start, data, *proven)


#: Starts and ends of the tokens, in order; and the number of each row's first token, then the total of tokens.
_Proven = tuple[_Ints, _Ints, _Ints]


def _one_shape(data: NDArray[np.uint8], firsts: _Ints, sizes: _Ints, count: int) -> _Proven | None:
    """Return the proof for frames that all have the same number of tokens: a table with a frame to each row."""
    stride, rest = divmod(firsts.size, count)
    if rest or stride < 8 or stride % 4:
        return None
    # Transposed: the same line of all frames is contiguous.
    firsts = np.ascontiguousarray(firsts.reshape(count, stride).T)
    sizes = np.ascontiguousarray(sizes.reshape(count, stride).T)
    if not (_read(data, firsts[0], sizes[0], b"*2") and _read(data, firsts[3], sizes[3], b"*%d" % (stride // 2 - 2))):
        return None
    lines = np.array([1, *range(4, stride, 2)])
    declared = _declared(data, firsts[lines].ravel(), sizes[lines].ravel())
    contents = sizes[lines + 1]
    if declared is None or not np.array_equal(declared, contents.ravel()):
        return None
    begins = np.ascontiguousarray(firsts[lines + 1].T).ravel()
    row_starts = np.arange(0, count * lines.size + 1, lines.size)
    return begins, begins + np.ascontiguousarray(contents.T).ravel(), row_starts


def _many_shapes(data: NDArray[np.uint8], firsts: _Ints, sizes: _Ints, count: int) -> _Proven | None:
    """Return the proof for frames of different widths: each frame's head tells where the next one begins."""
    starred = np.flatnonzero(data.take(firsts) == _STAR)
    short = starred[(sizes[starred] > 1) & (sizes[starred] <= _MAX_DIGITS)]
    numbers = np.zeros(firsts.size, np.int64)  # the count in each line that could be an array's head
    number = np.zeros(short.size, np.int64)
    plain = np.ones(short.size, bool)
    for i in range(1, int(sizes[short].max(initial=1))):
        inside = sizes[short] > i
        digit = data.take(firsts[short] + np.where(inside, i, 0)).astype(np.int64) - _ZERO
        plain &= ~inside | ((digit >= 0) & (digit <= 9))
        number = np.where(inside, number * 10 + digit, number)
    numbers[short] = np.where(plain, number, 0)
    widths: list[int] = numbers.tolist()
    found: list[int] = []
    line = 0
    while line + 3 < firsts.size and len(found) < count:
        tokens = widths[line + 3]
        if widths[line] != 2 or tokens < 2 or tokens & 1:
            return None
        found.append(line)
        line += 4 + 2 * tokens
    if line != firsts.size or len(found) != count:
        return None
    heads = np.array(found, np.int64)
    counts = numbers[heads + 3] + 1  # tokens of each row, the ID among them
    row_starts = np.concatenate(([0], np.cumsum(counts)))
    lines = np.repeat(heads + 2 - 2 * row_starts[:-1], counts) + 2 * np.arange(int(row_starts[-1]))
    lines[row_starts[:-1]] -= 1  # the ID is above the second head line
    declared = _declared(data, firsts[lines], sizes[lines])
    if declared is None or not np.array_equal(declared, sizes[lines + 1]):
        return None
    begins = firsts[lines + 1]
    return begins, begins + declared, row_starts


def _read(data: NDArray[np.uint8], firsts: _Ints, sizes: _Ints, text: bytes) -> bool:
    """Return whether each of these lines reads `text`."""
    return bool(np.all(sizes == len(text))) and _begin(data, firsts, text)


def _begin(data: NDArray[np.uint8], firsts: _Ints, text: bytes) -> bool:
    """Return whether `text` is at each of these offsets; that many bytes must be there. Eight are compared
    at a time.
    """
    size = len(text)
    if size < 8:
        return all(np.all(data.take(firsts + i) == text[i]) for i in range(size))
    words = np.ndarray((data.size - 7,), np.dtype("<u8"), data, 0, (1,))  # one at every byte, regardless of alignment
    return all(
        np.all(words[firsts + at] == int.from_bytes(text[at : at + 8], "little"))
        for at in (min(at, size - 8) for at in range(0, size, 8))
    )


def _declared(data: NDArray[np.uint8], firsts: _Ints, sizes: _Ints) -> _Ints | None:
    """Return the lengths that these lines declare; None if one is not `$` and a plain number."""
    longest = int(sizes.max(initial=0))
    if int(sizes.min(initial=2)) < 2 or longest > _MAX_DIGITS or not np.all(data.take(firsts) == _DOLLAR):
        return None
    first = data.take(firsts + 1) - _ZERO  # below zero wraps around, and is then too large
    if first.max(initial=0) > 9:
        return None
    number = first.astype(np.int64)
    for i in range(2, longest):
        more = np.flatnonzero(sizes > i)
        digit = data.take(firsts[more] + i) - _ZERO
        if digit.max(initial=0) > 9:
            return None
        number[more] = number[more] * 10 + digit
    return number


class VectorPage:
    """A page whose frames are proven. Tokens are numbered through the page: each row's ID, then its names and values.

    All tokens are one Arrow array over the reply's own bytes. Its elements alternate tokens and the gaps between them,
    so a column is a `take` of some elements, and Python touches no byte.
    """

    def __init__(
        self,
        buffer: bytes | bytearray,
        start: int,
        data: NDArray[np.uint8],
        begins: _Ints,
        ends: _Ints,
        row_starts: _Ints,
    ) -> None:
        self.count = row_starts.size - 1
        self._buffer = buffer
        self._start = start
        self._data = data
        self._begins = begins
        self._ends = ends
        self._rows = row_starts[:-1]
        self._widths = np.diff(row_starts)
        offsets = np.empty(2 * begins.size, np.int32)
        offsets[0::2] = begins
        offsets[1::2] = ends
        body = pa.py_buffer(buffer).slice(start, data.size)
        self._tokens = pa.BinaryArray.from_buffers(pa.binary(), offsets.size - 1, [None, pa.py_buffer(offsets), body])
        names = self._shared_names()
        self._last = None if names is None else last_of(names)  # None: entries have different fields
        self._coded: tuple[dict[bytes, int], _Ints, _Ints, _Ints] | None = None

    def _take(self, tokens: _Ints) -> Any:
        return self._tokens.take(pa.array(2 * tokens))

    def _token(self, token: int) -> bytes:
        return bytes(self._buffer[self._start + int(self._begins[token]) : self._start + int(self._ends[token])])

    def _shared_names(self) -> list[bytes] | None:
        """Return the field names, if every entry has the same ones in the same order."""
        width = int(self._widths[0])
        if np.any(self._widths != width):
            return None
        names = []
        for token in range(1, width, 2):
            name = self._token(token)
            begins, ends = self._begins[token::width], self._ends[token::width]
            if not _read(self._data, begins, ends - begins, name):
                return None
            names.append(name)
        return names

    def _by_name(self) -> tuple[dict[bytes, int], _Ints, _Ints, _Ints]:
        """For entries of different shapes: a code for each name; and for each field its code, row and name token."""
        if self._coded is None:
            rows = np.repeat(np.arange(self.count), self._widths)
            within = np.arange(self._begins.size) - np.repeat(self._rows, self._widths)
            names = np.flatnonzero(within & 1)
            encoded = self._take(names).dictionary_encode()
            codes = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
            self._coded = codes, encoded.indices.to_numpy().astype(np.int64), rows[names], names
        return self._coded

    def last_id(self) -> bytes:
        return self._token(int(self._rows[-1]))

    def ids(self) -> Any:
        return self._take(self._rows)

    def milliseconds(self) -> Any:
        begins = self._begins[self._rows]
        if np.all(self._ends[self._rows] - begins > _MS_DIGITS + 1) and np.all(
            self._data[begins + _MS_DIGITS] == _DASH
        ):
            number = np.zeros(self.count, np.int64)
            largest = 0
            for i in range(_MS_DIGITS):
                digit = self._data.take(begins + i) - _ZERO  # below zero wraps around
                largest = max(largest, int(digit.max()))
                number *= 10
                number += digit
            if largest <= 9:
                return pa.array(number)
        return decode_reference.milliseconds(self.ids().to_pylist())

    def column(self, name: bytes) -> Any:
        if self._last is not None:
            last = self._last.get(name)
            return pa.nulls(self.count, pa.binary()) if last is None else self._take(self._rows + 2 + 2 * last)
        codes, code_of, row_of, token_of = self._by_name()
        code = codes.get(name)
        if code is None:
            return pa.nulls(self.count, pa.binary())
        at = np.flatnonzero(code_of == code)
        tokens = np.full(self.count, -1, np.int64)
        tokens[row_of[at]] = token_of[at] + 1  # in order, so that an entry's last one stays
        missing = tokens < 0
        return self._tokens.take(pa.array(2 * tokens, mask=missing) if missing.any() else pa.array(2 * tokens))

    def integers(self, name: bytes) -> Any:
        """None: the caller reads the texts."""
        del name

    def floats(self, name: bytes) -> Any:
        """None: the caller reads the texts."""
        del name

    def fields(self) -> tuple[Any, Any, Any]:
        if self._last is not None:
            kept = list(self._last.values())
            tokens = (self._rows[:, None] + 1 + 2 * np.array(kept, np.int64)).ravel()
            offsets = np.arange(self.count + 1) * len(kept)
        else:
            codes, code_of, row_of, token_of = self._by_name()
            key = row_of * len(codes) + code_of
            last = key.size - 1 - np.unique(key[::-1], return_index=True)[1]
            last.sort()
            tokens = token_of[last]
            offsets = np.concatenate(([0], np.cumsum(np.bincount(row_of[last], minlength=self.count))))
        return pa.array(offsets.astype(np.int32)), self._take(tokens), self._take(tokens + 1)
