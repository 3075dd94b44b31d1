"""Records of streams in a snapshot: counters, segments, consumer groups, producers.

A stream's segments are rows of a table (`_COLUMNS` describes its columns). Frames and long arrays are binary parts of
the snapshot file. For a segment in a segment file, the snapshot contains the segment's location if the snapshot may
refer to that file, and otherwise the segment's entries.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from engine.core.formats import restore
from engine.core.formats.rdb.streams import group_fields
from engine.core.formats.rdb.streams.group_fields import CONSUMER, GROUP
from engine.core.protocol import ids
from engine.core.streams.compressed.disk_entries import Stored, form_of, of_form, opened
from engine.core.streams.compressed.packed import Packed
from engine.core.streams.entries import Plain
from engine.core.streams.group import Consumer, Group
from engine.core.streams.group_progress import shown
from engine.core.streams.idempotency import Producers
from engine.core.streams.pending import NOBODY, PendingList
from engine.core.streams.pending_block import Block
from engine.core.streams.segment import Segment
from engine.core.streams.storage import Storage
from engine.core.streams.stream import Stream
from engine.shell.durability.files import Buffer
from engine.shell.durability.segments.file import SegmentPlace
from engine.shell.durability.segments.store import SegmentFiles

Put = Callable[[Sequence[Buffer]], int]
Parts = Sequence[memoryview]

#: Number of segments on disk that are written or read between two pauses.
_MANY = 200


def encode(stream: Stream, put: Put, named: set[int] | None, pause: Callable[[], None]) -> list[Any]:
    """Return the fields of a stream's record; see `engine.shell.durability.formats.records.encode`."""
    segments = array("Q")
    for number, (first, piece) in enumerate(restore.pieces(stream)):
        if type(piece) is Stored and named is not None and isinstance(piece.place, SegmentPlace):
            segments.extend(_stored_row(piece, piece.place, first, 0, _SEALED, named))
        else:
            segment = restore.segment_at(stream, number)
            segments.extend(_segment_row(segment, first, put, named))
        if not number % _MANY:
            pause()
    counters = [ids.text(stream.last_id), ids.text(stream.max_deleted_id), shown(stream.entries_added), stream.length]
    groups = [_group(name, group, put) for name, group in stream.groups.items()]
    # The empty list is a field that older releases require.
    return [counters, segments.tobytes(), [], groups, _producers(stream.producers)]


def decode(
    record: list[Any], parts: Parts, storage: Storage, pause: Callable[[], None], files: SegmentFiles | None
) -> Stream:
    """Return the stream of a record, with its entries in ``storage``. Raises ValueError, TypeError, IndexError or
    KeyError if the record is invalid.
    """
    (last_id, max_deleted, added, length), table, _, groups, producers = record
    rows = array("Q")
    rows.frombytes(table)
    columns = [rows[at::_COLUMNS] for at in range(_COLUMNS)]
    segments: list[tuple[int, Segment | Stored]] = []
    cache = storage.cache
    for row in zip(*columns, strict=True):
        if row[4] & _UNTOUCHED == _SEALED | _STORED and not row[3] and files is not None and files.is_in_use:
            # Common case: a long stream may have hundreds of thousands of such segments.
            number, size, count, _, flags, first_ms, first_seq, last_ms, last_seq, offset, stored = row
            place = files.place(number, offset, stored, flags >> _HALF)
            body = Stored(place, count, size, last_ms << 64 | last_seq, cache)
            segments.append((first_ms << 64 | first_seq, body))
            if not len(segments) % _MANY:
                pause()
            continue
        segments.append(_segment_from(row, parts, storage, files))
        pause()
    stream = restore.stream_of(storage, segments, ids.parse(last_id), ids.parse(max_deleted), added)
    if stream.length != length:
        raise ValueError(f"{stream.length} entries instead of {length}")
    for group in groups:
        name, value = _group_from(group, parts, stream, pause)
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
_UNTOUCHED = _HAS_DEAD | _SEALED | _STORED
_FORM_SHIFT, _HALF = 8, 32
_LOW = (1 << _HALF) - 1


def _stored_row(
    body: Stored, place: SegmentPlace, first: int, start: int, flags: int, named: set[int]
) -> tuple[int, ...]:
    """Return the row of a stored segment, without its marks of dead entries; add its file's number to ``named``.

    ``first`` is the ID of the segment's entry 0.
    """
    file, offset = place.location
    named.add(file.number)
    last = body.last_id
    flags |= _STORED | place.total << _HALF
    ends = first >> 64, first & _U64, last >> 64, last & _U64
    return (file.number, body.data_size, len(body), start, flags, *ends, offset, place.size)


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
            number, *rest = _stored_row(body, place, first, segment.start, flags, named)
            return [number | (put([dead]) + 1 << _HALF if dead else 0), *rest]
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
    last_id = ids.make(last_ms, last_seq)
    in_use = files.is_in_use
    body = (
        Stored(place, count, size, last_id, storage.cache) if in_use else opened(place.read(), last_id, storage.cache)
    )
    segment = restore.segment_of(storage, body)
    segment.start = start
    if flags & _HAS_DEAD:
        segment.dead = bytearray(parts[(number >> _HALF) - 1])
        segment.dead_count = segment.dead.count(1, start)
    if len(body) != count or (segment.dead is not None and len(segment.dead) != count):
        raise ValueError(f"a segment of {len(body)} entries instead of {count}")
    return ids.make(first_ms, first_seq), segment


def _segment_from(
    row: Sequence[int], parts: Parts, storage: Storage, files: SegmentFiles | None
) -> tuple[int, Segment]:
    """Return the first ID and the segment that a row describes. A sealed segment's frames stay in the mapped file."""
    number, size, count, start, flags, first_ms, first_seq, last_ms, last_seq, pieces, blob_size = row
    if flags & _STORED:
        return _stored_from(row, parts, storage, files)
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
    segment = Segment(storage.sealed, body)
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


def _group_from(record: list[Any], parts: Parts, stream: Stream, pause: Callable[[], None]) -> tuple[bytes, Group]:
    name, values, consumers, nacked, pending = record
    group = Group(0)
    group_fields.restore(GROUP, group, values, stream)
    for consumer_name, *consumer_values in consumers:
        consumer = Consumer(consumer_name, NOBODY, 0)
        group_fields.restore(CONSUMER, consumer, consumer_values, stream)
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
        uneven = block.owners is not None
        table.extend((len(block), block.owner, block.time & _U64, block.count & _U64, block.oldest & _U64, int(uneven)))
        arrays: list[array[int]] = [block.ms, block.seq]
        if block.owners is not None:
            arrays += [block.owners, block.times, block.counts]
        for buffers, column in zip(parts, arrays, strict=False):
            buffers.append(memoryview(column).cast("B"))
    if not table:
        return []
    return [put([table.tobytes()]), *(put(buffers) if buffers else -1 for buffers in parts)]


def _pending_from(record: list[int], parts: Parts, pause: Callable[[], None]) -> PendingList:
    blocks: list[Block] = []
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
            block = Block(read_values(0, "Q", size), read_values(1, "Q", size), owner, _signed(time), _signed(count))
            block.oldest = _signed(oldest)
            if uneven:
                block.owners, block.times, block.counts = (
                    read_values(2, "I", size),
                    read_values(3, "q", size),
                    read_values(4, "q", size),
                )
            blocks.append(block)
            pause()
    return restore.pending_of(blocks)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
