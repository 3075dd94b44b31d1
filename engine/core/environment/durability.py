"""What the core asks of whoever keeps its data on a disk. The shell puts its own in place of :class:`WithoutDisk`.

Methods that can fail raise a CommandError with the reply's text. Nothing here does I/O, nor does the core know how it
is done.
"""

from __future__ import annotations

from typing import Any, Protocol

from engine.core.clients.session import Session
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import persistence


class Durability(Protocol):
    """The keeper of the data."""

    @property
    def logging(self) -> bool:
        """Whether there is an append-only file."""

    def save(self) -> Reply:
        """Write a snapshot now."""

    def save_beside(self, *, schedule: bool) -> Reply:
        """Begin to write a snapshot; ``schedule``: later, where something else is being written."""

    def rewrite(self) -> Reply:
        """Begin to rewrite the append-only file."""

    def last_save(self) -> int:
        """When the last snapshot was finished, in seconds since the epoch."""

    def place(self) -> int:
        """Where in the log everything that has happened so far ends."""

    def is_safe(self, place: int) -> bool:
        """Whether the log is on the disk up to a place."""

    def tell(self, session: Session) -> None:
        """Wake the waiting session when more of the log is on the disk."""

    def reload(self, *, from_log: bool, save: bool, flush: bool) -> None:
        """Throw the data away and read them from the disk: from the log, or from a snapshot, written first if
        ``save``.
        """

    def end(self, words: set[bytes]) -> None:
        """The process is about to end as SHUTDOWN's ``words`` say: bring to the disk what belongs there."""

    def info(self) -> list[tuple[str, Any]]:
        """The lines of INFO persistence."""


class WithoutDisk:
    """Nothing is kept."""

    logging = False

    def save(self) -> Reply:
        raise CommandError(persistence.NO_PERSISTENCE)

    def save_beside(self, *, schedule: bool) -> Reply:
        del schedule
        raise CommandError(persistence.NO_PERSISTENCE)

    def rewrite(self) -> Reply:
        raise CommandError(persistence.NO_PERSISTENCE)

    def last_save(self) -> int:
        return 0

    def place(self) -> int:
        return 0

    def is_safe(self, place: int) -> bool:
        del place
        return False

    def tell(self, session: Session) -> None:
        """Nothing will ever be told."""

    def reload(self, *, from_log: bool, save: bool, flush: bool) -> None:
        del from_log, save, flush
        raise CommandError(persistence.NO_PERSISTENCE)

    def end(self, words: set[bytes]) -> None:
        """There is nothing to bring anywhere."""

    def info(self) -> list[tuple[str, Any]]:
        return []
