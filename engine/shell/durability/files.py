"""Disk calls of durability, and nothing else: the layer in which tests inject faults.

Callers hold descriptors and paths, decide when to write, and handle errors. Each method is one step that can fail or be
the last one before a crash, so that tests can simulate a crash between any two steps.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

Buffer = bytes | bytearray | memoryview

#: Maximum number of buffers per write call.
_MOST_BUFFERS = 512


class Files:
    """The real file system."""

    # -- descriptors --------------------------------------------------------------------------------------------------

    def create(self, path: Path) -> int:
        """Create an empty file for appending, or empty the existing file.

        In append mode, a write after a truncation goes to the new end of the file, not to the old offset.
        """
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def open_append(self, path: Path) -> int:
        """Open an existing file for appending."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, fd: int, buffers: Sequence[Buffer]) -> int:
        """Write as many of the buffers as one call accepts; return the number of bytes that were written."""
        if hasattr(os, "writev"):
            return os.writev(fd, buffers[:_MOST_BUFFERS])
        return os.write(fd, buffers[0])

    def sync(self, fd: int) -> None:
        """Sync written data to the disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def cut(self, fd: int, size: int) -> None:
        """Truncate the file to ``size`` bytes."""
        os.ftruncate(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    # -- names --------------------------------------------------------------------------------------------------------

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, replacing any file that has the new name."""
        old.replace(new)

    def link(self, path: Path, new: Path) -> None:
        """Give a file a second name, which must be free."""
        new.hardlink_to(path)

    def is_same(self, path: Path, other: Path) -> bool:
        """Return whether two existing names are names of the same file."""
        return path.samefile(other)

    def remove(self, path: Path) -> None:
        """Remove the file if it exists."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make the directory if it does not exist."""
        path.mkdir(mode=0o755, exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Sync a directory, so that names created and removed in it are on disk."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted; empty if it does not exist."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 - only names are needed
        except FileNotFoundError:
            return []

    # -- reading ------------------------------------------------------------------------------------------------------

    def size(self, path: Path) -> int:
        """Return the file's size in bytes, -1 if it does not exist."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return -1

    def read(self, path: Path) -> bytes:
        """Return the content of a small file."""
        return path.read_bytes()

    def map(self, path: Path) -> memoryview:
        """Map a file's content without reading it. The file may be replaced, but not truncated, while the view is in
        use.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.fstat(fd).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(fd)

    def read_at(self, path: Path, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes of a file at an offset. Unlike access to a mapped file, this survives a bad
        sector.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)

    # -- directory lock -----------------------------------------------------------------------------------------------

    def lock(self, path: Path) -> int | None:
        """Lock a directory until the returned descriptor is closed. Return None if another process holds the lock."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return fd


def write_all(files: Files, fd: int, buffers: Sequence[Buffer]) -> int:
    """Write all the buffers, in order; return the number of bytes."""
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
    """Replace a file's content with ``data``, and sync it. After a failure, the file has its old or its new content."""
    write_new(files, temporary, data)
    files.rename(temporary, path)
    files.sync_directory(path.parent)


def write_new(files: Files, path: Path, data: bytes) -> None:
    """Write a new file with ``data`` and sync it. Its directory entry may not be on disk yet."""
    fd = files.create(path)
    try:
        write_all(files, fd, [data])
        files.sync(fd)
    finally:
        files.close(fd)
