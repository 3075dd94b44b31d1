"""Replication of one server: the core's requests, answered as a master or as a replica.

Both roles share one history: a master extends it, a replica copies that of its master.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Protocol

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.shell.clock import now_us
from engine.shell.durability.disk import DiskDurability
from engine.shell.durability.position import Position
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.failover import Failover
from engine.shell.replication.history import History
from engine.shell.replication.master.full_syncs import Clients
from engine.shell.replication.master.master import Master
from engine.shell.replication.replica.collaborators import ReplicaHost
from engine.shell.replication.replica.replica_role import ReplicaRole
from engine.shell.replication.shutdown import Shutdown
from engine.shell.replication.waiters import AckWaiters
from engine.text import messages
from engine.wire.encode import encoded


class AllClients(Clients, ReplicaHost, Protocol):
    """The runner of client commands, as both roles need it."""


class Node:
    """Replication of one server; call ``start`` when the server's data is loaded. ``port``: port for clients."""

    def __init__(
        self, core: Core, clients: AllClients, disk: DiskDurability, loop: asyncio.AbstractEventLoop, port: int
    ) -> None:
        self._core = core
        self._clients = clients
        self._disk = disk
        self._loop = loop
        chance = random.SystemRandom()
        self.history = History(lambda: b"%040x" % chance.getrandbits(160), core.config.integer("repl-backlog-size"))
        self.feeds = False
        self.master = Master(core, clients, self.history, loop, disk.workers.save, self._feed)
        self.following = ReplicaRole(core, clients, self.master, self.history, port)
        self.follows = False
        self.master.may_serve = lambda: not self.follows or self.following.is_up
        self.master.full_syncs.stream_db = lambda: self.following.stream_db if self.follows else -1
        self._waiters = AckWaiters(core, loop, clients.settle, self.master.request_acks_soon)
        self._failover = Failover(core, self.master, self, loop, self.offset)
        self._shutdown = Shutdown(core, self.master, loop, clients.settle, self.offset)
        self.master.failover_state = lambda: self._failover.shown
        self.master.on_acknowledged = self._acknowledged
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start serving the core's requests."""
        self._core.replication = self
        self._disk.on_other_data = self.master.restart
        self._disk.set_position_source(lambda: self.following.position if self.follows else self.master.position)
        self.master.judge()
        self._tick()
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
        self.following.resume(position.db)
        if leads:
            self.history.lead()
            self.master.start_leading()

    def _feed(self, feeds: bool) -> None:
        self.feeds = feeds
        self._disk.feed = self.master.feed if feeds else None

    def _acknowledged(self) -> None:
        self._waiters.wake()
        self._failover.check_soon()
        self._shutdown.check_soon()

    def _tick(self) -> None:
        # Schedule the next tick first, so that an error does not stop the timer.
        self._ticker = self._loop.call_later(1.0, self._tick)
        if not self._disk.is_ending:
            self.master.tick()

    def stop(self) -> None:
        """Stop everything: the process is exiting."""
        if self._ticker is not None:
            self._ticker.cancel()
        self._failover.stop()
        self._shutdown.stop()
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

    def drop(self, session: Session) -> None:
        self.master.drop(session)

    def acknowledge(self, session: Session, offset: int, on_disk: int) -> None:
        self.master.acknowledge(session, offset, on_disk)

    def offset(self, *, within: bool = False) -> int:
        if not within:
            self._core.host.flush_effects()
        return self.master.written

    def acknowledged(self, offset: int, *, on_disk: bool = False) -> int:
        return self.master.acknowledged(offset, on_disk=on_disk)

    def wake_when_acknowledged(self, session: Session, *, again: bool) -> None:
        self._waiters.add(session, again=again)

    def fail_over(self, target: tuple[bytes, int] | None, timeout: int, *, force: bool) -> None:
        self._failover.start(target, timeout, force=force)

    def abort_failover(self) -> None:
        self._failover.abort()

    def delays_shutdown(self, words: frozenset[bytes], caller: Session | None) -> bool:
        return self._shutdown.delays(words, caller)

    def shutdown_left(self) -> int | None:
        return self._shutdown.left

    def abort_shutdown(self) -> None:
        self._shutdown.abort()

    # -- requests to a replica ----------------------------------------------------------------------------------------

    def follow(self, host: bytes, port: int) -> Reply:
        self._refuse_while_failing_over()
        reply = self.following.follow(host, port)
        self.follows = True
        return reply

    def lead(self) -> Reply:
        self._refuse_while_failing_over()
        self.become_master()
        return OK

    def _refuse_while_failing_over(self) -> None:
        if self._failover.is_on:
            raise CommandError(messages.FAILING_OVER)

    def hand_over(self, host: bytes, port: int) -> None:
        """Follow a server that is to become the master."""
        self.follows = True
        self.following.follow(host, port, self._failover)
        # Send blocked clients their errors.
        self._clients.settle()

    def become_master(self) -> None:
        """Become a master."""
        self.follows = False
        self.following.lead()

    def _accept_handover(self, history_id: bytes) -> None:
        """Become the master, at the request of the current master."""
        if not self.follows:
            raise CommandError(messages.HANDED_OVER_TO_MASTER)
        if history_id != self.history.id:
            raise CommandError(messages.HANDED_OVER_BY_ANOTHER)
        if self.following.is_synchronising:
            raise CommandError(messages.HANDED_OVER_TOO_EARLY)
        LOG.info("the master hands over to this server")
        self.become_master()

    def tell_master(self) -> None:
        self.following.tell_master()

    # -- facts --------------------------------------------------------------------------------------------------------

    def role(self) -> Reply:
        return self.following.role_report().role() if self.follows else self.master.role()

    def info(self) -> list[tuple[str, Any]]:
        role: list[tuple[str, Any]] = [("role", "slave" if self.follows else "master")]
        following = self.following.role_report().info(self._core.config) if self.follows else ()
        return [*role, *following, *self.master.info()]

    def loading(self) -> list[tuple[str, Any]]:
        return self.following.role_report().loading(now_us() // 1_000_000)

    def statistics(self) -> dict[str, int]:
        master = self.master
        return {"sync_full": master.full, "sync_partial_ok": master.partial, "sync_partial_err": master.refused}

    def reset_statistics(self) -> None:
        self.master.full = self.master.partial = self.master.refused = 0
