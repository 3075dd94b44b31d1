"""Frames to Arrow columns, and Arrow columns to XADD commands, without a Python object per value.

Owns the vectorised half of the columnar codec. `decode` takes the bytes of a reply to XRANGE (RESP2 frames lying back
to back), proves with numpy that they have the shape it assumes, and serves columns out of them; `encode_adds` makes
one buffer of XADD commands from columns. Knows neither sockets, nor Spark, nor what a column's text means.

The proof. Cut the buffer at every line feed. A frame with c field tokens then has 4 + 2c lines: `*2`, `$length`, the
ID, `*c`, and a `$length` line and a content line for each token. If every line ends in CR LF, every frame's head
lines read as they must, and every declared length equals its content line's actual length, then by induction from the
first byte the lines are exactly the tokens a parser would find. A value with a line feed inside breaks an equality,
so it can never be misread. Whatever is not proven goes to the slow twin, `engine.wire.arrow_scalar`, which must give
the same columns: change one only together with the other. Both halves agree on one rule of their own: when an entry
has a field twice, the last one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.wire import arrow_scalar
from engine.wire.arrow_scalar import ReplyError, array_header

__all__ = ["Column", "Page", "ReplyError", "array_header", "decode", "encode_adds", "scan"]

Column = tuple[bytes, Any]
"""A field's name, and a binary array of its values, where null means that the entry does not have the field."""

_Ints = NDArray[np.int64]
_LF, _CR, _STAR, _DOLLAR, _ZERO, _TWO, _DASH = 10, 13, 42, 36, 48, 50, 45
_MAX_BYTES = 2**31 - 1
_MAX_DIGITS = 10  # of a declared length or count; more is never a page's
_MS_DIGITS = 13  # milliseconds since 1970 have thirteen digits from 2001 to 2286


class Page(Protocol):
    """The entries of one reply, as columns: `pyarrow.BinaryArray`s of `count` values unless said otherwise."""

    @property
    def count(self) -> int:
        """Number of entries."""
        ...

    def last_id(self) -> bytes:
        """The last entry's ID; only for a page that is not empty."""
        ...

    def ids(self) -> Any: ...

    def milliseconds(self) -> Any:
        """An int64 array: the first half of each ID."""
        ...

    def column(self, name: bytes) -> Any:
        """The values of one field, null where an entry does not have it."""
        ...

    def fields(self) -> tuple[Any, Any, Any]:
        """All fields: int32 offsets (count + 1), names, values."""
        ...


def decode(buffer: bytes | bytearray, start: int, stop: int, count: int) -> Page:
    """The page of `count` frames in `buffer[start:stop]`, proven by numpy or else parsed by hiredis."""
    page = scan(buffer, start, stop, count)
    return page if page is not None else arrow_scalar.parse(buffer, start, stop, count)


def scan(buffer: bytes | bytearray, start: int, stop: int, count: int) -> VectorPage | None:
    """The page, if `buffer[start:stop]` is proven to be `count` frames; None to decline."""
    size = stop - start
    if count < 1 or size < 1 or size > _MAX_BYTES:
        return None
    data = np.frombuffer(buffer, np.uint8, size, start)
    if data[-1] != _LF:
        return None
    ends = np.flatnonzero(data == _LF)
    if ends[0] == 0 or np.any(data[ends - 1] != _CR):
        return None
    firsts = np.empty_like(ends)
    firsts[0] = 0
    firsts[1:] = ends[:-1] + 1
    sizes = ends - firsts - 1  # of the lines' contents
    if np.any(sizes < 0):
        return None

    shape = _frame_lines(data, firsts, sizes, count)
    if shape is None:
        return None
    heads, tokens = shape  # each frame's first line; its number of field tokens
    # The head lines: `*2`, and `*c`, which `_frame_lines` has read already.
    if np.any(sizes[heads] != 2) or np.any(data[firsts[heads]] != _STAR) or np.any(data[firsts[heads] + 1] != _TWO):
        return None
    # The length lines: one for the ID and one for each token; contents stand on the line below.
    token_row_starts = np.concatenate(([0], np.cumsum(tokens + 1)))
    total = int(token_row_starts[-1])
    within = np.arange(total) - np.repeat(token_row_starts[:-1], tokens + 1)
    length_lines = np.repeat(heads, tokens + 1) + 2 + 2 * within
    length_lines[token_row_starts[:-1]] -= 1
    if np.any(data[firsts[length_lines]] != _DOLLAR):
        return None
    declared = _decimals(data, firsts[length_lines] + 1, sizes[length_lines] - 1)
    content_lines = length_lines + 1
    if declared is None or not np.array_equal(declared, sizes[content_lines]):
        return None
    begins = firsts[content_lines]
    return VectorPage(buffer, start, data, begins, begins + declared, token_row_starts)


