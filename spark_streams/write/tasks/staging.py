"""Staging: a task's rows wait in a hash next to their stream until the driver publishes them.

The hash is in the stream's slot and expires, so rows that are never published disappear. The rows are in numbered
chunks, and each chunk is published as one transaction. A chunk has the rows as commands, the task's fence as it is
once the rows are added, and an index for a driver that must send the rows itself.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator

import numpy as np

from spark_streams.errors import PystreamsError
from spark_streams.write.protocol import StreamFence
from spark_streams.write.records import ChunkState, TaskRows, staged_chunk
from spark_streams.write.rows.encoding import EncodedRows
from streamclient.connection import Command
from streamwire.stream_id import StreamId

# Publishing a chunk of this size blocks the server's other clients only for milliseconds.
#: Maximum rows of a chunk.
_CHUNK_ROWS = 500
#: Maximum bytes of a chunk.
_CHUNK_BYTES = 1 << 19

_HEADER = struct.Struct("<QQ")  # number of rows, size of the IDs in bytes


def pack_index(rows: EncodedRows) -> bytes:
    """Return the index that `unpack_rows` needs to restore encoded rows from their bytes."""
    ids = b"" if rows.ids is None else json.dumps([each and each.decode() for each in rows.ids]).encode()
    numbers = b"".join(np.asarray(each, "<i8").tobytes() for each in (rows.bounds, rows.rows, rows.hashes.view("<i8")))
    return b"".join((_HEADER.pack(len(rows), len(ids)), numbers, ids))


def unpack_rows(stream: bytes, commands: bytes, index: bytes) -> EncodedRows:
    """Return encoded rows from their bytes and their index."""
    count, ids_length = _HEADER.unpack_from(index)
    bounds = np.frombuffer(index, "<i8", count + 1, _HEADER.size)
    at = _HEADER.size + bounds.nbytes
    rows = np.frombuffer(index, "<i8", count, at)
    at += rows.nbytes
    hashes = np.frombuffer(index, "<u8", count, at)
    at += hashes.nbytes
    ids = [each and each.encode() for each in json.loads(index[at : at + ids_length])] if ids_length else None
    return EncodedRows(stream, rows, ids, lambda: hashes, encoded=(memoryview(commands), bounds))


class Stager:
    """Stages one task's rows for one stream, except the rows that the fence counts.

    `keeps`: whether rows are stored, not only counted. `whole`: whether each call of `add` stages one chunk. `last`:
    the stream's last ID.
    """

    def __init__(self, fence: StreamFence, keeps: bool, whole: bool, last: StreamId) -> None:
        self._fence = fence
        self._floor = str(last)
        self._keeps = keeps
        self._whole = whole
        self._chunks = 0
        self._differs = False
        self.key = fence.writer.staged_key(fence.stream, uuid.uuid4().hex)

    def add(self, rows: EncodedRows) -> list[Command]:
        """Return the commands that stage the rows, except the rows that the fence counts."""
        fence, done = self._fence, len(rows)
        try:
            done = fence.unwritten(rows.hashes)
        except PystreamsError:  # other rows than the fence counts; the driver checks whether the stream has them
            self._differs = True
        if self._differs or not self._keeps:
            done = len(rows)
        if done:
            fence.advance(rows.hashes[:done])
        commands: list[Command] = []
        for part in self._chunks_of(rows.part(done, len(rows)) if done else rows):
            fence.advance(part.hashes)
            state = ChunkState(fence.digest, part.ids is None and _are_short(part))
            commands += staged_chunk(self.key, self._chunks, bytes(part.commands), state, pack_index(part))
            self._chunks += 1
        return commands

    def _chunks_of(self, rows: EncodedRows) -> Iterator[EncodedRows]:
        if self._whole and len(rows):
            yield rows
            return
        first = 0
        while first < len(rows):
            most = int(rows.bounds[first]) + _CHUNK_BYTES
            end = int(np.searchsorted(rows.bounds, most, "right")) - 1
            end = min(max(end, first + 1), first + _CHUNK_ROWS, len(rows))
            yield rows.part(first, end)
            first = end

    @property
    def is_empty(self) -> bool:
        """Whether nothing was staged."""
        return not self._chunks

    def finish(self) -> TaskRows:
        """Return the task's rows for the stream: their digest, and where they are staged."""
        fence = self._fence
        base = fence.state.row_digest
        differs = self._differs or base.rows > fence.rows
        partition, chunks = fence.writer.partition, self._chunks
        return TaskRows(fence.stream, partition, fence.digest, base, self.key, chunks, differs, self._floor)


def _are_short(rows: EncodedRows) -> bool:
    """Return whether all rows have fewer than a thousand words: Lua limits the number of arguments."""
    # A row begins with its number of words, as in *13\r\n. The fifth byte is a digit if there are four digits or more.
    fifth = np.frombuffer(rows.commands, np.uint8)[np.asarray(rows.bounds[:-1]) + 4]
    return not bool(np.any((fifth >= ord("0")) & (fifth <= ord("9"))))
