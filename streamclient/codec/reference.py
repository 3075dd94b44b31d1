"""Reference decoder: the slow, obvious twin of `streamclient.codec.decode`, which parses frames by hiredis.

It is the oracle of the decoder's tests, and the fallback for all replies that the vectorised decoder cannot verify.
Keep it simple rather than fast. It must return the same columns as the vectorised decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import hiredis
import numpy as np
import pyarrow as pa

from streamclient.codec.reply import ALL, Page


def parse(buffer: bytes | bytearray, start: int, stop: int, count: int) -> ScalarPage:
    """Return the page of the `count` frames in `buffer[start:stop]`. Raises ValueError for any other content.

    Entries without fields (`*-1`: deleted entries in a consumer's history) are omitted.
    """
    # One array: hiredis moves all unread bytes after each reply, which would take quadratic time for large entries.
    reader = hiredis.Reader()
    reader.feed(b"*%d\r\n" % count)
    reader.feed(bytes(memoryview(buffer)[start:stop]))
    frames = reader.gets()
    if not isinstance(frames, list) or reader.has_data():
        raise ValueError(f"the reply does not have exactly {count} entries")
    for frame in frames:
        if not isinstance(frame, list) or len(frame) != 2:
            raise ValueError(f"an entry was expected, the reply has {frame!r:.80}")
    return ScalarPage([(entry_id, fields) for entry_id, fields in frames if fields is not None])


def half(ids: Sequence[bytes], number: Literal[0, 2]) -> Any:
    """Return the part of each ID before (0) or after (2) the dash as an int64 array; null if it is not a number below
    2**63.
    """
    halves = [entry_id.partition(b"-")[number] for entry_id in ids]
    numbers = [int(each) if each.isdigit() and len(each) <= 20 else 2**63 for each in halves]
    return pa.array([number if number < 2**63 else None for number in numbers], pa.int64())


class ScalarPage(Page):
    """A page of parsed entries: (ID, [name, value, name, value, ...])."""

    def __init__(self, entries: list[tuple[bytes, list[bytes]]]) -> None:
        self.count = len(entries)
        self._entries = entries

    @cached_property
    def _fields(self) -> list[dict[bytes, bytes]]:
        return [_fields(pairs) for _, pairs in self._entries]

    def parts(self, most: int) -> list[ScalarPage]:
        sizes = np.array([sum(map(len, pairs)) for _, pairs in self._entries])
        if sizes.sum() <= most:
            return [self]
        parts: list[ScalarPage] = []
        first = 0
        while first < self.count:
            fitting = int(np.searchsorted(np.cumsum(sizes[first:]), most, side="right"))
            parts.append(ScalarPage(self._entries[first : first + max(1, fitting)]))
            first += parts[-1].count
        return parts

    def last_id(self) -> bytes:
        return self._entries[-1][0]

    def ids(self) -> Any:
        return pa.array(self.id_texts(), pa.binary())

    def id_texts(self, rows: slice = ALL) -> list[bytes]:
        return [entry_id for entry_id, _ in self._entries[rows]]

    def milliseconds(self) -> Any:
        return half(self.id_texts(), 0)

    def sequences(self) -> Any:
        return half(self.id_texts(), 2)

    def column(self, name: bytes) -> Any:
        return pa.array([fields.get(name) for fields in self._fields], pa.binary())

    def fields(self) -> tuple[Any, Any, Any]:
        offsets: list[int] = [0]
        names: list[bytes] = []
        values: list[bytes] = []
        for fields in self._fields:
            names.extend(fields.keys())
            values.extend(fields.values())
            offsets.append(len(names))
        return pa.array(offsets, pa.int32()), pa.array(names, pa.binary()), pa.array(values, pa.binary())


def _fields(pairs: list[bytes]) -> dict[bytes, bytes]:
    """Return an entry's fields. If a name occurs twice, only the last field is kept, at its position."""
    fields: dict[bytes, bytes] = {}
    for name, value in zip(pairs[0::2], pairs[1::2], strict=True):
        fields.pop(name, None)
        fields[name] = value
    return fields
