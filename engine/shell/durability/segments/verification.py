"""Verification of segment files, for ``python -m engine check``: one file, or all records that a core refers to.

Damage is returned as (file, offset, description). ``say`` prints a line for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from engine.core.keyspace.database import Database
from engine.core.streams.compressed.disk_entries import Stored, UnreadableError
from engine.core.streams.stream import Stream
from engine.shell.durability.files import Files
from engine.shell.durability.segments.file import HEADER_SIZE, SegmentPlace, number_of, padded_size, records
from engine.shell.durability.segments.store import FOLDER, SegmentFiles

Damage = tuple[Path, int, str]
Say = Callable[[str], None]


def segment_files_near(files: Files, document: Path) -> SegmentFiles | None:
    """Return the segment files that a snapshot or the base of a log can refer to; None if the folder is missing."""
    for folder in document.absolute().parents[:2]:
        if (folder / FOLDER).is_dir():
            found = SegmentFiles(files, folder / FOLDER, lambda: 0, is_in_use=True)
            found.find_files()
            return found
    return None


def check_stored(path: Path, databases: Iterable[Database], say: Say) -> Damage | None:
    """Read all stream entries in segment files. Print all damage, with the keys, and return the first damage.

    ``path`` is the document that the databases were loaded from.
    """
    damage, count = None, 0
    for db in databases:
        for key, value, _ in db.items():
            for segment in value.segments() if isinstance(value, Stream) else ():
                place = segment.body.place if isinstance(segment.body, Stored) else None
                if not isinstance(place, SegmentPlace):
                    continue
                count += 1
                try:
                    place.read()
                except UnreadableError as error:
                    file, offset = place.location
                    shown = key.decode("utf-8", "backslashreplace")
                    lost = f"{segment.live} entries of '{shown}' in database {db.index}"
                    say(f"{path}: {lost} cannot be read: {error}")
                    damage = damage or (file.path, offset, "damaged segment")
    if count and damage is None:
        say(f"{path}: {count} segments in segment files: intact")
    return damage


def check_file(path: Path, data: memoryview, say: Say) -> Damage | None:
    """Read a segment file on its own. An incomplete record at the file's end, as a crash may leave it, is reported but
    does not count as damage.
    """
    number = number_of(data)
    if number is None:
        return path, 0, "checksum mismatch in the header"
    count, end = 0, HEADER_SIZE
    for offset, size, good in records(data, number):
        if offset != end:
            return path, end, "no segment starts here, but one follows"
        if not good and offset + padded_size(size) < len(data):
            return path, offset, f"checksum mismatch in the segment's {size} bytes"
        if good:
            count, end = count + 1, offset + padded_size(size)
    say(f"{path}: segment file, {len(data)} bytes, {count} segments: intact")
    if end < len(data):
        say(f"{path}: {len(data) - end} bytes at the end are an incomplete segment, as after a crash")
    return None
