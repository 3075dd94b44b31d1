"""``python -m engine check PATH [--fix]``: find damage in a log, a snapshot or an RDB file.

PATH is a file, the manifest of an append-only log, a log's directory, or a data directory (``dir`` of the
configuration).
A log with its manifest is loaded as the engine would load it, into this process's memory. A single file of a log is
only parsed, because the effect of its commands depends on the files before it. If a log or a snapshot refers to
segment files (``stream-storage disk``), every referenced record is read. If PATH is a segment file, it is read record
by record from its start.

Nothing is changed without ``--fix``. With ``--fix``, the last file of a log is truncated if it has a torn end, as after
a power failure: an incomplete command, block or transaction, or zeros. The file is first copied to ``NAME.backup-1``
(or the next free number). Other damage is only reported, because truncation would lose complete commands.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError, UnsupportedTypes, UnsupportedTypesError
from engine.core.keyspace.database import Database
from engine.core.streams.compressed.disk_entries import Stored, UnreadableError
from engine.core.streams.stream import Stream
from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.durability import log_files as manifests
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.files import Files
from engine.shell.durability.log import TornError, blocks_after, pieces_from, written_size
from engine.shell.durability.rdb_file import RdbFiles
from engine.shell.durability.recovery import LeftOutKeys, Replay, count_unsupported, parse_command
from engine.shell.durability.segments import (
    FOLDER,
    HEADER_SIZE,
    MAGIC,
    SegmentFiles,
    SegmentPlace,
    number_of,
    padded_size,
    records,
)

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


WHOLE, DAMAGED, TROUBLE = 0, 1, 2
USAGE = """\
usage: python -m engine check PATH [--fix]

