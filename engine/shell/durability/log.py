"""The writer of the append-only file's newest increment: effects in, blocks on the disk, as ``appendfsync`` says.

It owns the descriptor and what waits to be written; which files there are is :mod:`engine.shell.durability.manifest`'s
and :mod:`engine.shell.rewriting`'s. It never drops what it was given: where the disk refuses, the bytes wait, the file
is cut back to its last whole block, and :meth:`Log.flush` tries again whenever it is called. After a failed fsync
nobody knows what the file holds; then only a new file helps (:attr:`Log.broken`), written from memory.

With ``everysec`` fsync runs beside the loop. While one runs, new blocks wait for it (two seconds at the most, then
they are written all the same, at the risk of being held up), as a write to a file that is being synced may be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hiredis

from engine.shell.durability.blocks import BLOCK_LIMIT, head
from engine.shell.durability.files import Files, write_all

Effects = list[tuple[int, list[bytes] | bytes]]
#: Runs the first function in another thread, one after the other, then the second in the loop with the error, if any.
Beside = Callable[[Callable[[], None], Callable[[OSError | None], None]], None]

ALWAYS, EVERY_SECOND, NEVER = b"always", b"everysec", b"no"
_SECOND = 1.0
_LONGEST_WAIT = 2.0


class Log:
    """One increment, open for writing. Places (``appended``, ``written``, ``synced``) count all bytes ever appended."""

    def __init__(self, files: Files, beside: Beside, clock: Callable[[], float]) -> None:
        self._files = files
        self._beside = beside
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
        #: An fsync failed, or a block could not be taken back: this file is written to no more.
        self.broken = False
        #: Writes that did not wait for an fsync any longer, and fsyncs.
        self.delayed = 0
        self.syncs = 0
        self._fd = -1
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
        return self._fd >= 0

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
            "aof_last_write_status": "ok" if self.error is None and not self.broken else "err",
            "aof_buffer_length": self.waiting,
            "aof_pending_bio_fsync": int(self._syncing),
            "aof_delayed_fsync": self.delayed,
            "engine_aof_fsyncs": self.syncs,
        }

    # -- the file -----------------------------------------------------------------------------------------------------

    def use(self, path: Path, fd: int, size: int) -> None:
        """Go on in another file, of ``size`` bytes. What was appended so far is on the disk."""
        assert not self._waiting, "what waits belongs into the file before"
        self._leave()
        self.path, self._fd, self.size = path, fd, size
        self._db = -1
        self.error, self.broken = None, False

    def drop_waiting(self) -> None:
        """What waits has found its way to the disk in another form."""
        self._waiting = []
        self._waits_since = None
        self.written = self.appended

    def settle(self) -> bool:
        """Bring all that was appended to the disk now; whether that went well."""
        if not self.flush(force=True) or self._waiting:
            return False
        try:
            self._sync_now()
        except OSError as error:
            self._fail(error, broken=True)
            return False
        return True

    def _leave(self) -> None:
        fd = self._fd
        self._fd = -1
        if fd >= 0:
            # An fsync of it may be under way, or wait for its turn.
            self._beside(lambda: self._files.close(fd), lambda error: None)  # noqa: ARG005
            self._reached(self.written)

    def close(self) -> None:
        """Write and sync all that is there, and close; an OSError where that is not possible."""
        if self._fd < 0:
            return
        fd = self._fd
        try:
            if self._waiting:
                self._write()
            self._files.sync(fd)
            self.synced = self.written
        finally:
            self._fd = -1
            self._files.close(fd)

    def forget(self) -> None:
        """Leave the file as it is, and what waits unwritten: the log is switched off."""
        if self._fd >= 0:
            self._files.close(self._fd)
        self._fd = -1
        self.drop_waiting()
        self.synced = self.written
        self.error, self.broken = None, False

    # -- appending ----------------------------------------------------------------------------------------------------

    def append(self, effects: Effects) -> None:
        """Take the effects of a turn; nothing is written before :meth:`flush`."""
        if self.tee is not None:
            self.tee += effects
        if self._fd < 0:
            return
        out: list[bytes] = []
        db = self._db
        pack = hiredis.pack_command
        for index, argv in effects:
            if index != db:
                out.append(_select(index))
                db = index
            out.append(argv if isinstance(argv, bytes) else pack(tuple(argv)))  # type: ignore[arg-type]
        self._db = db
        self._waiting += out
        self.appended += sum(map(len, out))

    def flush(self, *, force: bool = False) -> bool:
        """Write what waits, and sync it as the policy says; whether it is now as safe as the policy promises.

        ``force``: do not wait for an fsync that runs.
        """
        if self.broken or self._fd < 0:
            return not self._waiting and not self.broken
        try:
            if self._waiting and (force or not self._better_wait()):
                self._write()
            if self.policy == ALWAYS and self.synced < self.written and not self.spare_syncs:
                self._sync_now()
        except OSError as error:
            self._fail(error, broken=self.broken)
            return False
        if not self._waiting:
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
        commands = b"".join(self._waiting)
        block = [commands] if len(commands) > BLOCK_LIMIT else [head(self.size, commands), commands]
        try:
            size = write_all(self._files, self._fd, block)
        except OSError:
            self._take_back()
            raise
        self.size += size
        self._waiting = []
        self._waits_since = None
        self.written = self.appended

    def _take_back(self) -> None:
        """A block may have been written in part: the file ends where it ended before."""
        try:
            self._files.cut(self._fd, self.size)
        except OSError:
            self.broken = True

    def _fail(self, error: OSError, *, broken: bool) -> None:
        self.error = error
        self.broken = broken

    # -- syncing ------------------------------------------------------------------------------------------------------

    def _sync_now(self) -> None:
        self.syncs += 1
        try:
            self._files.sync(self._fd)
        except OSError:
            self.broken = True
            raise
        self._reached(self.written)

    def _sync_in_time(self) -> None:
        if self._syncing or self.synced >= self.written or self.spare_syncs:
            return
        if self._clock() - self._last_sync >= _SECOND:
            self.sync_beside()

    def sync_beside(self) -> None:
        """Begin an fsync of all that is written."""
        fd, target = self._fd, self.written
        self._syncing = True
        self.syncs += 1
        self._last_sync = self._clock()
        self._beside(lambda: self._files.sync(fd), lambda error: self._synced_beside(fd, target, error))

    def _synced_beside(self, fd: int, target: int, error: OSError | None) -> None:
        self._syncing = False
        if error is not None:
            if fd == self._fd:
                self._fail(error, broken=True)
            return
        self._reached(target)
        if self._waiting:
            self.flush()

    def _reached(self, target: int) -> None:
        if target > self.synced:
            self.synced = target
            self.on_synced()


def _select(index: int) -> bytes:
    return b"*2\r\n$6\r\nSELECT\r\n$%d\r\n%d\r\n" % (len(b"%d" % index), index)