def _frame_lines(data: NDArray[np.uint8], firsts: _Ints, sizes: _Ints, count: int) -> tuple[_Ints, _Ints] | None:
    """Each frame's first line and its number of field tokens, if frames fill the lines exactly; None to decline."""
    lines = firsts.size
    if lines % count == 0 and lines // count >= 8 and (lines // count) % 4 == 0:
        stride = lines // count
        heads = np.arange(0, lines, stride)
        text = b"*%d" % ((stride - 4) // 2)
        counts = heads + 3
        if np.all(sizes[counts] == len(text)) and all(
            np.all(data[firsts[counts] + i] == byte) for i, byte in enumerate(text)
        ):
            return heads, np.full(count, (stride - 4) // 2)
    # Entries of different widths: a frame's width is known where it starts, so follow them one by one.
    starred = np.flatnonzero(data[firsts] == _STAR)
    short = starred[(sizes[starred] > 1) & (sizes[starred] <= _MAX_DIGITS)]
    value = np.zeros(lines, np.int64)
    digits = np.ones(short.size, bool)
    number = np.zeros(short.size, np.int64)
    for i in range(1, int(sizes[short].max(initial=1))):
        inside = sizes[short] > i
        digit = data[firsts[short] + np.where(inside, i, 0)].astype(np.int64) - _ZERO
        digits &= ~inside | ((digit >= 0) & (digit <= 9))
        number = np.where(inside, number * 10 + digit, number)
    value[short] = np.where(digits, number, 0)
    widths: list[int] = value.tolist()
    found: list[int] = []
    line = 0
    while line + 3 < lines and len(found) < count:
        tokens = widths[line + 3]
        if tokens < 2 or tokens & 1:
            return None
        found.append(line)
        line += 4 + 2 * tokens
    if line != lines or len(found) != count:
        return None
    heads = np.array(found, np.int64)
    return heads, value[heads + 3]


def _decimals(data: NDArray[np.uint8], starts: _Ints, sizes: _Ints) -> _Ints | None:
    """The decimal numbers of `sizes` digits at `starts`; None if one is not a plain number."""
    longest = int(sizes.max(initial=0))
    if int(sizes.min(initial=1)) < 1 or longest > _MAX_DIGITS:
        return None
    number = data[starts].astype(np.int64) - _ZERO
    if np.any((number < 0) | (number > 9)):
        return None
    for i in range(1, longest):
        more = np.flatnonzero(sizes > i)
        digit = data[starts[more] + i].astype(np.int64) - _ZERO
        if np.any((digit < 0) | (digit > 9)):
            return None
        number[more] = number[more] * 10 + digit
    return number


class VectorPage:
    """A page whose shape is proven. Tokens are numbered through the page: each row's ID, then its names and values.

    All tokens are one Arrow array over the reply's own bytes: its elements are, in turn, a token and the gap up to the
    next token, so that a column is a `take` of every n-th element and no byte is touched in Python.
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
        self._names: list[bytes] | None = self._shared_names()
        self._coded: tuple[dict[bytes, int], _Ints, _Ints, _Ints] | None = None

    def _take(self, tokens: _Ints) -> Any:
        return self._tokens.take(pa.array(2 * tokens))

    def _token(self, token: int) -> bytes:
        return bytes(self._buffer[self._start + int(self._begins[token]) : self._start + int(self._ends[token])])

    def _shared_names(self) -> list[bytes] | None:
        """The field names, if every entry has the same ones in the same order."""
        width = int(self._widths[0])
        if np.any(self._widths != width):
            return None
        names = []
        for token in range(1, width, 2):
            name = self._token(token)
            if np.any(self._ends[self._rows + token] - self._begins[self._rows + token] != len(name)):
                return None
            at = self._begins[self._rows + token]
            if any(np.any(self._data[at + i] != byte) for i, byte in enumerate(name)):
                return None
            names.append(name)
        return names

    def _by_name(self) -> tuple[dict[bytes, int], _Ints, _Ints, _Ints]:
        """For entries of different shapes: a code per name, and for each field its code, row and name token."""
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
            valid = np.ones(self.count, bool)
            for i in range(_MS_DIGITS):
                digit = self._data[begins + i].astype(np.int64) - _ZERO
                valid &= (digit >= 0) & (digit <= 9)
                number = number * 10 + digit
            if valid.all():
                return pa.array(number)
        return arrow_scalar.milliseconds(self.ids().to_pylist())

    def column(self, name: bytes) -> Any:
        if self._names is not None:
            if name not in self._names:
                return pa.nulls(self.count, pa.binary())
            last = len(self._names) - 1 - self._names[::-1].index(name)
            return self._take(self._rows + 2 + 2 * last)
        codes, code_of, row_of, token_of = self._by_name()
        code = codes.get(name)
        if code is None:
            return pa.nulls(self.count, pa.binary())
        at = np.flatnonzero(code_of == code)
        tokens = np.full(self.count, -1, np.int64)
        tokens[row_of[at]] = token_of[at] + 1  # in order, so that an entry's last one stays
        missing = tokens < 0
        return self._tokens.take(pa.array(2 * tokens, mask=missing) if missing.any() else pa.array(2 * tokens))

    def fields(self) -> tuple[Any, Any, Any]:
        if self._names is not None:
            kept = [i for i, name in enumerate(self._names) if name not in self._names[i + 1 :]]
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


def encode_adds(
    keys: bytes | Any,
    ids: Any | None,
    columns: Sequence[Column],
    fields: tuple[Any, Any, Any] | None,
    options: Sequence[bytes],
    rows: int,
) -> Any:
    """One XADD command per row, as a binary array whose elements lie back to back in its data buffer.

    `keys` is one key or a binary array of them; `ids` a binary array in which null means `*`, or None for `*` in all;
    `columns` the fields that are the same in all rows; `fields` those of each row (int32 offsets of `rows + 1`, names,
    values without nulls); `options` the words between key and ID, as in NOMKSTREAM MAXLEN ~ 1000.
    A row without any field gives a null: the caller must refuse it.
    """
    present: _Ints = np.zeros(rows, np.int64)
    pieces: list[Any] = []
    for name, values in columns:
        lengths = _decimal_text(pc.binary_length(values))
        piece = _join([_bytes(_bulk(name) + b"$"), lengths, _bytes(b"\r\n"), values, _bytes(b"\r\n")])
        if values.null_count:
            present += np.asarray(values.is_valid())
            piece = pc.fill_null(piece, b"")
        else:
            present += 1
        pieces.append(piece)
    if fields is not None:
        offsets, names, values = fields
        pairs = _join([*_bulks(names), *_bulks(values)])
        pieces.append(pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), b""))
        present += np.diff(np.asarray(offsets))

    words = 3 + len(options)
    if rows and np.all(present == present[0]):
        head: list[Any] = [_bytes(b"*%d\r\n$4\r\nXADD\r\n" % (words + 2 * int(present[0])))]
    else:
        number = _decimal_text(pa.array(words + 2 * present))
        head = [_bytes(b"*"), number, _bytes(b"\r\n$4\r\nXADD\r\n")]
    head += [_bytes(_bulk(keys))] if isinstance(keys, bytes) else _bulks(keys)
    middle = b"".join(map(_bulk, options))
    if ids is None:
        head.append(_bytes(middle + _bulk(b"*")))
    else:
        head += [_bytes(middle), *_bulks(pc.fill_null(ids, b"*"))]
    commands = _join(head + pieces, rows)
    empty = present == 0
    if empty.any():
        return pc.if_else(pa.array(empty), pa.scalar(None, pa.binary()), commands)
    return commands


def _bytes(value: bytes) -> Any:
    return pa.scalar(value, pa.binary())


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _bulks(values: Any) -> list[Any]:
    return [_bytes(b"$"), _decimal_text(pc.binary_length(values)), _bytes(b"\r\n"), values, _bytes(b"\r\n")]


def _decimal_text(numbers: Any) -> Any:
    return pc.cast(pc.cast(numbers, pa.string()), pa.binary())


def _join(pieces: list[Any], rows: int | None = None) -> Any:
    if rows is not None and all(isinstance(piece, pa.Scalar) for piece in pieces):
        pieces = [pa.repeat(pieces[0], rows), *pieces[1:]]
    return pc.binary_join_element_wise(*pieces, _bytes(b""))
