"""The core's interface to replicas and to its master. The shell's replication extends
`Replication`, which has neither replicas nor a master.

Methods that can fail raise a CommandError with the reply's text. Offsets count the bytes of the replication stream,
which contains the commands sent to replicas. This module does no I/O.
"""

# ruff: noqa: ARG002 - without replicas, arguments are ignored

from __future__ import annotations

from typing import Any

from engine.core.clients.session import Session
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.text import messages


class Replication:
    """The replicas of this server, and the master that it follows."""

    #: Whether replicas receive every effect. If so, effects must be commands that any Redis supports.
    feeds: bool = False

    @property
    def follows(self) -> bool:
        """Whether this server is a replica."""
        return False

    # -- as a master ------------------------------------------------------------------------------------------------

    def publish(self, argv: list[bytes], *, within: bool) -> None:
        """Send a published message to the subscribers of replicas. ``argv`` is the PUBLISH command.

        The message follows earlier writes in the stream. With ``within``, the command runs in a transaction, and the
        message follows all of the transaction's writes.
        """

    def synchronise(self, session: Session, history_id: bytes, offset: int, *, hands_over: bool = False) -> None:
        """Make the client a replica (PSYNC, SYNC) after the reply of the current command.

        The replica receives the stream of the history ``history_id`` from ``offset`` on (the first missing byte,
        counted from 1). If the stream from this offset is no longer available, or the ID is empty, a file with all data
        is sent first.
        With ``hands_over``, the client is this server's master, and this server takes over as master.
        """
        raise CommandError(messages.NO_REPLICATION)

    def drop(self, session: Session) -> None:
        """Remove a replica whose connection is closed."""

    def acknowledge(self, session: Session, offset: int) -> None:
        """Record that the replica has processed the stream up to ``offset``."""

    def offset(self, *, within: bool = False) -> int:
        """Return the replication offset before the current command.

        If the command is in a transaction (``within``), return the offset before the transaction.
        """
        return 0

    def acknowledged(self, offset: int) -> int:
        """Return the number of replicas that have processed the stream up to ``offset``."""
        return 0

    def wake_when_acknowledged(self, session: Session, *, again: bool) -> None:
        """Request acknowledgements from the replicas, and wake the blocked session once.

        The session is woken when the next acknowledgement arrives or a replica disconnects. ``again``: whether the
        session was woken before and still waits. If so, the request is sent after a pause.
        """

    def fail_over(self, target: tuple[bytes, int] | None, timeout: int, *, force: bool) -> None:
        """Make a replica the master, and become its replica.

        The new master is the replica at ``target``, or the first that is up to date if ``target`` is None. After
        ``timeout`` milliseconds, abandon the failover; if ``timeout`` is 0, there is no time limit. With ``force``, the
        target takes over at the timeout instead, even if it is not up to date.
        """
        raise CommandError(messages.FAILOVER_WITHOUT_REPLICAS)

    def abort_failover(self) -> None:
        """Abandon the failover and remain the master."""
        raise CommandError(messages.NO_FAILOVER)

    # -- as a replica -----------------------------------------------------------------------------------------------

    def follow(self, host: bytes, port: int) -> Reply:
        """Become a replica of another server (REPLICAOF host port)."""
        raise CommandError(messages.NO_REPLICATION)

    def lead(self) -> Reply:
        """Stop following a master (REPLICAOF NO ONE)."""
        return OK

    def tell_master(self) -> None:
        """Send this replica's offset to the master, which requested it with REPLCONF GETACK."""

    # -- information ------------------------------------------------------------------------------------------------

    def role(self) -> Reply:
        """Return the reply of ROLE."""
        return [b"master", 0, []]

    def info(self) -> list[tuple[str, Any]]:
        """Return the lines of INFO replication."""
        return [("role", "master"), ("connected_slaves", 0)]

    def loading(self) -> list[tuple[str, Any]]:
        """Return the lines of INFO persistence about loading a master's data; empty if no data is being loaded."""
        return []

    def statistics(self) -> dict[str, int]:
        """Return ``sync_full``, ``sync_partial_ok`` and ``sync_partial_err`` for INFO stats."""
        return {"sync_full": 0, "sync_partial_ok": 0, "sync_partial_err": 0}

    def reset_statistics(self) -> None:
        """Reset the counters in ``statistics``."""
