"""Collaborators of a replica: the process, its own replicas, and a failover that hands over to its master."""

from __future__ import annotations

from typing import Protocol

from engine.core.clients.session import Session


class ReplicaHost(Protocol):
    """The process, as a replica needs it."""

    #: Whether `fail` was called: no more commands run.
    failed: bool

    def settle(self) -> None:
        """Deliver the results of core work outside a client's command."""

    def fail(self, error: BaseException) -> None:
        """End the process: the data may contain a half-done change."""

    def finish(self, session: Session) -> None:
        """Close a client's connection after sending its replies."""


class Downstream(Protocol):
    """The replicas of this server."""

    def send(self, block: bytes) -> None:
        """Append bytes to the history, and send them to the replicas."""

    #: Offset up to which a replica has acknowledged the stream, or this server has received it from its master.
    confirmed: int

    def cut_off_all(self) -> None:
        """Disconnect all replicas: the history or its ID has changed."""

    def start_following(self, *, keep_replicas: bool) -> None:
        """Stop making the stream: the server becomes a replica. Replicas are disconnected, or kept if the history
        continues.
        """

    def start_leading(self) -> None:
        """Start making the stream: the server becomes a master."""


class Handover(Protocol):
    """A failover to the server that is now followed, with callbacks for its result."""

    def accepted(self) -> None:
        """End the failover: the other server is the master."""

    def rejected(self, why: str) -> None:
        """End the failover: the other server did not become the master, so this server must be the master again."""
