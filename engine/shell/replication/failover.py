"""Waiting for replicas: FAILOVER, by which a master hands over to a replica, and the shutdown of a master.

              FAILOVER            caught up                 accepted, rejected, ABORT
    NONE ───────────────> WAITING ─────────────────> HANDING_OVER ──────────────────────────> NONE
                             │
                             └── timeout, ABORT ───> NONE

During a failover, clients that write wait, so that a replica can catch up. WAITING ends when a replica has caught up,
when the timeout expires, or by FAILOVER ABORT. If a replica has caught up, or if the timeout expires with FORCE, the
two servers exchange roles; otherwise this server remains the master. To exchange roles, this server sends a PSYNC with
the option FAILOVER to the other server, which makes that server the master. If the reply is negative, or the link
breaks before the reply, this server becomes the master again, under a new history ID. If the link breaks before PSYNC
is sent, or cannot be opened, the attempt is repeated until FAILOVER ABORT.

A shutdown waits in the same way, until all replicas have acknowledged everything, after ``shutdown-timeout``, or by
SHUTDOWN NOW. Then unsaved data is saved, unless SHUTDOWN NOSAVE was called, and the process exits. If saving fails, the
server continues, unless SHUTDOWN FORCE was called. After SHUTDOWN ABORT, the server continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.keyspace.changes import NEVER
from engine.core.protocol.replies import CommandError
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.master import Master
from engine.shell.replication.replica import ReplicaRole
from engine.shell.replication.replicas import Clients, Replica, Sync
from engine.text import messages


class Stage(Enum):
    """Stage of a failover. The values are those of INFO."""

    NONE = "no-failover"
    #: No replica has caught up yet.
    WAITING = "waiting-for-sync"
    #: A replica was asked to become the master.
    HANDING_OVER = "failover-in-progress"


class HeldWrites:
    """A wait for replicas while writes and expiry are held. ``owner``: name of the reason to hold them."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, owner: str) -> None:
        self._core = core
        self._loop = loop
        self._owner = owner
        self._timer: asyncio.TimerHandle | None = None
        #: Whether replicas may still catch up.
        self._waits = False
        self._is_due = False

    def hold(self, seconds: float) -> None:
        """Hold writes and wait for replicas. After ``seconds``, the wait times out; 0 waits indefinitely."""
        self._core.divided.finish_all()
        self._core.pause.start(self._core.changes.now, NEVER, holds_all=False, owner=self._owner)
        self._core.changes.hold_expiry(self._owner, NEVER)
        self._waits = True
        if seconds:
            self._timer = self._loop.call_later(seconds, self._time_out)

    def _check(self) -> None:
        """Handle that a replica may have caught up."""

    def _time_out(self) -> None:
        """Handle the end of the time for replicas."""

    def check_soon(self) -> None:
        """While waiting, check after the current command, when the command's effects are in the stream. Call this when
        a replica may have caught up, or has disconnected.
        """
        if self._waits and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._check_now)

    def _check_now(self) -> None:
        self._is_due = False
        if self._waits:
            self._check()

    def stop_waiting(self) -> None:
        """Stop waiting for replicas; writes remain held."""
        self._waits = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Stop waiting, and release the writes."""
        self.stop_waiting()
        self._core.pause.end(self._owner)
        self._core.changes.hold_expiry(self._owner, 0)
        self._core.host.follow_pause()


class Failover(HeldWrites):
    """Failover of one server. ``offset`` flushes the effects so far, and then returns the replication offset."""

    def __init__(
        self,
        core: Core,
        clients: Clients,
        master: Master,
        following: ReplicaRole,
        loop: asyncio.AbstractEventLoop,
        offset: Callable[[], int],
    ) -> None:
        super().__init__(core, loop, "failover")
        self._clients = clients
        self._master = master
        self._following = following
        self._offset = offset
        self._stage = Stage.NONE
        self._target: tuple[str, int] | None = None
        self._force = False

    @property
    def is_on(self) -> bool:
        """Whether a failover is in progress."""
        return self._stage is not Stage.NONE

    @property
    def shown(self) -> str:
        """Stage, as INFO shows it."""
        return str(self._stage.value)

    # -- commands -----------------------------------------------------------------------------------------------------

    def start(self, target: tuple[bytes, int] | None, timeout: int, *, force: bool) -> None:
        """Start a FAILOVER; see `engine.core.environment.replication.Replication`."""
        if self.is_on:
            raise CommandError(b"ERR FAILOVER already in progress.")
        if self._following.is_on:
            raise CommandError(b"ERR FAILOVER is not valid when server is a replica.")
        if not self._master.replicas:
            raise CommandError(messages.FAILOVER_WITHOUT_REPLICAS)
        if force and not (target and timeout):
            raise CommandError(b"ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
        address = (target[0].decode("utf-8", "replace"), target[1]) if target else None
        if address is not None:
            replica = next((known for known in self._master.replicas.values() if known.address == address), None)
            if replica is None:
                raise CommandError(b"ERR FAILOVER target HOST and PORT is not a replica.")
            if replica.state is not Sync.ONLINE:
                raise CommandError(b"ERR FAILOVER target replica is not online.")
        LOG.info("failover to %s started, holding writes", _shown(address))
        self._stage = Stage.WAITING
        self._target, self._force = address, force
        self.hold(timeout / 1000)
        self._master.request_acks_soon()
        self.check_soon()

    def abort(self) -> None:
        """Run FAILOVER ABORT."""
        if not self.is_on:
            raise CommandError(messages.NO_FAILOVER)
        self._lead_again("FAILOVER ABORT")

    # -- events -------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        offset = self._offset()
        for replica in self._master.online:
            # Without a port, a replica cannot be followed.
            if replica.announced.port and replica.offset >= offset and self._target in (None, replica.address):
                self._hand_over(replica)
                return

    def _time_out(self) -> None:
        if self._force and self._target is not None:
            LOG.warning("failover: %s has not caught up, handing over anyway (FORCE)", _shown(self._target))
            self._hand_over_to(*self._target)
        else:
            self._lead_again("no replica caught up in time")

    def _hand_over(self, replica: Replica) -> None:
        LOG.info("failover: %s has caught up, handing over", replica.name)
        self._hand_over_to(*replica.address)

    def _hand_over_to(self, host: str, port: int) -> None:
        self._stage = Stage.HANDING_OVER
        self.stop_waiting()
        self._following.follow(host.encode(), port, self._handed_over)
        # Send blocked clients their errors.
        self._clients.settle()

    def _handed_over(self, why_not: str) -> None:
        """End the failover: the other server is the master, or has rejected this for a reason."""
        if why_not:
            self._lead_again(why_not)
            return
        self._stage = Stage.NONE
        LOG.info("failover completed")
        self.end()

    def _lead_again(self, why: str) -> None:
        LOG.warning("failover to %s failed, this server remains the master: %s", _shown(self._target), why)
        self._stage = Stage.NONE
        self._following.lead()
        self.end()


def _shown(address: tuple[str, int] | None) -> str:
    return f"{address[0]}:{address[1]}" if address is not None else "any replica"


class Shutdown(HeldWrites):
    """Shutdown of one server. ``offset`` flushes the effects so far, and then returns the replication offset."""

    def __init__(
        self,
        core: Core,
        clients: Clients,
        master: Master,
        loop: asyncio.AbstractEventLoop,
        offset: Callable[[], int],
    ) -> None:
        super().__init__(core, loop, "shutdown")
        self._clients = clients
        self._master = master
        self._offset = offset
        self._words: frozenset[bytes] = frozenset()
        #: Clients that have called SHUTDOWN, and receive an error if the shutdown fails.
        self._callers: dict[Session, None] = {}

    # -- commands and signals -----------------------------------------------------------------------------------------

    def delays(self, words: frozenset[bytes], caller: Session | None) -> bool:
        """Start the shutdown; return whether it waits for replicas. If it does not wait, the process must exit now.

        ``words``: options of SHUTDOWN. ``caller``: client that requested the shutdown, if any. The client waits, and
        receives an error if the shutdown fails.
        """
        self._core.divided.finish_all()
        seconds = self._core.config.integer("shutdown-timeout")
        if self._waits:
            if b"NOW" in words:
                self._loop.call_soon(self._finish)
        elif b"NOW" not in words and seconds and self._lagging():
            self._wait(words, seconds)
        else:
            self._report()
            return False
        if caller is not None:
            self._callers[caller] = None
        return True

    def left(self) -> int | None:
        """Return the remaining time to wait in milliseconds; None if no shutdown is waiting."""
        if not self._waits:
            return None
        return round(1000 * max(self._timer.when() - self._loop.time(), 0.0)) if self._timer is not None else 0

    def abort(self) -> None:
        """Run SHUTDOWN ABORT."""
        if not self._waits:
            raise CommandError(messages.NO_SHUTDOWN)
        LOG.warning("shutdown cancelled (SHUTDOWN ABORT)")
        self.stop_waiting()
        self._loop.call_soon(self._go_on)

    # -- events -------------------------------------------------------------------------------------------------------

    def _wait(self, words: frozenset[bytes], seconds: int) -> None:
        LOG.info("shutdown waits up to %d seconds for replicas to catch up, holding writes", seconds)
        self._words = words
        self.hold(seconds)
        self._master.request_acks_soon()

    def _check(self) -> None:
        if not self._lagging():
            self._finish()

    def _time_out(self) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self._waits:
            return
        self.stop_waiting()
        self._report()
        try:
            self._core.durability.prepare_shutdown(set(self._words - {b"NOW"}))
        except CommandError:
            LOG.warning("shutdown cancelled, because the data could not be written")
            self._go_on()
        else:
            self._core.host.shut_down()

    def _go_on(self) -> None:
        """Cancel the shutdown: held writes continue, and the callers of SHUTDOWN get an error."""
        callers, self._callers = self._callers, {}
        for caller in callers:
            if caller.waiter is not None:
                self._core.sessions.end_wait(caller, CommandError(messages.SHUTDOWN_FAILED))
        self.end()
        self._clients.settle()

    # -- lagging replicas ---------------------------------------------------------------------------------------------

    def _replicas(self) -> list[Replica]:
        """Return the replicas to wait for: those that acknowledge the stream, now or after receiving their file."""
        known = self._master.replicas.values() if self._master.leads else ()
        return [replica for replica in known if replica.state is not Sync.SERVED and not replica.without_acks]

    def _lagging(self) -> list[Replica]:
        replicas = self._replicas()
        offset = self._offset() if replicas else 0
        return [replica for replica in replicas if replica.state is not Sync.ONLINE or replica.offset < offset]

    def _report(self) -> None:
        replicas, lagging = self._replicas(), self._lagging()
        for replica in lagging:
            behind = max(self._master.written - max(replica.offset, 0), 0)
            LOG.warning(
                "replica %s (%s) is %d bytes behind at shutdown", replica.name, replica.state.name.lower(), behind
            )
        if replicas:
            LOG.info("%d of %d replicas have caught up", len(replicas) - len(lagging), len(replicas))
