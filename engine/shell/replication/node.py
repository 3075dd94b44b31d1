"""Replication of one server: the core's requests, answered as a master or as a replica.

Both roles share one history: a master extends it, a replica copies that of its master.
"""

# A method that one object answers alone is replaced by that object's method, which saves a forwarding method each.
# mypy: disable-error-code="method-assign"

from __future__ import annotations

import asyncio
import random
from typing import Any

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.environment.replication import Replication
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.shell.clock import Ticker
from engine.shell.durability.disk import DiskDurability
from engine.shell.durability.position import Position
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.failover import Failover
from engine.shell.replication.history import History
from engine.shell.replication.master import Master
from engine.shell.replication.replica import ReplicaRole
from engine.shell.replication.replicas import Clients
from engine.wire.encode import encoded


class Node(Replication):
    """Replication of one server; call ``start`` when the server's data is loaded. ``port``: port for clients."""

    def __init__(
        self, core: Core, clients: Clients, disk: DiskDurability, loop: asyncio.AbstractEventLoop, port: int
    ) -> None:
        self._core = core
        self._disk = disk
        self._loop = loop
        chance = random.SystemRandom()
        self.history = History(lambda: b"%040x" % chance.getrandbits(160), core.config.integer("repl-backlog-size"))
        self.feeds = False
        self.master = Master(core, clients, self.history, loop, disk.workers.save, self._feed)
        self.following = following = ReplicaRole(core, clients, self.master, port)
        self.master.may_serve = lambda: not following.is_on or following.is_up
        self.master.full_syncs.stream_db = lambda: following.stream_db if following.is_on else -1
        self._failover = Failover(core, clients, self.master, following, loop, self.offset)
        self.master.failover_state = lambda: self._failover.shown
        self.master.on_acknowledged = self._failover.check_soon
        # Requests of the core that one object answers alone.
        self.drop = self.master.drop
        self.acknowledge = self.master.acknowledge
        self.acknowledged = self.master.acknowledged
        self.wake_when_acknowledged = self.master.wake_when_acknowledged
        self.fail_over = self._failover.start
        self.abort_failover = self._failover.abort
        self.tell_master = following.tell_master
        self.loading = following.loading
        self._ticker: Ticker | None = None

    def start(self) -> None:
        """Start serving the core's requests."""
        self._core.replication = self
        self._disk.on_other_data = self.master.restart
        self._disk.set_position_source(lambda: self.following.position if self.follows else self.master.position)
        self.master.judge()
        self._ticker = Ticker(self._loop, 1.0, self._tick)
        master = self._core.config.value("replicaof", tuple)
        position = self._disk.loaded
        if position is not None and position.db < len(self._core.databases):
            self._resume(position, leads=not master)
        if master:
            self.follow(master[0], int(master[1]))

    def _resume(self, position: Position, *, leads: bool) -> None:
        """Continue the history at the position of the loaded data. As a replica, this server requests the rest of the
        stream from its master. Replicas of this server that have the same position can continue.
        """
        LOG.info("the data is at offset %d of the history %s", position.offset, position.id.decode())
        self.history.resume(position.id, position.offset)
        self.master.confirmed = position.offset
        self.following.db = position.db
        if leads:
            self.history.lead()
            self.master.start_leading()

    def _feed(self, feeds: bool) -> None:
        self.feeds = feeds
        self._disk.log.feed = self.master.feed if feeds else None

    def _tick(self) -> None:
        if not self._disk.is_ending:
            self.master.tick()

    def stop(self) -> None:
        """Stop everything: the process is exiting."""
        if self._ticker is not None:
            self._ticker.stop()
        self._failover.stop()
        self.following.stop()
        self.master.close()

    # -- requests to a master -----------------------------------------------------------------------------------------

    def publish(self, argv: list[bytes], *, within: bool) -> None:
        if not self.feeds:
            return
        if within:
            self._core.host.after_reply(lambda: self._publish(argv))
        else:
            self._publish(argv)

    def _publish(self, argv: list[bytes]) -> None:
        # Send earlier effects first: a subscriber that receives the message must find the data written before it.
        self._core.host.flush_effects()
        if self.feeds:
            self.master.send(encoded([argv[0].upper(), *argv[1:]]))

    def synchronise(self, session: Session, history_id: bytes, offset: int, *, hands_over: bool = False) -> None:
        if hands_over:
            self._accept_handover(history_id)
        self.master.synchronise(session, history_id, offset)

    def offset(self, *, within: bool = False) -> int:
        if not within:
            self._core.host.flush_effects()
        return self.master.written

    # -- requests to a replica ----------------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Whether this server is a replica."""
        return self.following.is_on

    def follow(self, host: bytes, port: int) -> Reply:
        self._refuse_while_failing_over()
        return self.following.follow(host, port)

    def lead(self) -> Reply:
        self._refuse_while_failing_over()
        self.following.lead()
        return OK

    def _refuse_while_failing_over(self) -> None:
        if self._failover.is_on:
            raise CommandError(b"ERR REPLICAOF not allowed while failing over.")

    def _accept_handover(self, history_id: bytes) -> None:
        """Become the master, at the request of the current master."""
        if not self.follows:
            raise CommandError(b"ERR PSYNC FAILOVER can't be sent to a master.")
        if history_id != self.history.id:
            raise CommandError(b"ERR PSYNC FAILOVER replid must match my replid.")
        if self.following.is_synchronising:
            raise CommandError(b"ERR PSYNC FAILOVER is rejected until this replica has all data of its master.")
        LOG.info("the master hands over to this server")
        self.following.lead()

    # -- facts --------------------------------------------------------------------------------------------------------

    def role(self) -> Reply:
        return self.following.role() if self.follows else self.master.role()

    def info(self) -> list[tuple[str, Any]]:
        role: list[tuple[str, Any]] = [("role", "slave" if self.follows else "master")]
        following = self.following.info() if self.follows else ()
        return [*role, *following, *self.master.info()]

    def statistics(self) -> dict[str, int]:
        master = self.master
        return {"sync_full": master.full, "sync_partial_ok": master.partial, "sync_partial_err": master.refused}

    def reset_statistics(self) -> None:
        self.master.full = self.master.partial = self.master.refused = 0
