"""``python -m engine check PATH [--fix]``: find damage in a log, a snapshot or an RDB file.

PATH is a snapshot, an RDB file, the manifest of an append-only log, or a directory with such files. Each of them is
loaded as the engine would load it, into this process's memory. If a log or a snapshot refers to segment files
(``stream-storage disk``), every referenced record is read.

Nothing is changed without ``--fix``. With ``--fix``, the last file of a log is truncated if it has a torn end, as after
a power failure: an incomplete command, block or transaction, or zeros. The file is first copied to ``NAME.backup-1``
(or the next free number). Other damage is only reported, because truncation would lose complete commands.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError, UnsupportedTypes, UnsupportedTypesError
from engine.core.streams.compressed.disk_entries import Stored, UnreadableError
from engine.core.streams.stream import Stream
from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.durability import psb, rdb_file
from engine.shell.durability.files import Files
from engine.shell.durability.log import TornError
from engine.shell.durability.log_files import ManifestError, decode, load_file
from engine.shell.durability.recovery import LeftOutKeys
from engine.shell.durability.segments import FOLDER, SegmentFiles, SegmentPlace

Say = Callable[[str], None]

WHOLE, DAMAGED, TROUBLE = 0, 1, 2
USAGE = """\
usage: python -m engine check PATH [--fix]

