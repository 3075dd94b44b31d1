"""Every call by which durability touches the disk, and nothing else: the one layer that tests put faults under.

Callers hold descriptors and paths; policy (what to write when, what to do about an error) is theirs. Each method does
one step that can fail or be the last one before a crash, so that "a crash between any two steps" is a sentence a test
can say.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no advisory locks of this kind: two engines on one directory are not noticed there.
    fcntl = None  # type: ignore[assignment]

Buffer = bytes | bytearray | memoryview

#: How many buffers one call may write.
_MOST_BUFFERS = 512


class Files:
    """The real file system."""

    # -- descriptors --------------------------------------------------------------------------------------------------

    def create(self, path: Path) -> int:
        """A new, empty file, to be written at its end; what was there goes.

        Appending, so that after a cut the next write goes to the new end and not to where the one before it ended.
        """
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def open_append(self, path: Path) -> int:
        """An existing file, to be written at its end."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, fd: int, buffers: Sequence[Buffer]) -> int:
        """Write the first of the buffers, as much as goes in one call; how many bytes."""
        if hasattr(os, "writev"):
            return os.writev(fd, buffers[:_MOST_BUFFERS])
        return os.write(fd, buffers[0])

    def sync(self, fd: int) -> None:
        """What was written is on the disk when this returns."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def cut(self, fd: int, size: int) -> None:
        """The file ends at ``size``."""
        os.ftruncate(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    # -- names --------------------------------------------------------------------------------------------------------

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, in place of what had it."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """The file goes, if it is there."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """The directory is there afterwards."""
        path.mkdir(mode=0o755, exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Names given and taken in the directory are on the disk when this returns."""
        if os.name == "nt":
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def names(self, path: Path) -> list[str]:
        """The names in a directory, sorted; none where there is no directory."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 - names are all that is wanted
        except FileNotFoundError:
            return []

    # -- reading ------------------------------------------------------------------------------------------------------

    def size(self, path: Path) -> int:
        """Bytes in the file, -1 where there is none."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return -1

    def read(self, path: Path) -> bytes:
        """A small file's content."""
        return path.read_bytes()

    def map(self, path: Path) -> memoryview:
        """A file's content without reading it. It must not be cut while the view is in use; it may be replaced."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.fstat(fd).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(fd)

    def open_read(self, path: Path) -> int:
        """An existing file, to be read by :meth:`read_at`."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes from a place in the file on. (Of a mapped file a bad sector would end the process.)"""
        return os.pread(fd, size, offset)

    # -- one owner ----------------------------------------------------------------------------------------------------

    def lock(self, path: Path) -> int | None:
        """Own a directory, until the descriptor is closed or the process ends; None: somebody else does."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if fcntl is not None:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return fd


def write_all(files: Files, fd: int, buffers: Sequence[Buffer]) -> int:
    """Write all the buffers, in order; how many bytes they are."""
    total = written = sum(map(len, buffers))
    waiting = list(buffers)
    while written:
        done = files.write(fd, waiting)
        written -= done
        while waiting and done >= len(waiting[0]):
            done -= len(waiting.pop(0))
        if done:
            waiting[0] = memoryview(waiting[0])[done:]
    return total


def replace_file(files: Files, path: Path, data: bytes, temporary: Path) -> None:
    """The file holds ``data`` afterwards, on the disk too; where that goes wrong, what it held before, or ``data``."""
    write_new(files, temporary, data)
    files.rename(temporary, path)
    files.sync_directory(path.parent)


def write_new(files: Files, path: Path, data: bytes) -> None:
    """A new file with ``data``, on the disk; its name may not be there yet."""
    fd = files.create(path)
    try:
        write_all(files, fd, [data])
        files.sync(fd)
    finally:
        files.close(fd)
