"""Files of the append-only log: directory, manifest, loading, rewriting.

The manifest names the files in order, in the format of Redis 7:

    file appendonly.aof.3.base.psb seq 3 type b
    file appendonly.aof.5.incr.aof seq 5 type i

There is at most one base, then increments in replay order, and history files, which may be deleted. A comment line at
the end has the checksum of the lines before it. Redis skips it; a manifest without a checksum is accepted, because
Redis writes none.

A rewrite makes an image of the keyspace the new base, which later effects follow. In the usual case, the log continues
in a new increment, which the manifest names immediately. So the files are complete even if the base is never written. A
log that is broken or does not exist yet cannot continue: effects are kept in memory (`Log.tee`) until the base is
written, and then written to a new increment. If the log is off, only the base is written. During a synchronous rewrite
no effects happen. `engine.shell.durability.disk` decides when a rewrite starts.

After every step, the directory can be loaded. A new base is complete and synced before the manifest names it. Old files
are deleted after the manifest lists them as history. The temporary manifest is written before a new base gets its name.
So if the directory has files, but neither a manifest nor a temporary manifest, the manifest was lost.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError
from engine.core.keyspace.changes import Effects
from engine.core.keyspace.image import Image
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.background import Attempt, Workers, Writing
from engine.shell.durability.files import Files, replace_file, write_all, write_new
from engine.shell.durability.log import Log, TornError, as_block, encode_effects
from engine.shell.durability.position import LINE_SIZE, Position, line_at
from engine.shell.durability.recovery import LeftOutKeys, LoadError, Replay, original_names, refusal
from engine.shell.durability.segments import SegmentFiles
from engine.shell.housekeeping.memory import give_back
from engine.shell.observation.log_lines import LOG
from engine.text.words import quote, split_words

BASE, INCREMENT, HISTORY = "b", "i", "h"
#: Suffix of a base in the engine's own format; redis-server rejects a file of that name.
BASE_SUFFIX = ".base.psb"
INCREMENT_SUFFIX = ".incr.aof"

_SUM = re.compile(rb"#PS ([0-9a-f]{8})")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


class ManifestError(ValueError):
    """The manifest is damaged; the text is the reason. ``offset``: position of the damage in bytes."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in the manifest: its name, sequence number and type."""

    name: str
    seq: int
    kind: str

    @property
    def line(self) -> bytes:
        name = self.name.encode("utf-8", "surrogateescape")
        shown = name if _PLAIN.fullmatch(self.name) else quote(name)
        return b"file %b seq %d type %b\n" % (shown, self.seq, self.kind.encode())


@dataclass(frozen=True, slots=True)
class Manifest:
    """Files of one append-only file. Immutable: changes return a new manifest."""

    base: Entry | None = None
    increments: tuple[Entry, ...] = ()
    history: tuple[Entry, ...] = ()

    @property
    def files(self) -> list[Entry]:
        """Files to replay, in order."""
        return [*([self.base] if self.base else []), *self.increments]

    @property
    def base_seq(self) -> int:
        return max(
            [self.base.seq if self.base else 0, *(entry.seq for entry in self.history if ".base." in entry.name)]
        )

    @property
    def increment_seq(self) -> int:
        known = [entry.seq for entry in self.increments] + [
            entry.seq for entry in self.history if ".incr." in entry.name
        ]
        return max(known, default=0)

    def with_increment(self, entry: Entry) -> Manifest:
        """Return this manifest with one more increment."""
        return replace(self, increments=(*self.increments, entry))

    def rewritten(self, base: Entry, first: int) -> Manifest:
        """Return this manifest with a new base. Files before the increment numbered ``first`` become history."""
        replaced = [*([self.base] if self.base else []), *(entry for entry in self.increments if entry.seq < first)]
        history = tuple(Entry(entry.name, entry.seq, HISTORY) for entry in replaced)
        return Manifest(base, tuple(entry for entry in self.increments if entry.seq >= first), self.history + history)

    def without(self, removed: tuple[Entry, ...]) -> Manifest:
        """Return this manifest without the history entries in ``removed``."""
        return replace(self, history=tuple(entry for entry in self.history if entry not in removed))

    def encode(self) -> bytes:
        """Return the file's content."""
        lines = b"".join(entry.line for entry in self._all())
        return b"%b#PS %08x\n" % (lines, zlib.crc32(lines))

    def _all(self) -> Iterable[Entry]:
        yield from self.files[:1] if self.base else ()
        yield from self.history
        yield from self.increments


