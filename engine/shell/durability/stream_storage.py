"""Storage of streams: the directives ``stream-storage``, ``stream-cache-size`` and ``stream-file-size``.

With ``disk``, cold segments are stored in the segment files of the data directory. With ``memory``, no segment files
are written. Entries in segment files of an earlier process that used ``disk`` are loaded into memory. These files are
removed when neither a snapshot nor the log's base refers to them any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.core.formats.damage import DamagedError
from engine.core.streams.compressed.disk_entries import Stored
from engine.core.streams.compressed.packed import Packed
from engine.core.streams.packer import pack
from engine.core.streams.segment import Storage
from engine.settings.config import Config
from engine.shell.durability import psb
from engine.shell.durability.background import Background
from engine.shell.durability.files import Files
from engine.shell.durability.segments import FOLDER, SegmentFiles
from engine.shell.observation.log_lines import LOG

#: Seconds between two checks of whether a new base of the log would free segment files.
_CHECK_EVERY = 10.0
#: Pause after moving records to another segment file, as a multiple of the move's duration.
_REST = 4
#: Pause in seconds after the disk has rejected a move of records.
_REST_AFTER_ERROR = 1.0
#: Maximum number of sealed segments that wait while data is loaded (one to two hundred megabytes of frames).
MOST_WAITING = 512
#: Number of segments to store at a time while more than `MOST_WAITING` wait. Storing segments takes as long as
#: replaying the commands that fill them.
_STORED_AT_ONCE = 64


class StreamStorage:
    """Segment files of one engine. ``clock`` is monotonic, ``background`` runs work in a thread."""

    def __init__(
        self,
        config: Config,
        storage: Storage,
        files: Files,
        directory: Path,
        background: Background,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._storage = storage
        self._files = files
        self._directory = directory
        self._background = background
        self._clock = clock
        self._check_at = 0.0
        self._rest_until = 0.0
        self._log_folder = directory
        disk = config.text("stream-storage") == b"disk"
        self.segments = SegmentFiles(
            files, directory / FOLDER, lambda: config.integer("stream-file-size"), is_in_use=disk
        )

    def start(self, log_folder: Path) -> None:
        """Find the existing segment files, and which of them the log's base and the snapshots refer to.

        Call this before anything is loaded. Raises OSError if a file cannot be read.
        """
        self._log_folder = log_folder
        self._config.on_change("stream-cache-size", self._follow)
        self._follow()
        self.segments.find_files()
        self._storage.sealed.stores = self.segments.is_in_use
        if not self.segments.is_in_use and not self.segments.has_files:
            return
        kept = re.compile(rf"original-[0-9]+-{re.escape(log_folder.name)}")
        folders = [self._directory / name for name in self._files.names(self._directory) if kept.fullmatch(name)]
        for folder in (self._directory, log_folder, *folders):
            for name in self._files.names(folder):
                if name.endswith(".psb") and not name.startswith("temp-"):
                    self._note_document(folder / name)

    def _follow(self) -> None:
        self._storage.cache.limit = self._config.integer("stream-cache-size")

    def _note_document(self, path: Path) -> None:
        """Record which segment files a snapshot or the log's base refers to."""
        try:
            named = psb.named_files(self._files.map(path))
        except DamagedError as error:
            # Only warn, because the file may be foreign or unused. If it is loaded later, loading fails.
            LOG.warning("%s, byte %d: %s; no segment file is removed", path, error.offset, error.reason)
            self.segments.documents.keeps_all = True
        else:
            self.segments.documents.note(path, named)

    def relieve(self) -> None:
        """Store sealed segments if many wait. Call this repeatedly while data is loaded: housekeeping does not run
        then, and the segments may exceed the memory.

        Segments that the disk rejects stay in memory.
        """
        sealed, cache = self._storage.sealed, self._storage.cache
        while self.segments.is_in_use and len(sealed) > MOST_WAITING:
            found, _ = sealed.pop(len(sealed), _STORED_AT_ONCE)
            bodies: list[Packed] = []
            for segment in found:
                body = segment.body if isinstance(segment.body, Packed) else pack(segment.plain, cache)
                segment.body = body
                bodies.append(body)
            try:
                places = self.segments.write(bodies)
            except OSError:
                for segment in found:
                    sealed.add(segment)
                return
            for segment, body, place in zip(found, bodies, places, strict=True):
                segment.body = Stored(place, len(body), body.data_size, body.last_id, cache, body.number)

    def tidy(self) -> None:
        """Remove unreferenced segment files, and start moving records out of a file with many dead records.

        Call this in the event loop repeatedly, while no snapshot and no base is being written.
        """
        self.segments.tidy(self._in_background, may_move=self._clock() >= self._rest_until)

    def _in_background(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run work in a thread, then pause before the next such work, so that clients can use the disk."""
        began = self._clock()

        def ended(error: OSError | None) -> None:
            now = self._clock()
            self._rest_until = now + (_REST * (now - began) if error is None else _REST_AFTER_ERROR)
            done(error)

        self._background(work, ended)

    def wants_new_base(self) -> bool:
        """Return whether the segment files that only the log's base refers to have at least the size of a full file.

        This is checked every `_CHECK_EVERY` seconds. In between, return False.
        """
        now = self._clock()
        if now < self._check_at or not self.segments.is_in_use:
            return False
        self._check_at = now + _CHECK_EVERY
        return self.segments.held_by(self._log_folder) >= self._config.integer("stream-file-size")

    def facts(self) -> dict[str, Any]:
        """Return INFO's facts about segment files; empty without such files. Sizes are in bytes."""
        if not self.segments.is_in_use and not self.segments.has_files:
            return {}
        return {**self.segments.facts(), "engine_segment_cached_bytes": self._storage.cache.size}
