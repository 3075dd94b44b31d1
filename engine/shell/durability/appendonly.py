"""The append-only file as a whole: its directory, its manifest, loading it, rewriting it.

A rewrite takes an image of the keyspace, lets a thread write it as the new base, and then changes the manifest. What
happens meanwhile goes to a new increment that the manifest names at once (the usual way: nothing has to be kept in
memory), or, where there is no healthy file to go on from, is kept in memory and written when the base is there.

Every step leaves a directory that loads: new files are complete and on the disk before the manifest names them, old
ones are deleted after it no longer does. The temporary manifest is written before a new base gets its name, so that
files without a manifest are only ever found where the very first one was being made, and a lost manifest is noticed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.formats import export
from engine.core.keyspace import image
from engine.shell.durability import manifest as manifests
from engine.shell.durability import snapshot
from engine.shell.durability.blocks import DamagedError, TornError, head
from engine.shell.durability.files import Files, replace_file, write_all, write_new
from engine.shell.durability.log import ALWAYS, Beside, Effects, Log
from engine.shell.durability.manifest import (
    BASE,
    INCREMENT,
    INCREMENT_SUFFIX,
    OWN_SUFFIX,
    RESP_SUFFIX,
    Entry,
    Manifest,
)
from engine.shell.durability.replay import LoadError, Replay
from engine.shell.observation.reporting import LOG

_BASE_CHUNK = 1 << 20


class AppendOnly:
    """The append-only file called ``name`` in ``directory``."""

    def __init__(
        self,
        core: Core,
        files: Files,
        directory: Path,
        name: str,
        sync: Beside,
        save: Beside,
        clock: Callable[[], float],
    ) -> None:
        self._core = core
        self._files = files
        self._save = save
        self._clock = clock
        self._sync = sync
        self.directory = directory
        self.name = name
        self.manifest = Manifest()
        self.log = Log(files, sync, clock)
        self.base_size = 0
        self._older_size = 0
        #: A rewrite is under way; when it began, by ``clock``.
        self.rewriting = False
        self.began = 0.0
        self.last_seconds = -1
        self.last_ok = True
        #: Called at the end of a rewrite.
        self.on_rewritten: Callable[[], None] = lambda: None
        self._abandoned = False

    def facts(self) -> dict[str, Any]:
        """What INFO tells of the files and of rewriting them. Times are in seconds, -1: there was none."""
        return {
            "aof_rewrite_in_progress": int(self.rewriting),
            "aof_last_rewrite_time_sec": self.last_seconds,
            "aof_current_rewrite_time_sec": int(self._clock() - self.began) if self.rewriting else -1,
            "aof_last_bgrewrite_status": "ok" if self.last_ok else "err",
            "aof_current_size": self.size,
            "aof_base_size": self.base_size,
            "aof_pending_rewrite": 0,
        }

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def _manifest_path(self) -> Path:
        return self.directory / f"{self.name}.manifest"

    @property
    def _temporary_manifest(self) -> Path:
        return self.directory / f"temp-{self.name}.manifest"

    @property
    def _temporary_base(self) -> Path:
        return self.directory / f"temp-rewriteaof-bg-{os.getpid()}.aof"

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return self._older_size + self.log.size

    def _numbered(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.name) + r"\.([0-9]+)\.(base|incr)\.[a-z]+")

    # -- loading ------------------------------------------------------------------------------------------------------

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
        left = [name for name in names if self._numbered().fullmatch(name) and self._files.size(self.directory / name)]
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
                self._load_file(entry, data, now_us)
            except DamagedError as error:
                raise LoadError(path, error.offset, error.what) from None
            except TornError as error:
                if entry is not last or not cut:
                    how = "" if entry is not last else " (aof-load-truncated yes would cut it off there)"
                    raise LoadError(path, error.offset, "the file ends in the middle of a command" + how) from None
                self._cut(path, error.offset)
        self._measure()
        self.base_size = self._size_of(self.manifest.base)

    def _load_file(self, entry: Entry, data: memoryview, now_us: int) -> None:
        if bytes(data[:9]) == snapshot.MAGIC[:9] or bytes(data[:5]) == b"REDIS" or entry.name.endswith(OWN_SUFFIX):
            snapshot.load(data, self._core)
            return
        replay = Replay(self._core, now_us)
        try:
            replay.run(data)
        finally:
            replay.close()

    def _cut(self, path: Path, size: int) -> None:
        LOG.warning("%s ends in the middle of a command: cut off from byte %d on", path, size)
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
        self._older_size = sum(self._size_of(one) for one in self.manifest.files if self._path(one) != self.log.path)

    def _path(self, entry: Entry) -> Path:
        return self.directory / entry.name

    # -- the file in use ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to write behind what has been loaded; for a core with keys and no files, a base is made first."""
        self._make_directory()
        if self.manifest.increments:
            path = self._path(self.manifest.increments[-1])
            self.log.use(path, self._files.open_append(path), self._files.size(path))
        elif any(len(db) for db in self._core.databases) and self.manifest.base is None:
            suffix = self._base_suffix()
            self._write_base(image.take(self._core.databases, self._core.config, self._core.changes.now), suffix)
            self._commit(suffix, [])
        else:
            self._new_increment()
        self._clear_temporaries()
        self._measure()
        self.base_size = self._size_of(self.manifest.base)

    def _make_directory(self) -> None:
        if self._files.size(self.directory) < 0:
            self._files.make_directory(self.directory)
            self._files.sync_directory(self.directory.parent)

    def _new_increment(self) -> None:
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
        self.log.use(path, fd, 0)
        self._measure()

    def _clear_temporaries(self) -> None:
        for name in self._files.names(self.directory):
            if name.startswith(("temp-rewriteaof-", f"temp-{self.name}.")):
                self._files.remove(self.directory / name)

    def close(self) -> None:
        """Write and sync what there is, and stop. An OSError where that is not possible."""
        self._abandoned = self.rewriting
        self.log.close()

    def switch_off(self) -> None:
        """The log is no longer wanted; its files stay as they are."""
        self._abandoned = self.rewriting
        with suppress(OSError):
            self.log.close()
        self.log.forget()
        self.log.tee = None

    # -- rewriting ----------------------------------------------------------------------------------------------------

    def _base_suffix(self) -> str:
        return OWN_SUFFIX if self._core.config.flag("aof-use-rdb-preamble") else RESP_SUFFIX

    def rewrite(self) -> None:
        """Begin to replace all files by a new base and what comes from now on. An OSError where it cannot begin."""
        assert not self.rewriting
        log = self.log
        if log.is_open and log.settle():
            self._new_increment()
            first = self.manifest.increments[-1].seq
        else:
            log.tee = []
            first = 0
        taken = image.take(self._core.databases, self._core.config, self._core.changes.now)
        suffix = self._base_suffix()
        self.rewriting, self._abandoned, self.began = True, False, self._clock()

        def done(error: OSError | None) -> None:
            self._written(error, suffix, first)

        self._make_directory()
        self._save(lambda: self._write_base(taken, suffix), done)

    def _write_base(self, taken: image.Image, suffix: str) -> None:
        if suffix == OWN_SUFFIX:
            snapshot.write(self._files, self._temporary_base, taken)
            return
        fd = self._files.create(self._temporary_base)
        try:
            size = 0
            for chunk in _chunks(taken):
                size += write_all(self._files, fd, [head(size, chunk), chunk])
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _written(self, error: OSError | None, suffix: str, first: int) -> None:
        if error is None and not self._abandoned:
            try:
                if first:
                    self._commit(suffix, None, first)
                else:
                    self._commit(suffix, self.log.tee or [])
            except OSError as problem:
                error = problem
        self.log.tee = None
        self.rewriting = False
        self.last_seconds = int(self._clock() - self.began)
        if self._abandoned or error is not None:
            with suppress(OSError):
                self._files.remove(self._temporary_base)
        if not self._abandoned:
            self.last_ok = error is None
            if error is not None:
                LOG.error("rewriting the append-only file failed: %s", error)
        self.on_rewritten()

    def _commit(self, suffix: str, tail: Effects | None, first: int = 0) -> None:
        """The temporary base, and an increment with ``tail`` (None: those from ``first`` on), are the file from now
        on.
        """
        files, old = self._files, self.manifest
        seq = old.base_seq + 1
        base = Entry(f"{self.name}.{seq}{suffix}", seq, BASE)
        changed = old.rewritten(base, first)
        entry: Entry | None = None
        if tail is not None:
            seq = old.increment_seq + 1
            entry = Entry(f"{self.name}.{seq}{INCREMENT_SUFFIX}", seq, INCREMENT)
            changed = old.rewritten(base, seq).with_increment(entry)
        new_log: tuple[Path, int, int] | None = None
        write_new(files, self._temporary_manifest, changed.encode())
        if entry is not None:
            new_log = self._increment_with(entry, tail or [])
        try:
            files.rename(self._temporary_base, self._path(base))
            files.rename(self._temporary_manifest, self._manifest_path)
        except OSError:
            if new_log is not None:
                files.close(new_log[1])
                # Whether the disk has the new manifest is not known: what is added to the old files may not be found.
                self.log.broken = self.log.is_open
            raise
        # From here on a crash finds the new files; the old ones are kept until that is sure.
        self.manifest = changed
        if new_log is not None:
            self.log.drop_waiting()
            self.log.use(*new_log)
        self._measure()
        self.base_size = self._size_of(base)
        files.sync_directory(self.directory)
        self._save(lambda: self._delete_history(changed), self._history_deleted)

    def _increment_with(self, entry: Entry, tail: Effects) -> tuple[Path, int, int]:
        path = self._path(entry)
        fd = self._files.create(path)
        try:
            fresh = Log(self._files, self._sync, self._clock)
            fresh.policy = ALWAYS
            fresh.use(path, fd, 0)
            fresh.append(tail)
            if not fresh.flush(force=True) and fresh.error is not None:
                raise fresh.error
        except OSError:
            self._files.close(fd)
            raise
        return path, fd, fresh.size

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

    def _history_deleted(self, error: OSError | None) -> None:
        if error is not None or self._abandoned:
            return
        try:
            changed = self.manifest.without_history()
            replace_file(self._files, self._manifest_path, changed.encode(), self._temporary_manifest)
        except OSError as problem:
            LOG.warning("the manifest still names files that are gone: %s", problem)
            return
        self.manifest = changed


def _chunks(taken: image.Image) -> Iterator[bytes]:
    """The commands that make up an image, some at a time."""
    gathered: list[bytes] = []
    size = 0
    for commands in export.commands(taken):
        gathered.append(commands)
        size += len(commands)
        if size >= _BASE_CHUNK:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)
