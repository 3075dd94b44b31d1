"""FAILOVER, by which a master hands over to a replica.

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
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

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


#: Name of the reason to hold writes and expiry.
_OWNER = "failover"


class Failover:
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
        self._core = core
        self._loop = loop
        self._clients = clients
        self._master = master
        self._following = following
        self._offset = offset
        self._stage = Stage.NONE
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
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
        self._core.divided.finish_all()
        self._core.pause.start(self._core.changes.now, NEVER, holds_all=False, owner=_OWNER)
        self._core.changes.hold_expiry(_OWNER, NEVER)
        if timeout:
            self._timer = self._loop.call_later(timeout / 1000, self._time_out)
        self._master.request_acks_soon()
        self.check_soon()

    def abort(self) -> None:
        """Run FAILOVER ABORT."""
        if not self.is_on:
            raise CommandError(messages.NO_FAILOVER)
        self._lead_again("FAILOVER ABORT")

    def stop(self) -> None:
        """Give up: the process is exiting."""
        self._stage = Stage.NONE
        self._cancel_timer()

    # -- events -------------------------------------------------------------------------------------------------------

    def check_soon(self) -> None:
        """While waiting, check after the current command, when the command's effects are in the stream. Call this when
        a replica may have caught up, or has disconnected.
        """
        if self._stage is Stage.WAITING and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._check)

    def _check(self) -> None:
        self._is_due = False
        if self._stage is not Stage.WAITING:
            return
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

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hand_over(self, replica: Replica) -> None:
        LOG.info("failover: %s has caught up, handing over", replica.name)
        self._hand_over_to(*replica.address)

    def _hand_over_to(self, host: str, port: int) -> None:
        self._stage = Stage.HANDING_OVER
        self._cancel_timer()
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
        self._release_writes()

    def _lead_again(self, why: str) -> None:
        LOG.warning("failover to %s failed, this server remains the master: %s", _shown(self._target), why)
        self._stage = Stage.NONE
        self._following.lead()
        self._release_writes()

    def _release_writes(self) -> None:
        self._cancel_timer()
        self._core.pause.end(_OWNER)
        self._core.changes.hold_expiry(_OWNER, 0)
        self._core.host.follow_pause()


def _shown(address: tuple[str, int] | None) -> str:
    return f"{address[0]}:{address[1]}" if address is not None else "any replica"
