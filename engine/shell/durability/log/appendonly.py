"""The files of the append-only log: directory, manifest, loading them, and how a new base takes their place.

When what is written is the business of :mod:`engine.shell.durability.log.rewriting`. Here is how: every step leaves a
directory that loads. New files are complete and on the disk before the manifest names them, old ones are deleted after
it no longer does. The temporary manifest is written before a new base gets its name, so that files without a manifest
are only ever found where the very first one was being made, and a lost manifest is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.formats import export
from engine.core.formats.damage import DamagedError
from engine.core.keyspace import image
from engine.core.keyspace.changes import Effects
from engine.shell.durability.background.attempt import Attempt
from engine.shell.durability.background.threads import Background
from engine.shell.durability.files import Files, replace_file, write_all, write_new
from engine.shell.durability.formats import manifest as manifests
from engine.shell.durability.formats import rdb_file, snapshot
from engine.shell.durability.formats.blocks import TornError, head
from engine.shell.durability.formats.manifest import (
    BASE,
    INCREMENT,
    INCREMENT_SUFFIX,
    OWN_SUFFIX,
    RESP_SUFFIX,
    Entry,
    Manifest,
)
from engine.shell.durability.formats.position import LINE_SIZE, Position, line_at
from engine.shell.durability.formats.rdb_file import RdbFiles
from engine.shell.durability.log.replay import LoadError, Replay
from engine.shell.durability.log.writer import Log, encoded, framed
from engine.shell.durability.segments.store import SegmentFiles
from engine.shell.observation.reporting import LOG

_BASE_CHUNK = 1 << 20
#: The index of segment files weighs as much as their bytes divided by this. With 5.6 GB of them (500 million entries of
#: two short fields) a rewrite takes about a quarter of a second, and replaying 64 MB of the log one.
_INDEXED_PART = 128
#: Bases that are being written, or were when the process died.
_TEMPORARY_BASE = "temp-rewriteaof-bg-"


class AppendOnly:
    """The append-only file called ``name`` in ``directory``."""

    def __init__(
        self,
        core: Core,
        files: Files,
        rdb: RdbFiles,
        segments: SegmentFiles,
        directory: Path,
        name: str,
        log: Log,
        delete: Background,
        relieve: Callable[[], None],
    ) -> None:
        self._core = core
        self._files = files
        self._segments = segments
        self._rdb = rdb
        self._log = log
        #: Called now and then while commands are loaded.
        self._relieve = relieve
        #: Runs what deletes large files beside the loop.
        self._delete = delete
        self.directory = directory
        self.name = name
        self.manifest = Manifest()
        self.base_size = 0
        self._older_size = 0
        #: Where in a replication history the data are that were loaded: the last line says so.
        self.position: Position | None = None

    def facts(self) -> dict[str, Any]:
        """What INFO tells of the files. Sizes are in bytes."""
        return {"aof_current_size": self.size, "aof_base_size": self.base_size, "aof_pending_rewrite": 0}

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def _manifest_path(self) -> Path:
        return self.directory / f"{self.name}.manifest"

    @property
    def _temporary_manifest(self) -> Path:
        return self.directory / f"temp-{self.name}.manifest"

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return self._older_size + self._log.size

    @property
    def base_weight(self) -> int:
        """What the log's size is compared with to see how much it has grown, in bytes: the base, and a part of what it
        names in segment files. Of those a rewrite goes through the index, which takes longer the more there are.
        """
        return self.base_size + self._segments.size // _INDEXED_PART

    def _numbered(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.name) + r"\.([0-9]+)\.(base|incr)\.[a-z]+")

    # -- loading ------------------------------------------------------------------------------------------------------

    def adopt_old_file(self) -> None:
        """Make the single file of Redis 6 or earlier, next to the directory, the base of a log with a manifest.

        The manifest comes first, as in Redis 7, so a crash between the steps loses nothing. Where the directory has a
        log of its own, the file is left alone.
        """
        old = self.directory.parent / self.name
        if self._files.size(old) < 0:
            return
        upgraded = Manifest(Entry(self.name, 1, BASE))
        names = self._files.names(self.directory)
        if self._manifest_path.name in names:
            try:
                found = manifests.decode(self._files.read(self._manifest_path))
            except manifests.ManifestError:
                return  # `find` reports it
            if found != upgraded or self.name in names:
                LOG.warning("ignoring %s: the log is in %s", old, self.directory)
                return
        elif self._temporary_manifest.name not in names and self._unlisted(names):
            return  # `find` reports the missing manifest
        else:
            self.make_directory()
            replace_file(self._files, self._manifest_path, upgraded.encode(), self._temporary_manifest)
        self._files.rename(old, self.directory / self.name)
        self._files.sync_directory(self.directory)
        self._files.sync_directory(self.directory.parent)
        LOG.info("moved %s, a log of Redis 6 or earlier, into %s", old, self.directory)

    def _unlisted(self, names: list[str]) -> list[str]:
        """Files with content that a manifest should name."""
        return [name for name in names if self._numbered().fullmatch(name) and self._files.size(self.directory / name)]

    def find(self) -> bool:
        """Read the manifest; whether there is one. A LoadError where there should be one, or it makes no sense."""
        names = self._files.names(self.directory)
        path = self._manifest_path
        if path.name in names:
            try:
                self.manifest = manifests.decode(self._files.read(path))
            except manifests.ManifestError as error:
                raise LoadError(path, error.offset, str(error)) from None
            return True
        if self._temporary_manifest.name in names:
            # The first manifest was being made: what is here was never in use.
            return False
        left = self._unlisted(names)
        if left:
            raise LoadError(path, None, f"the manifest is missing, but there are files that it should name: {left}")
        if any(name.endswith(".manifest") for name in names):
            other = next(name for name in names if name.endswith(".manifest"))
            raise LoadError(self.directory / other, None, f"this manifest is not of 'appendfilename {self.name}'")
        return False

    def load(self, now_us: int, *, cut: bool) -> None:
        """Run all files on the empty core. A torn end of the last one is cut off if ``cut``, else refused."""
        files = self.manifest.files
        missing = [one.name for one in files if self._files.size(self.directory / one.name) < 0]
        if missing:
            raise LoadError(self._manifest_path, None, f"the manifest names files that are not there: {missing}")
        last = next((one for one in reversed(files) if self._size_of(one)), None)
        for entry in files:
            path = self._path(entry)
            data = self._files.map(path)
            try:
                end = self._load_file(entry, data, now_us)
                # (A value at the end of a command may look like the line.)
                if entry is last and len(data) - LINE_SIZE >= end:
                    self.position = line_at(data, len(data) - LINE_SIZE)
            except DamagedError as error:
                raise LoadError(path, error.offset, error.what) from None
            except TornError as error:
                if entry is not last or not cut:
                    how = "" if entry is not last else " (aof-load-truncated yes would cut it off there)"
                    raise LoadError(path, error.offset, "the file ends in the middle of a command" + how) from None
                self._cut(path, error.offset)
        self._measure()
        self.base_size = self._size_of(self.manifest.base)

    def _load_file(self, entry: Entry, data: memoryview, now_us: int) -> int:
        """Do what a file says; where its last command ends."""
        if snapshot.is_snapshot(data) or entry.name.endswith(OWN_SUFFIX):
            snapshot.load(data, self._core, segments=self._segments)
            return len(data)
        # A base of Redis is an RDB file. One of Redis before 7.0 goes on with commands behind it.
        begin = self._rdb.load(data, expire=False) if rdb_file.is_rdb(data) else 0
        replay = Replay(self._core, now_us, self._relieve)
        try:
            replay.run(data[begin:])
        except (DamagedError, TornError) as error:
            error.offset += begin
            raise
        finally:
            replay.close()
        return begin + replay.end

    def _cut(self, path: Path, size: int) -> None:
        lost = self._files.size(path) - size
        LOG.warning("%s ends in the middle of a command: cut off from byte %d on, %d bytes", path, size, lost)
        fd = self._files.open_append(path)
        try:
            self._files.cut(fd, size)
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _size_of(self, entry: Entry | None) -> int:
        return max(self._files.size(self.directory / entry.name), 0) if entry is not None else 0

    def _measure(self) -> None:
        """Know the size of all files but the one that is written to."""
        self._older_size = sum(self._size_of(one) for one in self.manifest.files if self._path(one) != self._log.path)

    def _path(self, entry: Entry) -> Path:
        return self.directory / entry.name

    # -- the file in use ----------------------------------------------------------------------------------------------

    def open(self) -> bool:
        """Begin to write behind what has been loaded; False where a base must be made first, as there are keys but no
        files.
        """
        self.make_directory()
        if self.manifest.increments:
            path = self._path(self.manifest.increments[-1])
            self._log.use(path, self._files.open_append(path), self._files.size(path))
        elif any(len(db) for db in self._core.databases) and self.manifest.base is None:
            return False
        else:
            self.new_increment()
        self._measure()
        self.base_size = self._size_of(self.manifest.base)
        return True

    def make_directory(self) -> None:
        """The files' directory is there afterwards."""
        if self._files.size(self.directory) < 0:
            self._files.make_directory(self.directory)
            self._files.sync_directory(self.directory.parent)

    def new_increment(self) -> int:
        """Let the log go on in a new file; its number. What was appended so far is on the disk."""
        seq = self.manifest.increment_seq + 1
        entry = Entry(f"{self.name}.{seq}{INCREMENT_SUFFIX}", seq, INCREMENT)
        path = self._path(entry)
        fd = self._files.create(path)
        changed = self.manifest.with_increment(entry)
        try:
            replace_file(self._files, self._manifest_path, changed.encode(), self._temporary_manifest)
        except OSError:
            self._files.close(fd)
            raise
        self.manifest = changed
        self._log.use(path, fd, 0)
        self._measure()
        return seq

    def clear_temporaries(self) -> None:
        """Remove bases that nobody is writing any more; a temporary manifest too, where there is a real one."""
        names = self._files.names(self.directory)
        manifest = self._temporary_manifest.name if self._manifest_path.name in names else ""
        for name in names:
            if name.startswith(_TEMPORARY_BASE) or name == manifest:
                self._files.remove(self.directory / name)

    # -- a new base ---------------------------------------------------------------------------------------------------

    def attempt(self) -> Attempt:
        """A new temporary file for a base."""
        return Attempt(self._files, self.directory, _TEMPORARY_BASE, ".aof")

    def base_suffix(self) -> str:
        """What a base's name ends with, which is its format, as the configuration says now."""
        return OWN_SUFFIX if self._core.config.flag("aof-use-rdb-preamble") else RESP_SUFFIX

    def write_base(
        self, attempt: Attempt, taken: image.Image, suffix: str, pause: Callable[[], None] = lambda: None
    ) -> None:
        """Write a base to the attempt's temporary file, on the disk when this returns.

        ``pause`` is called where whoever writes may stop for a moment.
        """
        if suffix == OWN_SUFFIX:
            segments = self._segments if self._segments.is_in_use else None
            attempt.named = snapshot.write(
                self._files, attempt.temporary, taken, attempt.check, pause, segments=segments
            )
            return
        fd = self._files.create(attempt.temporary)
        try:
            size = 0
            for chunk in _chunks(taken, pause):
                attempt.check()
                size += write_all(self._files, fd, [head(size, chunk), chunk])
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def commit(self, attempt: Attempt, suffix: str, *, first: int = 0, tail: Effects | None = None) -> None:
        """The attempt's base is the beginning of the log from now on: what comes behind it is in the increments from
        number ``first`` on, or else it is ``tail``, for which there will be a new increment.

        An OSError where that failed. Then the files are what they were, or the log's file is given up.
        """
        files, old, log = self._files, self.manifest, self._log
        seq = old.base_seq + 1
        base = Entry(f"{self.name}.{seq}{suffix}", seq, BASE)
        changed = old.rewritten(base, first)
        new_log: tuple[Path, int, int] | None = None
        if not first:
            seq = old.increment_seq + 1
            entry = Entry(f"{self.name}.{seq}{INCREMENT_SUFFIX}", seq, INCREMENT)
            changed = old.rewritten(base, seq).with_increment(entry)
        write_new(files, self._temporary_manifest, changed.encode())
        if not first:
            new_log = self._increment_with(entry, tail or [])
        unsure = False
        try:
            attempt.put_in_place(self._path(base))
            self._segments.documents.note(self._path(base), attempt.named)
            unsure = True
            files.rename(self._temporary_manifest, self._manifest_path)
            # From here on a crash of the process finds the new files; the old ones are kept until that is sure.
            self.manifest = changed
            files.sync_directory(self.directory)
        except OSError as error:
            if new_log is not None:
                files.close(new_log[1])
                if unsure and log.is_open:
                    # Which manifest the disk has is not known: what is added to the old files may not be found.
                    log.give_up(error)
            raise
        if new_log is not None:
            log.drop_waiting()
            log.use(*new_log)
        self._measure()
        self.base_size = self._size_of(base)
        self._delete(lambda: self._delete_history(changed), lambda error: self._history_deleted(changed, error))

    def _increment_with(self, entry: Entry, tail: Effects) -> tuple[Path, int, int]:
        path = self._path(entry)
        fd = self._files.create(path)
        size = 0
        try:
            if tail:
                commands, _ = encoded(tail)
                size = write_all(self._files, fd, framed(b"".join(commands), 0))
                self._files.sync(fd)
        except OSError:
            self._files.close(fd)
            with suppress(OSError):
                self._files.remove(path)
            raise
        return path, fd, size

    def _delete_history(self, current: Manifest) -> None:
        """Delete what the manifest calls history, and numbered files that it does not name."""
        named = {one.name for one in current.files}
        newest = {"base": current.base_seq, "incr": current.increment_seq}
        for name in self._files.names(self.directory):
            found = self._numbered().fullmatch(name)
            if found and name not in named and int(found[1]) <= newest[found[2]]:
                self._files.remove(self.directory / name)
        for one in current.history:
            self._files.remove(self._path(one))

    def _history_deleted(self, gone: Manifest, error: OSError | None) -> None:
        if error is not None:
            return
        try:
            changed = self.manifest.without(gone.history)
            replace_file(self._files, self._manifest_path, changed.encode(), self._temporary_manifest)
        except OSError as problem:
            LOG.warning("the manifest still names files that are gone: %s", problem)
            return
        self.manifest = changed


def _chunks(taken: image.Image, pause: Callable[[], None]) -> Iterator[bytes]:
    """The commands that make up an image, some at a time."""
    gathered: list[bytes] = []
    size = 0
    for commands in export.commands(taken):
        gathered.append(commands)
        size += len(commands)
        pause()
        if size >= _BASE_CHUNK:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)
