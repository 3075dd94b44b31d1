"""FAILOVER: a master hands over to one of its replicas, and follows it from then on.

                BEGIN                  SYNCED                     ACCEPTED, REJECTED, ABORT
    NONE ───────────────> WAITING ─────────────────> HANDING_OVER ──────────────────────────> NONE
                             │
                             └── GIVEN_UP, ABORT ──> NONE

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
from enum import Enum, auto
from typing import Protocol

from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError
from engine.shell.observation.log_lines import LOG
from engine.shell.replication.held_writes import HeldWrites
from engine.shell.replication.master.master import Master
from engine.shell.replication.master.replica import Replica
from engine.shell.replication.master.sync_states import Sync
from engine.text import messages
from streamwire.machine import Machine


class Stage(Enum):
    """Stage of a failover. The values are those of INFO."""

    NONE = "no-failover"
    #: No replica has caught up yet.
    WAITING = "waiting-for-sync"
    #: A replica was asked to become the master.
    HANDING_OVER = "failover-in-progress"


class FailoverEvent(Enum):
    """Events of a failover."""

    BEGIN = auto()
    SYNCED = auto()
    GIVEN_UP = auto()
    ACCEPTED = auto()
    REJECTED = auto()
    ABORT = auto()


_S, _E = Stage, FailoverEvent
TABLE = {
    (_S.NONE, _E.BEGIN): _S.WAITING,
    (_S.WAITING, _E.SYNCED): _S.HANDING_OVER,
    (_S.WAITING, _E.GIVEN_UP): _S.NONE,
    (_S.WAITING, _E.ABORT): _S.NONE,
    (_S.HANDING_OVER, _E.ACCEPTED): _S.NONE,
    (_S.HANDING_OVER, _E.REJECTED): _S.NONE,
    (_S.HANDING_OVER, _E.ABORT): _S.NONE,
}


def failover() -> Machine[Stage, FailoverEvent]:
    """Return a new state machine, in which no failover is in progress."""
    return Machine("the failover", TABLE, Stage.NONE)


class Roles(Protocol):
    """Owner of this server's role: master, or replica of another server."""

    follows: bool

    def hand_over(self, host: bytes, port: int) -> None:
        """Follow a server that is to become the master."""

    def become_master(self) -> None:
        """Become the master again."""


class Failover:
    """Failover of one server. ``offset`` flushes the effects so far, and then returns the replication offset."""

    def __init__(
        self, core: Core, master: Master, roles: Roles, loop: asyncio.AbstractEventLoop, offset: Callable[[], int]
    ) -> None:
        self._core = core
        self._master = master
        self._roles = roles
        self._offset = offset
        self._machine = failover()
        self._target: tuple[str, int] | None = None
        self._force = False
        self._held = HeldWrites(core, loop, "failover", self._check)
        #: Function to call when a replica may have caught up.
        self.check_soon = self._held.check_soon

    @property
    def is_on(self) -> bool:
        """Whether a failover is in progress."""
        return self._machine.state is not Stage.NONE

    @property
    def shown(self) -> str:
        """Stage, as INFO shows it."""
        return str(self._machine.state.value)

    # -- commands -----------------------------------------------------------------------------------------------------

    def start(self, target: tuple[bytes, int] | None, timeout: int, *, force: bool) -> None:
        """Start a FAILOVER; see `engine.core.environment.replication.Replication`."""
        if self.is_on:
            raise CommandError(messages.FAILOVER_IS_ON)
        if self._roles.follows:
            raise CommandError(messages.FAILOVER_ON_REPLICA)
        if not self._master.roster.all:
            raise CommandError(messages.FAILOVER_WITHOUT_REPLICAS)
        if force and not (target and timeout):
            raise CommandError(messages.FAILOVER_FORCE)
        address = (target[0].decode("utf-8", "replace"), target[1]) if target else None
        if address is not None:
            replica = self._master.roster.at(address)
            if replica is None:
                raise CommandError(messages.NO_SUCH_REPLICA)
            if replica.state is not Sync.ONLINE:
                raise CommandError(messages.REPLICA_NOT_ONLINE)
        LOG.info("failover to %s started, holding writes", _shown(address))
        self._machine.fire(FailoverEvent.BEGIN)
        self._target, self._force = address, force
        self._held.start(timeout / 1000, self._time_out)
        self._master.request_acks_soon()
        self._held.check_soon()

    def abort(self) -> None:
        """Run FAILOVER ABORT."""
        if not self.is_on:
            raise CommandError(messages.NO_FAILOVER)
        self._lead_again(FailoverEvent.ABORT, "FAILOVER ABORT")

    # -- events -------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        offset = self._offset()
        for replica in self._master.roster.reachable():
            if replica.offset >= offset and self._target in (None, replica.address):
                self._hand_over(replica)
                return

    def _time_out(self) -> None:
        if self._force and self._target is not None:
            LOG.warning("failover: %s has not caught up, handing over anyway (FORCE)", _shown(self._target))
            self._hand_over_to(*self._target)
        else:
            self._lead_again(FailoverEvent.GIVEN_UP, "no replica caught up in time")

    def _hand_over(self, replica: Replica) -> None:
        LOG.info("failover: %s has caught up, handing over", replica.name)
        self._hand_over_to(*replica.address)

    def _hand_over_to(self, host: str, port: int) -> None:
        self._machine.fire(FailoverEvent.SYNCED)
        self._held.stop_waiting()
        self._roles.hand_over(host.encode(), port)

    def accepted(self) -> None:
        """End the failover: the other server is the master."""
        self._machine.fire(FailoverEvent.ACCEPTED)
        LOG.info("failover completed")
        self._held.end()

    def rejected(self, why: str) -> None:
        """End the failover: the other server did not become the master."""
        self._lead_again(FailoverEvent.REJECTED, why)

    def _lead_again(self, event: FailoverEvent, why: str) -> None:
        LOG.warning("failover to %s failed, this server remains the master: %s", _shown(self._target), why)
        self._machine.fire(event)
        if self._roles.follows:
            self._roles.become_master()
        self._held.end()

    def stop(self) -> None:
        """Stop the timer: the process is exiting."""
        self._held.stop_waiting()


def _shown(address: tuple[str, int] | None) -> str:
    return f"{address[0]}:{address[1]}" if address is not None else "any replica"
