"""Directory lock, held by the one engine that writes to a directory, until that engine has closed its files."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from engine.shell.durability.files import Files
from engine.shell.observation.log_lines import LOG


class Ownership:
    """The lock on ``directory``. ``leftovers`` matches the names of unfinished files, which are removed when the lock
    is acquired, and before it is released.
    """

    def __init__(self, files: Files, directory: Path, leftovers: re.Pattern[str]) -> None:
        self._files = files
        self._leftovers = leftovers
        self._lock: int | None = None
        self.directory = directory

    def acquire(self) -> bool:
        """Acquire the lock, if it is not held yet; return False if another engine holds it."""
        if self._lock is not None:
            return True
        with suppress(OSError):
            self._lock = self._files.lock(self.directory)
        if self._lock is not None:
            self._clear()
        return self._lock is not None

    @property
    def is_held(self) -> bool:
        """Whether this engine holds the lock."""
        return self._lock is not None

    @property
    def refusal(self) -> str:
        """Error text if the lock is not available."""
        return f"{self.directory} belongs to another engine that is running"

    def _clear(self) -> None:
        for name in self._files.names(self.directory):
            if self._leftovers.fullmatch(name):
                LOG.info("removed incomplete file %s", self.directory / name)
                with suppress(OSError):
                    self._files.remove(self.directory / name)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._clear()
            self._files.close(self._lock)
            self._lock = None