def decode(data: bytes) -> Manifest:
    """Parse a manifest. Raises ManifestError if it is damaged."""
    entries: list[Entry] = []
    at = 0
    for line in data.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        if text.startswith(b"#"):
            found = _SUM.fullmatch(text)
            if found is None or int(found[1], 16) != zlib.crc32(data[:at]):
                raise ManifestError(at, "checksum mismatch in the manifest")
        elif text:
            if not line.endswith(b"\n"):
                raise ManifestError(at, "the last line of the manifest is incomplete")
            entries.append(_entry(text, at))
        at += len(line)
    bases = [entry for entry in entries if entry.kind == BASE]
    increments = [entry for entry in entries if entry.kind == INCREMENT]
    if not entries:
        raise ManifestError(0, "the manifest names no file")
    if len(bases) > 1:
        raise ManifestError(0, "the manifest names two base files")
    if any(after.seq <= before.seq for before, after in pairwise(increments)):
        raise ManifestError(0, "the increments of the manifest are not in order")
    history = tuple(entry for entry in entries if entry.kind == HISTORY)
    return Manifest(bases[0] if bases else None, tuple(increments), history)


def _entry(line: bytes, at: int) -> Entry:
    words = split_words(line) or []
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    name = pairs.get(b"file", b"").decode("utf-8", "surrogateescape")
    seq, kind = pairs.get(b"seq", b""), pairs.get(b"type", b"").decode("latin-1")
    if len(words) < 6 or len(words) % 2 or not name or "/" in name or not seq.isdigit():
        raise ManifestError(at, f"{line[:200]!r} is not a line of a manifest")
    if kind not in (BASE, INCREMENT, HISTORY):
        raise ManifestError(at, f"{line[:200]!r} has an unknown type")
    return Entry(name, int(seq), kind)


def load_file(
    name: str,
    data: memoryview,
    core: Core,
    segments: SegmentFiles | None,
    left_out: LeftOutKeys,
    now_us: int,
    relieve: Callable[[], None] = lambda: None,
) -> int:
    """Load one file of a log, except keys of types that the engine does not store; return where its last command ends.

    Raises DamagedError, or TornError if the file ends in an incomplete command.
    """
    begin = 0
    if psb.is_snapshot(data) or name.endswith(BASE_SUFFIX):
        psb.load(data, core, segments=segments, left_out=left_out)
        begin = len(data)
    elif rdb_file.is_rdb(data):
        # In a file of Redis before 7.0, commands follow the RDB data.
        begin = rdb_file.load(data, core, left_out, expire=False).offset
    replay = Replay(core, now_us, relieve, left_out)
    try:
        replay.run(data[begin:])
    except (DamagedError, TornError) as error:
        error.offset += begin
        raise
    finally:
        replay.close()
    return begin + replay.end


#: Bytes of segment files that count as one byte of the base when the log's growth is measured. A rewrite with 5.6 GB of
#: segment files (500 million entries of two short fields) takes about a quarter of a second. Replaying 64 MB of the log
#: takes one second.
_INDEXED_PART = 128
#: Name prefix of unfinished bases.
_TEMPORARY_BASE = "temp-rewriteaof-bg-"
#: Seconds before the first automatic attempt after a failure.
_FIRST_PAUSE = 1.0
#: Maximum number of seconds between automatic attempts after a failure.
_LONGEST_PAUSE = 60.0
#: Number of checks (ten per second) after which a rewrite starts even if the log is still being synced.
_MAX_CHECKS = 50


