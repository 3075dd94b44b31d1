"""Segment files of one directory: the cold entries of streams if ``stream-storage`` is ``disk``.

    header   32 bytes: magic, version, the file's number; its CRC-32 last
    records  each starts at a multiple of 8: a head of 32 bytes, then the bytes of a segment's entries
             (`engine.core.streams.compressed.disk_entries.payload`), and zeros up to the next multiple of 8

A head has the length and CRC-32 of the bytes after it, the file's number and the head's offset, and a CRC-32 of its
own: both misplaced and changed bytes are detected. A reference to a record also has its length and checksum. Bytes
after the last referenced record are ignored: a crash may have left part of a record there.

Files are append-only, and a process appends only to files that it created. After a failed write the file is truncated
to its last complete record; if that fails too, a new file is started.

References to a record are tracked in two ways. A segment in memory has the record's *place*; when the place is no
longer used, a weak reference reports it. Documents, which are files on disk such as the log's base and snapshots, refer
to segment files (`Documents`). A segment file is deleted when neither memory nor a document refers to it. A file with
many dead records is emptied (`next_to_empty`): its live records are copied to another file in batches, and their places
are updated. Files are deleted or emptied only while no document is being written, so every file that a new document
refers to still exists.
"""

from __future__ import annotations

import re
import struct
import threading
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from engine.core.formats.damage import DamagedError
from engine.core.streams.compressed.disk_entries import Buffer, UnreadableError, payload
from engine.core.streams.compressed.packed import Packed
from engine.shell.durability.background import Background
from engine.shell.durability.files import Files, write_all
from engine.shell.observation.log_lines import LOG
from engine.text import messages


