"""Roster of a master's replicas, by the data that they receive."""

from __future__ import annotations

from typing import Any

from engine.shell.replication.master.replica import Replica
from engine.shell.replication.master.sync_states import Sync


class Roster:
    """Replicas of one master. ``all``: by session ID; ``online``: those that receive the stream; ``behind``: those for
    which the stream is queued.
    """

    __slots__ = ("all", "behind", "online")

    def __init__(self) -> None:
        self.all: dict[int, Replica] = {}
        self.online: list[Replica] = []
        self.behind: list[Replica] = []

    def waiting(self) -> list[Replica]:
        """Return the replicas that need a file which is not being written yet."""
        return [replica for replica in self.all.values() if replica.state is Sync.WAITING]

    def at(self, address: tuple[str, int]) -> Replica | None:
        """Return the replica with this announced address, None if no replica has it."""
        return next((replica for replica in self.all.values() if replica.address == address), None)

    def reachable(self) -> list[Replica]:
        """Return the online replicas that have announced a port."""
        return [replica for replica in self.online if replica.announced.port]

    def described(self) -> list[list[bytes]]:
        """Return the online replicas in the form of ROLE."""
        rows = ((*replica.address, max(replica.offset, 0)) for replica in self.online)
        return [[host.encode(), b"%d" % port, b"%d" % offset] for host, port, offset in rows]

    def lines(self, now: float) -> list[tuple[str, Any]]:
        """Return INFO's lines: the number of replicas, then a line for each replica."""
        known = [replica for replica in self.all.values() if replica.state is not Sync.SERVED]
        each = [(f"slave{number}", replica.described(now)) for number, replica in enumerate(known)]
        return [("connected_slaves", len(known)), *each]
