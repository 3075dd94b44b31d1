"""Snapshot file: the keyspace at one moment, in the engine's own format. It is the base of an append-only file, and
SAVE's file if ``save-format`` is ``psb``.

    header      64 bytes: magic, version, byte order, time, position in a replication history; its CRC-32 last
    parts       each starts at a multiple of 8; its CRC-32 covers all its bytes, including the padding after it
    directory   three 64-bit numbers per part: offset, length, CRC-32 (bit 32: the part contains records, bit 33: the
                part contains the numbers of segment files)
    footer      64 bytes: offset, length and CRC-32 of the directory, size of the file; its own CRC-32 last

A binary part contains the frames and index of a segment as they are in memory, or the arrays of a pending list. Other
parts contain records, one per key, in RESP (below). Every byte of the file is covered by a checksum: a flipped bit
is detected, and the offset of the damaged part reported, before any key is loaded.

If streams are stored on disk (``stream-storage``), a snapshot may refer to the segment files with their entries
(`engine.shell.durability.segments`) instead of containing them. Such a snapshot has version 5, and its last part has
the numbers of these files.

Numbers have the byte order of the writing machine, which is in the header; a machine with the other byte order rejects
the file. The magic number differs from that of Redis's files, so Redis rejects the file.

A record is a key with its value, as nested RESP:

    [database, key, deadline, type, value ...]

A deadline is in milliseconds since the epoch; -1 means none. Types and their values:

* ``s`` string: its bytes. ``S``: its bytes, for a string with Redis's encoding ``raw``.
* ``h`` hash: 0, [field, value, ...].
* ``x`` stream: counters, segments, consumer groups, producers. The segments are rows of a table (`_COLUMNS` describes
  its columns). Frames and long arrays are binary parts. For a segment in a segment file, the snapshot contains the
  segment's location if the snapshot may refer to that file, and otherwise the segment's entries.

IDs are text (``ms-seq``). Tables and arrays are bulk strings of native numbers, or the number of the binary part that
contains them.

Files written before 1.0 can have more types (``UNSUPPORTED``), which are left out and counted.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import hiredis

from engine.core.formats.damage import (
    FIELD_EXPIRY,
    FUNCTIONS,
    LISTS,
    SETS,
    SORTED_SETS,
    DamagedError,
    UnsupportedTypes,
    shown_library,
)
from engine.core.formats.rdb import group_fields
from engine.core.formats.rdb.group_fields import CONSUMER, GROUP
from engine.core.keyspace.database import Database
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.image import Image
from engine.core.protocol import ids
from engine.core.streams.compressed.disk_entries import Stored, UnreadableError, form_of, of_form, opened
from engine.core.streams.compressed.packed import Packed
from engine.core.streams.group import Consumer, Group, shown
from engine.core.streams.idempotency import Producers
from engine.core.streams.pending import NOBODY, Block, PendingList
from engine.core.streams.segment import Plain, Segment, Storage
from engine.core.streams.stream import Stream, Streams
from engine.shell.durability.files import Buffer, Files, write_all
from engine.shell.durability.position import PACKED_SIZE, Position, from_packed
from engine.shell.durability.segments import SegmentFiles, SegmentPlace
from engine.wire.encode import encoded

Put = Callable[[Sequence[Buffer]], int]
Parts = Sequence[memoryview]

#: Number of segments on disk that are written or read between two pauses.
_MANY = 200


def _stream_fields(stream: Stream, put: Put, named: set[int] | None, pause: Callable[[], None]) -> list[Any]:
    """Return the fields of a stream's record; see `engine.shell.durability.psb.encode`."""
    segments = array("Q")
    for number, (first, piece) in enumerate(zip(stream.firsts, stream.pieces(), strict=True)):
        # A segment in a file is not read, so it needs no copy in the storage of this thread.
        segment = piece if named is not None and piece.is_stored else stream.segment_at(number)
        segments.extend(_segment_row(segment, first, put, named))
        if not number % _MANY:
            pause()
    counters = [ids.text(stream.last_id), ids.text(stream.max_deleted_id), shown(stream.entries_added), stream.length]
    groups = [_group(name, group, put) for name, group in stream.groups.items()]
    # The empty list is a field that older releases require.
    return [counters, segments.tobytes(), [], groups, _producers(stream.producers)]


