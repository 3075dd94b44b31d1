"""Decoding of PS.COLUMNS replies: columns are used in place, and frames are decoded like replies of XRANGE.

The reply is a list of blocks. Neighbouring blocks of columns with the same fields make one page. Each block of frames
makes one page. The pages equal those of `streamclient.codec.decode` for the same entries: if an entry has a field
twice, the last one counts. Columns are not parsed. The only checks are that the number of a column's positions is
correct, and that the positions are within the values.

This module does not depend on sockets, Spark, or the meaning of a column's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from streamclient.codec.decode import BatchPage, decode_page
from streamclient.codec.reply import Page, array_header
from streamwire.entry_batch import EntryBatch, Values

#: Start and end of a range of the reply's bytes.
_Span = tuple[int, int]


@dataclass(frozen=True)
class Frames:
    """A block of `count` entries, encoded as in a reply of XRANGE."""

    count: int
    span: _Span

    names: None = None

    @property
    def frame_bytes(self) -> int:
        """Size of the entries in bytes."""
        return self.span[1] - self.span[0]


@dataclass(frozen=True)
class Columns:
    """A block of `count` entries with the same fields.

    `fields`: each field's positions and values; None for a field whose values were not sent.
    """

    count: int
    ms: _Span
    seq: _Span
    names: tuple[bytes, ...]
    fields: Sequence[tuple[_Span, _Span] | None]

    @property
    def is_whole(self) -> bool:
        """Whether all fields were sent."""
        return None not in self.fields

    @property
    def frame_bytes(self) -> int:
        """Approximate size of the entries as frames, in bytes: an entry has about 35 bytes of framing, a field 14."""
        names = sum(len(name) + 14 for name in self.names)
        return self.count * (names + 35) + sum(field[1][1] - field[1][0] for field in self.fields if field is not None)


Block = Frames | Columns


def blocks(buffer: bytes | bytearray) -> list[Block]:
    """Return the blocks of a reply. Raises `ReplyError` for an error reply, and ValueError for an invalid reply."""
    number, at = array_header(buffer)
    found: list[Block] = []
    for _ in range(number):
        words, at = array_header(buffer, at)
        count, at = _line(buffer, at, b":")
        spans: list[_Span | None] = []
        for _ in range(words - 1):
            span, at = _bulk(buffer, at)
            spans.append(span)
        found.append(_block(buffer, count, spans))
    return found


def _block(buffer: bytes | bytearray, count: int, spans: Sequence[_Span | None]) -> Block:
    if count > 0 and len(spans) == 1 and spans[0] is not None:
        return Frames(count, spans[0])
    if count < 1 or len(spans) < 5 or len(spans) % 3 != 2:
        raise ValueError("a block of neither columns nor frames")
    names: list[bytes] = []
    fields: list[tuple[_Span, _Span] | None] = []
    for name, positions, values in zip(spans[2::3], spans[3::3], spans[4::3], strict=True):
        if name is None:
            raise ValueError("a column without a name")
        names.append(bytes(buffer[name[0] : name[1]]))
        if positions is None or values is None:
            fields.append(None)
        elif positions[1] - positions[0] != 4 * (count + 1):
            raise ValueError("a column with too many or too few positions")
        else:
            fields.append((positions, values))
    ms, seq = spans[:2]
    if ms is None or seq is None or {ms[1] - ms[0], seq[1] - seq[0]} != {8 * count}:
        raise ValueError("a block with too many or too few IDs")
    return Columns(count, ms, seq, tuple(names), fields)


def _line(buffer: bytes | bytearray, at: int, kind: bytes) -> tuple[int, int]:
    """Return the number in the line that begins at `at`, and the start of the next line."""
    end = buffer.find(b"\r\n", at)
    if end < 0 or buffer[at : at + 1] != kind:
        raise ValueError(f"a line with {kind!r} was expected, not {bytes(buffer[at : at + 40])!r}")
    return int(buffer[at + 1 : end]), end + 2


def _bulk(buffer: bytes | bytearray, at: int) -> tuple[_Span | None, int]:
    """Return the span of a bulk string's bytes (None for nil), and the position after it."""
    size, at = _line(buffer, at, b"$")
    if size < 0:
        return None, at
    if len(buffer) < at + size + 2:
        raise ValueError("a reply that ends within a value")
    return (at, at + size), at + size + 2


def pages(buffer: bytes | bytearray, found: Sequence[Block]) -> Iterator[Page]:
    """Yield the pages of these blocks of a reply, in order. Sixteen readable bytes must follow the last block."""
    for names, some in groupby(found, lambda block: block.names):
        for block in (parts := list(some)):
            if isinstance(block, Frames):
                yield decode_page(buffer, *block.span, block.count)
        if names is not None:
            yield BatchPage([_batch(buffer, block) for block in parts if isinstance(block, Columns)])


def last_id(buffer: bytes | bytearray, block: Columns) -> bytes:
    """Return the ID of a block's last entry."""
    ms, seq = (int(np.frombuffer(buffer, "<u8", 1, end - 8)[0]) for end in (block.ms[1], block.seq[1]))
    return b"%d-%d" % (ms, seq)


def _batch(buffer: bytes | bytearray, block: Columns) -> EntryBatch:
    """Return the entries of a block. Raises ValueError if positions are not within their values."""
    data, view = np.frombuffer(buffer, np.uint8), memoryview(buffer)
    values = [
        None if field is None else Values.checked(data[slice(*field[1])], view[slice(*field[0])], block.count)
        for field in block.fields
    ]
    ms, seq = (np.frombuffer(buffer, "<u8", block.count, begin) for begin, _ in (block.ms, block.seq))
    return EntryBatch(block.count, block.names, tuple(values), (ms, seq))
