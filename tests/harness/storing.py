"""Storing of cold segments by a test, in place of the engine's housekeeping."""

from __future__ import annotations

from pathlib import Path

from engine.core.dispatch import Core
from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.packer import pack
from engine.core.streams.segment import Plain
from engine.shell.durability.files import Files
from engine.shell.durability.segments import FOLDER, SegmentFiles


def segment_files(directory: Path, files: Files | None = None, file_size: int = 4096) -> SegmentFiles:
    """Return the segment files of a data directory, including existing ones."""
    found = SegmentFiles(files or Files(), directory / FOLDER, lambda: file_size, is_in_use=True)
    found.find_files()
    return found


def store(core: Core, files: SegmentFiles) -> int:
    """Store all sealed segments of a core and return their number; raise OSError if the disk rejects one."""
    storage = core.streams.storage
    storage.sealed.stores = True
    waiting = len(storage.sealed)
    found, _ = storage.sealed.pop(waiting, waiting)
    for number, segment in enumerate(found):
        body = pack(segment.body, storage.cache) if isinstance(segment.body, Plain) else segment.body
        try:
            (location,) = files.write([body])
        except OSError:
            for left in found[number:]:
                storage.sealed.add(left)
            raise
        segment.body = Stored(location, len(body), body.data_size, body.last_id, storage.cache)
    return len(found)