def _stream_from(
    record: list[Any], parts: Parts, storage: Storage, pause: Callable[[], None], files: SegmentFiles | None
) -> Stream:
    """Return the stream of a record, with its entries in ``storage``. Raises ValueError, TypeError, IndexError or
    KeyError if the record is invalid.
    """
    (last_id, max_deleted, added, length), table, _, groups, producers = record
    rows = array("Q")
    rows.frombytes(table)
    columns = [rows[at::_COLUMNS] for at in range(_COLUMNS)]
    segments: list[tuple[int, Segment]] = []
    for row in zip(*columns, strict=True):
        if row[4] & _STORED:
            segments.append(_stored_from(row, parts, storage, files))
            # A long stream may have hundreds of thousands of such segments.
            if not len(segments) % _MANY:
                pause()
        else:
            segments.append(_segment_from(row, parts, storage))
            pause()
    stream = Stream.of_segments(storage, segments)
    stream.last_id, stream.max_deleted_id, stream.entries_added = ids.parse(last_id), ids.parse(max_deleted), added
    if stream.length != length:
        raise ValueError(f"{stream.length} entries instead of {length}")
    for group in groups:
        name, value = _group_from(group, parts, pause)
        stream.groups[name] = value
    if producers is not None:
        stream.remember_producers(_producers_from(producers))
    return stream


#: Columns of a segment's row:
#:
#: * number of the segment's part
#: * bytes of frames, number of entries, index of the first live entry
#: * flags
#: * milliseconds and sequence number of the first ID, then of the last ID
#: * for a packed segment, its number of chunks, and the size of its ``blob``
#:
#: A segment in a segment file has other values in some columns:
#:
#: * first column: number of that file; from bit 32 on, one more than the number of the part with the marks of dead
#:   entries
#: * flags: the segment's checksum from bit 32 on
#: * last two columns: its offset and length in that file
_COLUMNS = 11
_HAS_DEAD, _SEALED, _PACKED, _STORED = 1, 2, 4, 8
_FORM_SHIFT, _HALF = 8, 32
_LOW = (1 << _HALF) - 1


def _segment_row(segment: Segment, first: int, put: Put, named: set[int] | None) -> Sequence[int]:
    """Return a segment's row. The segment's columns and frames are stored unchanged in one part, each at a multiple of
    8 bytes. If the snapshot may refer to the segment's file, only the marks of dead entries are stored.

    ``first`` is the ID of the segment's entry 0.
    """
    body, inner = segment.body, [0, 0]
    dead = segment.dead if segment.dead is not None else b""
    flags = (_HAS_DEAD if dead else 0) | (_SEALED if segment.sealed else 0)
    last = body.last_id
    if isinstance(body, Stored):
        place = body.place
        if named is not None and isinstance(place, SegmentPlace):
            file, offset = place.location
            named.add(file.number)
            number = file.number | (put([dead]) + 1 << _HALF if dead else 0)
            flags |= _STORED | place.total << _HALF
            ends = *ids.split(first), *ids.split(last)
            return [number, body.data_size, len(body), segment.start, flags, *ends, offset, place.size]
        body = body.packed()
    if isinstance(body, Packed):
        flags |= _PACKED | form_of(body) << _FORM_SHIFT
        inner = [len(body.firsts_ms), len(body.blob)]
        columns = list(body.index_arrays)
        frames: Buffer = body.blob
    else:
        columns = [body.ms, body.seq, body.offsets]
        frames = body.data
    buffers: list[Buffer] = [frames, bytes(-len(frames) % 8)]
    for column in columns:
        size = len(column) * column.itemsize
        buffers.append(memoryview(column).cast("B"))
        if size % 8:
            buffers.append(bytes(-size % 8))
    if dead:
        buffers += dead, bytes(-len(dead) % 8)
    return [put(buffers), body.data_size, len(body), segment.start, flags, *ids.split(first), *ids.split(last), *inner]