PATH is a snapshot, an RDB file, a segment file, a file of an append-only log, its manifest, its directory, or a data
directory.
The check reports what PATH contains, the byte at which it is damaged, and what truncation at that byte would lose.
--fix removes an incomplete end of a log, and keeps a copy of the file. Other damage and other files are never changed.
Do not check files that a running engine writes to.
Exit status: 0 no damage (or repaired), 1 damage found, or types that the engine does not store, 2 the check could not
run.
"""
#: Number of databases in which a log is loaded. A real configuration has fewer.
_DATABASES = "256"
_STAR = ord("*")


class CannotCheckError(Exception):
    """The path cannot be checked; the text is the reason."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """First damage in a file.

    ``good``: size in bytes to which the file can be truncated; -1 if truncation cannot repair the file. ``begin``:
    offset of the first command, which is greater than 0 if the file starts with RDB data. ``is_torn``: whether the file
    ends where data is missing, or in zeros.
    """

    path: Path
    offset: int
    reason: str
    good: int = -1
    begin: int = 0
    is_torn: bool = False


def main(arguments: list[str], say: Say) -> int:
    """Check the path in the arguments; return the exit status."""
    paths = [argument for argument in arguments if argument != "--fix"]
    wants_help = arguments[:1] in (["--help"], ["-h"])
    if wants_help or len(paths) != 1 or paths[0].startswith("--"):
        say(USAGE.rstrip())
        return WHOLE if wants_help else TROUBLE
    try:
        return _Check(say, fix="--fix" in arguments).path(Path(paths[0]))
    except (CannotCheckError, OSError) as error:
        say(f"engine check: {error}")
        return TROUBLE


class _Check:
    """Check of one path."""

    def __init__(self, say: Say, *, fix: bool) -> None:
        self._say = say
        self._fix = fix
        self._files = Files()

    def path(self, path: Path) -> int:
        """Check a file or directory; return the exit status."""
        if path.is_dir():
            return self._directory(path)
        if path.name.endswith(".manifest"):
            return self._log(path)
        data = self._files.map(path)
        if rdb_file.is_rdb(data):
            found = UnsupportedTypes()
            fault, end = self._rdb(path, data, _core(), found, expire=True)
            if fault is None and bytes(data[end : end + 1]) in (b"*", b"#"):
                # A log of Redis before 7.0: commands follow the RDB data.
                return max(self._single(path, data, end), self._tell_unsupported(path, found))
            if fault is None and end < len(data):
                fault = _Fault(path, end, f"{len(data) - end} bytes follow the end of the file")
            return self._report(fault) or self._tell_unsupported(path, found)
        if psb.is_snapshot(data):
            core, found = _core(), UnsupportedTypes()
            fault = self._snapshot(path, data, core, found) or self._check_stored(path, core)
            return self._report(fault) or self._tell_unsupported(path, found)
        if bytes(data[: len(MAGIC)]) == MAGIC:
            wrong = check_file(path, data, self._say)
            return self._report(wrong and _Fault(*wrong))
        if data and bytes(data[:1]) not in b"*#\0":
            raise CannotCheckError(f"{path} is not a snapshot, an RDB file or an append-only file")
        return self._single(path, data)

    def _directory(self, path: Path) -> int:
        """Check every manifest, snapshot, RDB and segment file in a data directory or a log's directory."""
        patterns = ("*.manifest", "*/*.manifest", "*.rdb", "*.psb", f"{FOLDER}/*.pss")
        found = [
            file for pattern in patterns for file in sorted(path.glob(pattern)) if not file.name.startswith("temp-")
        ]
        if not found:
            raise CannotCheckError(f"{path} contains no log manifest and no *.rdb, *.psb or *.pss file")
        return max([self.path(file) for file in found])

    # -- snapshots and RDB files --------------------------------------------------------------------------------------

    def _snapshot(self, path: Path, data: memoryview, core: Core, found: UnsupportedTypes) -> _Fault | None:
        before = found.total
        try:
            segments = segment_files_near(self._files, path)
            keys = psb.load(data, core, segments=segments, skip_unsupported=True, left_out=found)
        except DamagedError as error:
            return _Fault(path, error.offset, error.reason)
        self._say(f"{path}: snapshot, {len(data)} bytes, {keys + found.total - before} keys: intact")
        return None

    def _check_stored(self, path: Path, core: Core) -> _Fault | None:
        """Return the first fault, if any, in the segment files that a loaded snapshot or log refers to."""
        found = check_stored(path, core.databases, self._say)
        return found and _Fault(*found)

    def _rdb(
        self, path: Path, data: memoryview, core: Core, found: UnsupportedTypes, *, expire: bool
    ) -> tuple[_Fault | None, int]:
        """Return the fault, or None, and the offset where the RDB data ends (0 after a fault)."""
        rdb, before = RdbFiles(core), found.total
        try:
            end = rdb.load(data, found, expire=expire)
        except DamagedError as error:
            return _Fault(path, error.offset, error.reason), 0
        last = rdb.last
        keys = last.keys + last.expired + found.total - before
        proof = "intact" if last.has_sum else "no damage found, but it has no checksum"
        self._say(f"{path}: RDB file, version {last.version}, {end} bytes, {keys} keys: {proof}")
        return None, end

    def _tell_unsupported(self, path: Path, found: UnsupportedTypes) -> int:
        """Report the types that the engine does not store; return the exit status."""
        if not found:
            return WHOLE
        self._say(f"{path}: {UnsupportedTypesError(found).reason}")
        self._say(f"{path}: the engine loads the rest with 'skip-unsupported-types yes'")
        return DAMAGED

    def _report(self, fault: _Fault | None) -> int:
        if fault is None:
            return WHOLE
        self._say(f"{fault.path}: damaged at byte {fault.offset}: {fault.reason}")
        self._say(f"{fault.path}: truncation cannot repair it: restore a copy, or use the log")
        return DAMAGED

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _single(self, path: Path, data: memoryview, begin: int = 0) -> int:
        """Check the commands of one log file, from offset ``begin`` to the end; return the exit status."""
        found = UnsupportedTypes()
        fault, commands = _read(path, data, begin, found)
        if fault is None:
            self._say(f"{path}: append-only file, {len(data) - begin} bytes, {commands} commands: intact")
            return self._tell_unsupported(path, found)
        return self._damaged(fault, data, commands)

    def _log(self, path: Path) -> int:
        """Check the files of a manifest by loading them into an empty core; return the exit status."""
        try:
            manifest = manifests.decode(self._files.read(path))
        except manifests.ManifestError as error:
            return self._report(_Fault(path, error.offset, str(error)))
        missing = [entry.name for entry in manifest.files if self._files.size(path.parent / entry.name) < 0]
        if missing:
            return self._report(_Fault(path, 0, f"the manifest names missing files: {', '.join(missing)}"))
        core, found = _core(), UnsupportedTypes(keeps_keys=True)
        for entry in manifest.files:
            file = path.parent / entry.name
            data = self._files.map(file)
            fault = self._load(file, data, core, found)
            if fault is None:
                continue
            later = manifest.files[manifest.files.index(entry) + 1 :]
            if fault.good < 0:
                return self._report(fault)
            names = [other.name for other in later if self._files.size(path.parent / other.name)]
            if names:
                self._say(f"{path}: later files depend on the damaged one: {', '.join(names)}")
            return self._damaged(fault, data, _read(file, data[fault.begin : fault.good])[1], is_last=not names)
        fault = self._check_stored(path, core)
        if fault is not None:
            return self._report(fault)
        keys = sum(len(db) for db in core.databases)
        self._say(f"{path}: log of {len(manifest.files)} files, {keys} keys: intact")
        return self._tell_unsupported(path, found)

    def _load(self, path: Path, data: memoryview, core: Core, found: UnsupportedTypes) -> _Fault | None:
        """Load one file of a log into the core; return its fault, if any."""
        if psb.is_snapshot(data):
            return self._snapshot(path, data, core, found)
        begin = 0
        if rdb_file.is_rdb(data):
            # In a file of Redis before 7.0, commands follow the RDB data.
            fault, begin = self._rdb(path, data, core, found, expire=False)
            if fault is not None or begin == len(data):
                return fault
        behind = data[begin:]
        replay = Replay(core, now_us(), left_out=LeftOutKeys(core, found, skips=True))
        try:
            replay.run(behind)
        except DamagedError as error:
            # The file is good up to the last command, block or transaction that ends before the damage.
            good = begin + _last_end(behind, error.offset)
            return _Fault(path, begin + error.offset, error.reason, good, begin)
        except TornError:
            fault, _ = _read(path, data, begin)
            return fault
        finally:
            replay.close()
        self._say(f"{path}: append-only file, {len(behind)} bytes, {replay.commands} commands: intact")
        return None

    def _damaged(self, fault: _Fault, data: memoryview, commands: int, *, is_last: bool = True) -> int:
        """Report damage in a file of a log. With --fix, truncate the file if this loses no complete command.

        Return the exit status.
        """
        path, lost = fault.path, len(data) - fault.good
        self._say(f"{path}: damaged at byte {fault.offset}: {fault.reason}")
        self._say(f"{path}: good up to byte {fault.good} ({commands} commands); {lost} bytes would be lost")
        behind = list(blocks_after(data, fault.good + 1))
        whole = sum(1 for block in behind for _ in _parse(data, block.start, block.end))
        if whole:
            self._say(f"{path}: the lost bytes contain {whole} complete commands in {len(behind)} blocks")
        elif not bytes(data[fault.good :]).strip(b"\0"):
            self._say(f"{path}: the lost bytes are all zeros, as after a power failure")
        if not self._fix:
            return DAMAGED
        if whole or not fault.is_torn or not is_last:
            self._say(f"{path}: --fix removes only the incomplete end of a log: restore a copy, or truncate the file")
            return DAMAGED
        with self._locked(path.parent):
            self._cut(fault)
        return WHOLE

    # -- repairing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """Hold the locks of a folder and its parent, because either can be an engine's data directory.

        Raises CannotCheckError if a running engine uses one of the two.
        """
        locks: list[int] = []
        try:
            for directory in (folder, folder.absolute().parent):
                lock = self._files.lock(directory)
                if lock is None:
                    raise CannotCheckError(f"{directory} is in use by a running engine: nothing was changed")
                locks.append(lock)
            yield
        finally:
            for lock in locks:
                self._files.close(lock)

    def _cut(self, fault: _Fault) -> None:
        path, files = fault.path, self._files
        backup = self._backup(path)
        fd = files.open_append(path)
        try:
            files.cut(fd, fault.good)
            files.sync(fd)
        finally:
            files.close(fd)
        self._say(f"{path}: truncated to {fault.good} bytes; the original is {backup.name}")

    def _backup(self, path: Path) -> Path:
        """Copy a file, and sync the copy to the disk; return the copy's path."""
        backup = _free_name(path)
        shutil.copyfile(path, backup)
        fd = self._files.open_append(backup)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.sync_directory(backup.parent)
        return backup


