"""Rows as columns for servers that have PS.ADD, instead of one command per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_streams.write.rows.encoding import EncodedRows
from streamclient.connection import Command, Connection

#: Maximum bytes of the entries of one command. A command blocks the server's other clients while it is executed.
_MOST_BYTES = 64 << 20
_ENTRY_BYTES, _FIELD_BYTES = 80, 48  # maximum overhead of an entry, and of each of its fields


def accepts_columns(connection: Connection) -> bool:
    """Return whether the server has PS.ADD; False for a cluster. Requested once per connection."""
    return not connection.topology.is_cluster and connection.capabilities.has("PS.ADD")


def question(stream: bytes) -> Command:
    """Return a command that adds nothing, and whose reply is 0 if this user may add columns to this stream."""
    return ("PS.ADD", stream, 0, "", b"\0\0\0\0", "")


def are_columns(rows: EncodedRows) -> bool:
    """Return whether the rows can be sent as columns and have not been converted to commands."""
    if rows.columns is None or not rows.makes_commands:
        return False
    size = sum(values.nbytes + len(rows) * (len(name) + _FIELD_BYTES) for name, values in rows.columns)
    return bool(size + len(rows) * (len(rows.stream) + _ENTRY_BYTES) <= _MOST_BYTES)


def encoded(rows: EncodedRows) -> list[bytes | memoryview]:
    """Return the command that adds the rows, as a list of buffers."""
    assert rows.columns is not None
    words: list[bytes | memoryview] = [b"PS.ADD", rows.stream, b"%d" % len(rows)]
    for name, values in rows.columns:
        _, offsets, data = values.buffers()
        bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        begin, end = int(bounds[0]), int(bounds[-1])
        view = memoryview(data)[begin:end] if data is not None else memoryview(b"")
        words += [name, (bounds - begin).astype("<i4").tobytes(), view]
    return _bulks(words)


def _bulks(words: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    parts: list[bytes | memoryview] = [b"*%d\r\n" % len(words)]
    for word in words:
        parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
    return parts
