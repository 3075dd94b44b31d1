"""One attempt to write a file, which has a unique temporary name until it is complete.

The event loop can abandon an attempt that runs in a thread. The writing then stops, at the latest before the file is
renamed, and the temporary file is removed. After `Attempt.abandon` has returned, the attempt changes no file except its
temporary one.
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
    """The attempt was abandoned: the file is no longer needed."""


class Attempt:
    """A file being written in ``directory``. ``prefix``, ``suffix``: start and end of its temporary name."""

    def __init__(self, files: Files, directory: Path, prefix: str, suffix: str) -> None:
        self._files = files
        #: Temporary path. The process ID makes it unique among engines, the number among the attempts of this engine.
        self.temporary = directory / f"{prefix}{os.getpid()}-{next(_numbers)}{suffix}"
        self.abandoned = False
        #: Segment files that the file refers to; set after the file was written.
        self.named: frozenset[int] = frozenset()
        self._lock = threading.Lock()

    def abandon(self) -> None:
        """Mark the file as not needed. Call this in the event loop; it waits at most for a rename in progress."""
        with self._lock:
            self.abandoned = True

    def check(self) -> None:
        """Raise AbandonedError if the attempt was abandoned."""
        if self.abandoned:
            raise AbandonedError("abandoned")

    def put_in_place(self, path: Path) -> None:
        """Rename the file to its final name. Raise AbandonedError if the attempt was abandoned."""
        with self._lock:
            self.check()
            self._files.rename(self.temporary, path)

    def remove(self) -> None:
        """Remove the temporary file if it exists."""
        with suppress(OSError):
            self._files.remove(self.temporary)
