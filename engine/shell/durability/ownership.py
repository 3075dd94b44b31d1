"""One directory, one engine: who writes there holds a lock on it, until his process ends."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from engine.shell.durability.files import Files
from engine.shell.observation.reporting import LOG


class Ownership:
    """The lock on ``directory``. ``leftovers`` are the names of files that are only there while they are written: what
    is left of them is removed when the lock is taken and when it is released.
    """

    def __init__(self, files: Files, directory: Path, leftovers: re.Pattern[str]) -> None:
        self._files = files
        self._leftovers = leftovers
        self._lock: int | None = None
        self._has_warned = False
        self.directory = directory

    def acquire(self) -> bool:
        """Own the directory from now on; False where it belongs to another engine."""
        if self._lock is not None:
            return True
        with suppress(OSError):
            self._lock = self._files.lock(self.directory)
        if self._lock is not None:
            self._clear()
        elif not self._has_warned:
            self._has_warned = True
            LOG.warning("%s: nothing is written there", self.refusal)
        return self._lock is not None

    @property
    def is_held(self) -> bool:
        """Whether the directory is owned."""
        return self._lock is not None

    @property
    def refusal(self) -> str:
        """What is said where the lock cannot be had."""
        return f"{self.directory} belongs to another engine that is running"

    def _clear(self) -> None:
        for name in self._files.names(self.directory):
            if self._leftovers.fullmatch(name):
                LOG.info("removed %s, which was never finished", self.directory / name)
                with suppress(OSError):
                    self._files.remove(self.directory / name)

    def release(self) -> None:
        """Let another engine have it."""
        if self._lock is not None:
            self._clear()
            self._files.close(self._lock)
            self._lock = None