def _stored_from(row: Sequence[int], parts: Parts, storage: Storage, files: SegmentFiles | None) -> tuple[int, Segment]:
    """Restore a stored segment from its row. If segment files are not in use, read its entries into memory."""
    number, size, count, start, flags, first_ms, first_seq, last_ms, last_seq, offset, length = row
    if files is None:
        raise ValueError("the file refers to segment files, but their folder is missing")
    place = files.place(number & _LOW, offset, length, flags >> _HALF)
    last_id = last_ms << 64 | last_seq
    body: Stored | Packed = Stored(place, count, size, last_id, storage.cache)
    if not files.is_in_use:
        body = opened(place.read(), last_id, storage.cache)
    segment = Segment(storage, body)
    segment.sealed, segment.start = True, start
    if flags & _HAS_DEAD:
        segment.dead = bytearray(parts[(number >> _HALF) - 1])
        segment.dead_count = segment.dead.count(1, start)
    if len(body) != count or (segment.dead is not None and len(segment.dead) != count):
        raise ValueError(f"a segment of {len(body)} entries instead of {count}")
    return first_ms << 64 | first_seq, segment


def _segment_from(row: Sequence[int], parts: Parts, storage: Storage) -> tuple[int, Segment]:
    """Return the first ID and the segment that a row describes. A sealed segment's frames stay in the mapped file."""
    number, size, count, start, flags, first_ms, first_seq, last_ms, last_seq, pieces, blob_size = row
    part, at = parts[number], 0

    def read_bytes(length: int) -> memoryview:
        nonlocal at
        begin, at = at, at + length + (-length % 8)
        if begin + length > len(part):
            raise ValueError(f"a segment of {len(part)} bytes ends too early")
        return part[begin : begin + length]

    def fill(columns: Sequence[array[int]], length: int) -> None:
        for column in columns:
            column.frombytes(read_bytes(length * column.itemsize))

    body: Plain | Packed
    if flags & _PACKED:
        body = of_form(flags >> _FORM_SHIFT, ids.make(last_ms, last_seq), storage.cache)
        body.blob = read_bytes(blob_size)
        *directory, firsts_ms, firsts_seq, rows = body.index_arrays
        fill(directory, pieces + 1)
        fill((firsts_ms, firsts_seq), pieces)
        del rows[:]
        fill((rows,), 9)
        body.bind()
    else:
        body = Plain()
        frames = read_bytes(size)
        body.data = frames if flags & _SEALED else bytearray(frames)
        fill((body.ms, body.seq, body.offsets), count)
    segment = Segment(storage, body)
    segment.start = start
    if flags & _HAS_DEAD:
        segment.dead = bytearray(read_bytes(count))
        segment.dead_count = segment.dead.count(1, start)
    if flags & _SEALED:
        segment.note_sealed()
    if at != len(part) or len(segment) != count:
        raise ValueError(f"a segment of {len(part)} bytes and {len(segment)} entries instead of {at} and {count}")
    return ids.make(first_ms, first_seq), segment


def _producers(producers: Producers | None) -> Any:
    if producers is None:
        return None
    sent = [
        [producer, [word for iid, entry_id in known.items() for word in (iid, ids.text(entry_id))]]
        for producer, known in producers.by_producer.items()
    ]
    return [producers.duration, producers.maxsize, producers.added, producers.duplicates, sent]


def _producers_from(record: Any) -> Producers:
    duration, maxsize, added, duplicates, sent = record
    producers = Producers(duration, maxsize)
    for producer, words in sent:
        texts = zip(words[::2], words[1::2], strict=True)
        producers.restore(producer, {iid: ids.parse(text) for iid, text in texts})
    producers.added, producers.duplicates = added, duplicates
    return producers


