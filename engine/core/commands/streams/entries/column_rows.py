r"""Entries that come as columns: all their bytes at once, as frames (XRANGE's form) and as XADDs (the log's form).

Row i of a column is ``values[bounds[i]:bounds[i + 1]]``, so nothing has to be parsed. Rows whose values have the same
lengths are copies of one text with the values written into it::

    *2\r\n$15\r\n1518951480106-  7  \r\n*4\r\n$9\r\nsensor-id\r\n$4\r\n  1234  \r\n$1\r\ng\r\n$1\r\n  5  \r\n

A few rows are put together one by one (:class:`FewRows`). Of more, values are copied by numpy, as items of their size.
Where few of these share their lengths, all are joined from their pieces (:meth:`Rows._joined`). All three give the same
bytes; the frame of one entry is their oracle.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from streamwire.walker import overlapping

_Ints = npt.NDArray[np.int64]
_Buffer = bytes | bytearray

#: Up to so many rows are :class:`FewRows`.
FEW_ROWS = 60
#: If there are fewer rows for each length of a column's values, they are joined from pieces.
_FEW = 256
#: So many pieces of rows are kept at a time.
_MOST_PIECES = 1 << 20
#: Columns with longer values than that are not looked at for what they have in common.
_LONG = 1 << 16
#: The last four digits of sequence numbers, so that IDs differ in nothing else for so many rows.
_DIGITS, _PERIOD = 4, 10_000
_LAST_DIGITS = np.frombuffer(b"".join(b"%04d" % number for number in range(_PERIOD)), np.uint8)


class Column:
    """A field of each entry: its name, and its values back to back. ``bounds``: rows + 1 numbers."""

    __slots__ = ("bounds", "lengths", "name", "values", "variety")

    def __init__(self, name: bytes, bounds: bytes, values: bytes, count: int) -> None:
        """A ValueError where ``bounds`` (32 bits each, the lowest byte first) do not divide ``values``."""
        if len(bounds) != 4 * (count + 1):
            raise ValueError
        found = np.frombuffer(bounds, "<i4").astype(np.int64)
        lengths = np.diff(found)
        if found[0] or found[-1] != len(values) or (count and lengths.min() < 0):
            raise ValueError
        self.name = name
        self.values = values
        self.bounds: _Ints = found
        self.lengths: _Ints = lengths
        #: How many different lengths its values have; more than there are rows where they were not counted.
        self.variety = _lengths(lengths).size if count and lengths.max() < _LONG else count + 1


@dataclass(slots=True)
class _Values:
    """What is written into rows: the bytes, and where each row's begin. ``length`` is None where rows differ in it."""

    data: npt.NDArray[np.uint8]
    starts: _Ints
    lengths: _Ints
    length: int | None

    def items(self, length: int, rows: _Ints | None = None) -> npt.NDArray[np.void]:
        """The values of these rows (None: all of them), which are of this length."""
        kind = np.dtype((np.void, length))
        starts = self.starts if rows is None else self.starts[rows]
        begin, last = int(starts[0]), int(starts[-1])
        if rows is None and last - begin == length * (len(starts) - 1):  # one behind the other
            return self.data[begin : last + length].view(kind)
        return overlapping(self.data, length)[starts]


@dataclass(slots=True)
class _Text:
    """What some rows have in common: a text with holes (offset, size, values), and at its end a value of any length."""

    text: bytearray = field(default_factory=bytearray)
    holes: list[tuple[int, int, _Values]] = field(default_factory=list)
    last: _Values | None = None

    def sizes(self) -> int | _Ints:
        """How many bytes it takes in each row."""
        if self.last is None:
            return len(self.text)
        return _bulk_sizes(self.last.lengths) + len(self.text)

    def filled(self, count: int, rows: _Ints | None = None, length: int = 0) -> tuple[bytearray, int]:
        """It, with the values of these rows, back to back, and the size of each; ``length`` is the last value's."""
        text, holes = bytes(self.text), self.holes
        if self.last is not None:
            text += b"$%d\r\n" % length
            holes = [*holes, (len(text), length, self.last)]
            text += bytes(length) + b"\r\n"
        data = bytearray(text) * count
        for at, size, values in holes:
            if size:
                kind = np.dtype((np.void, size))
                np.ndarray((count,), kind, data, at, (len(text),))[:] = values.items(size, rows)
        return data, len(text)


