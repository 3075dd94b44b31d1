"""Records of a snapshot: a key with its value, as nested RESP. Large tables are stored as binary parts of the file.

    [database, key, deadline, type, value ...]

A deadline is in milliseconds since the epoch; -1 means none. Types and their values:

* ``s`` string: its bytes. ``S``: its bytes, for a string with Redis's encoding ``raw``.
* ``h`` hash: whether it is too big for a listpack, [field, value, ...]. ``H`` hash with fields that expire: the same
  values, and [field, deadline, ...].
* ``m`` set: its encoding (`engine.core.keyspace.members.Form`), [member, ...].
* ``z`` sorted set: whether it is too big for a listpack, [member, ...] in order, their scores.
* ``l`` list: [element, ...].
* ``x`` stream: see `engine.shell.durability.formats.stream_records`.

IDs are text (``ms-seq``). Tables and arrays are bulk strings of native numbers, or the number of the binary part that
contains them.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import hiredis

from engine.core.formats.damage import DamagedError
from engine.core.keyspace.database import Database
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.image import Image
from engine.core.keyspace.members import Form, Members
from engine.core.keyspace.order import Block
from engine.core.keyspace.sorted_set import SortedSet
from engine.core.streams.appends import Streams
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.stream import Stream
from engine.shell.durability.formats import stream_records
from engine.shell.durability.formats.stream_records import Parts, Put
from engine.shell.durability.segments.store import SegmentFiles
from engine.wire.encode import encoded

_NOTHING: Any = object()


class Target(Protocol):
    """Destination of a loaded snapshot: a core, or databases that will replace those of a core."""

    @property
    def databases(self) -> Sequence[Database]:
        """The databases by number."""

    @property
    def streams(self) -> Streams:
        """Factory of streams."""


class RecordError(Exception):
    """A record is invalid although its checksum is right."""


def encode(image: Image, put: Put, named: set[int] | None, pause: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    """Yield the records of an image. ``put`` stores a binary part and returns its number. ``pause`` is called
    repeatedly.

    Entries in segment files are not included, but the numbers of these files are added to ``named``. If ``named`` is
    None, all entries are included.
    """
    for db in image.databases:
        for key, value, deadline in db.items():
            yield encoded([db.index, key, -1 if deadline is None else deadline, *_value(value, put, named, pause)])


def decode(
    data: memoryview,
    parts: Parts,
    core: Target,
    pause: Callable[[], None] = lambda: None,
    segments: SegmentFiles | None = None,
) -> int:
    """Load the keys in one part of records into ``core``; return their number. ``pause`` is called repeatedly.

    ``segments``: the segment files that records may refer to.
    """
    reader = hiredis.Reader(notEnoughData=_NOTHING)
    count = 0
    try:
        reader.feed(bytes(data))
        while (record := reader.gets()) is not _NOTHING:
            _restore(record, parts, core, pause, segments)
            count += 1
    except UnreadableError as error:
        raise RecordError(str(error)) from None
    except DamagedError as error:
        raise RecordError(error.reason) from None
    except (hiredis.ProtocolError, ValueError, TypeError, IndexError, KeyError) as error:
        raise RecordError(f"record {count} of the part that starts here is invalid: {error!r}") from error
    if reader.has_data():
        raise RecordError(f"record {count} of the part that starts here is incomplete")
    return count


def _value(value: Any, put: Put, named: set[int] | None, pause: Callable[[], None]) -> list[Any]:
    if isinstance(value, Stream):
        return [b"x", *stream_records.encode(value, put, named, pause)]
    if isinstance(value, Hash):
        pairs = [word for pair in value.items() for word in pair]
        if value.deadlines is None:
            return [b"h", int(value.big), pairs]
        return [b"H", int(value.big), pairs, [word for pair in value.deadlines.items() for word in pair]]
    if isinstance(value, Members):
        return [b"m", int(value.form), list(value)]
    if isinstance(value, SortedSet):
        return [b"z", int(value.big), *_in_columns(value)]
    if isinstance(value, deque):
        return [b"l", list(value)]
    return [b"S" if isinstance(value, bytearray) else b"s", bytes(value)]


def _restore(
    record: list[Any], parts: Parts, core: Target, pause: Callable[[], None], segments: SegmentFiles | None
) -> None:
    index, key, deadline, kind, *rest = record
    value: Any
    if kind == b"x":
        value = stream_records.decode(rest, parts, core.streams.storage, pause, segments)
    elif kind in (b"h", b"H"):
        value = Hash(zip(rest[1][::2], rest[1][1::2], strict=True), big=bool(rest[0]))
        if kind == b"H":
            value.set_deadlines(dict(zip(rest[2][::2], rest[2][1::2], strict=True)))
    elif kind == b"m":
        value = Members(rest[1], Form(rest[0]))
    elif kind == b"z":
        value = _sorted_set_from(rest, pause)
    elif kind == b"l":
        value = deque(rest[0])
    elif kind in (b"s", b"S"):
        value = bytearray(rest[0]) if kind == b"S" else rest[0]
    else:
        raise ValueError(kind)
    db = core.databases[index]
    if key in db:
        db.delete(key)
    db.add(key, value)
    if deadline >= 0:
        db.set_deadline(key, deadline)
    pause()


#: Number of members of a sorted set to restore between two pauses.
_BLOCK = 1000


def _in_columns(value: SortedSet) -> tuple[list[bytes], bytes]:
    """Return the members in order, and their scores as native doubles."""
    members: list[bytes] = []
    scores = bytearray()
    for some_scores, some_members in value.order.blocks:
        members += some_members
        scores += some_scores.tobytes()
    return members, bytes(scores)


def _sorted_set_from(record: list[Any], pause: Callable[[], None]) -> SortedSet:
    big, members, column = record
    scores = array("d")
    scores.frombytes(column)
    blocks: list[Block] = []
    for at in range(0, len(members), _BLOCK):
        blocks.append((scores[at : at + _BLOCK], members[at : at + _BLOCK]))
        pause()
    return SortedSet.of_ordered(blocks, big=bool(big))
