"""Fast path for reading RDB stream nodes whose entries all have the node's field names: many nodes at once.

The results equal those of ``engine.core.formats.rdb.streams.stream_reader``, which reads entry by entry and handles the
nodes declined here, including damaged nodes. The start of a listpack element depends on the element before it, so the
nodes are walked in parallel, one element per node at a time. All other work is done for all entries at once. The
entries become an `EntryBatch`, which `streamwire.frames.framed` converts.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from engine.core.formats.rdb.primitives import BadFormatError, Steps, read_listpack
from engine.core.formats.rdb.streams.forms import SAME_FIELDS
from streamwire.entry_batch import EntryBatch, Values
from streamwire.frames import framed

_Ints = npt.NDArray[np.int64]
_Unsigned = npt.NDArray[np.uint64]
_Bytes = npt.NDArray[np.uint8]
_Bools = npt.NDArray[np.bool_]
#: Arguments of Stream.extend: frames, their sizes, and the IDs' two columns.
Entries = tuple[bytearray, _Ints, "array[int]", "array[int]"]

#: A node with more elements is declined.
_MOST_ELEMENTS = 8192
#: A node with more fields is declined.
_MOST_FIELDS = 120
#: Number of elements of each node walked per step.
_AT_ONCE = 64
#: Maximum number of entries in a batch.
_ENTRIES = 2048
#: Approximate maximum size of the table for a batch's values, in bytes.
_TABLE_BYTES = 1 << 20
#: Size of an empty listpack in bytes.
_SHORTEST = 7
#: Padding after the nodes, so that reads of a damaged node stay within the buffer.
_BEHIND = b"\xff" * 16
_END, _DASH, _ZERO = b"\xff-0"
#: The first byte of an integer element -> the size of the integer.
_NUMBER_BYTES = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}
#: Size of an element, including its length byte, above which the length takes two bytes.
_SHORT_ELEMENT = 128
_POWERS = np.array([10**power for power in range(1, 20)], np.uint64)


@cache
def _element_sizes() -> _Ints:
    """Return a table: first two bytes of an element -> its size, including the length after it; 0: unsupported."""
    first, second = np.divmod(np.arange(1 << 16), 256)
    sizes = np.zeros(1 << 16, np.int64)
    sizes[first < 0x80] = 2
    sizes = np.where((first >= 0x80) & (first < 0xC0), (first & 63) + 2, sizes)
    sizes[(first >= 0xC0) & (first < 0xE0)] = 3
    long = 2 + ((first & 15) << 8 | second)
    sizes = np.where((first >= 0xE0) & (first < 0xF0), long + np.where(long < _SHORT_ELEMENT, 1, 2), sizes)
    for code, size in _NUMBER_BYTES.items():
        sizes[first == code] = size + 2
    return sizes


@cache
def _four_digits() -> _Bytes:
    """Return the four digits of each number below 10,000."""
    return np.frombuffer(b"".join(b"%04d" % number for number in range(10_000)), np.uint8).reshape(-1, 4)


class UniformNodes:
    """Some nodes of a stream, and the entries of the uniform nodes."""

    def __init__(self, nodes: Sequence[bytes]) -> None:
        self._buffer = np.frombuffer(b"".join((*nodes, _BEHIND)), np.uint8)
        self._lengths = np.array(list(map(len, nodes)))
        self._ends = np.cumsum(self._lengths)
        self._behind = np.zeros(0, np.int64)
        self._names: list[bytes] = []
        #: For each node, whether it is uniform.
        self.are = np.zeros(len(nodes), np.bool_)
        #: For each entry of uniform nodes, the offsets of its elements.
        self._rows = np.zeros((0, 0), np.int64)
        #: For each entry of uniform nodes, the index of its node.
        self._node_of = np.zeros(0, np.int64)
        #: For each entry of uniform nodes, the milliseconds of its ID.
        self._ms = np.zeros(0, np.uint64)
        #: For each entry of uniform nodes, the sequence number of its ID.
        self._seq = np.zeros(0, np.uint64)

    def find(self, keys: Sequence[bytes]) -> Steps[None]:
        """Determine which nodes are uniform; ``keys`` are the nodes' IDs."""
        if self._lengths.min() < _SHORTEST or set(map(len, keys)) != {16}:
            return
        buffer, begins = self._buffer, self._ends - self._lengths
        header = [buffer[begins + at].astype(np.int64) for at in range(6)]
        total = header[0] | header[1] << 8 | header[2] << 16 | header[3] << 24
        elements = header[4] | header[5] << 8
        are = (total == self._lengths) & (elements > 4) & (elements <= _MOST_ELEMENTS)
        if not are.any():
            return
        table = yield from self._walked(begins + 6, int(elements[are].max()))
        lanes = np.arange(len(are))
        elements[~are] = 1
        are &= (table[elements, lanes] == self._ends - 1) & (table[elements - 1, lanes] < self._ends - 1)
        are &= buffer[self._ends - 1] == _END
        entries = self._find_heads(table, elements, are)
        yield False
        if not are.any():
            return
        yield from self._find_entries(table, entries, are)
        yield False
        self._find_ids(b"".join(keys))

    def _walked(self, at: _Ints, elements: int) -> Steps[_Ints]:
        """Return the starts of the elements of all nodes: a row per element, a column per node."""
        buffer = self._buffer
        pairs = buffer[:-1].astype(np.uint16) << 8 | buffer[1:]
        behind = np.arange(len(pairs)) + _element_sizes()[pairs]
        self._behind = behind = np.minimum(behind, len(buffer) - len(_BEHIND))
        yield False
        table = np.empty((elements + 1, len(at)), np.int64)
        for number in range(elements):
            table[number] = at
            at = behind[at]
            if not number % _AT_ONCE:
                yield False
        table[elements] = at
        return table

    def _find_heads(self, table: _Ints, elements: _Ints, are: _Bools) -> _Ints:
        """Decline nodes whose field names differ from the first node's; return the number of entries of each node."""
        buffer, none = self._buffer, np.zeros(0, np.int64)
        if not are.any():
            return none
        first = int(np.argmax(are))
        fields = int(buffer[table[2, first]])
        begin, end = table[0, first], table[min(4 + fields, len(table) - 1), first]
        are &= (buffer[table[2]] == fields) & (elements >= 4 + fields)
        if not 0 < fields <= _MOST_FIELDS or not are[first]:
            are[:] = False
            return none
        try:
            head = buffer[begin:end].tobytes()
            words = read_listpack(struct.pack("<IH", len(head) + _SHORTEST, 4 + fields) + head + bytes((_END,)))
        except BadFormatError:
            are[:] = False
            return none
        self._names = words[3:-1]
        # The heads of all nodes must be equal from the number of fields on.
        size = int(end - table[2, first])
        are &= (table[4 + fields] - table[2] == size) & (buffer[table[3 + fields]] == 0)
        at = np.minimum(table[2], len(buffer) - size)
        are &= (buffer[at[:, None] + np.arange(size)] == buffer[table[2, first] : end]).all(axis=1)
        entries, numbers = _numbers(buffer, table[0])
        are &= numbers & (entries > 0) & (buffer[table[1]] == 0) & self._have_ends(table[:2]).all(axis=0)
        are &= elements == 4 + fields + entries * (fields + 4)
        return entries

    def _find_entries(self, table: _Ints, entries: _Ints, are: _Bools) -> Steps[None]:
        """Decline nodes with an entry that is deleted, has other fields, or is damaged."""
        fields, most = len(self._names), int(entries[are].max())
        rows = table[4 + fields : 4 + fields + most * (fields + 4)].T.reshape(len(are), most, fields + 4)
        rows = rows[(np.arange(most) < entries[:, None]) & are[:, None]]
        node_of = np.repeat(np.flatnonzero(are), entries[are])
        good = (self._buffer[rows[:, 0]] == SAME_FIELDS) & (self._buffer[rows[:, -1]] == fields + 3)
        yield False
        good &= self._have_ends(rows).all(axis=1)
        yield False
        for column in (1, 2):
            good &= _numbers(self._buffer, rows[:, column])[1]
        are[node_of[~good]] = False
        keep = are[node_of]
        self.are, self._rows, self._node_of = are, rows[keep], node_of[keep]

    def _have_ends(self, at: _Ints) -> _Bools:
        """Return whether each of the elements at these offsets is followed by its length."""
        buffer, behind = self._buffer, self._behind[at]
        sizes = behind - at
        good: _Bools = buffer[behind - 1] == sizes - 1
        long = sizes > _SHORT_ELEMENT
        if long.any():
            sizes = sizes - 2
            good[long] = ((buffer[behind - 2] == sizes >> 7) & (buffer[behind - 1] == (sizes & 127 | 128)))[long]
        return good

    def _find_ids(self, keys: bytes) -> None:
        """Decline nodes whose IDs are not ascending."""
        halves = np.frombuffer(keys, ">u8").astype(np.uint64).reshape(-1, 2)[self._node_of]
        ms, seq = (
            halves[:, half] + _numbers(self._buffer, self._rows[:, 1 + half])[0].view(np.uint64) for half in (0, 1)
        )
        falls = (ms[1:] < ms[:-1]) | (ms[1:] == ms[:-1]) & (seq[1:] <= seq[:-1])
        if falls.any():
            self.are[self._node_of[1:][falls]] = False
            keep = self.are[self._node_of]
            self._rows, self._node_of, ms, seq = self._rows[keep], self._node_of[keep], ms[keep], seq[keep]
        self._ms, self._seq = ms, seq

    # -- entries ------------------------------------------------------------------------------------------------------

    def entries(self, first: int, last: int) -> Iterator[Entries]:
        """Yield the entries of the uniform nodes [first, last), in batches."""
        begin, end = np.searchsorted(self._node_of, (first, last)).tolist()
        while begin < end:
            behind = min(begin + _ENTRIES, end)
            while behind - begin > 1 and self._room(begin, behind) > _TABLE_BYTES:
                behind = (begin + behind) // 2
            ms, seq = self._ms[begin:behind], self._seq[begin:behind]
            data, bounds = framed(self._batch(self._rows[begin:behind], ms, seq))
            yield data, np.diff(bounds), array("Q", ms.tobytes()), array("Q", seq.tobytes())
            begin = behind

    def _room(self, begin: int, end: int) -> int:
        """Return the approximate size of the table for these entries' values, in bytes."""
        rows = self._rows[begin:end, 3:-1]
        return int((self._behind[rows] - rows).max(axis=0).sum()) * (end - begin)

    def _batch(self, rows: _Ints, ms: _Unsigned, seq: _Unsigned) -> EntryBatch:
        values = [_words(self._buffer, rows[:, 3 + number]) for number in range(len(self._names))]
        return EntryBatch(len(rows), tuple(self._names), tuple(values), _ids(ms, seq))


