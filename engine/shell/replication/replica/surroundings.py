"""What is around a replica, as it knows it: the process, its own replicas, and who hands over to its master."""

from __future__ import annotations

from typing import Protocol

from engine.core.clients.session import Session


class Surroundings(Protocol):
    """What a replica asks of the process around it."""

    #: :meth:`fail` was called: nothing is run any more.
    failed: bool

    def settle(self) -> None:
        """Deliver what the core did while no client's commands ran."""

    def fail(self, error: BaseException) -> None:
        """The state in memory may be half changed: the process ends."""

    def finish(self, session: Session) -> None:
        """Close a client's connection when its replies have left."""


class Downstream(Protocol):
    """The replicas of this server."""

    def send(self, block: bytes) -> None:
        """The history goes on with these bytes, and they get them."""

    #: Up to which offset of the history a replica has acknowledged.
    confirmed: int

    def cut_off_all(self) -> None:
        """The history is another one, or called otherwise: they have to ask again."""

    def begin_following(self, *, keep_replicas: bool) -> None:
        """The server has a master from now on, and does not make the stream. Replicas have to ask again, or stay where
        the history goes on.
        """

    def begin_leading(self) -> None:
        """The server has no master any more."""


class Handover(Protocol):
    """Who hands over to the server that is followed from then on, once, and hears how that ends."""

    def accepted(self) -> None:
        """The other server leads."""

    def rejected(self, why: str) -> None:
        """It does not: this server is to lead again."""