# -- groups -----------------------------------------------------------------------------------------------------------


def _group(name: bytes, group: Group, put: Put) -> list[Any]:
    consumers = [[consumer.name, *group_fields.plain(CONSUMER, consumer)] for consumer in group.consumers.values()]
    nacked = [ids.text(entry_id) for entry_id in group.nacked]
    return [name, group_fields.plain(GROUP, group), consumers, nacked, _pending(group.pending, put)]


def _group_from(record: list[Any], parts: Parts, pause: Callable[[], None]) -> tuple[bytes, Group]:
    name, values, consumers, nacked, pending = record
    group = Group(0)
    group_fields.restore(GROUP, group, values)
    for consumer_name, *consumer_values in consumers:
        consumer = Consumer(consumer_name, NOBODY, 0)
        group_fields.restore(CONSUMER, consumer, consumer_values)
        group.consumers[consumer_name] = group.by_number[consumer.number] = consumer
    group.nacked = dict.fromkeys(map(ids.parse, nacked))
    group.pending = _pending_from(pending, parts, pause)
    return name, group


#: Columns of a block's row: number of records, number of the consumer, delivery time, delivery count, oldest delivery
#: time, and whether the records differ in consumer, time or count. All are stored as unsigned numbers.
_BLOCK_COLUMNS = 6
_U64 = (1 << 64) - 1


def _pending(pending: PendingList, put: Put) -> list[int]:
    """Store a table of the blocks, then the arrays of all blocks, concatenated: IDs, and consumers, times and counts of
    blocks whose records differ. Return the numbers of these parts, with -1 for an empty array; an empty list if there
    are no blocks.
    """
    table = array("Q")
    parts: tuple[list[Buffer], ...] = ([], [], [], [], [])
    for block, _, _ in pending.blocks(0, ids.MAX_ID):
        values = block.owners, block.times, block.counts
        uneven = any(column != column[:1] * len(column) for column in values)
        table.extend((len(block), *(column[-1] & _U64 for column in values), block.oldest & _U64, int(uneven)))
        arrays = (block.ms, block.seq, *values) if uneven else (block.ms, block.seq)
        for buffers, column in zip(parts, arrays, strict=False):
            buffers.append(memoryview(column).cast("B"))
    if not table:
        return []
    return [put([table.tobytes()]), *(put(buffers) if buffers else -1 for buffers in parts)]


def _pending_from(record: list[int], parts: Parts, pause: Callable[[], None]) -> PendingList:
    pending = PendingList()
    if record:
        table = array("Q")
        table.frombytes(parts[record[0]])
        columns = [parts[number] if number >= 0 else memoryview(b"") for number in record[1:]]
        taken = [0] * len(columns)

        def read_values(column: int, kind: str, count: int) -> array[int]:
            values = array(kind)
            begin = taken[column]
            taken[column] = begin + count * values.itemsize
            values.frombytes(columns[column][begin : taken[column]])
            if len(values) != count:
                raise ValueError("a pending list ends too early")
            return values

        for at in range(0, len(table), _BLOCK_COLUMNS):
            size, owner, time, count, oldest, uneven = table[at : at + _BLOCK_COLUMNS]
            ms, seq = read_values(0, "Q", size), read_values(1, "Q", size)
            if uneven:
                block = Block(ms, seq, read_values(2, "I", size), read_values(3, "q", size), read_values(4, "q", size))
            else:
                block = Block.of(ms, seq, owner, _signed(time), _signed(count))
            block.oldest = _signed(oldest)
            pending.append_block(block)
            pause()
    return pending


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


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
) -> int:
    """Load the keys in the part of records at ``offset`` into ``core``; return their number. ``pause`` is called
    repeatedly.

    Keys of types that the engine does not store are counted in ``left_out``. ``segments``: the segment files that
    records may refer to.
    """
    reader = hiredis.Reader(notEnoughData=_NOTHING)
    count = 0
    try:
        reader.feed(bytes(data))
        while (record := reader.gets()) is not _NOTHING:
            if record[3] in UNSUPPORTED:
                _leave_out(record, left_out, offset)
            else:
                _restore(record, parts, core, pause, segments)
                count += 1
    except UnreadableError as error:
        raise DamagedError(offset, str(error)) from None
    except DamagedError as error:
        raise DamagedError(offset, error.reason) from None
    except (hiredis.ProtocolError, ValueError, TypeError, IndexError, KeyError) as error:
        reason = f"record {count} of the part that starts here is invalid: {error!r}"
        raise DamagedError(offset, reason) from error
    if reader.has_data():
        raise DamagedError(offset, f"record {count} of the part that starts here is incomplete")
    return count