PATH is a snapshot, an RDB file, the manifest of an append-only log, or a directory with such files.
The check reports what PATH contains, and the byte at which it is damaged.
--fix removes an incomplete end of a log, and keeps a copy of the file. Other damage and other files are never changed.
Do not check files that a running engine writes to.
Exit status: 0 no damage (or repaired), 1 damage found, or types that the engine does not store, 2 the check could not
run.
"""
#: Number of databases in which files are loaded. A real configuration has fewer.
_DATABASES = "256"


class CannotCheckError(Exception):
    """The path cannot be checked; the text is the reason."""


def main(arguments: list[str], say: Say) -> int:
    """Check the path in the arguments; return the exit status."""
    paths = [argument for argument in arguments if argument != "--fix"]
    wants_help = arguments in (["--help"], ["-h"])
    if wants_help or len(paths) != 1 or paths[0].startswith("-"):
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
        core, found = _core(), UnsupportedTypes()
        try:
            if path.name.endswith(".manifest"):
                return self._log(path, core)
            self._load_document(path, core, found)
        except DamagedError as error:
            return self._report(path, error.offset, f"{error.reason}; restore a copy, or use the log")
        return self._end(path, core, found)

    def _directory(self, path: Path) -> int:
        """Check every manifest, snapshot and RDB file in a data directory or a log's directory."""
        patterns = ("*.manifest", "*/*.manifest", "*.rdb", "*.psb")
        found = [
            file for pattern in patterns for file in sorted(path.glob(pattern)) if not file.name.startswith("temp-")
        ]
        if not found:
            raise CannotCheckError(f"{path} contains no log manifest and no *.rdb or *.psb file")
        return max([self.path(file) for file in found])

    def _report(self, path: Path, offset: int, reason: str) -> int:
        self._say(f"{path}: damaged at byte {offset}: {reason}")
        return DAMAGED

    # -- snapshots and RDB files --------------------------------------------------------------------------------------

    def _load_document(self, path: Path, core: Core, found: UnsupportedTypes) -> None:
        """Load a snapshot or an RDB file. Raises DamagedError if it is damaged."""
        data = self._files.map(path)
        if psb.is_snapshot(data):
            segments = _segment_files_near(self._files, path)
            keys = psb.load(data, core, segments=segments, left_out=found) + found.total
            self._say(f"{path}: snapshot, {len(data)} bytes, {keys} keys: intact")
        elif rdb_file.is_rdb(data):
            loading = rdb_file.load(data, core, found, expire=True)
            end, summary = loading.offset, loading.summary
            if end < len(data):
                raise DamagedError(end, f"{len(data) - end} bytes follow the end of the file")
            keys = summary.keys + summary.expired + found.total
            proof = "intact" if summary.has_sum else "no damage found, but it has no checksum"
            self._say(f"{path}: RDB file, version {summary.version}, {end} bytes, {keys} keys: {proof}")
        else:
            raise CannotCheckError(f"{path} is not a snapshot, an RDB file or the manifest of an append-only file")

    def _end(self, path: Path, core: Core, found: UnsupportedTypes) -> int:
        """Read the segments that a loaded file refers to, and report its unsupported types; return the exit status."""
        damaged = self._check_stored(path, core)
        if found:
            self._say(f"{path}: {UnsupportedTypesError(found).reason}")
            self._say(f"{path}: the engine loads the rest with 'skip-unsupported-types yes'")
        return DAMAGED if damaged or found else WHOLE

    def _check_stored(self, path: Path, core: Core) -> bool:
        """Read all stream entries in segment files. Report the keys with damage; return whether there are any."""
        intact, is_damaged = 0, False
        for db in core.databases:
            for key, value, _ in db.items():
                for segment in value.segments() if isinstance(value, Stream) else ():
                    place = segment.body.place if isinstance(segment.body, Stored) else None
                    if not isinstance(place, SegmentPlace):
                        continue
                    try:
                        place.read()
                        intact += 1
                    except UnreadableError as error:
                        is_damaged = True
                        shown = key.decode("utf-8", "backslashreplace")
                        lost = f"{segment.live} entries of '{shown}' in database {db.index}"
                        self._say(f"{path}: {lost} cannot be read: {error}")
        if intact:
            self._say(f"{path}: {intact} segments in segment files: intact")
        return is_damaged

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _log(self, path: Path, core: Core) -> int:
        """Check the files of a manifest by loading them; return the exit status."""
        try:
            manifest = decode(self._files.read(path))
        except ManifestError as error:
            return self._report(path, error.offset, str(error))
        names = [entry.name for entry in manifest.files]
        missing = [name for name in names if self._files.size(path.parent / name) < 0]
        if missing:
            return self._report(path, 0, f"the manifest names missing files: {', '.join(missing)}")
        segments = _segment_files_near(self._files, path)
        left_out = LeftOutKeys(core.databases)
        for number, name in enumerate(names):
            file = path.parent / name
            data = self._files.map(file)
            try:
                load_file(name, data, core, segments, left_out, now_us())
            except DamagedError as error:
                return self._report(file, error.offset, f"{error.reason}; {len(data) - error.offset} bytes follow")
            except TornError as error:
                later = [other for other in names[number + 1 :] if self._files.size(path.parent / other)]
                return self._torn(file, error.offset, len(data), later)
        left_out.settle()
        keys = sum(len(db) for db in core.databases)
        self._say(f"{path}: log of {len(names)} files, {keys} keys: intact")
        return self._end(path, core, left_out)

    def _torn(self, path: Path, good: int, size: int, later: list[str]) -> int:
        """Report a file that is good up to byte ``good``. With --fix, truncate it there, if no later files depend on
        it. Return the exit status.
        """
        torn = "the file ends in an incomplete command or transaction, or zeros"
        self._report(path, good, f"{torn}, of {size - good} bytes")
        if later:
            self._say(f"{path}: later files depend on the damaged one: {', '.join(later)}")
        if later or not self._fix:
            return DAMAGED
        with ExitStack() as locks:
            # Either directory can be an engine's data directory.
            for directory in (path.parent, path.absolute().parent.parent):
                lock = self._files.lock(directory)
                if lock is None:
                    raise CannotCheckError(f"{directory} is in use by a running engine: nothing was changed")
                locks.callback(self._files.close, lock)
            names = (path.with_name(f"{path.name}.backup-{number}") for number in count(1))
            backup = next(name for name in names if not name.exists())
            shutil.copyfile(path, backup)
            for file in (backup, path):
                fd = self._files.open_append(file)
                locks.callback(self._files.close, fd)
                if file is path:
                    self._files.cut(fd, good)
                self._files.sync(fd)
                self._files.sync_directory(path.parent)
        self._say(f"{path}: truncated to {good} bytes; the original is {backup.name}")
        return WHOLE


def _segment_files_near(files: Files, document: Path) -> SegmentFiles | None:
    """Return the segment files that a snapshot or the base of a log can refer to; None if the folder is missing."""
    for folder in document.absolute().parents[:2]:
        if (folder / FOLDER).is_dir():
            found = SegmentFiles(files, folder / FOLDER, lambda: 0, is_in_use=True)
            found.find_files()
            return found
    return None


def _core() -> Core:
    """Return an empty core in replay mode."""
    config = Config()
    config.load(["--databases", _DATABASES])
    core = Core(config)
    core.changes.set_time(now_us())
    core.changes.replaying = True
    return core
