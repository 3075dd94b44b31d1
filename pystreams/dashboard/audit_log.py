"""The audit log: a file of JSON lines to which records of changes are appended.

All lines of a change have the same `id`. The first, `begun`, is written before anything is sent to the server, so a
change that cannot be recorded is refused. Each further line, `done` or `failed`, has the result of one request; a long
change takes several requests. The file is opened for every line, so a program that rotates the file only has to rename
it. Values of entries are never recorded.

The file is in the state directory, which only its owner can read.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pystreams.values import times

_log = logging.getLogger("pystreams.dashboard")

_CHUNK = 1 << 16
_MOST_READ = 1 << 20  # maximum number of bytes read before the end of a page, and after it
_MODE, _FOLDER_MODE = 0o600, 0o700
#: Name of the file in the state directory.
FILE = "audit.jsonl"


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the dashboard's state directory: below XDG_STATE_HOME, or else below `~/.local/state`."""
    home = environment.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "pystreams" / "dashboard"


def prepared(folder: Path) -> Path:
    """Create a folder with mode 0700, or set this mode on an existing folder of this user. Raises OSError."""
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    folder.chmod(_FOLDER_MODE)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(None, "it is not writable")
    return folder


class UnwritableError(Exception):
    """A line cannot be appended."""


class RecordedChange(NamedTuple):
    """A change in the log. `start`: byte offset of its first record; `records`: its records, newest first."""

    start: int
    records: list[dict[str, Any]]


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
        self, before: int | None, size: int, wanted: Callable[[list[RecordedChange]], list[RecordedChange]]
    ) -> tuple[list[RecordedChange], int | None]:
        """Return the wanted changes, newest first, and the offset for the next page.

        `before`: byte offset before which the changes started; None for the end of the file. `wanted` gets a list of
        changes and returns the wanted ones. Reads about `_MOST_READ` bytes before the offset, so a page may have fewer
        changes than `size`. The last page may have more, since it includes changes that started before a rotation.
        """
        found: list[RecordedChange] = []
        following = None
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            for start, changes in _changes(file, before):
                found += wanted(changes)
                if len(found) > size and (last := found[size - 1].start):
                    return found[:size], last
                following = start or None
                if len(found) >= size:
                    break
        return found, following


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
    return record if isinstance(record, dict) and isinstance(record.get("id"), str) else None


def _changes(file: BinaryIO, before: int | None) -> Iterator[tuple[int, list[RecordedChange]]]:
    """Yield lists of the changes that started before an offset, newest first, each with the offset for the next page.

    Reading starts `_MOST_READ` bytes after the offset, to include results that were recorded later. A plan is valid for
    ten minutes, so the records of a change are close together.
    """
    size = file.seek(0, os.SEEK_END)
    end = size if before is None else min(before, size)  # the file may have been rotated since the previous page
    partial: dict[str, list[dict[str, Any]]] = {}  # changes whose first record has not been read yet
    for lines in _backwards(file, min(end + _MOST_READ, size)):
        found = []
        for start, line in lines:
            record = _parsed(line)
            if record is None:
                continue
            records = partial.setdefault(record["id"], [])
            records.append(record)
            if record.get("event") == "begun":
                del partial[record["id"]]
                if start < end:
                    found.append(RecordedChange(start, records))
        if start == 0:
            # The file before the rotation has the first records of these changes.
            found += [RecordedChange(0, records) for records in partial.values()]
        yield start, found
        if end - start > _MOST_READ:
            return


def _backwards(file: BinaryIO, end: int) -> Iterator[list[tuple[int, bytes]]]:
    """Yield lists of the lines before an offset, last first, each line with the offset of its start."""
    rest = b""
    while end > 0:
        at = max(0, end - _CHUNK)
        file.seek(at)
        chunk = file.read(end - at) + rest
        # The first line may start before the chunk.
        cut = (chunk.find(b"\n") + 1 or len(chunk)) if at else 0
        rest, end = chunk[:cut], at
        lines, start = [], at + cut
        for line in chunk[cut:].splitlines(keepends=True):
            lines.append((start, line))
            start += len(line)
        if lines:
            yield lines[::-1]