def _value(value: Any, put: Put, named: set[int] | None, pause: Callable[[], None]) -> list[Any]:
    if isinstance(value, Stream):
        return [b"x", *_stream_fields(value, put, named, pause)]
    if isinstance(value, Hash):
        return [b"h", 0, [word for pair in value.items() for word in pair]]
    return [b"s", value]


def _restore(
    record: list[Any], parts: Parts, core: Target, pause: Callable[[], None], segments: SegmentFiles | None
) -> None:
    index, key, deadline, kind, *rest = record
    value: Any
    if kind == b"x":
        value = _stream_from(rest, parts, core.streams.storage, pause, segments)
    elif kind == b"h":
        value = Hash(zip(rest[1][::2], rest[1][1::2], strict=True))
    elif kind in (b"s", b"S"):
        value = rest[0]
    else:
        raise ValueError(kind)
    db = core.databases[index]
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


MAGIC = b"PYSTREAMS-BASE\r\n"
_END = b"PYSTREAMS-END\r\n\0"
#: Format version of a file without references to segment files.
_VERSION = 4
#: Format version of a file with references to segment files.
_VERSION_NAMING = 5
_NATIVE = {"little": 1, "big": 2}[sys.byteorder]
_HEADER = struct.Struct("<16sIIQ28sI")
_FOOTER = struct.Struct("<16sQQIQ16xI")
#: Marks next to the CRC-32 of a part: it contains records, or the numbers of segment files.
_RECORDS, _FILES = 1 << 32, 1 << 33
_SUM = (1 << 32) - 1
_WRONG_SUM = "checksum mismatch in the part that starts here"

#: Approximate size in bytes at which gathered records become a part.
_RECORD_PART = 1 << 20
#: Approximate size in bytes at which gathered parts are written.
_WRITE = 4 << 20
#: Maximum size in bytes of a part whose buffers are joined: the part of a small stream has a dozen tiny buffers.
_JOINED = 16 << 10
#: Bytes between two syncs while the file is written, so that the last sync is short.
_SYNC_EVERY = 64 << 20


