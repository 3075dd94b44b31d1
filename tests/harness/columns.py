"""Frames as columns: by the engine's own steps, and one frame after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.core.streams.entry_columns import Columns, gathered, spans
from streamwire.frames import fields_of


def split(data: bytes | memoryview, offsets: Sequence[int]) -> Columns | None:
    """The columns of frames, None if they are not alike; ``offsets`` as ``spans`` takes them."""
    found = spans(data, offsets)
    if found is None:
        return None
    names, _, fields = found
    bounds = tuple(np.cumsum([0, *lengths.tolist()], dtype=np.int32) for _, lengths in fields)
    return Columns(names, bounds, tuple(gathered(memoryview(data), starts, lengths) for starts, lengths in fields))


def split_slowly(frames: list[bytes]) -> Columns | None:
    """The columns of frames, one frame after the other."""
    rows = [fields_of(one) for one in frames]
    names = tuple(rows[0][::2])
    if any(tuple(row[::2]) != names for row in rows):
        return None
    fields = [[row[2 * number + 1] for row in rows] for number in range(len(names))]
    bounds = tuple(np.cumsum([0, *map(len, values)], dtype=np.int32) for values in fields)
    return Columns(names, bounds, tuple(map(b"".join, fields)))
