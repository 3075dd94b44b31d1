"""The core's interface to durable storage. `Durability` stores nothing; the shell's storage extends it.

Methods that can fail raise a CommandError with the reply's text. This module does no I/O.
"""

from __future__ import annotations

from typing import Any

from engine.core.protocol.replies import CommandError, Reply
from engine.text import messages


class Durability:
    """Storage of the data on disk: snapshots, and a log (the append-only file)."""

    @property
    def logging(self) -> bool:
        """Whether there is a log that receives all effects."""
        return False

    def save(self) -> Reply:
        """Write a snapshot now, blocking the server."""
        raise CommandError(messages.NO_PERSISTENCE)

    def save_in_background(self, *, schedule: bool, within: bool) -> Reply:  # noqa: ARG002 - there is no disk
        """Write a snapshot in the background.

        Raise an error if a snapshot is already being written, or if a rewrite of the log is running or scheduled. If
        ``schedule`` is set or the command is in a transaction (``within``), a rewrite only delays the snapshot.
        """
        raise CommandError(messages.NO_PERSISTENCE)

    def all_deleted(self) -> None:
        """Start a snapshot of the empty data after FLUSHALL, if the ``save`` directive enables snapshots."""

    def rewrite_log(self, *, within: bool) -> Reply:  # noqa: ARG002 - there is no log
        """Rewrite the log in the background. Raise an error if a rewrite is already running.

        If a snapshot is being written, the rewrite starts after the snapshot. If the command is in a transaction
        (``within``), the rewrite starts after the transaction.
        """
        raise CommandError(messages.NO_PERSISTENCE)

    def last_save(self) -> int:
        """Return when the last snapshot was finished, in seconds since the epoch."""
        return 0

    def reload(self, *, from_log: bool, save: bool) -> None:  # noqa: ARG002 - there is no disk
        """Reload the data from the log or from the snapshot. With ``save``, write the snapshot first."""
        raise CommandError(messages.NO_PERSISTENCE)

    def data_replaced(self) -> None:
        """Start a new log: a master's data has replaced all data. The effects before that must be flushed."""

    def prepare_shutdown(self, words: set[bytes]) -> None:
        """Save data as required by SHUTDOWN's ``words``. Nothing is written after that."""

    def info(self) -> list[tuple[str, Any]]:
        """Return the lines of INFO persistence."""
        return []

    def reset_statistics(self) -> None:
        """Reset the counters ``rdb_saves`` and ``aof_delayed_fsync``."""
