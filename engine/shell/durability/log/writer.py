"""The writer of the append-only file's newest increment: effects in, blocks on the disk, as ``appendfsync`` says.

It owns the descriptor and what waits to be written; which files there are is the business of
:mod:`engine.shell.durability.log.appendonly`. It never drops what it was given: where the disk refuses, the bytes
wait, the file is cut back to its last whole block, and :meth:`Log.flush` tries again whenever it is called. A file that
cannot be trusted any more is written to no more; then only a new one helps, written from memory (the states are in
:mod:`engine.shell.durability.states.log_file`).

With ``everysec`` fsync runs beside the loop. While one runs, new blocks wait for it (two seconds at the most, then
they are written all the same, at the risk of being held up), as a write to a file that is being synced may be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hiredis

from engine.core.keyspace.changes import Effects
from engine.shell.durability.background.threads import Background
from engine.shell.durability.files import Files, write_all
from engine.shell.durability.formats.blocks import BLOCK_LIMIT, head
from engine.shell.durability.states.log_file import LogFile, LogFileEvent, log_file

ALWAYS, EVERY_SECOND, NEVER = b"always", b"everysec", b"no"
_SECOND = 1.0
_LONGEST_WAIT = 2.0
#: So many bytes are synced in a moment.
_SHORT_SYNC = 1 << 20
#: (Looking a member up in its class takes longer, and :meth:`Log.flush` is called in every event-loop iteration.)
_OPEN, _HELD_UP = LogFile.OPEN, LogFile.HELD_UP


class Log:
    """One increment, open for writing. Places (``appended``, ``written``, ``synced``) count all bytes ever appended."""

    # One piece: three places and the failures of writing and syncing decide together what a reply may wait for.

    def __init__(self, files: Files, background: Background, clock: Callable[[], float]) -> None:
        self._files = files
        self._background = background
        self._clock = clock
        self.policy = EVERY_SECOND
        #: fsync is left out for now (no-appendfsync-on-rewrite, while something else is written).
        self.spare_syncs = False
        #: Called in the loop when more has reached the disk.
        self.on_synced: Callable[[], None] = lambda: None
        self.path: Path | None = None
        self.size = 0
        self.appended = self.written = self.synced = 0
        #: What the last write or fsync failed with; None while all is well.
        self.error: OSError | None = None
        #: Writes that did not wait for an fsync any longer, and fsyncs.
        self.delayed = 0
        self.syncs = 0
        self._file = log_file()
        self._fd = -1
        #: Counts the files that were in use: an fsync that ends late is told from one of the present file.
        self._number = 0
        self._db = -1
        self._waiting: list[bytes] = []
        #: Effects since an image was taken, for the file that will stand behind that image's; None: nobody wants them.
        self.tee: Effects | None = None
        self._syncing = False
        self._last_sync = clock()
        self._waits_since: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a file."""
        return self._file.state is not LogFile.CLOSED

    @property
    def is_broken(self) -> bool:
        """Whether only a new file helps."""
        return self._file.state is LogFile.BROKEN

    @property
    def trouble(self) -> str:
        """Why the log does not take what happens; empty while it does."""
        if self._file.state in (_HELD_UP, LogFile.BROKEN):
            return str(self.error and (self.error.strerror or self.error))
        return ""

    @property
    def waiting(self) -> int:
        """Bytes that are not written yet."""
        return self.appended - self.written

    @property
    def syncing(self) -> bool:
        """Whether an fsync is under way beside the loop."""
        return self._syncing

    def facts(self) -> dict[str, Any]:
        """What INFO tells of the file that is written to."""
        return {
            "aof_last_write_status": "err" if self.trouble else "ok",
            "aof_buffer_length": self.waiting,
            "aof_pending_bio_fsync": int(self._syncing),
            "aof_delayed_fsync": self.delayed,
            "engine_aof_fsyncs": self.syncs,
        }

    # -- the file -----------------------------------------------------------------------------------------------------

    def use(self, path: Path, fd: int, size: int) -> None:
        """Go on in another file, of ``size`` bytes. What was appended so far is on the disk."""
        assert not self._waiting, "what waits belongs into the file before"
        if self.is_open:
            self._leave()
            self._reached(self.written)
        self._file.fire(LogFileEvent.OPENED)
        self.path, self._fd, self.size = path, fd, size
        self._number += 1
        self._db = -1
        self.error = None

    def drop_waiting(self) -> None:
        """What waits has found its way to the disk in another form, or is wanted by nobody."""
        self._waiting = []
        self._waits_since = None
        self.written = self.appended

    def flush_and_sync(self) -> bool:
        """Bring all that was appended to the disk now; whether that went well."""
        if not self.is_open:
            return True
        if not self.flush(force=True):
            return False
        try:
            self._sync_now()
        except OSError:
            return False
        return True

    def is_nearly_synced(self) -> bool:
        """Whether an fsync of the file would be short. Where it would not be, one is begun beside the loop."""
        if self._file.state is not _OPEN:
            return True
        if not self._syncing and self.written - self.synced > _SHORT_SYNC:
            self._sync_in_background()
        return not self._syncing

    def give_up(self, error: OSError) -> None:
        """Write to the file no more: what it holds does not match the data, because of ``error``."""
        self.error = error
        self._file.fire(LogFileEvent.SPOILT)

    def _leave(self) -> None:
        fd, self._fd = self._fd, -1
        self._file.fire(LogFileEvent.LEFT)
        # An fsync of it may be under way, or wait for another one.
        self._background(lambda: self._files.close(fd), lambda error: None)  # noqa: ARG005

    def close(self) -> None:
        """Write and sync all that is there, and close. An OSError where that failed: what was not written is dropped.

        Nothing is added to a broken file: a whole block behind half a one makes it unreadable.
        """
        if not self.is_open:
            return
        try:
            if self.is_broken:
                raise self.error or OSError("the file cannot be used any more")
            if self._waiting:
                self._write()
            self._sync_now()
        finally:
            self._leave()
            self.drop_waiting()
            self.path, self.size, self.error = None, 0, None

    def end_with(self, line: Callable[[int], bytes]) -> None:
        """Let the file end with a line, which is told where it begins; not where what was appended is not in the file.

        An OSError where that failed: then the file ends as before, or is given up.
        """
        if not self.is_open or not self.flush(force=True) or self._waiting or self.is_broken:
            return
        try:
            self.size += write_all(self._files, self._fd, [line(self.size)])
        except OSError as error:
            if not self._take_back():
                self.give_up(error)
            raise

    # -- appending ----------------------------------------------------------------------------------------------------

    def append(self, effects: Effects) -> None:
        """Take effects; nothing is written before :meth:`flush`."""
        if self.tee is not None:
            self.tee += effects
        if self._fd < 0:
            return
        out, self._db = encoded(effects, self._db)
        self._waiting += out
        self.appended += sum(map(len, out))

    def flush(self, *, force: bool = False) -> bool:
        """Write what waits, and sync it as the policy says; whether it is now as safe as the policy promises.

        ``force``: do not wait for an fsync that runs.
        """
        state = self._file.state
        if state is not _OPEN and state is not _HELD_UP:
            return state is LogFile.CLOSED
        try:
            if self._waiting and (force or not self._better_wait()):
                self._write()
            if self.policy == ALWAYS and self.synced < self.written and not self.spare_syncs:
                self._sync_now()
        except OSError:
            return False
        if state is _HELD_UP and not self._waiting:
            self._file.fire(LogFileEvent.CAUGHT_UP)
            self.error = None
        if self.policy == EVERY_SECOND:
            self._sync_in_time()
        return True

    def _better_wait(self) -> bool:
        if not self._syncing or self.policy != EVERY_SECOND:
            return False
        now = self._clock()
        if self._waits_since is None:
            self._waits_since = now
        if now - self._waits_since < _LONGEST_WAIT:
            return True
        self.delayed += 1
        return False

    def _write(self) -> None:
        block = framed(b"".join(self._waiting), self.size)
        try:
            size = write_all(self._files, self._fd, block)
        except OSError as error:
            self.error = error
            self._file.fire(LogFileEvent.REFUSED if self._take_back() else LogFileEvent.SPOILT)
            raise
        self.size += size
        self._waiting = []
        self._waits_since = None
        self.written = self.appended

    def _take_back(self) -> bool:
        """Cut off what a refused write may have left of a block; whether the file ends where it ended before."""
        try:
            self._files.cut(self._fd, self.size)
        except OSError:
            return False
        return True

    # -- syncing ------------------------------------------------------------------------------------------------------

    def _sync_now(self) -> None:
        self.syncs += 1
        try:
            self._files.sync(self._fd)
        except OSError as error:
            self.give_up(error)
            raise
        self._reached(self.written)

    def _sync_in_time(self) -> None:
        if self._syncing or self.synced >= self.written or self.spare_syncs:
            return
        if self._clock() - self._last_sync >= _SECOND:
            self._sync_in_background()

    def _sync_in_background(self) -> None:
        """Begin an fsync of all that is written."""
        fd, number, target = self._fd, self._number, self.written
        self._syncing = True
        self.syncs += 1
        self._last_sync = self._clock()
        self._background(lambda: self._files.sync(fd), lambda error: self._synced_in_background(number, target, error))

    def _synced_in_background(self, number: int, target: int, error: OSError | None) -> None:
        self._syncing = False
        if error is not None:
            if number == self._number and self.is_open:
                self.give_up(error)
            return
        self._reached(target)
        if self._waiting:
            self.flush()

    def _reached(self, target: int) -> None:
        if target > self.synced:
            self.synced = target
            self.on_synced()


def encoded(effects: Effects, db: int = -1) -> tuple[list[bytes], int]:
    """Effects as commands in RESP, behind others that ended in the database ``db`` (-1: none); which one it is then."""
    out: list[bytes] = []
    pack = hiredis.pack_command
    for index, argv in effects:
        if index != db:
            out.append(_select(index))
            db = index
        out.append(argv if isinstance(argv, bytes) else pack(tuple(argv)))  # type: ignore[arg-type]
    return out, db


def framed(commands: bytes, place: int) -> list[bytes]:
    """Commands as a block that begins at ``place`` in its file."""
    return [commands] if len(commands) > BLOCK_LIMIT else [head(place, commands), commands]


def _select(index: int) -> bytes:
    return b"*2\r\n$6\r\nSELECT\r\n$%d\r\n%d\r\n" % (len(b"%d" % index), index)
