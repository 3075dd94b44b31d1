"""The audit log: a file of JSON lines to which records of changes are appended.

All lines of a change have the same `id`. The first, `begun`, is written before anything is sent to the server, so a
change that cannot be recorded is refused. Each further line, `done` or `failed`, has the result of one request; a long
change takes several requests. The file is opened for every
line, so a program that rotates the file only has to rename it. Values of entries are never recorded.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pystreams.values import times

_log = logging.getLogger("pystreams.dashboard")

_CHUNK = 1 << 16
_MOST_READ = 1 << 20  # maximum number of bytes read per request
_MODE = 0o600


class UnwritableError(Exception):
    """A line cannot be appended."""


class Audit:
    """The log in one file. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def record_start(self, facts: Mapping[str, Any]) -> str:
        """Record the start of a change; return its ID. Raises UnwritableError."""
        number = secrets.token_hex(8)
        self._append({"event": "begun", "id": number, **facts})
        return number

    def record_result(self, number: str, facts: Mapping[str, Any]) -> None:
        """Record the result of a change. If the line cannot be written, it goes to the log of the process."""
        try:
            self._append({"id": number, **facts})
        except UnwritableError as failure:
            _log.warning("The audit log %s cannot be written (%s). Change %s: %s", self.path, failure, number, facts)

    def _append(self, record: Mapping[str, Any]) -> None:
        line = json.dumps({"time": times.iso(round(time.time() * 1000)), **record}, ensure_ascii=True) + "\n"
        with self._lock:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
                try:
                    left = (b"" if _is_whole(file) else b"\n") + line.encode()
                    while left:
                        left = left[os.write(file, left) :]
                    os.fsync(file)
                finally:
                    os.close(file)
            except OSError as cause:
                raise UnwritableError(cause.strerror or str(cause)) from cause

    def page(
        self, before: int | None, size: int, wanted: Callable[[Mapping[str, Any]], bool]
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Return the wanted records, newest first, and the offset for the next page.

        `before`: byte offset at which the page ends; None for the end of the file. Reads at most about a mebibyte, so a
        page may have fewer records than `size`.
        """
        found: list[dict[str, Any]] = []
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                if before is not None:
                    end = min(before, end)  # the file may have been rotated since the previous page
                for start, line in _backwards(file, end):
                    record = _parsed(line)
                    if record is not None and wanted(record):
                        found.append(record)
                    if len(found) == size or end - start > _MOST_READ:
                        return found, start if start > 0 else None
        except FileNotFoundError:
            pass
        return found, None


def _is_whole(file: int) -> bool:
    """Return whether a file is empty or ends with a line end. On a full disk, a line may be truncated."""
    size = os.fstat(file).st_size
    return not size or os.pread(file, 1, size - 1) == b"\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line; None if the line is truncated or not a record."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _backwards(file: Any, end: int) -> Any:
    """Yield the lines before an offset, last first, each with the offset of its start."""
    buffer = b""
    at = end
    while at > 0:
        size = min(_CHUNK, at)
        at -= size
        file.seek(at)
        buffer = file.read(size) + buffer
        while (cut := buffer.rstrip(b"\n").rfind(b"\n")) >= 0:
            line, buffer = buffer[cut + 1 :], buffer[: cut + 1]
            yield at + cut + 1, line
    if buffer.strip():
        yield 0, buffer