class _Writer:
    """A snapshot file being written."""

    def __init__(self, files: Files, fd: int, check: Callable[[], None]) -> None:
        self._files = files
        self._fd = fd
        self._check = check
        self._buffers: list[Buffer] = []
        self._waiting = 0
        self._not_synced = 0
        self.offset = 0
        #: Offset, length, and CRC-32 with mark bits, of each part.
        self.directory = array("Q")

    def part(self, buffers: Sequence[Buffer], mark: int = 0) -> int:
        """Add a part; return its number."""
        size = sum(map(len, buffers))
        written = [*buffers, bytes(-size % 8)]
        if size <= _JOINED:
            written = [b"".join(written)]
        total = 0
        for buffer in written:
            total = zlib.crc32(buffer, total)
        self.directory.extend((self.offset, size, total | mark))
        self.write(written)
        return len(self.directory) // 3 - 1

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Append bytes."""
        size = sum(map(len, buffers))
        self._buffers += buffers
        self._waiting += size
        self.offset += size
        if self._waiting >= _WRITE:
            self.flush()

    def flush(self) -> None:
        """Write the waiting buffers to the file."""
        self._check()
        write_all(self._files, self._fd, [buffer for buffer in self._buffers if len(buffer)])
        self._not_synced += self._waiting
        self._buffers = []
        self._waiting = 0
        if self._not_synced >= _SYNC_EVERY:
            self._files.sync(self._fd)
            self._not_synced = 0


def write(
    files: Files,
    path: Path,
    image: Image,
    check: Callable[[], None] = lambda: None,
    pause: Callable[[], None] = lambda: None,
    position: Position | None = None,
    segments: SegmentFiles | None = None,
) -> frozenset[int]:
    """Write a snapshot to a new file and sync it. Its name in the directory may not be on disk yet.

    With ``segments``, the snapshot refers to entries in segment files, and these files are synced, too. Return the
    numbers of these files. Without ``segments``, the snapshot contains all entries. ``check`` is called before each
    large write, and aborts the writing if it raises OSError. ``pause`` is called after each key, and within long
    streams.
    """
    fd = files.create(path)
    named: set[int] | None = None if segments is None else set()
    try:
        _write(_Writer(files, fd, check), image, pause, position, named)
        if segments is not None:
            segments.sync()
        files.sync(fd)
    finally:
        files.close(fd)
    return frozenset(named or ())


def _write(
    writer: _Writer, image: Image, pause: Callable[[], None], position: Position | None, named: set[int] | None
) -> None:
    packed = position.packed if position is not None else bytes(PACKED_SIZE)
    version = _VERSION if named is None else _VERSION_NAMING
    header = _HEADER.pack(MAGIC, version, _NATIVE, max(image.now, 0), packed, 0)
    writer.write([header[:-4], zlib.crc32(header[:-4]).to_bytes(4, "little")])
    gathered: list[bytes] = []
    size = 0
    for record in encode(image, writer.part, named, pause):
        gathered.append(record)
        size += len(record)
        pause()
        if size >= _RECORD_PART:
            writer.part(gathered, _RECORDS)
            gathered, size = [], 0
    if gathered:
        writer.part(gathered, _RECORDS)
    if named is not None:
        writer.part([array("Q", sorted(named)).tobytes()], _FILES)
    directory = writer.directory.tobytes()
    end = writer.offset + len(directory) + _FOOTER.size
    footer = _FOOTER.pack(_END, writer.offset, len(directory), zlib.crc32(directory), end, 0)
    writer.write([directory, footer[:-4], zlib.crc32(footer[:-4]).to_bytes(4, "little")])
    writer.flush()


# -- reading ----------------------------------------------------------------------------------------------------------


def is_snapshot(data: memoryview) -> bool:
    """Return whether a file starts like a snapshot."""
    return bytes(data[:9]) == MAGIC[:9]


def taken_at(data: memoryview) -> int:
    """Return the time of a snapshot in milliseconds since the epoch. Raises DamagedError if its header is damaged."""
    if len(data) < _HEADER.size:
        raise DamagedError(len(data), "the file ends too early")
    moment: int = _header(data)[3]
    return moment


def position_of(data: memoryview) -> Position | None:
    """Return the position in a replication history from a snapshot's header; None if the header has no position."""
    return from_packed(_header(data)[4])


def named_files(data: memoryview) -> frozenset[int]:
    """Return the numbers of the segment files that a snapshot refers to. Raises DamagedError if it is damaged."""
    directory = _directory(data)
    numbers = array("Q")
    for at in range(0, len(directory), 3):
        if directory[at + 2] & _FILES:
            offset, size, total = directory[at : at + 3]
            if not _is_intact(data, offset, size, total):
                raise DamagedError(offset, _WRONG_SUM)
            numbers.frombytes(data[offset : offset + size])
    return frozenset(numbers)


