"""Decoding of a reply's frames to a page of Arrow columns, without a Python object per value.

`streamwire.frames` verifies the frames. The page is a `BatchPage` if the entries have the same fields, and a
`TokenPage` otherwise. Small pages, and frames that cannot be verified, are parsed by the slow twin
(`streamclient.codec.reference`). All three must return the same columns, so change them together. If an entry
has a field twice, the last one counts. Does not depend on sockets, Spark, or the meaning of a column's text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamclient.codec import reference
from streamclient.codec.batch_page import BatchPage, milliseconds, sequences
from streamclient.codec.reply import ALL, Page
from streamwire import frames
from streamwire.entry_batch import Values
from streamwire.walker import AFTER

_Ints = NDArray[np.int64]
_MAX_BYTES = 2**31 - 1  # maximum size of an Arrow array with 32-bit offsets
_FEWEST = 128  # minimum number of entries for the vectorised decoder; for fewer entries, hiredis is faster


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


class TokenPage:
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

    def parts(self, most: int) -> list[Page]:
        """Return the page: its bytes fit one Arrow array."""
        del most
        return [self]

    def last_id(self) -> bytes:
        return bytes(self._tokens[2 * int(self._rows[-1])].as_py())

    def ids(self) -> Any:
        return self._gather(self._rows)

    def id_texts(self, rows: slice = ALL) -> list[bytes]:
        return self._ids.texts(rows)

    def milliseconds(self) -> Any:
        return milliseconds(self._ids, self.ids)

    def sequences(self) -> Any:
        return sequences(self._ids, self.ids)

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

    def integers(self, name: bytes) -> Any:
        """Return None: the caller must parse the texts."""
        del name

    def floats(self, name: bytes) -> Any:
        """Return None: the caller must parse the texts."""
        del name

    def fields(self) -> tuple[Any, Any, Any]:
        codes, code_of, row_of, token_of = self._by_name()
        key = row_of * len(codes) + code_of
        last = key.size - 1 - np.unique(key[::-1], return_index=True)[1]
        last.sort()
        tokens = token_of[last]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(row_of[last], minlength=self.count))))
        return pa.array(offsets.astype(np.int32)), self._gather(tokens), self._gather(tokens + 1)
