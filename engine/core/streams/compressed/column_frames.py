r"""Rebuilding the requested frames from columns.

Each word of a frame (the ID and the values) is preceded by a *head*: line ends, field name and lengths. In one column,
a head depends only on the word's length. The head of an ID is followed by the *prefix*, which all IDs of a segment
share, and then by the rest of the ID, which is the first column. In this example, ``|`` separates the pieces::

    \r\n*2\r\n$15\r\n | 17951633 | 72693-12 | \r\n*4\r\n$9\r\nsensor-id\r\n$4\r\n | 1234 | \r\n$11\r\n...

The leading line end belongs to the preceding frame. All these pieces are in one buffer, the *source*: the prefix, the
columns, and a head for each length. Numpy copies the pieces in order, all as items of the size of the longest piece;
each item overwrites the excess bytes of the previous item. A call costs 20 us, plus about 10 ns per piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from streamwire.digits import Ints
from streamwire.frames import frame
from streamwire.walker import overlapping

#: Starts of words in columns.
Starts = npt.NDArray[np.int32] | npt.NDArray[np.uint16]
#: Lengths of words in columns.
Lengths = npt.NDArray[np.uint8]

#: Maximum length of an ID: two numbers of twenty digits and a hyphen.
MOST_ID = 41
#: Space for columns in the source, between the prefix and the heads, in bytes.
_ROOM = 1 << 15
_COLUMNS = MOST_ID + _ROOM
#: Fewer frames than this are assembled one by one.
_FEW = 6


class FrameMaker:
    """Assembles frames of entries that have the field names ``names``. Not thread-safe."""

    __slots__ = ("_at", "_begins", "_item", "_lengths", "_names", "_source", "_windows")

    def __init__(self, names: Sequence[bytes], most: Sequence[int]) -> None:
        """``most``: the maximum length of each name's values."""
        self._names = names
        heads = [b"\r\n*2\r\n$%d\r\n" % length for length in range(MOST_ID + 1)]
        begins = [0]
        for number, name in enumerate(names):
            lead = b"\r\n%b$%d\r\n%b\r\n$" % (b"" if number else b"*%d\r\n" % (2 * len(names)), len(name), name)
            begins.append(len(heads))
            heads += [b"%b%d\r\n" % (lead, length) for length in range(most[number] + 1)]
        #: Length of each head.
        self._lengths: Ints = np.array(list(map(len, heads)), np.int64)
        #: Offset of each head in the source.
        self._at: Ints = np.cumsum(self._lengths) - self._lengths + _COLUMNS
        #: For each word of a frame, the index of its head for length 0.
        self._begins: Ints = np.array(begins, np.int64)[:, None]
        self._item = max(MOST_ID, *map(len, heads), *most)
        self._source = np.frombuffer(bytearray(_COLUMNS) + b"".join(heads) + bytes(self._item), np.uint8)
        self._windows = overlapping(self._source, self._item)

    def frames(self, prefix: bytes, data: memoryview, starts: Starts, lengths: Lengths) -> tuple[bytes, Ints]:
        """Return the frames of at least one entry, concatenated, and the start of each frame.

        ``starts`` and ``lengths`` locate the words in ``data``. They have a column for each entry, and a row for the ID
        (without the prefix) and for each field.
        """
        words, count = lengths.shape
        if count < _FEW:
            return self._few(prefix, data, starts, lengths)
        source, windows, columns_at = self._source, self._windows, MOST_ID
        if len(data) > _ROOM:
            columns_at = len(source)
            source = np.concatenate((source, np.frombuffer(data, np.uint8), np.zeros(self._item, np.uint8)))
            windows = overlapping(source, self._item)
        else:
            source[columns_at : columns_at + len(data)] = data
        source[: len(prefix)] = bytearray(prefix)
        # The offset in the source and the size of each piece: a row per piece, a column per frame.
        offsets, sizes = np.zeros((2, 1 + 2 * words, count), np.int64)
        heads = lengths + self._begins
        heads[0] += len(prefix)
        offsets[2::2], sizes[2::2] = starts, lengths
        offsets[2::2] += columns_at
        heads_at, head_sizes = self._at.take(heads), self._lengths.take(heads)
        offsets[0], sizes[0], sizes[1] = heads_at[0], head_sizes[0], len(prefix)
        offsets[3::2], sizes[3::2] = heads_at[1:], head_sizes[1:]
        sizes = sizes.T.ravel()
        at = sizes.cumsum()
        total = int(at[-1])
        at -= sizes
        made = np.empty(total + self._item, np.uint8)
        overlapping(made, self._item)[at] = windows[offsets.T.ravel()]
        # Drop the line end before the first frame, and add a line end after the last frame.
        made[total], made[total + 1] = b"\r\n"
        return made[2 : total + 2].tobytes(), at[:: 1 + 2 * words]

    def _few(self, prefix: bytes, data: memoryview, starts: Starts, lengths: Lengths) -> tuple[bytes, Ints]:
        """Assemble the frames one by one, and return the same result as ``frames``."""
        names, found, text = self._names, [], bytes(data)
        for begins, sizes in zip(starts.T.tolist(), lengths.T.tolist(), strict=True):
            entry_id, *values = (text[begin : begin + size] for begin, size in zip(begins, sizes, strict=True))
            words = [word for field in zip(names, values, strict=True) for word in field]
            found.append(frame(prefix + entry_id, words))
        edges = np.fromiter(accumulate(map(len, found), initial=0), np.int64)
        return b"".join(found), edges[:-1]
