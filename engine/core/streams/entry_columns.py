"""Entries that are alike, as columns: the names of their fields once, and the values of each field back to back.

Entries are alike if they have the same field names in the same order. ``spans`` finds the parts of columns in their
frames, or reports that they are not alike: it follows all frames at once (`streamwire.walker`) to the very end of each.
Frames that differ from what `streamwire.frames.frame` writes are not alike, so columns and IDs give the same
bytes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamwire.frames import fields_of, follow
from streamwire.walker import AFTER, BEFORE, Mismatch, Walker

Ints = npt.NDArray[np.int64]

#: Entries with more fields are not alike: each field costs some twenty calls of numpy, however few the entries are.
MOST_FIELDS = 64
_LINE_END = b"\r\n"
#: Values longer than that on average are sliced one by one; of shorter ones each byte is gathered.
_LONG = 64
#: So many bytes can be counted with 32 bits and a sign.
_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of some entries. The value of entry i in a column is ``values[bounds[i]:bounds[i + 1]]``."""

    names: tuple[bytes, ...]
    #: For each name: where its values begin, and the end of the last one; int32, one more than there are entries.
    bounds: tuple[npt.NDArray[np.int32], ...]
    #: For each name: its values back to back.
    values: tuple[bytes, ...]


def spans(
    data: bytes | bytearray | memoryview, offsets: Sequence[int] | npt.NDArray[np.integer]
) -> tuple[tuple[bytes, ...], tuple[Ints, Ints], list[tuple[Ints, Ints]]] | None:
    """Of alike frames: the names of their fields; where in ``data`` the texts of IDs begin, and their lengths; and the
    same of each field's values. None if the frames are not alike.

    Frame i is ``data[offsets[i]:offsets[i + 1]]``: one offset more than there are frames, of which there is at least
    one. The first frame is a whole one; nothing is assumed of the others.
    """
    view = memoryview(data)
    first = fields_of(view[offsets[0] : offsets[1]])
    names = tuple(first[::2])
    if not names or len(names) > MOST_FIELDS or len(view) > _MOST_BYTES:
        return None
    begin, end = int(offsets[0]), int(offsets[-1])
    # From the line end before each frame on, so that a frame's last line end is checked with the next frame's head.
    edges = np.array(offsets, np.int64) + (BEFORE - begin)
    walker = Walker(b"".join((bytes(BEFORE), _LINE_END, view[begin:end], bytes(AFTER))), edges[:-1])
    try:
        entry_ids, fields = follow(walker, names, lead=_LINE_END)
    except Mismatch:
        return None
    if bytes(view[end - 2 : end]) != _LINE_END or not np.array_equal(walker.at, edges[1:]):
        return None
    shift = begin - BEFORE - len(_LINE_END)
    places = [(one.begins + shift, np.broadcast_to(one.sizes, one.begins.shape)) for one in (entry_ids, *fields)]
    return names, places[0], places[1:]


def gathered(data: memoryview, starts: Ints, lengths: Ints) -> bytes:
    """The bytes of ``data`` from each of ``starts`` on, as many as ``lengths`` says, back to back."""
    size = int(lengths.sum())
    if size > _LONG * len(starts):
        ends = (starts + lengths).tolist()
        return b"".join([data[begin:end] for begin, end in zip(starts.tolist(), ends, strict=True)])
    # Byte number i of the result comes from i + (where its value begins - where that begins in the result).
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    places += np.arange(size)
    return np.frombuffer(data, np.uint8).take(places, mode="clip").tobytes()
