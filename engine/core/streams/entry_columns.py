"""Frames in a buffer as a batch of columns, if all have the same field names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamwire.entry_batch import EntryBatch
from streamwire.frames import fields_of, uniform
from streamwire.walker import AFTER, BEFORE

#: Maximum number of fields of uniform entries. Each field costs about twenty numpy calls, regardless of the number of
#: entries.
MOST_FIELDS = 64
_LINE_END = b"\r\n"
#: ``batch_of`` declines larger buffers, in bytes, because offsets are signed 32-bit integers.
_MOST_BYTES = (1 << 31) - 1


def batch_of(
    data: bytes | bytearray | memoryview, offsets: Sequence[int] | npt.NDArray[np.integer]
) -> EntryBatch | None:
    """Return the entries of uniform frames, in a copy of ``data``; None if the frames are not uniform.

    Frame i is ``data[offsets[i]:offsets[i + 1]]``. ``offsets`` has the start of each frame (at least one), and the end
    of the last frame. The first frame must be valid; the others may be any bytes. A frame that differs from the output
    of `streamwire.frames.frame` is not uniform, so columns and IDs reproduce the exact bytes.
    """
    view = memoryview(data)
    names = fields_of(view[offsets[0] : offsets[1]])[::2]
    if len(names) > MOST_FIELDS or len(view) > _MOST_BYTES:
        return None
    begin, end = int(offsets[0]), int(offsets[-1])
    edges = np.array(offsets, np.int64) + (BEFORE - begin)
    before = bytes(BEFORE - len(_LINE_END)) + _LINE_END
    return uniform(b"".join((before, view[begin:end], bytes(AFTER))), edges, names)
