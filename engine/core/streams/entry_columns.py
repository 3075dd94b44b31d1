"""Uniform entries as columns: the field names once, and the values of each field back to back.

Entries are uniform ("alike") if they have the same field names in the same order. ``spans`` locates the columns in
their frames or reports that they are not alike. It follows all frames at once (`streamwire.walker`) to their ends.
Frames that differ from the output of `streamwire.frames.frame` are not alike, so columns and IDs reproduce the exact
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamwire.frames import fields_of, follow
from streamwire.walker import AFTER, BEFORE, Mismatch, Walker

Ints = npt.NDArray[np.int64]

#: Maximum number of fields of alike entries. Each field costs about twenty numpy calls, regardless of the entry count.
MOST_FIELDS = 64
_LINE_END = b"\r\n"
#: Average value length above which values are sliced one by one. Shorter values are gathered byte by byte.
_LONG = 64
#: Maximum size in bytes that a signed 32-bit offset can address.
_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of some entries. The value of entry i in a column is ``values[bounds[i]:bounds[i + 1]]``."""

    names: tuple[bytes, ...]
    #: For each name, the start of each value and the end of the last one; int32, one more than there are entries.
    bounds: tuple[npt.NDArray[np.int32], ...]
    #: For each name, its values back to back.
    values: tuple[bytes, ...]


def spans(
    data: bytes | bytearray | memoryview, offsets: Sequence[int] | npt.NDArray[np.integer]
) -> tuple[tuple[bytes, ...], tuple[Ints, Ints], list[tuple[Ints, Ints]]] | None:
    """Locate the columns of alike frames; None if the frames are not alike.

    Frame i is ``data[offsets[i]:offsets[i + 1]]``. There is at least one frame, and one offset more than frames. The
    first frame must be valid; nothing is assumed about the others. Returns the field names, the starts and lengths
    of the ID texts in ``data``, and the starts and lengths of each field's values.
    """
    view = memoryview(data)
    first = fields_of(view[offsets[0] : offsets[1]])
    names = tuple(first[::2])
    if not names or len(names) > MOST_FIELDS or len(view) > _MOST_BYTES:
        return None
    begin, end = int(offsets[0]), int(offsets[-1])
    # Start at the line end before each frame, so that a frame's last line end is checked with the next frame's head.
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
    """Concatenate the slices of ``data`` with these starts and lengths."""
    size = int(lengths.sum())
    if size > _LONG * len(starts):
        ends = (starts + lengths).tolist()
        return b"".join([data[begin:end] for begin, end in zip(starts.tolist(), ends, strict=True)])
    # Byte i of the result comes from i + (start of its value in data - start of its value in the result).
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    places += np.arange(size)
    return np.frombuffer(data, np.uint8).take(places, mode="clip").tobytes()
