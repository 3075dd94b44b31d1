"""Decoding of a reply's frames to a page of Arrow columns, without a Python object per value.

`streamwire.frames` verifies the frames. The page is a `BatchPage` if the entries have the same fields, and a
`TokenPage` otherwise. Small pages, and frames that cannot be verified, are parsed by the slow twin
(`streamclient.codec.reference`). All three must return the same columns, so change them together. If an entry
has a field twice, the last one counts. Does not depend on sockets, Spark, or the meaning of a column's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamclient.codec import reference
from streamclient.codec.reply import ALL, Page, last_of
from streamwire import digits, frames
from streamwire.entry_batch import EntryBatch, Values
from streamwire.lazy import compute as pc
from streamwire.walker import AFTER, overlapping

_Ints = NDArray[np.int64]
_FEWEST = 128  # minimum number of entries for the vectorised decoder; for fewer entries, hiredis is faster
_WORD = 8
_U = np.uint64
_MS_DIGITS = 13  # milliseconds since 1970 have thirteen digits from 2001 to 2286
_MAX_BYTES = 2**31 - 1  # maximum size of an Arrow array with 32-bit offsets
_MAX_SIGNED = np.uint64(2**63 - 1)  # larger numbers do not fit int64


def decode_page(buffer: bytes | bytearray, start: int, stop: int, count: int) -> Page:
    """Return the page of the `count` frames in `buffer[start:stop]`. Raises ValueError for any other content.

    The vectorised decoder needs a line end before `start`, and sixteen readable bytes with any content after `stop`.
    """
    page: Page | None = scan(buffer, start, stop, count) if count >= _FEWEST else None
    return reference.parse(buffer, start, stop, count) if page is None else page


def scan(buffer: bytes | bytearray, start: int, stop: int, count: int) -> BatchPage | TokenPage | None:
    """Return the page if `buffer[start:stop]` is verified to be `count` frames; otherwise None."""
    if count < 1 or stop > _MAX_BYTES or start < len(b"\r\n") or len(buffer) < stop + AFTER:
        return None
    begins = frames.find_starts(buffer, start, stop, count)
    if begins is None or begins[0] != start:
        return None
    edges = np.append(begins, stop)
    names = _names(buffer, start, int(edges[1]))
    batch = frames.uniform(buffer, edges, names)
    if batch is not None:
        return BatchPage([batch])
    found = frames.tokens(buffer, edges)
    return None if found is None else TokenPage(buffer, *found)


def _names(buffer: bytes | bytearray, start: int, stop: int) -> list[bytes]:
    """Return the field names of the first frame; empty if it is not a plain frame."""
    try:
        words = frames.fields_of(memoryview(buffer)[start:stop])
    except ValueError:
        return []
    return words[::2] if len(words) % 2 == 0 else []


class BatchPage(Page):
    """A page of one or more batches, which have the same field names."""

    def __init__(self, batches: Sequence[EntryBatch]) -> None:
        self.count = sum(batch.count for batch in batches)
        self.batches = batches
        self._last = last_of(batches[0].names)
        self._known: dict[int, Values | None] = {}

    def _values(self, number: int) -> Values | None:
        """Return a field's values in all batches, concatenated; None if a batch was sent without them."""
        if number not in self._known:
            found = [batch.values[number] for batch in self.batches]
            self._known[number] = found[0] if len(found) == 1 else _joined(found)
        return self._known[number]

    def last_id(self) -> bytes:
        ids = self.batches[-1].ids
        if isinstance(ids, Values):
            return ids.data[int(ids.starts[-1]) : int(ids.starts[-1] + ids.lengths[-1])].tobytes()
        assert ids is not None
        return b"%d-%d" % (ids[0][-1], ids[1][-1])

    def _halves(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the milliseconds and sequence numbers of the IDs, from the batches that have IDs as numbers."""
        pairs = [batch.ids for batch in self.batches if isinstance(batch.ids, tuple)]
        return np.concatenate([ms for ms, _ in pairs]), np.concatenate([seq for _, seq in pairs])

    def ids(self) -> Any:
        texts = self.batches[0].ids
        if isinstance(texts, Values):
            return _array(texts)
        ms, seq = self._halves()
        return pc.binary_join_element_wise(_decimals(ms), _decimals(seq), pa.scalar(b"-", pa.binary()))

    def id_texts(self, rows: slice = ALL) -> list[bytes]:
        texts = self.batches[0].ids
        if isinstance(texts, Values):
            return texts.texts(rows)
        ms, seq = self._halves()
        return [b"%d-%d" % pair for pair in zip(ms[rows].tolist(), seq[rows].tolist(), strict=True)]

    def milliseconds(self) -> Any:
        texts = self.batches[0].ids
        return milliseconds(texts) if isinstance(texts, Values) else _signed(self._halves()[0])

    def sequences(self) -> Any:
        texts = self.batches[0].ids
        return sequences(texts) if isinstance(texts, Values) else _signed(self._halves()[1])

    def column(self, name: bytes) -> Any:
        number = self._last.get(name)
        return pa.nulls(self.count, pa.binary()) if number is None else self._column(number)

    def _column(self, number: int) -> Any:
        values = self._values(number)
        return pa.nulls(self.count, pa.binary()) if values is None else _array(values)

    def integers(self, name: bytes) -> Any:
        return self._parsed(name, digits.integers)

    def floats(self, name: bytes) -> Any:
        return self._parsed(name, digits.floats)

    def _parsed(self, name: bytes, parse: Callable[[digits.Words, digits.Lengths], Any]) -> Any:
        number = self._last.get(name)
        values = None if number is None else self._values(number)
        found = None if values is None else parse(*values.words())
        return None if found is None else pa.array(found)

    def fields(self) -> tuple[Any, Any, Any]:
        """Return all fields. Values that were not sent are null."""
        names, numbers = list(self._last), list(self._last.values())
        width = len(names)
        keys = pa.array(names, pa.binary()).take(pa.array(np.tile(np.arange(width, dtype=np.int32), self.count)))
        offsets = pa.array(np.arange(0, self.count * width + 1, width, dtype=np.int32))
        if isinstance(self.batches[0].ids, Values):
            # Order the values as in the frames, so that the offsets ascend.
            spans = [(column.starts, column.ends) for column in map(self._values, numbers) if column is not None]
            edges = np.array(spans, np.int32).transpose(2, 0, 1)
            return offsets, keys, _spread(self.batches[0].ids.data, np.ascontiguousarray(edges).ravel())
        # Concatenate the columns, then take their values in the order of the entries.
        values = pa.concat_arrays([self._column(number) for number in numbers])
        order = (np.arange(self.count)[:, None] + self.count * np.arange(width)).ravel()
        return offsets, keys, values.take(pa.array(order))


def milliseconds(texts: Values) -> Any:
    """Return the first half of each ID as an int64 array."""
    found = _milliseconds(texts)
    return reference.half(texts.texts(ALL), 0) if found is None else pa.array(found.view(np.int64))


def sequences(texts: Values) -> Any:
    """Return the second half of each ID as an int64 array."""
    lengths = texts.lengths - (_MS_DIGITS + 1)
    if np.max(lengths) <= _WORD and _milliseconds(texts) is not None:
        words = overlapping(texts.data, _WORD)[texts.starts + (_MS_DIGITS + 1)].view("<u8").ravel()
        found = digits.plain(words, lengths)
        if found is not None:
            return pa.array(found.view(np.int64))
    return reference.half(texts.texts(ALL), 2)


def _milliseconds(texts: Values) -> NDArray[np.uint64] | None:
    """Return the first half of each ID if all have thirteen digits; otherwise None."""
    if np.min(texts.lengths) <= _MS_DIGITS + 1:
        return None
    near = overlapping(texts.data, 2 * _WORD)[texts.starts].view("<u8").reshape(-1, 2)
    high, low = digits.plain(near[:, 0], _WORD), digits.plain(near[:, 1], _MS_DIGITS - _WORD)
    dashes = (near[:, 1] >> _U(40)) & _U(0xFF)
    return None if high is None or low is None or (dashes != ord("-")).any() else high * _U(100_000) + low


def _signed(numbers: NDArray[np.uint64]) -> Any:
    """Return the numbers as an int64 array; null if a number is too large."""
    large = numbers > _MAX_SIGNED
    return pa.array(numbers.view(np.int64), mask=large if large.any() else None)


def _array(values: Values) -> Any:
    """Return byte strings as an Arrow array."""
    if values.bounds is not None:
        body = pa.py_buffer(values.data[: int(values.bounds[-1])])
        return pa.BinaryArray.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(values.bounds), body])
    edges = np.empty(2 * len(values), np.int32)
    edges[0::2] = values.starts
    np.add(values.starts, values.lengths, out=edges[1::2], casting="unsafe")
    return _spread(values.data, edges)


def _spread(data: NDArray[np.uint8], edges: NDArray[np.int32]) -> Any:
    """Return byte strings with gaps between them as an Arrow array. `edges`: start and end of each string in `data`."""
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    array = pa.BinaryArray.from_buffers(pa.binary(), edges.size - 1, buffers)  # alternately strings and gaps
    return array.take(pa.array(np.arange(0, edges.size, 2, dtype=np.int32)))


def _joined(found: Sequence[Values | None]) -> Values | None:
    """Concatenate a field's values in several batches. Return None if a batch was sent without them."""
    parts = [values for values in found if values is not None]
    if len(parts) < len(found):
        return None
    bounds = [part.bounds for part in parts if part.bounds is not None]
    sizes = [int(ends[-1]) for ends in bounds]
    if sum(sizes) > _MAX_BYTES:
        raise ValueError("a page of more than two gigabytes")
    before = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    joined = np.concatenate([[0], *(ends[1:] + first for ends, first in zip(bounds, before, strict=True))])
    data = np.concatenate([part.data[:size] for part, size in zip(parts, sizes, strict=True)])
    return Values.divided(data, joined.astype(np.int32))


def _decimals(numbers: NDArray[np.uint64]) -> Any:
    """Return the numbers as decimal texts."""
    return pc.cast(pc.cast(pa.array(numbers), pa.string()), pa.binary())


class TokenPage(Page):
    """A page of entries with different fields. Its tokens are each row's ID, followed by alternate names and values.

    All tokens are in one Arrow array over the reply's bytes. The elements of this array are alternately tokens and the
    gaps between them, so a column is a `take` of some elements, and Python copies no bytes.
    """

    def __init__(self, buffer: bytes | bytearray, begins: _Ints, ends: _Ints, row_starts: _Ints) -> None:
        self.count = row_starts.size - 1
        self._rows = row_starts[:-1]
        self._widths = np.diff(row_starts)
        offsets = np.empty(2 * begins.size, np.int32)
        offsets[0::2] = begins
        offsets[1::2] = ends
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
        self._tokens = pa.BinaryArray.from_buffers(pa.binary(), offsets.size - 1, buffers)
        self._ids = Values(np.frombuffer(buffer, np.uint8), begins[self._rows], (ends - begins)[self._rows])
        self._coded: tuple[dict[bytes, int], _Ints, _Ints, _Ints] | None = None

    def _gather(self, tokens: _Ints) -> Any:
        return self._tokens.take(pa.array(2 * tokens))

    def _by_name(self) -> tuple[dict[bytes, int], _Ints, _Ints, _Ints]:
        """Return a code for each name, and three arrays: each field's name code, row, and index of the name token."""
        if self._coded is None:
            rows = np.repeat(np.arange(self.count), self._widths)
            within = np.arange(rows.size) - np.repeat(self._rows, self._widths)
            names = np.flatnonzero(within & 1)
            encoded = self._gather(names).dictionary_encode()
            codes = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
            self._coded = codes, encoded.indices.to_numpy().astype(np.int64), rows[names], names
        return self._coded

    def last_id(self) -> bytes:
        return bytes(self._tokens[2 * int(self._rows[-1])].as_py())

    def ids(self) -> Any:
        return self._gather(self._rows)

    def id_texts(self, rows: slice = ALL) -> list[bytes]:
        return self._ids.texts(rows)

    def milliseconds(self) -> Any:
        return milliseconds(self._ids)

    def sequences(self) -> Any:
        return sequences(self._ids)

    def column(self, name: bytes) -> Any:
        codes, code_of, row_of, token_of = self._by_name()
        code = codes.get(name)
        if code is None:
            return pa.nulls(self.count, pa.binary())
        at = np.flatnonzero(code_of == code)
        tokens = np.full(self.count, -1, np.int64)
        tokens[row_of[at]] = token_of[at] + 1  # ascending, so that an entry's last field of the name wins
        missing = tokens < 0
        return self._tokens.take(pa.array(2 * tokens, mask=missing) if missing.any() else pa.array(2 * tokens))

    def fields(self) -> tuple[Any, Any, Any]:
        codes, code_of, row_of, token_of = self._by_name()
        key = row_of * len(codes) + code_of
        last = key.size - 1 - np.unique(key[::-1], return_index=True)[1]
        last.sort()
        tokens = token_of[last]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(row_of[last], minlength=self.count))))
        return pa.array(offsets.astype(np.int32)), self._gather(tokens), self._gather(tokens + 1)
