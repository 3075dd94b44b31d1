"""Records of a snapshot: a key with its value, as nested RESP. Large tables are stored as binary parts of the file.

    [database, key, deadline, type, value ...]

A deadline is in milliseconds since the epoch; -1 means none. Types and their values:

* ``s`` string: its bytes. ``S``: its bytes, for a string with Redis's encoding ``raw``.
* ``h`` hash: 0, [field, value, ...].
* ``x`` stream: see `engine.shell.durability.formats.stream_records`.

IDs are text (``ms-seq``). Tables and arrays are bulk strings of native numbers, or the number of the binary part that
contains them.

Files written before 1.0 can have more types (``UNSUPPORTED``), which are left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import hiredis

from engine.core.formats.damage import DamagedError
from engine.core.formats.unsupported_types import (
    FIELD_EXPIRY,
    FUNCTIONS,
    LISTS,
    SETS,
    SORTED_SETS,
    UnsupportedTypes,
    shown_library,
)
from engine.core.keyspace.database import Database
from engine.core.keyspace.hash import Hash, HashImage
from engine.core.keyspace.image import Image
from engine.core.streams.appends import Streams
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.stream import Stream
from engine.shell.durability.formats import stream_records
from engine.shell.durability.formats.stream_records import Parts, Put
from engine.shell.durability.segments.store import SegmentFiles
from engine.wire.encode import encoded

#: Types of records of earlier versions. The hash has fields that expire; functions have no key.
UNSUPPORTED = {b"H": FIELD_EXPIRY, b"m": SETS, b"z": SORTED_SETS, b"l": LISTS, b"F": FUNCTIONS}
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
    left_out: UnsupportedTypes,
    offset: int,
    pause: Callable[[], None] = lambda: None,
    segments: SegmentFiles | None = None,
    *,
    only_count: bool = False,
) -> int:
    """Load the keys in the part of records at ``offset`` into ``core``; return their number. ``pause`` is called
    repeatedly.

    Keys of types that the engine does not store are counted in ``left_out``. ``segments``: the segment files that
    records may refer to. ``only_count``: load no key after the first that is left out.
    """
    reader = hiredis.Reader(notEnoughData=_NOTHING)
    count = 0
    try:
        reader.feed(bytes(data))
        while (record := reader.gets()) is not _NOTHING:
            if record[3] in UNSUPPORTED:
                _leave_out(record, left_out, offset)
            elif not (only_count and left_out):
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
    if isinstance(value, Hash | HashImage):
        return [b"h", 0, [word for pair in value.items() for word in pair]]
    return [b"s", value]


def _restore(
    record: list[Any], parts: Parts, core: Target, pause: Callable[[], None], segments: SegmentFiles | None
) -> None:
    index, key, deadline, kind, *rest = record
    value: Any
    if kind == b"x":
        value = stream_records.decode(rest, parts, core.streams.storage, pause, segments)
    elif kind == b"h":
        value = Hash(zip(rest[1][::2], rest[1][1::2], strict=True))
    elif kind in (b"s", b"S"):
        value = rest[0]
    else:
        raise ValueError(kind)
    db = core.databases[index]
    if key in db:
        db.delete(key)
    db.add(key, value)
    if deadline >= 0:
        db.set_deadline(key, deadline)
    pause()


def _leave_out(record: list[Any], left_out: UnsupportedTypes, offset: int) -> None:
    index, key, _, kind, *rest = record
    if kind == b"F":
        left_out.add(FUNCTIONS, shown_library(rest[0]), offset)
    else:
        left_out.add_key(UNSUPPORTED[kind], key, index, offset)
