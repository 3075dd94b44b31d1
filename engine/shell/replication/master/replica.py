"""One replica: its connection, how far its synchronisation is, what waits for it, what it has acknowledged."""

from __future__ import annotations

import asyncio
from typing import Protocol

from engine.core.clients.replica import AsReplica
from engine.core.clients.session import Session
from engine.settings.special_kinds import OutputLimit
from engine.shell.replication.master.states import Sync, SyncEvent, sync


class Peer(Protocol):
    """The connection of a replica."""

    session: Session
    transport: asyncio.Transport
    #: It lets so much of what it is sent pile up that it should be sent no more of a file for now.
    clogged: bool

    def send(self, parts: list[bytes | memoryview]) -> None:
        """Send bytes, behind what was sent before; the connection is cut off where too much piles up."""

    def give_up(self, size: int) -> None:
        """Cut it off: ``size`` bytes wait for it, which is too much."""


#: What INFO and ROLE call the states.
_SHOWN = {Sync.WAITING: "wait_bgsave", Sync.RECEIVING: "send_bulk", Sync.LOADING: "send_bulk", Sync.ONLINE: "online"}


class Replica:
    """See the module. Times are by the clock of whoever makes it, in seconds."""

    __slots__ = (
        "_machine",
        "_over_soft_since",
        "has_answered",
        "heard",
        "offset",
        "on_disk",
        "peer",
        "progress",
        "said",
        "waiting",
        "waiting_size",
        "without_acks",
    )

    def __init__(self, peer: Peer, said: AsReplica, now: float, *, without_acks: bool) -> None:
        self.peer = peer
        self.said = said
        #: It has asked with SYNC: such replicas acknowledge nothing.
        self.without_acks = without_acks
        self._machine = sync()
        #: What happened since the image was taken, which it gets behind the file.
        self.waiting: list[bytes | memoryview] = []
        self.waiting_size = 0
        self._over_soft_since: float | None = None
        #: It has acknowledged something: it has found the end of its file.
        self.has_answered = False
        #: Up to where it has done the stream, and has it on its disk; -1: it has not said so yet.
        self.offset = self.on_disk = -1
        #: When it last said so; when it last took bytes of the file.
        self.heard = self.progress = now

    @property
    def state(self) -> Sync:
        """How far it is."""
        return self._machine.state

    def fire(self, event: SyncEvent) -> None:
        """Something has happened to it."""
        self._machine.fire(event)

    @property
    def name(self) -> str:
        """For the log: where it can be reached."""
        address, port = self.address
        return f"{address}:{port}" if port else address

    @property
    def address(self) -> tuple[str, int]:
        """Where it says that it can be reached: host and port."""
        host = self.said.address or self.peer.session.addr.rpartition(b":")[0].strip(b"[]")
        return host.decode("utf-8", "replace"), self.said.port

    def lag(self, now: float) -> int:
        """Seconds since it last acknowledged something."""
        return max(int(now - self.heard), 0)

    def described(self, now: float) -> str:
        """Its line in INFO."""
        host, port = self.address
        lag = self.lag(now) if self.state is Sync.ONLINE else 0
        return f"ip={host},port={port},state={_SHOWN[self.state]},offset={max(self.offset, 0)},lag={lag}"

    def queue(self, block: bytes, limit: OutputLimit, now: float) -> bool:
        """Keep bytes for behind the file; False where that is more than the limit allows."""
        size = self.waiting_size + len(block)
        over = bool(limit.hard) and size > limit.hard
        if limit.soft and size > limit.soft:
            if self._over_soft_since is None:
                self._over_soft_since = now
            over = over or now - self._over_soft_since >= limit.seconds
        if not over:
            self.waiting.append(block)
        self.waiting_size = size
        return not over

    def drop_waiting(self) -> None:
        """Keep nothing any more."""
        self.waiting, self.waiting_size, self._over_soft_since = [], 0, None

    def release(self) -> None:
        """It is online: send it what has waited."""
        waiting = self.waiting
        self.drop_waiting()
        if waiting:
            self.peer.send(waiting)
