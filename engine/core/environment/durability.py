"""What the core asks of whoever keeps its data on a disk. The shell puts its own in place of :class:`WithoutDisk`.

Methods that can fail raise a CommandError with the reply's text. Nothing here does I/O, and the core does not know how
it is done.
"""

from __future__ import annotations

from typing import Any, Protocol

from engine.core.clients.session import Session
from engine.core.protocol.replies import CommandError, Reply
from engine.text.messages import persistence


class Durability(Protocol):
    """Keeps the data on a disk: in snapshots, and in a log (the append-only file)."""

    @property
    def logging(self) -> bool:
        """Whether there is a log, and what happens is in it."""

    def save(self) -> Reply:
        """Write a snapshot now; the server does nothing else meanwhile."""

    def save_in_background(self, *, schedule: bool, within: bool) -> Reply:
        """Write a snapshot in the background. During a rewrite of the log: later if ``schedule`` or ``within`` a
        transaction, otherwise an error.
        """

    def all_deleted(self) -> None:
        """FLUSHALL has run: where the ``save`` directive wants snapshots, the last one is replaced soon."""

    def rewrite_log(self, *, within: bool) -> Reply:
        """Rewrite the log in the background, after a snapshot that is being written, or the transaction that it is
        ``within``.
        """

    def last_save(self) -> int:
        """When the last snapshot was finished, in seconds since the epoch."""

    def log_offset(self) -> int:
        """The position in the log behind everything that has happened so far, in bytes."""

    def is_synced(self, offset: int) -> bool:
        """Whether the log is on the disk up to an offset."""

    def wake_when_synced(self, session: Session) -> None:
        """Wake the blocked session once when more of the log is on the disk, or there is no log any more."""

    def reload(self, *, from_log: bool, save: bool, flush: bool) -> None:
        """Read the data again, from the log or from the snapshot. ``save``: write the snapshot first. ``flush``: empty
        the databases first.
        """

    def begin_replacing(self) -> None:
        """All data are about to be replaced by those of a master: until :meth:`end_replacing` nothing is written."""

    def end_replacing(self) -> None:
        """The data are whole again, and others: a log begins anew with them."""

    def prepare_shutdown(self, words: set[bytes]) -> None:
        """Bring to the disk what belongs there, as SHUTDOWN's ``words`` say. Nothing is written after that."""

    def info(self) -> list[tuple[str, Any]]:
        """The lines of INFO persistence."""


class WithoutDisk:
    """Nothing is kept."""

    logging = False

    def save(self) -> Reply:
        raise CommandError(persistence.NO_PERSISTENCE)

    def save_in_background(self, *, schedule: bool, within: bool) -> Reply:
        del schedule, within
        raise CommandError(persistence.NO_PERSISTENCE)

    def all_deleted(self) -> None:
        """There is no snapshot."""

    def rewrite_log(self, *, within: bool) -> Reply:
        del within
        raise CommandError(persistence.NO_PERSISTENCE)

    def last_save(self) -> int:
        return 0

    def log_offset(self) -> int:
        return 0

    def is_synced(self, offset: int) -> bool:
        del offset
        return False

    def wake_when_synced(self, session: Session) -> None:
        """Nothing will ever be told."""

    def reload(self, *, from_log: bool, save: bool, flush: bool) -> None:
        del from_log, save, flush
        raise CommandError(persistence.NO_PERSISTENCE)

    def begin_replacing(self) -> None:
        """Nothing is written anyway."""

    def end_replacing(self) -> None:
        """See above."""

    def prepare_shutdown(self, words: set[bytes]) -> None:
        """There is nothing to bring anywhere."""

    def info(self) -> list[tuple[str, Any]]:
        return []
