r"""Frames: entries in the encoding of an XRANGE reply. In this example, spaces separate the words; a frame has none::

    *2\r\n $15\r\n1518951480106-0\r\n  *4\r\n $9\r\nsensor-id\r\n $4\r\n1234\r\n ...
    `------------ head ------------'  `------------------- fields ------------------'

Frames are *uniform* if they have the same field names in the same order, like the entries of one producer. `uniform`
and `tokens` verify many frames at once, using `streamwire.walker`. Parsing the frames one by one with any RESP parser
gives the same words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamwire.digits import Ints
from streamwire.entry_batch import EntryBatch, Values
from streamwire.walker import Mismatch, Walker

_LINE_END = b"\r\n"
_STAR = ord("*")
#: The line end before a frame, and the start of the frame up to the length of its ID.
_LEAD = b"\r\n*2\r\n$"
#: Minimum average number of frames per step of `tokens`; with fewer, a parser is faster.
FEWEST = 256

#: The bytes between two words, by the length of the second word. For longer words, these bytes are made on demand.
BETWEEN = [b"\r\n$%d\r\n" % length for length in range(1024)]
#: The bytes before an entry's words, by their number. For more words, these bytes are made on demand.
_COUNTS = [b"\r\n*%d" % count for count in range(256)]


def frame(entry_id: bytes, fields: Sequence[bytes]) -> bytes:
    """Return the frame of an entry. `entry_id`: its ID as text; `fields`: field, value, field, value ..."""
    between, count = BETWEEN, len(fields)
    # (Formatting is slower than joining.)
    parts = [b"*2", between[len(entry_id)], entry_id, _COUNTS[count] if count < 256 else b"\r\n*%d" % count]
    for word in fields:
        # (A comprehension is slower.)
        parts += (between[len(word)] if len(word) < 1024 else b"\r\n$%d\r\n" % len(word), word)
    parts.append(_LINE_END)
    return b"".join(parts)


def fields_of(entry: bytes | bytearray | memoryview) -> list[bytes]:
    """Return the [field, value, ...] list of a complete frame: the inverse of `frame`, without the ID.

    Only the first frame of `entry` is read. Raises ValueError if `entry` does not begin with a frame.
    """
    data = bytes(entry)
    at = data.index(b"*", 4)
    end = data.index(b"\r\n", at)
    words = []
    for _ in range(int(data[at + 1 : end])):
        at = end + 2
        end = data.index(b"\r\n", at)
        size = int(data[at + 1 : end])
        if size < 0:
            raise ValueError("a null in the place of a word")
        words.append(data[end + 2 : end + 2 + size])
        end += 2 + size
    return words


def split_fields(entry: bytes) -> list[bytes]:
    """Return the result of `fields_of` for exactly one frame, but faster if no word contains a line end."""
    parts = entry.split(b"\r\n")
    return parts[5::2] if len(parts) == 5 + 2 * int(parts[3][1:]) else fields_of(entry)


def find_starts(buffer: bytes | bytearray, start: int, stop: int, count: int) -> Ints | None:
    """Return the likely start of each of the `count` frames in `buffer[start:stop]`; None if another number is found.

    The starts are not verified. A line end must precede the frames, and `walker.AFTER` readable bytes must follow.
    """
    data = np.frombuffer(buffer, np.uint8, stop - start, start)
    stars = np.flatnonzero(data == _STAR) + start
    if stars.size == 2 * count:
        return stars[::2]
    found = stars[Walker(buffer, stars - len(_LINE_END)).have(_LEAD)]
    if found.size > count:
        # The word count of an entry with one field looks like the start of a frame.
        walker = Walker(buffer, found - len(_LINE_END))
        try:
            walker.bulk(_LEAD)
            found = found[walker.have(b"\r\n*")]
        except Mismatch:
            return None
    return found if found.size == count else None


def uniform(buffer: bytes | bytearray, edges: Ints, names: Sequence[bytes]) -> EntryBatch | None:
    """Return the entries if a frame with these field names extends from each of `edges` to the next; otherwise None.

    A line end must precede the first frame, and `walker.AFTER` readable bytes must follow the last one.
    """
    if not names or buffer[edges[0] - 2 : edges[0]] != _LINE_END or buffer[edges[-1] - 2 : edges[-1]] != _LINE_END:
        return None
    pieces = [b"\r\n$%d\r\n%b\r\n$" % (len(name), name) for name in names]
    pieces[0] = b"\r\n*%d%b" % (2 * len(names), pieces[0])
    # Start at the line end before each frame, so that a frame's last line end is checked with the next frame's head.
    walker = Walker(buffer, edges[:-1] - len(_LINE_END))
    try:
        found = [walker.bulk(piece) for piece in (_LEAD, *pieces)]
    except Mismatch:
        return None
    if not np.array_equal(walker.at, edges[1:] - len(_LINE_END)):
        return None
    data = np.frombuffer(buffer, np.uint8)
    entry_ids, *values = (Values.of_bulks(data, bulk) for bulk in found)
    return EntryBatch(len(entry_ids), tuple(names), tuple(values), entry_ids)


def tokens(buffer: bytes | bytearray, edges: Ints) -> tuple[Ints, Ints, Ints] | None:
    """Return the tokens if a frame with any fields extends from each of `edges` to the next; otherwise None.

    Also returns None if a parser would be faster: each step reads one word of all frames, so a few frames with many
    fields are slow. The tokens are each frame's ID, names and values. Returns their starts, their ends, and the index
    of each frame's first token followed by the total. The buffer must fulfil the conditions of `uniform`.
    """
    if buffer[edges[0] - 2 : edges[0]] != _LINE_END or buffer[edges[-1] - 2 : edges[-1]] != _LINE_END:
        return None
    walker = Walker(buffer, edges[:-1] - len(_LINE_END))
    try:
        entry_ids, numbers = walker.bulk(_LEAD), walker.bulk(b"\r\n*")
        words = np.broadcast_to(numbers.sizes, edges[1:].shape)
        most = int(words.max())
        first = np.zeros(edges.size, np.int64)
        np.cumsum(words + 1, out=first[1:])
        if words.min() < 2 or (words & 1).any() or first[-1] < FEWEST * most:
            return None
        starts = np.empty(int(first[-1]), np.int64)
        sizes = np.empty_like(starts)
        starts[first[:-1]], sizes[first[:-1]] = entry_ids.begins, entry_ids.sizes
        # Each step reads the next word of all frames that have more words; `index` is the next token of each frame.
        at, index, behind = numbers.begins - len(_LINE_END), first[:-1] + 1, edges[1:] - len(_LINE_END)
        done = 0
        for step in np.unique(words).tolist():
            walker = Walker(buffer, at)
            for _ in range(step - done):
                bulk = walker.bulk(b"\r\n$")
                starts[index], sizes[index] = bulk.begins, bulk.sizes
                index = index + 1
            going, done = words > step, step
            if not np.array_equal(walker.at[~going], behind[~going]):
                return None
            at, index, behind, words = walker.at[going], index[going], behind[going], words[going]
    except Mismatch:
        return None
    return starts, starts + sizes, first