class Rows:
    """The fields of ``count`` entries, at least one of each."""

    __slots__ = ("_columns", "_count")

    def __init__(self, columns: Sequence[Column], count: int) -> None:
        self._columns = columns
        self._count = count

    def encoded(self, ms: int, seq: int, key: bytes | None) -> tuple[bytes, _Ints, bytes]:
        """Entries with consecutive IDs from ``ms-seq`` on: their frames back to back, the sizes of these, and the XADDs
        that add them to this key; without a key, nothing in their place.
        """
        words = 2 * len(self._columns)
        forms = [(b"*2\r\n", b"*%d\r\n" % words)]
        if key is not None:
            forms.append((b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (3 + words, len(key), key), b""))
        least = _FEW * max(column.variety for column in self._columns)
        found: list[list[_Buffer]] = []
        sizes: list[_Ints] = []
        for first, end in _stretches(seq, self._count, max(_MOST_PIECES // (words + 1), 1)):
            if end - first < least:
                datas, each = self._joined(forms, ms, seq, first, end)
            else:
                stamped = [self._stamped(before, ms, seq, after, first, end) for before, after in forms]
                datas, each = [data for data, _ in stamped], stamped[0][1]
            found.append(datas)
            sizes.append(each)
        frames, *commands = map(b"".join, zip(*found, strict=True))
        return frames, np.concatenate(sizes), b"".join(commands)

    def _joined(
        self, forms: list[tuple[bytes, bytes]], ms: int, seq: int, first: int, end: int
    ) -> tuple[list[_Buffer], _Ints]:
        """The rows [first, end), whose IDs have as many digits, with each form's texts before and after the ID; and the
        sizes in the first form.
        """
        step, count = 1 + 2 * len(self._columns), end - first
        pieces: list[bytes] = [b""] * (step * count + 1)  # of each row: its ID, and of each field its names and value
        pieces[-1] = b"\r\n"
        sizes = np.zeros(count, np.int64)
        for at, column in enumerate(self._columns):
            lead = b"%b$%d\r\n%b\r\n" % (b"\r\n" if at else b"", len(column.name), column.name)
            lengths, values = column.lengths[first:end], column.values
            heads = {length: b"%b$%d\r\n" % (lead, length) for length in set(lengths.tolist())}
            pieces[2 * at + 1 : -1 : step] = map(heads.__getitem__, lengths.tolist())
            pieces[2 * at + 2 : -1 : step] = [
                values[low:high] for low, high in pairwise(column.bounds[first : end + 1].tolist())
            ]
            sizes += _bulk_sizes(lengths) + (len(lead) - len(b"\r\n") * bool(at))
        found: list[_Buffer] = []
        for before, after in forms:
            text = b"%d-%d" % (ms, seq + first)
            lead = b"\r\n%b$%d\r\n%d-" % (before, len(text), ms)
            ids = lead.replace(b"%", b"%%") + b"%d\r\n" + after
            pieces[0:-1:step] = map(ids.__mod__, range(seq + first, seq + end))
            pieces[0] = pieces[0][len(b"\r\n") :]
            found.append(b"".join(pieces))
        before, after = forms[0]
        return found, sizes + len(b"%b$%d\r\n%b\r\n%b" % (before, len(text), text, after))

    def _stamped(
        self, before: bytes, ms: int, seq: int, after: bytes, first: int, end: int
    ) -> tuple[_Buffer, npt.NDArray[np.int64]]:
        """The rows [first, end), whose IDs differ in the last digits alone, together."""
        count, begin = end - first, seq + first
        texts = self._texts(before, ms, begin, after, first, end)
        parts = [text.sizes() for text in texts]
        ends = np.cumsum(np.broadcast_to(sum(parts), count))
        sizes = np.diff(ends, prepend=0)
        if len(texts) == 1 and texts[0].last is None:
            return texts[0].filled(count)[0], sizes
        data = np.empty(int(ends[-1]), np.uint8)
        at = ends - sizes
        for text, part in zip(texts, parts, strict=True):
            _put(data, text, at, count)
            at = at + part
        return data.tobytes(), sizes

    def _texts(self, before: bytes, ms: int, begin: int, after: bytes, first: int, end: int) -> list[_Text]:
        """What the rows have in common, in the fewest parts: each but the last ends with a value of any length."""
        digits = len(b"%d" % begin)
        own = min(digits, _DIGITS)
        lead = b"%d-%b" % (ms, (b"%d" % begin)[:-own])
        text = _Text(bytearray(b"%b$%d\r\n%b" % (before, len(lead) + own, lead)))
        at = np.arange(begin % _PERIOD, begin % _PERIOD + end - first) * _DIGITS + _DIGITS - own
        ids = _Values(_LAST_DIGITS, at, at, None)
        text.holes.append((len(text.text), own, ids))
        text.text += bytes(own) + b"\r\n" + after
        texts = [text]
        for column in self._columns:
            if text.last is not None:
                text = _Text()
                texts.append(text)
            text.text += b"$%d\r\n%b\r\n" % (len(column.name), column.name)
            starts, lengths = column.bounds[first:end], column.lengths[first:end]
            size = int(lengths[0])
            is_same = bool((lengths == size).all())
            values = _Values(np.frombuffer(column.values, np.uint8), starts, lengths, size if is_same else None)
            if not is_same:
                text.last = values
                continue
            text.text += b"$%d\r\n" % size
            text.holes.append((len(text.text), size, values))
            text.text += bytes(size) + b"\r\n"
        return texts


class FewRows:
    """The same for so few rows that numpy would cost more. ``columns``: a field, its positions, its values."""

    __slots__ = ("_bodies", "_words")

    def __init__(self, columns: Sequence[tuple[bytes, bytes, bytes]], count: int) -> None:
        """A ValueError where positions (32 bits each, the lowest byte first) do not divide the values."""
        self._words = 2 * len(columns)
        form = struct.Struct(f"<{count + 1}i")
        fields: list[list[bytes]] = []
        for name, positions, values in columns:
            if len(positions) != form.size:
                raise ValueError
            bounds = form.unpack(positions)
            if bounds[0] or bounds[-1] != len(values) or any(low > high for low, high in pairwise(bounds)):
                raise ValueError
            lead = b"$%d\r\n%b\r\n$" % (len(name), name)
            fields.append([b"%b%d\r\n%b\r\n" % (lead, high - low, values[low:high]) for low, high in pairwise(bounds)])
        self._bodies = list(map(b"".join, zip(*fields, strict=True)))

    def encoded(self, ms: int, seq: int, key: bytes | None) -> tuple[bytes, list[int], bytes]:
        """As :meth:`Rows.encoded`."""
        texts = [b"%d-%d" % (ms, number) for number in range(seq, seq + len(self._bodies))]
        ids = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
        rows = list(zip(ids, self._bodies, strict=True))
        frames = [b"*2\r\n%b*%d\r\n%b" % (text, self._words, body) for text, body in rows]
        commands = b""
        if key is not None:
            head = b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (3 + self._words, len(key), key)
            commands = b"".join([b"%b%b%b" % (head, text, body) for text, body in rows])
        return b"".join(frames), list(map(len, frames)), commands


def _stretches(seq: int, count: int, most: int) -> Iterator[tuple[int, int]]:
    """``count`` rows from this sequence number on, at most ``most`` at a time, cut where more than their last digits
    would change.
    """
    first = 0
    while first < count:
        number = seq + first
        end = min(10 ** len(b"%d" % number), (number // _PERIOD + 1) * _PERIOD)
        end = min(end - seq, first + most, count)
        yield first, end
        first = end


def _put(data: npt.NDArray[np.uint8], text: _Text, at: _Ints, count: int) -> None:
    """Write a text at these offsets, one for each row."""
    if text.last is None:
        filled, size = text.filled(count)
        kind = np.dtype((np.void, size))
        overlapping(data, size)[at] = np.frombuffer(filled, kind)
        return
    lengths = text.last.lengths
    for length in _lengths(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        filled, size = text.filled(len(rows), rows, length)
        kind = np.dtype((np.void, size))
        overlapping(data, size)[at[rows]] = np.frombuffer(filled, kind)


def _bulk_sizes(lengths: _Ints) -> _Ints:
    """How large bulk strings of these lengths are."""
    digits: _Ints = np.searchsorted(10 ** np.arange(1, 10), lengths, side="right") + 1
    return lengths + digits + len(b"$\r\n\r\n")


def _lengths(lengths: _Ints) -> npt.NDArray[np.intp]:
    """Which lengths there are."""
    return np.flatnonzero(np.bincount(lengths))