def load(
    data: memoryview,
    core: Target,
    pause: Callable[[], None] = lambda: None,
    segments: SegmentFiles | None = None,
    left_out: UnsupportedTypes | None = None,
) -> int:
    """Load the keys of a mapped snapshot into a core without keys; return their number.

    Raises DamagedError if the snapshot is damaged. Keys of types that the engine does not store are left out and
    counted in ``left_out``.

    Afterwards, the core's segments are views of ``data``, or are stored in the files of ``segments``. ``pause`` is
    called repeatedly, so that a thread can yield to other threads.
    """
    directory = _directory(data)
    parts = [data[directory[at] : directory[at] + directory[at + 1]] for at in range(0, len(directory), 3)]
    _check_sums(data, directory)
    keys = 0
    found = UnsupportedTypes() if left_out is None else left_out
    for number, part in enumerate(parts):
        if directory[3 * number + 2] & _RECORDS:
            offset = directory[3 * number]
            keys += decode(part, parts, core, found, offset, pause, segments)
    return keys


def _directory(data: memoryview) -> array[int]:
    size = len(data)
    if bytes(data[:16]) != MAGIC:
        raise DamagedError(0, "not a snapshot of the engine")
    if size < _HEADER.size + _FOOTER.size:
        raise DamagedError(size, "the file ends too early")
    _header(data)
    footer = bytes(data[-_FOOTER.size :])
    end, offset, length, sum_of_directory, whole, total = _FOOTER.unpack(footer)
    if end != _END or total != zlib.crc32(footer[:-4]) or whole != size or offset + length + _FOOTER.size != size:
        raise DamagedError(size - _FOOTER.size, "the footer is damaged, or the file ends too early")
    if zlib.crc32(data[offset : offset + length]) != sum_of_directory:
        raise DamagedError(offset, "checksum mismatch in the directory")
    directory = array("Q")
    directory.frombytes(data[offset : offset + length])
    _check_gaps(directory, offset)
    return directory


def _header(data: memoryview) -> tuple[Any, ...]:
    """Return the fields of the header: magic, version, byte order, time, position, checksum; raise if invalid."""
    header = bytes(data[: _HEADER.size])
    fields = _HEADER.unpack(header)
    _, version, order, _, _, total = fields
    if total != zlib.crc32(header[:-4]):
        raise DamagedError(0, "checksum mismatch in the header")
    if version not in (_VERSION, _VERSION_NAMING):
        raise DamagedError(16, f"version {version} of the format is not supported")
    if order != _NATIVE:
        raise DamagedError(20, "written on a machine with the other byte order")
    return fields


def _check_gaps(directory: array[int], end: int) -> None:
    """Check that the parts fill the file from header to directory, so that every byte is covered by a checksum."""
    offset = _HEADER.size
    for at in range(0, len(directory), 3):
        if directory[at] != offset:
            raise DamagedError(directory[at], "a part does not start where the previous part ends")
        offset += directory[at + 1] + (-directory[at + 1] % 8)
    if offset != end:
        raise DamagedError(offset, "the directory does not start at the end of the last part")


def _check_sums(data: memoryview, directory: array[int]) -> None:
    """Verify the checksums of all parts. If there are many, up to eight threads share them: CRC-32 of a large buffer
    releases the GIL.
    """
    count = len(directory) // 3
    workers = min(max(os.cpu_count() or 1, 1), 8)
    share = -(-count // workers)
    bounds = [(first, min(first + share, count)) for first in range(0, count, max(share, 1))]

    def first_wrong(bound: tuple[int, int]) -> int:
        for number in range(*bound):
            offset, size, total = directory[3 * number : 3 * number + 3]
            if not _is_intact(data, offset, size, total):
                return offset
        return -1

    if count < 64:
        wrong = [first_wrong(bound) for bound in bounds]
    else:
        with ThreadPoolExecutor(workers) as pool:
            wrong = list(pool.map(first_wrong, bounds))
    offsets = [offset for offset in wrong if offset >= 0]
    if offsets:
        raise DamagedError(min(offsets), _WRONG_SUM)


def _is_intact(data: memoryview, offset: int, size: int, total: int) -> bool:
    """Return whether a part and its padding match the checksum in ``total``, which may also have mark bits."""
    return zlib.crc32(data[offset : offset + size + (-size % 8)]) == total & _SUM