def _ids(ms: _Unsigned, seq: _Unsigned) -> Values:
    """Return IDs as text, given their milliseconds and sequence numbers."""
    (times, before), (numbers, behind) = _digits(ms), _digits(seq)
    low, high = int(behind.min()), int(behind.max())
    table = np.empty((len(ms), times.shape[1] + 1 + high), np.uint8)
    width = times.shape[1]
    table[:, :width], table[:, width] = times, _DASH
    for size in range(low, high + 1):
        # The rest of the row of a shorter number stays undefined.
        which = slice(None) if low == high else behind == size
        table[which, width + 1 : width + 1 + size] = numbers[which, high - size :]
    starts = np.arange(len(ms)) * table.shape[1] + width - before
    return Values(table.ravel(), starts, before + 1 + behind)


def _numbers(buffer: _Bytes, at: _Ints) -> tuple[_Ints, _Bools]:
    """Return the integers in the elements at these offsets, and a mask of the valid integers."""
    first = buffer[at]
    values, are = first.astype(np.int64), first < 0x80
    if are.all():
        return values, are
    some = np.flatnonzero((first & 0xE0) == 0xC0)
    found = (values[some] & 31) << 8 | buffer[at[some] + 1]
    values[some] = found - ((found >> 12) << 13)
    are[some] = True
    for code, size in _NUMBER_BYTES.items():
        some = np.flatnonzero(first == code)
        if len(some):
            found = np.zeros(len(some), np.int64)
            for byte in range(size):
                found |= buffer[at[some] + 1 + byte].astype(np.int64) << 8 * byte
            # The highest bit is the sign.
            values[some] = found << 64 - 8 * size >> 64 - 8 * size
            are[some] = True
    return values, are


