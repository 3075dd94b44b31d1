"""A disk with faults: a layer under the engine's file calls, where tests inject errors, crashes and power failures.

fail       certain calls fail
fail_at    the call with this number fails
fail_from  the call with this number and all later calls fail
room       the number of further bytes that can be written
crash_at   the process ends before the changing call with this number, or after half of it if it is a write
lose       a power failure: each file's content and each directory's names return to those of the last sync
interrupt  other work in the event loop runs before a call
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.shell.durability.files import Buffer, Files


class Crash(BaseException):
    """The end of the process, which no ``except OSError`` of the engine may catch."""


class Disk(Files):
    """The real file system with faults."""

    def __init__(self) -> None:
        #: Names of the calls that change something, in order.
        self.calls: list[str] = []
        self.crash_at = -1
        #: Number of the only call that fails; -1 for none.
        self.fail_at = -1
        #: Number of the first of the calls that all fail, as on a full disk; -1 for none.
        self.fail_from = -1
        #: Number of further bytes that can be written; None for no limit.
        self.room: int | None = None
        self._interruptions: list[tuple[str, str, Callable[[], object]]] = []
        self._failing: list[tuple[str, Callable[[Path], bool], int]] = []
        self._paths: dict[int, Path] = {}
        #: Synced content of files by path; a file that is missing here has not changed since its last sync.
        self._synced: dict[Path, bytes] = {}
        #: Steps that undo, for each directory, changes of names that are not synced.
        self._undo: dict[Path, list[Callable[[], None]]] = {}
        self.crashed = False

    # -- faults -------------------------------------------------------------------------------------------------------

    def fail(self, call: str, error: int, where: str = "") -> None:
        """Let ``call`` fail with an errno from now on, for paths whose name contains ``where``."""
        self._failing.append((call, lambda path: where in path.name, error))

    def heal(self) -> None:
        """Remove all errors and limits."""
        self._failing.clear()
        self.room, self.fail_at, self.fail_from = None, -1, -1

    def interrupt(self, call: str, where: str, work: Callable[[], object]) -> None:
        """Run ``work`` before the next ``call`` for a path whose name contains ``where``."""
        self._interruptions.append((call, where, work))

    def lose(self) -> None:
        """Simulate a power failure: undo everything that is not synced."""
        for path, data in self._synced.items():
            if path.exists():
                path.write_bytes(data)
        for undo in self._undo.values():
            for step in reversed(undo):
                step()
        self._synced.clear()
        self._undo.clear()

    def _step(self, call: str, path: Path, half: Callable[[], None] | None = None) -> None:
        if self.crashed:
            raise Crash
        for interruption in self._interruptions:
            name, where, work = interruption
            if name == call and where in path.name:
                self._interruptions.remove(interruption)
                work()
                break
        self.calls.append(call)
        if len(self.calls) - 1 == self.crash_at:
            if half is not None:
                half()
            self.crashed = True
            raise Crash(f"{call} {path.name}")
        number = len(self.calls) - 1
        if number == self.fail_at or 0 <= self.fail_from <= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        for name, concerns, error in self._failing:
            if name == call and concerns(path):
                raise OSError(error, os.strerror(error), str(path))

    # -- the calls ----------------------------------------------------------------------------------------------------

    def create(self, path: Path) -> int:
        self._step("create", path)
        before = path.read_bytes() if path.exists() else None
        fd = super().create(path)
        self._paths[fd] = path
        if before is None:
            self._undo.setdefault(path.parent, []).append(lambda: path.unlink(missing_ok=True))
        self._synced.setdefault(path, before or b"")
        return fd

    def open_append(self, path: Path) -> int:
        fd = super().open_append(path)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, buffers: Sequence[Buffer]) -> int:
        path = self._paths[fd]
        data = b"".join(buffers)
        self._synced.setdefault(path, path.read_bytes())
        self._step("write", path, lambda: _write(fd, data[: len(data) // 2]))
        # Write only half per call, as a disk may: the engine must continue after a partial write.
        size = max(len(data) // 2, 1)
        if self.room is not None:
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            size = min(size, self.room)
            self.room -= size
        _write(fd, data[:size])
        return size

    def sync(self, fd: int) -> None:
        path = self._paths[fd]
        self._step("sync", path)
        # The real disk is not synced: the synced content is recorded here, and thousands of real syncs take minutes.
        os.fstat(fd)
        self._synced.pop(path, None)

    def cut(self, fd: int, size: int) -> None:
        path = self._paths[fd]
        self._step("cut", path)
        self._synced.setdefault(path, path.read_bytes())
        super().cut(fd, size)

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        super().close(fd)

    def rename(self, old: Path, new: Path) -> None:
        self._step("rename", new)
        before = new.read_bytes() if new.exists() else None
        data = old.read_bytes()
        super().rename(old, new)
        if old in self._synced:
            self._synced[new] = self._synced.pop(old)
        else:
            self._synced.pop(new, None)

        def undo() -> None:
            old.write_bytes(data)
            if before is None:
                new.unlink(missing_ok=True)
            else:
                new.write_bytes(before)

        self._undo.setdefault(new.parent, []).append(undo)

    def link(self, path: Path, new: Path) -> None:
        self._step("link", new)
        super().link(path, new)
        self._undo.setdefault(new.parent, []).append(lambda: new.unlink(missing_ok=True))

    def remove(self, path: Path) -> None:
        self._step("remove", path)
        if path.exists():
            data = path.read_bytes()
            self._undo.setdefault(path.parent, []).append(lambda: _put(path, data))
        super().remove(path)
        self._synced.pop(path, None)

    def lock(self, path: Path) -> int | None:
        fd = super().lock(path)
        if fd is not None:
            self._paths[fd] = path
        return fd

    def end(self) -> None:
        """Simulate the end of the process: close all files and release all locks."""
        for fd in self._paths:
            os.close(fd)
        self._paths.clear()

    def make_directory(self, path: Path) -> None:
        self._step("make_directory", path)
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._step("sync_directory", path)
        self._undo.pop(path, None)


def _put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