def _free_name(path: Path) -> Path:
    return next(name for number in count(1) if not (name := path.with_name(f"{path.name}.backup-{number}")).exists())


def _core() -> Core:
    """Return an empty core in replay mode, which skips keys of unsupported types instead of rejecting a file."""
    config = Config()
    config.load(["--databases", _DATABASES, "--skip-unsupported-types", "yes"])
    core = Core(config, lambda choices: 0)  # noqa: ARG005 - replay needs no random numbers
    core.changes.set_time(now_us())
    core.changes.replaying = True
    return core


# -- parsing a log's file ---------------------------------------------------------------------------------------------


def _read(
    path: Path, data: memoryview, begin: int = 0, found: UnsupportedTypes | None = None
) -> tuple[_Fault | None, int]:
    """Return the first syntax fault after offset ``begin`` of a log's file, or None, and the number of commands before
    the fault. The keys that the engine does not store are counted in ``found``.
    """
    written = written_size(data[begin:])
    good = commands = 0
    is_torn = True
    try:
        for good, commands in _end_offsets(data[begin : begin + written], found):  # noqa: B007 - the last values are used
            pass
    except DamagedError as error:
        offset, reason, is_torn = error.offset, error.reason, False
    except TornError as error:
        offset, reason = error.offset, "the file ends in the middle of a command or transaction"
    else:
        if begin + written == len(data):
            return None, commands
        offset, reason = written, "the file ends in zeros"
    return _Fault(path, begin + offset, reason, begin + good, begin, is_torn), commands


