"""The replicas of one master, by what they are sent."""

from __future__ import annotations

from typing import Any

from engine.shell.replication.master.replica import Replica
from engine.shell.replication.master.states import Sync


class Roster:
    """All replicas by session; among them those who are sent the stream, and those for whom it waits behind a file."""

    __slots__ = ("all", "behind", "online")

    def __init__(self) -> None:
        self.all: dict[int, Replica] = {}
        self.online: list[Replica] = []
        self.behind: list[Replica] = []

    def waiting(self) -> list[Replica]:
        """Those who are to get a file that is not being written yet."""
        return [one for one in self.all.values() if one.state is Sync.WAITING]

    def at(self, address: tuple[str, int]) -> Replica | None:
        """The replica that says that it can be reached there."""
        return next((one for one in self.all.values() if one.address == address), None)

    def reachable(self) -> list[Replica]:
        """Those online that have said where they can be reached."""
        return [one for one in self.online if one.said.port]

    def described(self) -> list[list[bytes]]:
        """Those online, as ROLE tells of them."""
        told = ((*one.address, max(one.offset, 0)) for one in self.online)
        return [[host.encode(), b"%d" % port, b"%d" % offset] for host, port, offset in told]

    def lines(self, now: float) -> list[tuple[str, Any]]:
        """INFO's lines: their number, then each of them."""
        known = [one for one in self.all.values() if one.state is not Sync.SERVED]
        each = [(f"slave{number}", one.described(now)) for number, one in enumerate(known)]
        return [("connected_slaves", len(known)), *each]
