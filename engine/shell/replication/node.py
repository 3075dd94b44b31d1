"""A server among others: what the core asks of replication, answered by its two sides.

The history is one for both: as a master this server makes it, as a replica it passes on its master's.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.shell.durability.disk import DiskDurability
from engine.shell.replication.history import History
from engine.shell.replication.master.master import Clients, Master
from engine.shell.replication.waiters import AckWaiters
from engine.text.messages import server
from engine.wire.encode import encoded


class Node:
    """One server's. ``start`` when its data are loaded."""

    follows = False

    def __init__(self, core: Core, clients: Clients, disk: DiskDurability, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._clients = clients
        self._disk = disk
        self._loop = loop
        chance = random.SystemRandom()
        self.history = History(lambda: b"%040x" % chance.getrandbits(160), core.config.integer("repl-backlog-size"))
        self.feeds = False
        self.master = Master(core, clients, self.history, loop, disk.workers.save, self._feed, chance.randrange)
        self._waiters = AckWaiters(core, loop, clients.settle)
        self.master.on_acknowledged = self._waiters.wake
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to answer the core."""
        self._core.replication = self
        self.master.judge()
        self._tick()

    def _feed(self, feeds: bool) -> None:
        self.feeds = feeds
        self._disk.feed = self.master.feed if feeds else None

    def _tick(self) -> None:
        # First, so that an error does not end the ticking.
        self._ticker = self._loop.call_later(1.0, self._tick)
        self.master.tick()

    def stop(self) -> None:
        """The end."""
        if self._ticker is not None:
            self._ticker.cancel()
        self.master.close()

    # -- as a master --------------------------------------------------------------------------------------------------

    def publish(self, channel: bytes, message: bytes) -> None:
        if self.feeds:
            self.master.send(encoded([b"PUBLISH", channel, message]))

    def synchronise(self, session: Session, history_id: bytes, offset: int) -> None:
        self.master.synchronise(session, history_id, offset)

    def drop(self, session: Session) -> None:
        self.master.drop(session)

    def acknowledge(self, session: Session, offset: int, on_disk: int) -> None:
        self.master.acknowledge(session, offset, on_disk)

    def offset(self, *, within: bool = False) -> int:
        if not within:
            self._disk.flush_effects()
        return self.master.written

    def acknowledged(self, offset: int, *, on_disk: bool = False) -> int:
        return self.master.acknowledged(offset, on_disk=on_disk)

    def wake_when_acknowledged(self, session: Session) -> None:
        self._waiters.add(session)
        self.master.ask_soon()

    # -- as a replica -------------------------------------------------------------------------------------------------

    def follow(self, host: bytes, port: int) -> Reply:
        del host, port
        raise CommandError(server.NO_REPLICATION)

    def lead(self) -> Reply:
        return OK

    def tell_master(self) -> None:
        """There is none."""

    # -- what is told -------------------------------------------------------------------------------------------------

    def role(self) -> Reply:
        return self.master.role()

    def info(self) -> list[tuple[str, Any]]:
        return [("role", "master"), *self.master.info()]

    def statistics(self) -> dict[str, int]:
        master = self.master
        return {"sync_full": master.full, "sync_partial_ok": master.partial, "sync_partial_err": master.refused}
