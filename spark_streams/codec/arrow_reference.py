"""The slow, obvious twin of `spark_streams.codec.arrow`: oracle of its tests, and its fallback for whatever it
declines.

Frames are parsed by hiredis into Python objects, commands are built value by value. Knows what
`spark_streams.codec.arrow` knows and must stay equal to it, byte for byte; be plain here, not fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hiredis
import pyarrow as pa


class ReplyError(Exception):
    """The server replied with an error; its text is the argument."""


def array_header(buffer: bytes | bytearray, position: int = 0) -> tuple[int, int]:
    """The number of elements of the array that begins at `position` (-1: null), and where the first one begins.

    Raises `ReplyError` for an error reply and ValueError for anything that is not an array.
    """
    end = buffer.find(b"\r\n", position)
    if end < 0:
        raise ValueError("a reply that ends before its first line does")
    kind, text = bytes(buffer[position : position + 1]), bytes(buffer[position + 1 : end])
    if kind == b"-":
        raise ReplyError(text.decode("utf-8", "replace"))
    if kind != b"*":
        raise ValueError(f"an array was expected, the reply begins with {kind + text[:40]!r}")
    return int(text), end + 2


def parse(buffer: bytes | bytearray, start: int, stop: int, count: int) -> ScalarPage:
    """The page of `count` frames in `buffer[start:stop]`; ValueError if that is not what lies there.

    Entries without fields (`*-1`, as the history of a consumer shows deleted ones) are left out.
    """
    reader = hiredis.Reader()
    reader.feed(bytes(buffer[start:stop]))
    entries: list[tuple[bytes, list[bytes]]] = []
    for _ in range(count):
        frame = reader.gets()
        if not isinstance(frame, list) or len(frame) != 2:
            raise ValueError(f"an entry was expected, the reply has {frame!r:.80}")
        if frame[1] is not None:
            entries.append((frame[0], frame[1]))
    if reader.has_data():
        raise ValueError(f"the reply is longer than its {count} entries")
    return ScalarPage(entries)


def milliseconds(ids: Sequence[bytes]) -> Any:
    """The first half of each ID, as an int64 array; null where it is not a number that fits."""
    halves = [entry_id.partition(b"-")[0] for entry_id in ids]
    numbers = [int(half) if half.isdigit() and len(half) <= 20 else 2**63 for half in halves]
    return pa.array([number if number < 2**63 else None for number in numbers], pa.int64())


class ScalarPage:
    """A page of parsed entries: (ID, [name, value, name, value, ...])."""

    def __init__(self, entries: list[tuple[bytes, list[bytes]]]) -> None:
        self.count = len(entries)
        self._entries = entries

    def last_id(self) -> bytes:
        return self._entries[-1][0]

    def ids(self) -> Any:
        return pa.array([entry_id for entry_id, _ in self._entries], pa.binary())

    def milliseconds(self) -> Any:
        return milliseconds([entry_id for entry_id, _ in self._entries])

    def column(self, name: bytes) -> Any:
        return pa.array([_fields(pairs).get(name) for _, pairs in self._entries], pa.binary())

    def integers(self, name: bytes) -> Any:
        del name  # whatever field it is, its texts say its numbers

    def floats(self, name: bytes) -> Any:
        del name

    def fields(self) -> tuple[Any, Any, Any]:
        offsets: list[int] = [0]
        names: list[bytes] = []
        values: list[bytes] = []
        for _, pairs in self._entries:
            fields = _fields(pairs)
            names.extend(fields.keys())
            values.extend(fields.values())
            offsets.append(len(names))
        return pa.array(offsets, pa.int32()), pa.array(names, pa.binary()), pa.array(values, pa.binary())


def _fields(pairs: list[bytes]) -> dict[bytes, bytes]:
    """An entry's fields; of a name that is there twice, the last one, in its place."""
    fields: dict[bytes, bytes] = {}
    for name, value in zip(pairs[0::2], pairs[1::2], strict=True):
        fields.pop(name, None)
        fields[name] = value
    return fields


def encode_adds(
    keys: bytes | Any,
    ids: Any | None,
    columns: Sequence[tuple[bytes, Any]],
    fields: tuple[Any, Any, Any] | None,
    options: Sequence[bytes],
    rows: int,
) -> Any:
    """As `spark_streams.codec.arrow.encode_adds`."""
    key_list = [keys] * rows if isinstance(keys, bytes) else keys.to_pylist()
    id_list = [b"*"] * rows if ids is None else [b"*" if value is None else value for value in ids.to_pylist()]
    lists = [(name, values.to_pylist()) for name, values in columns]
    offsets, names, values = (part.to_pylist() for part in fields) if fields is not None else ([0] * (rows + 1), [], [])
    commands: list[bytes | None] = []
    for row in range(rows):
        pairs: list[bytes] = []
        for name, column in lists:
            if column[row] is not None:
                pairs += [name, column[row]]
        for at in range(offsets[row], offsets[row + 1]):
            pairs += [names[at], values[at]]
        words = [b"XADD", key_list[row], *options, id_list[row], *pairs]
        command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        commands.append(command if pairs else None)
    return pa.array(commands, pa.binary())
