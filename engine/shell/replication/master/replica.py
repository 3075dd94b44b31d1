"""One replica: its connection, its synchronisation state, the stream queued for it, its acknowledgements."""

from __future__ import annotations

import asyncio
from typing import Protocol

from engine.core.clients.session import AsReplica, Session
from engine.settings.kinds import OutputLimit
from engine.shell.replication.master.sync_states import Sync, SyncEvent, sync


class Peer(Protocol):
    """The connection of a replica."""

    session: Session
    transport: asyncio.Transport
    #: Whether the replica has too many unread bytes to receive more of a file now.
    clogged: bool
    #: Number of bytes received from the replica.
    received: int

    def send(self, parts: list[bytes | memoryview]) -> None:
        """Send bytes in order; the connection is closed if too many are unread."""

    def give_up(self, size: int) -> None:
        """Disconnect the replica, because ``size`` bytes waiting for it are too many."""


#: Names of the states in INFO.
_SHOWN = {Sync.WAITING: "wait_bgsave", Sync.RECEIVING: "send_bulk", Sync.ONLINE: "online"}


class Replica:
    """State of one replica. Times are in seconds, by the master's monotonic clock."""

    __slots__ = (
        "_machine",
        "_over_soft_since",
        "announced",
        "last_ack",
        "last_sign",
        "offset",
        "on_disk",
        "peer",
        "received",
        "waiting",
        "waiting_size",
        "without_acks",
    )

    def __init__(self, peer: Peer, announced: AsReplica, now: float, *, without_acks: bool) -> None:
        self.peer = peer
        self.announced = announced
        #: Whether the replica connected with SYNC, and so sends no acknowledgements.
        self.without_acks = without_acks
        self._machine = sync()
        #: The stream since the image was taken, to be sent after the file.
        self.waiting: list[bytes | memoryview] = []
        self.waiting_size = 0
        self._over_soft_since: float | None = None
        #: Offset up to which the replica has applied the stream; -1 if unknown.
        self.offset = -1
        #: Offset up to which the replica has synced the stream to disk; -1 if unknown.
        self.on_disk = -1
        #: Time of the last acknowledgement.
        self.last_ack = now
        #: Time of the last sign of life: reading some of the file; once online, sending anything.
        self.last_sign = now
        #: Number of bytes received from the replica at ``last_sign``.
        self.received = 0

    @property
    def state(self) -> Sync:
        """State of the synchronisation."""
        return self._machine.state

    def fire(self, event: SyncEvent) -> None:
        """Report an event to the state machine."""
        self._machine.fire(event)

    @property
    def name(self) -> str:
        """Address of the replica, for the log."""
        address, port = self.address
        return f"{address}:{port}" if port else address

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that the replica announced for clients. Without an announced host, the host of its connection;
        without an announced port, 0.
        """
        host = self.announced.address or self.peer.session.addr.rpartition(b":")[0].strip(b"[]")
        return host.decode("utf-8", "replace"), self.announced.port

    def has_sent_more(self) -> bool:
        """Return whether the replica has sent bytes since the last call. While it loads, it sends empty lines."""
        before, self.received = self.received, self.peer.received
        return before != self.received

    def lag(self, now: float) -> int:
        """Return the seconds since the replica's last acknowledgement."""
        return max(int(now - self.last_ack), 0)

    def described(self, now: float) -> str:
        """Return the replica's line in INFO."""
        host, port = self.address
        lag = self.lag(now) if self.state is Sync.ONLINE else 0
        return f"ip={host},port={port},state={_SHOWN[self.state]},offset={max(self.offset, 0)},lag={lag}"

    def queue(self, block: bytes, limit: OutputLimit, now: float) -> bool:
        """Queue bytes of the stream, to be sent after the file; return False if the queue exceeds the limit."""
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
        """Drop the queued bytes."""
        self.waiting, self.waiting_size, self._over_soft_since = [], 0, None

    def release(self) -> None:
        """Send the queued bytes: the replica is online."""
        waiting = self.waiting
        self.drop_waiting()
        if waiting:
            self.peer.send(waiting)
