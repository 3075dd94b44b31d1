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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pystreams.values import times

_log = logging.getLogger("pystreams.dashboard")

_MOST_READ = 4 << 20  # maximum number of bytes read for the pages: thousands of changes
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

    def recent(self) -> list[list[dict[str, Any]]]:
        """Return the records of each change in the last 4 MiB of the file, last change first, first record first."""
        changes: dict[str, list[dict[str, Any]]] = {}
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_READ))
            for record in filter(None, map(_parsed, file)):
                changes.setdefault(record["id"], []).append(record)
        return list(changes.values())[::-1]


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
