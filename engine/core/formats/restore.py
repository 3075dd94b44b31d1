"""Conversion between internal fields of streams and pending lists, and plain data for snapshots.

Outside ``engine.core.streams``, only this module uses these fields. A change to them requires a change here; otherwise
the property tests in tests/engine/shell/durability fail.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.compressed.packed import Packed
from engine.core.streams.pending import Block, PendingList
from engine.core.streams.segment import Segment, Storage
from engine.core.streams.stream import Stream

_U64 = (1 << 64) - 1


def stream_of(
    storage: Storage, segments: list[tuple[int, Segment | Stored]], last_id: int, max_deleted_id: int, added: int
) -> Stream:
    """Return a stream without groups. ``segments``: pairs of the ID of entry 0, and the segment or its body."""
    stream = Stream(storage)
    stream._segments = [segment for _, segment in segments]
    stream._firsts = [first for first, _ in segments]
    stream.length = sum(len(segment) if isinstance(segment, Stored) else segment.live for _, segment in segments)
    stream.last_id, stream.max_deleted_id, stream.entries_added = last_id, max_deleted_id, added
    return stream


def pieces(stream: Stream) -> Iterable[tuple[int, Segment | Stored]]:
    """Return a pair for each segment, as required by ``stream_of``: the ID of entry 0, and the segment or its body."""
    return zip(stream._firsts, stream.pieces(), strict=True)


def segment_at(stream: Stream, number: int) -> Segment:
    """Return the segment of a stream with this number, for reading."""
    return stream._at(number)


def segment_of(storage: Storage, body: Stored | Packed) -> Segment:
    """Return a sealed segment with this body and without removed entries."""
    segment = Segment(storage.sealed, body)
    segment.sealed = True
    return segment


def pending_of(blocks: list[Block]) -> PendingList:
    """Return a pending list that consists of these blocks."""
    pending = PendingList()
    for block in blocks:
        add_block(pending, block)
    return pending


def add_block(pending: PendingList, block: Block) -> None:
    """Append a block to a pending list. The block's IDs must be greater than all IDs in the list."""
    pending._blocks.append(block)
    pending._firsts.append(block.id_at(0))
    pending._size += len(block)
    for owner, count in block.tally(0, len(block)).items():
        pending.per_owner[owner] = pending.per_owner.get(owner, 0) + count


def pack(ids: Iterable[int]) -> bytes:
    """Encode IDs as pairs of native 64-bit integers."""
    return array("Q", [half for entry_id in ids for half in (entry_id >> 64, entry_id & _U64)]).tobytes()


def unpack(data: bytes) -> list[int]:
    """Decode the result of ``pack``."""
    halves = array("Q")
    halves.frombytes(data)
    return [ms << 64 | seq for ms, seq in zip(halves[::2], halves[1::2], strict=True)]