class LogFiles(Writing):
    """Files of one append-only log, in ``directory``, and their rewrites. The names of the files start with ``name``.

    ``relieve`` is called repeatedly while commands are loaded, to free memory.
    """

    def __init__(
        self,
        core: Core,
        files: Files,
        segments: SegmentFiles,
        directory: Path,
        name: str,
        log: Log,
        workers: Workers,
        clock: Callable[[], float],
        relieve: Callable[[], None],
        on_ended: Callable[[], None],
    ) -> None:
        super().__init__(core, workers, clock, on_ended)
        self._files = files
        self._segments = segments
        self._log = log
        self._relieve = relieve
        self.directory = directory
        self.name = name
        self.manifest = Manifest()
        self.base_size = 0
        self._older_size = 0
        #: Position of the loaded data in a replication history, from the last line of the log.
        self.position: Position | None = None
        #: Number of items of the loaded files that were left out because of their type.
        self.left_out = 0
        #: Pause in seconds before the next automatic rewrite after a failure.
        self._pause = _FIRST_PAUSE
        #: Number of times in a row that `is_prepared` has returned False.
        self._checks = 0

    def facts(self) -> dict[str, Any]:
        """Return INFO's facts about rewrites. Durations are in seconds; -1 if no rewrite has ended or is running."""
        return {
            "aof_rewrite_in_progress": int(self.is_running),
            "aof_rewrite_scheduled": int(self.is_scheduled),
            "aof_last_rewrite_time_sec": self._last_seconds,
            "aof_current_rewrite_time_sec": self._seconds,
            "aof_last_bgrewrite_status": "ok" if self.last_ok else "err",
        }

    def sizes(self) -> dict[str, Any]:
        """Return INFO's facts about the files' sizes in bytes."""
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
        """Total size of all files in bytes."""
        return self._older_size + self._log.size

    @property
    def base_weight(self) -> int:
        """Size in bytes that the log's growth is measured against: the base, and a fraction of all segment files. A
        rewrite reads the index of these files, which takes longer the larger they are.
        """
        return self.base_size + self._segments.size // _INDEXED_PART

    def _numbered(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.name) + r"\.([0-9]+)\.(base|incr)\.[a-z]+")

    # -- loading ------------------------------------------------------------------------------------------------------

    def refuse_old_file(self) -> None:
        """Raise LoadError if the data is in the single log file of Redis 6 or earlier, next to the directory."""
        old = self.directory.parent / self.name
        if self._files.size(old) >= 0:
            raise LoadError(old, None, "a log of Redis 6 or earlier: start Redis 7 or Valkey once, which converts it")

    def _unlisted(self, names: list[str]) -> list[str]:
        """Return the non-empty files that a manifest should name."""
        return [name for name in names if self._numbered().fullmatch(name) and self._files.size(self.directory / name)]

    def find(self) -> bool:
        """Read the manifest; return whether it exists. Raises LoadError if it is invalid, or missing although the
        directory contains files of a log.
        """
        names = self._files.names(self.directory)
        path = self._manifest_path
        if path.name in names:
            try:
                self.manifest = decode(self._files.read(path))
            except ManifestError as error:
                raise LoadError(path, error.offset, str(error)) from None
            return True
        if self._temporary_manifest.name in names:
            # The first manifest was being made, so no file of the directory was ever in use.
            return False
        left = self._unlisted(names)
        if left:
            raise LoadError(path, None, f"the manifest is missing, but these files exist: {left}")
        if any(name.endswith(".manifest") for name in names):
            other = next(name for name in names if name.endswith(".manifest"))
            raise LoadError(self.directory / other, None, f"this manifest is not for 'appendfilename {self.name}'")
        return False

    def load(self, now_us: int, *, cut: bool) -> None:
        """Replay all files on the empty core.

        ``cut``: whether to cut off an incomplete command at the end of the last file, instead of raising LoadError.
        """
        files = self.manifest.files
        missing = [entry.name for entry in files if self._files.size(self._path(entry)) < 0]
        if missing:
            raise LoadError(self._manifest_path, None, f"the manifest names missing files: {missing}")
        last = next((entry for entry in reversed(files) if self._size_of(entry)), None)
        left_out, torn_at = LeftOutKeys(self._core.databases), -1
        for entry in files:
            path = self._path(entry)
            data = self._files.map(path)
            try:
                end = load_file(entry.name, data, self._core, self._segments, left_out, now_us, self._relieve)
                # The position line must follow the last command, because a value in a command may look like a line.
                if entry is last and len(data) - LINE_SIZE >= end:
                    self.position = line_at(data, len(data) - LINE_SIZE)
            except DamagedError as error:
                raise LoadError(path, error.offset, error.reason) from None
            except TornError as error:
                if entry is not last or not cut:
                    how = "" if entry is not last else " (aof-load-truncated yes would truncate it there)"
                    raise LoadError(path, error.offset, "the file ends in the middle of a command" + how) from None
                torn_at = error.offset
        left_out.settle()
        self.left_out = left_out.total
        if left_out:
            if not self._core.config.flag("skip-unsupported-types"):
                raise LoadError(self.directory, None, refusal(left_out))
            LOG.warning("%s: left out %s (skip-unsupported-types)", self.directory, left_out)
        elif last is not None and torn_at >= 0:
            self._cut(self._path(last), torn_at)
        self._measure()
        self.base_size = self._size_of(self.manifest.base)

    def _cut(self, path: Path, size: int) -> None:
        lost = self._files.size(path) - size
        LOG.warning("%s ends in the middle of a command: truncated to %d bytes, lost %d bytes", path, size, lost)
        fd = self._files.open_append(path)
        try:
            self._files.cut(fd, size)
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _size_of(self, entry: Entry | None) -> int:
        return max(self._files.size(self._path(entry)), 0) if entry is not None else 0

    def _measure(self) -> None:
        """Update the total size of all files except the file in use."""
        self._older_size = sum(
            self._size_of(entry) for entry in self.manifest.files if self._path(entry) != self._log.path
        )

    def _path(self, entry: Entry) -> Path:
        return self.directory / entry.name

    # -- the file in use ----------------------------------------------------------------------------------------------

    def open(self) -> bool:
        """Continue writing after the loaded data. Return False if a base must be made first, because there are keys but
        no files.
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

    def keep_original(self) -> None:
        """Keep the files that were loaded in part, before they are replaced: give each a second name in a directory
        that any server with these types can load. Raises OSError on failure.
        """
        files, documents = self._files, self._segments.documents
        # The manifest comes last, and completes the directory.
        paths = [*map(self._path, self.manifest.files), self._manifest_path]

        def is_free(target: Path) -> bool:
            # After a crash, names that it has are names of these files.
            others = [(path, target / path.name) for path in paths]
            return all(files.size(other) < 0 or files.is_same(path, other) for path, other in others)

        folder = next(filter(is_free, original_names(self.directory)))
        files.make_directory(folder)
        for path in paths:
            if files.size(folder / path.name) < 0:
                files.link(path, folder / path.name)
            documents.note(folder / path.name, documents.named_by(path))
        files.sync_directory(folder)
        files.sync_directory(folder.parent)
        LOG.warning("kept the original of %s as %s", self.directory, folder)

    def make_directory(self) -> None:
        """Make the directory of the files if it does not exist."""
        if self._files.size(self.directory) < 0:
            self._files.make_directory(self.directory)
            self._files.sync_directory(self.directory.parent)

    def new_increment(self) -> int:
        """Continue the log in a new file; return its number. Everything appended so far must be on disk."""
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
        """Remove unfinished bases, and the temporary manifest if the manifest exists."""
        names = self._files.names(self.directory)
        manifest = self._temporary_manifest.name if self._manifest_path.name in names else ""
        for name in names:
            if name.startswith(_TEMPORARY_BASE) or name == manifest:
                self._files.remove(self.directory / name)

    # -- a new base ---------------------------------------------------------------------------------------------------

    def attempt(self) -> Attempt:
        """Return an attempt with a new temporary file for a base."""
        return Attempt(self._files, self.directory, _TEMPORARY_BASE, ".psb")

    def write_base(self, attempt: Attempt, taken: Image, pause: Callable[[], None] = lambda: None) -> None:
        """Write a base to the attempt's temporary file and sync it.

        ``pause`` is called at points where the writing thread may yield.
        """
        segments = self._segments if self._segments.is_in_use else None
        attempt.named = psb.write(self._files, attempt.temporary, taken, attempt.check, pause, segments=segments)

    def commit(self, attempt: Attempt, *, first: int = 0, tail: Effects | None = None) -> None:
        """Make the attempt's base the start of the log. It is followed by the increments from number ``first`` on, or,
        if ``first`` is 0, by ``tail`` in a new increment.

        Raises OSError on failure. The log's file is then abandoned if additions to it might be lost.
        """
        files, old, log = self._files, self.manifest, self._log
        seq = old.base_seq + 1
        base = Entry(f"{self.name}.{seq}{BASE_SUFFIX}", seq, BASE)
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
            # If the process crashes from here on, the new files are loaded. The old files are kept until the directory
            # is synced.
            self.manifest = changed
            files.sync_directory(self.directory)
        except OSError as error:
            if new_log is not None:
                files.close(new_log[1])
                if unsure and log.is_open:
                    # Either manifest may be on disk. Stop writing to the old files: additions to them might be lost.
                    log.give_up(error)
            raise
        if new_log is not None:
            log.drop_waiting()
            log.use(*new_log)
        self._measure()
        self.base_size = self._size_of(base)
        self._workers.save(lambda: self._delete_history(changed), lambda error: self._history_deleted(changed, error))

    def _increment_with(self, entry: Entry, tail: Effects) -> tuple[Path, int, int]:
        path = self._path(entry)
        fd = self._files.create(path)
        size = 0
        try:
            if tail:
                commands, _ = encode_effects(tail)
                size = write_all(self._files, fd, as_block(b"".join(commands), 0))
                self._files.sync(fd)
        except OSError:
            self._files.close(fd)
            with suppress(OSError):
                self._files.remove(path)
            raise
        return path, fd, size

    def _delete_history(self, current: Manifest) -> None:
        """Delete the manifest's history files, and older numbered files that the manifest does not name."""
        named = {entry.name for entry in current.files}
        newest = {"base": current.base_seq, "incr": current.increment_seq}
        for name in self._files.names(self.directory):
            found = self._numbered().fullmatch(name)
            if found and name not in named and int(found[1]) <= newest[found[2]]:
                self._files.remove(self.directory / name)
        for entry in current.history:
            self._files.remove(self._path(entry))

    def _history_deleted(self, deleted: Manifest, error: OSError | None) -> None:
        if error is not None:
            return
        try:
            changed = self.manifest.without(deleted.history)
            replace_file(self._files, self._manifest_path, changed.encode(), self._temporary_manifest)
        except OSError as problem:
            LOG.warning("the manifest still names deleted files: %s", problem)
            return
        self.manifest = changed

    # -- rewriting ----------------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether an automatic rewrite may start; false for a while after a failure."""
        return self._clock() >= self._retry_at

    def is_prepared(self) -> bool:
        """Return whether a rewrite may start: its first fsync will be short, or this was called `_MAX_CHECKS` times
        before. Call this repeatedly until it returns True.
        """
        if not self._log.is_nearly_synced() and self._checks < _MAX_CHECKS:
            self._checks += 1
            return False
        self._checks = 0
        return True

    def has_grown(self) -> bool:
        """Return whether auto-aof-rewrite-percentage requires a rewrite, because the log has outgrown its base."""
        config = self._core.config
        percentage, size = config.integer("auto-aof-rewrite-percentage"), self.size
        if not percentage or size < config.integer("auto-aof-rewrite-min-size"):
            return False
        growth = size - self.base_size
        return growth * 100 >= percentage * max(self.base_weight, 1)

    def rewrite(self, *, keeps_log: bool) -> None:
        """Start a rewrite. Raises OSError if it cannot start.

        ``keeps_log``: whether effects that happen while the base is written must be logged. If the log is off, only the
        base is needed.
        """
        log = self._log
        self.is_scheduled = False
        self._core.host.flush_effects()
        self._began = self._clock()
        try:
            self._find_manifest()
            log_continues = log.is_open and log.flush_and_sync()
            first = self.new_increment() if log_continues else 0
        except OSError as error:
            self._note_end(error)
            raise
        if keeps_log and not log_continues:
            log.tee = []
        attempt = self.attempt()

        def write(image: Image) -> None:
            self.write_base(attempt, image, rdb_file.periodic_pause())
            image.free()
            give_back()

        def done(error: Exception | None) -> None:
            if attempt.abandoned:
                attempt.remove()
                return
            if error is None:
                try:
                    self.commit(attempt, first=first, tail=log.tee)
                    if not keeps_log:
                        # Keep the new files, but do not continue them.
                        log.close()
                except Exception as problem:  # noqa: BLE001 - any error means that there is no new base
                    error = problem
            self._note_end(error)
            self._on_ended()

        self._write_in_background(attempt, write, done)

    def _find_manifest(self) -> None:
        """Find the manifest of an earlier use of the directory, to continue its file numbers; the content of its files
        is ignored. Raises OSError if the manifest is unreadable.
        """
        self.make_directory()
        if not self._log.is_open:
            try:
                self.find()
            except LoadError as error:
                raise OSError(str(error)) from None

    def rewrite_now(self) -> None:
        """Rewrite the log synchronously. This also replaces a broken log file.

        Raises OSError on failure. The log's file is then abandoned if additions to it might be lost.
        """
        self.abandon()
        self._core.host.flush_effects()
        attempt = self.attempt()
        try:
            self._find_manifest()
            self._write_now(attempt, lambda image: self.write_base(attempt, image))
            self.commit(attempt)
        except Exception as error:
            self._note_end(error)
            raise
        self._note_end(None)

    def _note_end(self, error: Exception | None) -> None:
        self._log.tee = None
        self._end(error, self._pause)
        self._pause = _FIRST_PAUSE if error is None else min(self._pause * 2, _LONGEST_PAUSE)
        if error is not None:
            LOG.error("the append-only file was not rewritten: %s", error)

    def abandon(self) -> None:
        super().abandon()
        self._log.tee = None
