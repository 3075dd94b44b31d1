"""Frames as columns: split by the engine, and split frame by frame."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.streams.packer import batch_of
from streamwire.entry_batch import Values
from streamwire.frames import fields_of

#: Field names, and the values of each field.
Columns = tuple[tuple[bytes, ...], list[list[bytes]]]


def texts(values: Values) -> list[bytes]:
    """Return byte strings one by one."""
    return [bytes(values.data[begin:end]) for begin, end in zip(values.starts, values.ends, strict=True)]


def split(data: bytes | memoryview, offsets: Sequence[int]) -> Columns | None:
    """Return the columns of frames, or None if the frames are not uniform; ``offsets`` is as for ``batch_of``."""
    batch = batch_of(data, offsets)
    return None if batch is None else (batch.names, [texts(column) for column in batch.known])


def split_slowly(frames: list[bytes]) -> Columns | None:
    """Return the columns of frames, split frame by frame."""
    rows = [fields_of(frame) for frame in frames]
    names = tuple(rows[0][::2])
    if any(tuple(row[::2]) != names for row in rows):
        return None
    return names, [[row[2 * number + 1] for row in rows] for number in range(len(names))]
