"""Staging: a task's rows wait in a hash beside their stream until the driver publishes them.

The hash is in the stream's slot and expires, so what is never published is forgotten. Each of its fields is a chunk of
encoded rows, which is published as one transaction.
"""

from __future__ import annotations

import json
import struct
import uuid

import numpy as np

from spark_streams.client.connection import Connection
from spark_streams.errors import PystreamsError
from spark_streams.write.digest import RowDigest
from spark_streams.write.encoding import EncodedRows
from spark_streams.write.fence import StreamFence
from spark_streams.write.record import StagedRows

STAGED_MS = 86_400_000
"""How long staged rows wait for being published."""

_HEADER = struct.Struct("<QQ")


def pack_rows(rows: EncodedRows) -> bytes:
    """Encoded rows as bytes."""
    ids = b"" if rows.ids is None else json.dumps([each and each.decode() for each in rows.ids]).encode()
    numbers = np.asarray(rows.bounds, "<i8").tobytes() + np.asarray(rows.rows, "<i8").tobytes()
    return b"".join((_HEADER.pack(len(rows), len(ids)), numbers, ids, rows.commands))


def unpack_rows(stream: bytes, data: bytes) -> EncodedRows:
    """The inverse of `pack_rows`."""
    count, ids_length = _HEADER.unpack_from(data)
    bounds = np.frombuffer(data, "<i8", count + 1, _HEADER.size)
    at = _HEADER.size + bounds.nbytes
    rows = np.frombuffer(data, "<i8", count, at)
    at += rows.nbytes
    ids = [each and each.encode() for each in json.loads(data[at : at + ids_length])] if ids_length else None
    return EncodedRows(stream, memoryview(data)[at + ids_length :], bounds, rows, ids)


class Stager:
    """Stages one task's rows for one stream: those that come behind its fence. Not if they need not be kept."""

    def __init__(self, connection: Connection, fence: StreamFence, keeps: bool, floor: str = "") -> None:
        self._connection = connection
        self._fence = fence
        self._keeps = keeps
        self._floor = floor
        self._chunks = 0
        self._differs = False
        writer = fence.writer
        self._key = writer.beside(fence.stream, b"staged:%b" % uuid.uuid4().hex.encode())

    def add(self, rows: EncodedRows) -> None:
        """Stage what the fence does not count."""
        done = len(rows)
        try:
            done = self._fence.unwritten(rows.hashes)
        except PystreamsError:  # the driver sees whether the rows are there all the same
            self._differs = True
        self._fence.advance(rows.hashes)
        if done == len(rows) or self._differs or not self._keeps:
            return
        self._connection.commands(
            [
                ("HSET", self._key, self._chunks, pack_rows(rows.part(done, len(rows)))),
                ("PEXPIRE", self._key, STAGED_MS),
            ]
        )
        self._chunks += 1

    def finish(self) -> StagedRows:
        """What was staged."""
        fence = self._fence
        base = RowDigest.parse(fence.state.rows, fence.state.digest) or RowDigest()
        differs = self._differs or base.rows > fence.rows
        return StagedRows(
            fence.stream, fence.writer.partition, self._key, self._chunks, base, fence.digest, differs, self._floor
        )