def _digits(numbers: _Unsigned | _Ints) -> tuple[_Bytes, _Ints]:
    """Return the texts of non-negative numbers, right-aligned in the rows of a table, and their sizes."""
    least, most = int(numbers.min()), int(numbers.max())
    width = len(str(most))
    if width == 1:
        return (numbers + _ZERO).astype(np.uint8)[:, None], np.ones(len(numbers), np.int64)
    groups = -(-width // 4)
    table = np.empty((len(numbers), 4 * groups), np.uint8)
    numbers = numbers.astype(np.uint64, copy=False)
    sizes = np.full(len(numbers), width)
    if len(str(least)) < width:
        sizes = np.searchsorted(_POWERS, numbers, side="right") + 1
    for group in range(groups, 1, -1):
        # Division by a constant is fast; the remainder operation is slow.
        higher = numbers // np.uint64(10_000)
        table[:, 4 * group - 4 : 4 * group] = _four_digits()[(numbers - higher * np.uint64(10_000)).astype(np.intp)]
        numbers = higher
    table[:, :4] = _four_digits()[numbers.astype(np.intp)]
    return table[:, 4 * groups - width :], sizes


def _words(buffer: _Bytes, at: _Ints) -> Values:
    """Return the words in the elements at these offsets, numbers as text."""
    first = buffer[at].astype(np.int64)
    short, long = (first & 0xC0) == 0x80, (first & 0xF0) == 0xE0
    sizes, begins = first & 63, at + 1
    if long.any():
        begins = begins + long
        sizes = np.where(long, (first & 15) << 8 | buffer[at + 1], sizes)
    strings = short | long
    if strings.all():
        return Values(buffer, begins, sizes)
    numbers = np.flatnonzero(~strings)
    values, _ = _numbers(buffer, at[numbers])
    minus = values < 0
    text, digits = _digits(np.where(minus, -values, values).view(np.uint64))
    sizes[numbers] = digits + minus
    # The texts of the numbers follow the buffer, right-aligned in rows of the same width.
    width = text.shape[1] + 1
    table = np.empty((len(numbers), width), np.uint8)
    table[:, 1:] = text
    table[minus, width - 1 - digits[minus]] = _DASH
    begins[numbers] = len(buffer) + np.arange(1, len(numbers) + 1) * width - sizes[numbers]
    return Values(np.concatenate((buffer, table.ravel())), begins, sizes)
