"""What the core asks of whoever keeps replicas, or follows a master. The shell puts its own in place of
:class:`WithoutReplicas`.

Methods that can fail raise a CommandError with the reply's text. Offsets count the bytes of the replication stream, the
commands that replicas get. Nothing here does I/O, and the core does not know how it is done.
"""

from __future__ import annotations

from typing import Any, Protocol

from engine.core.clients.session import Session
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.text.messages import persistence, server

#: The id of a history that nobody has.
_NO_ID = "0" * 40


class Replication(Protocol):
    """The replicas of this server, and the master that it follows."""

    #: Replicas get every effect: only commands that any Redis knows may be effects.
    feeds: bool
    #: This server is a replica.
    follows: bool

    # -- as a master ------------------------------------------------------------------------------------------------

    def publish(self, argv: list[bytes], *, within: bool) -> None:
        """A message was published by ``argv``, PUBLISH or SPUBLISH: subscribers at replicas get it too, behind what was
        written before; ``within`` a transaction behind all of that.
        """

    def synchronise(self, session: Session, history_id: bytes, offset: int, *, hands_over: bool = False) -> None:
        """Make the client a replica (PSYNC, SYNC), after the reply of the present command: what it is sent from then
        on is the stream from ``offset`` (the first byte that it lacks, counted from 1) of the history ``history_id``;
        where that is not there any more, or the id is empty, a file with all data comes first.

        ``hands_over``: the client is the master that this server follows, and this server is to lead instead.
        """

    def drop(self, session: Session) -> None:
        """The replica's connection is closed."""

    def acknowledge(self, session: Session, offset: int, on_disk: int) -> None:
        """The replica has done the stream up to ``offset``, and has it on its disk up to ``on_disk`` (-1: not said)."""

    def offset(self, *, within: bool = False) -> int:
        """Where the stream ends that everything before the present command has made. ``within`` a transaction its own
        commands do not count.
        """

    def acknowledged(self, offset: int, *, on_disk: bool = False) -> int:
        """How many replicas have the stream up to an offset, in memory or on their disks."""

    def wake_when_acknowledged(self, session: Session, *, again: bool) -> None:
        """Ask replicas how far they are; wake the blocked session once when one of them has said so."""

    def fail_over(self, target: tuple[bytes, int] | None, timeout: int, *, force: bool) -> None:
        """Hand over to the first replica that has everything, or to the one at ``target``, and follow it from then on.

        After ``timeout`` milliseconds (0: never) nothing is handed over; with ``force`` the target leads all the same.
        """

    def abort_failover(self) -> None:
        """Go on as a master."""

    def delays_shutdown(self, words: frozenset[bytes], caller: Session | None) -> bool:
        """Whether the process ends later, as SHUTDOWN's ``words`` say, because replicas lack something: then the client
        ``caller``, if it is one, waits. Otherwise whoever asks ends it now.
        """

    def shutdown_left(self) -> int | None:
        """How many milliseconds the end waits for replicas at most from now on; None where nobody waits."""

    def abort_shutdown(self) -> None:
        """Do not end, after all."""

    # -- as a replica -----------------------------------------------------------------------------------------------

    def follow(self, host: bytes, port: int) -> Reply:
        """Become a replica of another server (REPLICAOF host port)."""

    def lead(self) -> Reply:
        """Follow no other server any more (REPLICAOF NO ONE)."""

    def tell_master(self) -> None:
        """The master wants to know how far this replica is (REPLCONF GETACK)."""

    # -- what is told -----------------------------------------------------------------------------------------------

    def role(self) -> Reply:
        """The reply of ROLE."""

    def info(self) -> list[tuple[str, Any]]:
        """The lines of INFO replication."""

    def loading(self) -> list[tuple[str, Any]]:
        """The lines of INFO persistence about a master's data that are being read; none: there are no such data."""

    def statistics(self) -> dict[str, int]:
        """``sync_full``, ``sync_partial_ok`` and ``sync_partial_err`` for INFO stats."""


class WithoutReplicas:
    """There are none, and none can come."""

    feeds = False
    follows = False

    def publish(self, argv: list[bytes], *, within: bool) -> None:
        """Nobody is far away."""

    def synchronise(self, session: Session, history_id: bytes, offset: int, *, hands_over: bool = False) -> None:
        del session, history_id, offset, hands_over
        raise CommandError(server.NO_REPLICATION)

    def drop(self, session: Session) -> None:
        """It was none."""

    def acknowledge(self, session: Session, offset: int, on_disk: int) -> None:
        """Whoever says so is no replica."""

    def offset(self, *, within: bool = False) -> int:
        del within
        return 0

    def acknowledged(self, offset: int, *, on_disk: bool = False) -> int:
        del offset, on_disk
        return 0

    def wake_when_acknowledged(self, session: Session, *, again: bool) -> None:
        """Nobody will ever acknowledge anything."""

    def fail_over(self, target: tuple[bytes, int] | None, timeout: int, *, force: bool) -> None:
        del target, timeout, force
        raise CommandError(server.FAILOVER_WITHOUT_REPLICAS)

    def abort_failover(self) -> None:
        raise CommandError(server.NO_FAILOVER)

    def delays_shutdown(self, words: frozenset[bytes], caller: Session | None) -> bool:
        del words, caller
        return False

    def shutdown_left(self) -> int | None:
        return None

    def abort_shutdown(self) -> None:
        raise CommandError(persistence.NO_SHUTDOWN)

    def follow(self, host: bytes, port: int) -> Reply:
        del host, port
        raise CommandError(server.NO_REPLICATION)

    def lead(self) -> Reply:
        return OK

    def tell_master(self) -> None:
        """There is none."""

    def role(self) -> Reply:
        return [b"master", 0, []]

    def info(self) -> list[tuple[str, Any]]:
        return [
            ("role", "master"),
            ("connected_slaves", 0),
            ("master_failover_state", "no-failover"),
            ("master_replid", _NO_ID),
            ("master_replid2", _NO_ID),
            ("master_repl_offset", 0),
            ("second_repl_offset", -1),
            ("repl_backlog_active", 0),
            ("repl_backlog_size", 0),
            ("repl_backlog_first_byte_offset", 0),
            ("repl_backlog_histlen", 0),
        ]

    def loading(self) -> list[tuple[str, Any]]:
        return []

    def statistics(self) -> dict[str, int]:
        return {"sync_full": 0, "sync_partial_ok": 0, "sync_partial_err": 0}