class Documents:
    """Documents of one engine. Segment files are identified by number."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._named: dict[Path, frozenset[int]] = {}
        #: Whether to keep all segment files, because a document could not be read and may refer to any of them.
        self.keeps_all = False

    def note(self, document: Path, numbers: frozenset[int]) -> None:
        """Set the segment files that a document refers to, replacing earlier references. The document need not be on
        disk yet.
        """
        self._named[document] = numbers

    def named_by(self, document: Path) -> frozenset[int]:
        """Return the segment files that a document refers to."""
        return self._named.get(document, frozenset())

    def named(self) -> set[int]:
        """Return the segment files to which documents on disk refer. Documents that no longer exist are dropped."""
        self._named = {path: found for path, found in self._named.items() if self._files.size(path) >= 0}
        return {number for numbers in self._named.values() for number in numbers}

    def named_only_in(self, folder: Path) -> set[int]:
        """Return the segment files that only documents in this folder refer to."""
        inside = {number for path, found in self._named.items() if path.parent == folder for number in found}
        outside = {number for path, found in self._named.items() if path.parent != folder for number in found}
        return inside - outside


MAGIC = b"PSSEGMENTFILE\r\n\0"
_VERSION = 1
_HEADER = struct.Struct("<16sII4xI")
_RECORD = b"PSsg"
_HEAD = struct.Struct("<4sIIIQ4xI")
HEADER_SIZE, HEAD_SIZE = _HEADER.size, _HEAD.size
#: Maximum length in bytes of a record without its head: the head stores the length as a 32-bit number.
MOST_BYTES = (1 << 32) - 1


def header(number: int) -> bytes:
    """Return the header of the file with this number."""
    begin = _HEADER.pack(MAGIC, _VERSION, number, 0)[:-4]
    return begin + zlib.crc32(begin).to_bytes(4, "little")


def head(number: int, offset: int, size: int, total: int) -> bytes:
    """Return the head, at ``offset``, of a record of ``size`` bytes whose CRC-32 is ``total``."""
    begin = _HEAD.pack(_RECORD, size, total, number, offset, 0)[:-4]
    return begin + zlib.crc32(begin).to_bytes(4, "little")


def padded_size(size: int) -> int:
    """Return the number of bytes that a record of ``size`` bytes takes in its file."""
    return HEAD_SIZE + size + -size % 8


class SegmentFile:
    """An existing segment file. ``size``: number of bytes up to the end of the last complete record."""

    __slots__ = ("__weakref__", "_files", "live", "number", "path", "places", "size")

    def __init__(self, files: Files, path: Path, number: int, size: int) -> None:
        self._files = files
        self.path = path
        self.number = number
        self.size = size
        #: Size in bytes of the header, and of the records that memory refers to.
        self.live = HEADER_SIZE
        #: Weak references to the places that are in use, by offset in the file.
        self.places: dict[int, PlaceRef] = {}

    @property
    def dead(self) -> int:
        """Size in bytes of the records that memory does not refer to."""
        return max(self.size - self.live, 0)

    def read(self, size: int, offset: int) -> bytes:
        """Read ``size`` bytes of the file, or fewer at its end. It is opened for each read: descriptors are scarce."""
        return self._files.read_at(self.path, size, offset)


class SegmentPlace:
    """Location of a record in a segment file."""

    __slots__ = ("__weakref__", "location", "size", "total")

    def __init__(self, file: SegmentFile, offset: int, size: int, total: int) -> None:
        #: File and offset of the record. They change together when the record is moved.
        self.location = file, offset
        #: Number of bytes after the head.
        self.size = size
        #: CRC-32 of the bytes after the head.
        self.total = total

    def read(self) -> bytes:
        """Read the record; see `engine.core.streams.compressed.disk_entries.Place`."""
        file, offset = self.location
        try:
            data = file.read(HEAD_SIZE + self.size, offset)
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from None
        if data[:HEAD_SIZE] != head(file.number, offset, self.size, self.total):
            raise self._unreadable("the head of the segment is damaged, or the file ends too early")
        found = data[HEAD_SIZE:]
        if len(found) != self.size or zlib.crc32(found) != self.total:
            raise self._unreadable(f"checksum mismatch in the segment's {self.size} bytes")
        return found

    def _unreadable(self, reason: str) -> UnreadableError:
        file, offset = self.location
        LOG.error("%s, byte %d: %s", file.path, offset, reason)
        return UnreadableError(messages.unreadable(f"{file.path}, byte {offset}: {reason}"))


class PlaceRef(weakref.ref[SegmentPlace]):
    """A weak reference that reports when its place is no longer in use."""

    __slots__ = ("file", "offset", "size")

    file: SegmentFile
    offset: int
    size: int


FOLDER = "segments"
NAME = re.compile(r"segments-([0-9]{10})\.pss")
#: Maximum number of bytes to move at a time.
_MOVED_AT_ONCE = 16 << 20
#: Maximum number of records to move at a time.
_MOST_MOVED = 1000
#: Number of bits of a file's number in the header of the file.
_NUMBER_BITS = 32
#: Maximum number of dropped places to process at a time, which takes a few milliseconds.
MOST_NOTICED = 3000
#: A file is emptied if its share of dead bytes exceeds this value.
_DEAD_SHARE = 0.5
#: The file with the largest share of dead bytes is also emptied if all files together have at least this share, and if
#: their dead bytes would fill a file.
_DEAD_SHARE_OF_ALL = 0.25


class SegmentFiles:
    """Segment files in ``directory``, to which no other engine writes. ``file_size``: number of bytes after which a new
    file is started. ``is_in_use``: whether segments are to be stored in these files.
    """

    def __init__(self, files: Files, directory: Path, file_size: Callable[[], int], *, is_in_use: bool) -> None:
        self._files = files
        self._file_size = file_size
        self.directory = directory
        self.is_in_use = is_in_use
        #: Files by number. The newest file is written to, if this process created it.
        self._by_number: dict[int, SegmentFile] = {}
        self._last_number = 0
        #: The file that is written to, if any.
        self._current: SegmentFile | None = None
        #: Descriptor of `_current`; -1 if there is no such file.
        self._fd = -1
        #: Number of a file with unsynced bytes -> its descriptor.
        self._unsynced: dict[int, int] = {}
        self._directory_changed = False
        #: Numbers of the files that are being synced.
        self._syncing: set[int] = set()
        #: Numbers of files whose content on disk is uncertain. Either an fsync of the file failed: bytes may be lost,
        #: even if a later fsync succeeds. Or another program removed or truncated the file.
        self._doubtful: set[int] = set()
        #: Numbers of files that cannot be emptied because their live records are damaged.
        self._damaged: set[int] = set()
        #: Held while a file is chosen and written to, because one thread writes and another one syncs.
        self._lock = threading.Lock()
        #: Held briefly, also by the event loop, while the places of a file are updated.
        self._books = threading.Lock()
        #: References to places that are no longer in use; any thread may append.
        self._dropped: deque[PlaceRef] = deque()
        self.documents = Documents(files)
        self._is_emptying = False
        self._is_closed = False
        #: Reason why the last segments could not be written; empty if they were written.
        self.trouble = ""

    # -- existing files -----------------------------------------------------------------------------------------------

    def find_files(self) -> None:
        """Find the existing files. Raises OSError on failure."""
        for name in self._files.names(self.directory):
            found = NAME.fullmatch(name)
            if found and not int(found[1]) >> _NUMBER_BITS:
                number, path = int(found[1]), self.directory / name
                size = self._files.size(path)
                self._by_number[number] = SegmentFile(self._files, path, number, size)
                self._last_number = max(self._last_number, number)

    @property
    def has_files(self) -> bool:
        """Whether there are segment files."""
        return bool(self._by_number)

    def place(self, number: int, offset: int, size: int, total: int) -> SegmentPlace:
        """Return the place of a record that a document refers to. If the record is missing, raises a DamagedError,
        which means that the document is damaged.
        """
        file = self._by_number.get(number)
        if file is None:
            raise DamagedError(0, f"the file refers to {self._path(number)}, which is missing")
        if offset + HEAD_SIZE + size > file.size:
            raise DamagedError(0, f"the file refers to byte {offset} of {file.path}, which ends at byte {file.size}")
        known = file.places.get(offset)
        if known is not None:
            place = known()
            if place is not None and place.total == total and place.size == size:
                return place
        place = SegmentPlace(file, offset, size, total)
        self._note(place)
        return place

    def _path(self, number: int) -> Path:
        return self.directory / f"segments-{number:010d}.pss"

    def _note(self, place: SegmentPlace) -> None:
        """Start tracking a place."""
        file, offset = place.location
        ref = PlaceRef(place, self._dropped.append)
        ref.file, ref.offset, ref.size = file, offset, place.size
        with self._books:
            file.places[offset] = ref
            file.live += padded_size(place.size)

    def _untrack_dropped(self) -> None:
        """Stop tracking up to `MOST_NOTICED` dropped places: deleting a large stream drops many more."""
        for _ in range(min(len(self._dropped), MOST_NOTICED)):
            ref = self._dropped.popleft()
            with self._books:
                if ref.file.places.get(ref.offset) is ref:
                    del ref.file.places[ref.offset]
                ref.file.live -= padded_size(ref.size)

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, bodies: Sequence[Packed]) -> list[SegmentPlace]:
        """Write packed entries at the end of the newest file; return their places. Raises OSError on failure.

        Call this in a background thread.
        """
        return self._write([payload(body) for body in bodies])

    def _write(self, payloads: Sequence[Sequence[Buffer]]) -> list[SegmentPlace]:
        with self._lock:
            try:
                places = [self._write_one(buffers) for buffers in payloads]
            except OSError as error:
                if not self.trouble and not self._is_closed:
                    LOG.error(
                        "segments of streams cannot be written to %s, they stay in memory: %s", self.directory, error
                    )
                self.trouble = error.strerror or str(error)
                raise
            if self.trouble:
                LOG.info("the disk accepts segments of streams again")
                self.trouble = ""
        return places

    def _write_one(self, buffers: Sequence[Buffer]) -> SegmentPlace:
        size = sum(map(len, buffers))
        if size > MOST_BYTES:
            raise OSError("a segment is too large")
        file = self._current
        if file is None or file.size >= self._file_size():
            file = self._create_file()
        total = 0
        for buffer in buffers:
            total = zlib.crc32(buffer, total)
        offset = file.size
        try:
            write_all(self._files, self._fd, [head(file.number, offset, size, total), *buffers, bytes(-size % 8)])
        except OSError:
            self._cut_rejected(file)
            raise
        file.size += padded_size(size)
        self._unsynced.setdefault(file.number, self._fd)
        place = SegmentPlace(file, offset, size, total)
        self._note(place)
        return place

    def _create_file(self) -> SegmentFile:
        self._leave_file()
        if self._is_closed:
            raise OSError("the engine is shutting down")
        if self._files.size(self.directory) < 0:
            self._files.make_directory(self.directory)
            self._files.sync_directory(self.directory.parent)
        number = self._last_number + 1
        path = self._path(number)
        fd = self._files.create(path)
        # The number is not used again, even if the file cannot be written.
        self._last_number = number
        self._directory_changed = True
        try:
            write_all(self._files, fd, [header(number)])
        except OSError:
            self._files.close(fd)
            with suppress(OSError):
                self._files.remove(path)
            raise
        file = SegmentFile(self._files, path, number, HEADER_SIZE)
        self._current, self._fd = file, fd
        self._by_number[number] = file
        return file

    def _cut_rejected(self, file: SegmentFile) -> None:
        """Cut off the rest of a rejected write; if that fails too, stop writing to the file."""
        try:
            self._files.cut(self._fd, file.size)
        except OSError:
            self._leave_file()

    def _leave_file(self) -> None:
        """Stop writing to the current file, sync it and close its descriptor."""
        file, fd = self._current, self._fd
        self._current, self._fd = None, -1
        # A running sync of the file closes the descriptor itself.
        if file is not None and file.number not in self._syncing:
            if self._unsynced.pop(file.number, None) is not None:
                try:
                    self._files.sync(fd)
                except OSError:
                    self._doubtful.add(file.number)
            self._files.close(fd)

    def sync(self) -> None:
        """Sync everything written so far to disk. Raises OSError on failure."""
        with self._lock:
            waiting, self._unsynced = self._unsynced, {}
            changed, self._directory_changed = self._directory_changed, False
            self._syncing = set(waiting)
        trouble: OSError | None = None
        for number, fd in waiting.items():
            try:
                self._files.sync(fd)
            except OSError as error:
                trouble = error
                self._doubtful.add(number)
        self._doubtful |= {
            file.number for file in self._files_now() if file.places and self._files.size(file.path) < file.size
        }
        with self._lock:
            if self._current is not None and self._current.number in self._doubtful:
                self._leave_file()
            self._syncing = set()
            for number, fd in waiting.items():
                if (self._current is None or self._current.number != number) and number not in self._unsynced:
                    self._files.close(fd)
        try:
            if changed:
                self._files.sync_directory(self.directory)
        except OSError:
            self._directory_changed = True
            raise
        doubtful = [file for file in self._files_now() if file.number in self._doubtful and file.places]
        if trouble is not None or doubtful:
            lost = [file for file in doubtful if file.number in self._damaged]
            if lost:
                raise OSError(f"{lost[0].path} is damaged, and streams refer to lost records in it")
            raise trouble or OSError(f"the content of {doubtful[0].path} may not be on disk: it is being rewritten")

    def _files_now(self) -> list[SegmentFile]:
        return list(self._by_number.values())

    def close(self) -> None:
        """Stop writing: the directory may soon belong to another engine."""
        with self._lock:
            self._is_closed = True
            for fd in {*self._unsynced.values()} | ({self._fd} if self._current is not None else set()):
                with suppress(OSError):
                    self._files.close(fd)
            self._unsynced.clear()
            self._current, self._fd = None, -1

    # -- tidying up ---------------------------------------------------------------------------------------------------

    def tidy(self, background: Background, *, may_move: bool = True) -> None:
        """Delete unreferenced files, and start moving some records out of a file with many dead ones.

        Call this in the event loop repeatedly, while no document is being written. If ``may_move`` is false, no records
        are moved this time.
        """
        self._untrack_dropped()
        if self._is_emptying or self.documents.keeps_all:
            return
        idle = [file for file in self._files_now() if not file.places and file is not self._current]
        if idle:
            named = self.documents.named()
            for file in idle:
                if file.number not in named:
                    self._delete(file)
        if may_move and self.is_in_use:
            self._empty_one(background)

    def _delete(self, file: SegmentFile) -> None:
        try:
            self._files.remove(file.path)
        except OSError as error:
            LOG.warning("%s cannot be removed: %s", file.path, error)
            return
        del self._by_number[file.number]

    def _empty_one(self, background: Background) -> None:
        found = [
            file
            for file in self._files_now()
            if file.places and file is not self._current and file.number not in self._damaged
        ]
        file = next_to_empty(found, self._doubtful, self._file_size())
        if file is None:
            return
        places: list[SegmentPlace] = []
        size = 0
        for ref in list(islice(file.places.values(), _MOST_MOVED)):
            place = ref()
            if place is not None and size < _MOVED_AT_ONCE:
                places.append(place)
                size += place.size
        moved: list[tuple[SegmentPlace, SegmentPlace]] = []

        def move() -> None:
            for place in places:
                # Damaged records are not moved: reading them reports the damage.
                with suppress(UnreadableError):
                    moved.extend(zip([place], self._write([[place.read()]]), strict=True))

        def done(error: OSError | None) -> None:
            self._is_emptying = False
            for place, new_place in moved:
                self._move(place, new_place)
            if error is None and not moved and places:
                LOG.error("%s cannot be emptied, because its live records are damaged", file.path)
                self._damaged.add(file.number)

        self._is_emptying = True
        background(move, done)

    def _move(self, place: SegmentPlace, new_place: SegmentPlace) -> None:
        """Update a place to the new copy of its record, whose ``new_place`` is then dropped."""
        file, offset = place.location
        with self._books:
            old = file.places.pop(offset, None)
            if old is not None:
                file.live -= padded_size(place.size)
            new_file, new_offset = new_place.location
            # Stop tracking ``new_place``, because the bytes of its record now belong to ``place``.
            del new_file.places[new_offset]
            new_file.live -= padded_size(new_place.size)
            place.location = new_place.location
        self._note(place)

    def held_by(self, folder: Path) -> int:
        """Return the total size in bytes of the files that only documents in a folder, and no segments in memory, refer
        to.
        """
        self._untrack_dropped()
        named = self.documents.named_only_in(folder)
        return sum(
            file.size
            for file in self._files_now()
            if file is not self._current and not file.places and file.number in named
        )

    @property
    def size(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.size for file in self._files_now())

    # -- facts --------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return INFO's facts about the files. Sizes are in bytes."""
        self._untrack_dropped()
        found = self._files_now()
        size = self.size
        return {
            "engine_segment_files": len(found),
            "engine_segment_bytes": size,
            "engine_segment_dead_bytes": sum(file.dead for file in found),
            "engine_segment_last_write_status": "err" if self.trouble else "ok",
        }


def next_to_empty(found: Sequence[SegmentFile], doubtful: Collection[int], file_size: int) -> SegmentFile | None:
    """Return the file whose records are to be moved now; None if that would not be worthwhile.

    It is the file with the largest share of dead bytes, if this share is more than half. A smaller share suffices if
    the dead bytes of all files are at least a quarter of their bytes, and at least the size of a full file. So files
    exceed their live content by at most a third, plus one file. For each reclaimed byte, at most three bytes are
    rewritten. Files of streams that are trimmed from their start are rarely rewritten, because all records of such a
    file are dropped at about the same time.

    ``found``: files with live records that are no longer written to; ``doubtful``: numbers of files whose content on
    disk is uncertain, which go first; ``file_size``: size of a full file in bytes.
    """
    for file in found:
        if file.number in doubtful:
            return file
    worst = max(found, key=lambda file: file.dead / file.size, default=None)
    if worst is None or worst.dead > _DEAD_SHARE * worst.size:
        return worst
    dead, size = sum(file.dead for file in found), sum(file.size for file in found)
    return worst if dead >= max(_DEAD_SHARE_OF_ALL * size, file_size) else None
