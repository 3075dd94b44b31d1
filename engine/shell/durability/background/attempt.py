"""One attempt at writing a file: under a temporary name that nobody else uses, until it is whole.

An attempt beside the loop can be abandoned by the loop. Its thread notices, at the latest before the file gets its real
name, and removes what it has written. Once :meth:`Attempt.abandon` has returned, the attempt changes nothing any more
that somebody else could find.
"""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress
from pathlib import Path

from engine.shell.durability.files import Files

_numbers = itertools.count(1)


class AbandonedError(OSError):
    """Nobody wants the file any more."""


class Attempt:
    """A file that is being written in ``directory``; its temporary name stands between ``prefix`` and ``suffix``."""

    def __init__(self, files: Files, directory: Path, prefix: str, suffix: str) -> None:
        self._files = files
        #: Where it is written. The process's ID tells it from another engine's, the number from our other attempts.
        self.temporary = directory / f"{prefix}{os.getpid()}-{next(_numbers)}{suffix}"
        self.abandoned = False
        #: The segment files that it names, once it is written.
        self.named: frozenset[int] = frozenset()
        self._lock = threading.Lock()

    def abandon(self) -> None:
        """The file will not be used. To be called in the loop; waits at the most for a rename that is under way."""
        with self._lock:
            self.abandoned = True

    def check(self) -> None:
        """Go on, or raise AbandonedError."""
        if self.abandoned:
            raise AbandonedError("abandoned")

    def put_in_place(self, path: Path) -> None:
        """Give the file its real name, unless nobody wants it any more."""
        with self._lock:
            self.check()
            self._files.rename(self.temporary, path)

    def remove(self) -> None:
        """The temporary file goes, if it is there."""
        with suppress(OSError):
            self._files.remove(self.temporary)