def _last_end(data: memoryview, offset: int) -> int:
    """Return the last position up to ``offset`` at which the file can be truncated."""
    good = 0
    try:
        for end, _ in _end_offsets(data):
            if end > offset:
                break
            good = end
    except (DamagedError, TornError):
        pass
    return good


def _end_offsets(data: memoryview, found: UnsupportedTypes | None = None) -> Iterator[tuple[int, int]]:
    """Yield the positions at which a log's file can be truncated, outside blocks and transactions, and the number of
    commands before each.

    Raises DamagedError or TornError, as `pieces_from` does.
    """
    offset = commands = 0
    began = -1

    def after(argv: list[bytes], start: int) -> None:
        nonlocal began, commands
        commands += 1
        if found is not None:
            count_unsupported(argv, start, found)
        name = argv[0].upper()
        if name == b"MULTI":
            began = start
        elif name == b"EXEC":
            began = -1

    while offset < len(data):
        for piece in pieces_from(data, offset):
            offset = piece.start
            if piece.proven:
                for argv, start in _parse(data, piece.start, piece.end):
                    after(argv, start)
                offset = piece.end
                if began < 0:
                    yield offset, commands
                continue
            while offset < len(data) and data[offset] == _STAR:
                argv, end = parse_command(data, offset)
                after(argv, offset)
                offset = end
                if began < 0:
                    yield offset, commands
            break
        else:
            break
    if began >= 0:
        raise TornError(began)


def _parse(data: memoryview, begin: int, end: int) -> Iterator[tuple[list[bytes], int]]:
    """Yield the commands of a verified block, and the offset of each."""
    while begin < end:
        argv, after = parse_command(data[:end], begin)
        yield argv, begin
        begin = after
