"""Shutdown of a master: replicas get time to catch up while write commands wait.

            BEGIN              LEVEL, TIMED_OUT, NOW, ABORT
    NONE ───────────> WAITING ──────────────────────────────> NONE

WAITING ends when all replicas have acknowledged everything, after ``shutdown-timeout``, by SHUTDOWN NOW, or by SHUTDOWN
ABORT. After ABORT, the server continues. Otherwise unsaved data is saved, unless SHUTDOWN NOSAVE was called, and the
process exits. If saving fails, the server continues, unless SHUTDOWN FORCE was called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto

from engine.core.clients.session import Session
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
    """Whether a shutdown has started."""

    NONE = auto()
    #: Some replicas have not caught up.
    WAITING = auto()


class ShutdownEvent(Enum):
    """Events of a shutdown."""

    BEGIN = auto()
    #: All replicas have caught up.
    LEVEL = auto()
    TIMED_OUT = auto()
    NOW = auto()
    ABORT = auto()


_S, _E = Stage, ShutdownEvent
TABLE: dict[tuple[Stage, ShutdownEvent], Stage] = {
    (_S.NONE, _E.BEGIN): _S.WAITING,
    **{(_S.WAITING, event): _S.NONE for event in _E if event is not _E.BEGIN},
}


def shutdown() -> Machine[Stage, ShutdownEvent]:
    """Return a new state machine, in the state NONE."""
    return Machine("the shutdown", TABLE, Stage.NONE)


class Shutdown:
    """Shutdown of one server. ``settle`` delivers the results of core work outside a client's command. ``offset``
    flushes the effects so far, and then returns the replication offset.
    """

    def __init__(
        self,
        core: Core,
        master: Master,
        loop: asyncio.AbstractEventLoop,
        settle: Callable[[], None],
        offset: Callable[[], int],
    ) -> None:
        self._core = core
        self._master = master
        self._loop = loop
        self._settle = settle
        self._offset = offset
        self._machine = shutdown()
        self._words: frozenset[bytes] = frozenset()
        #: Clients that have called SHUTDOWN, and receive an error if the shutdown fails.
        self._callers: dict[Session, None] = {}
        self._held = HeldWrites(core, loop, "shutdown", self._check)
        #: Function to call when a replica may have caught up, or has disconnected.
        self.check_soon = self._held.check_soon

    # -- commands and signals -----------------------------------------------------------------------------------------

    def delays(self, words: frozenset[bytes], caller: Session | None) -> bool:
        """Start the shutdown; return whether it waits for replicas. If it does not wait, the process must exit now.

        ``words``: options of SHUTDOWN. ``caller``: client that requested the shutdown, if any. The client waits, and
        receives an error if the shutdown fails.
        """
        self._core.divided.finish_all()
        seconds = self._core.config.integer("shutdown-timeout")
        if self._machine.state is Stage.WAITING:
            if b"NOW" in words:
                self._loop.call_soon(self._finish, ShutdownEvent.NOW)
        elif b"NOW" not in words and seconds and self._lagging():
            self._wait(words, seconds)
        else:
            self._report()
            return False
        if caller is not None:
            self._callers[caller] = None
        return True

    @property
    def left(self) -> int | None:
        """Remaining time to wait in milliseconds; None if no shutdown is waiting."""
        return round(1000 * self._held.left) if self._machine.state is Stage.WAITING else None

    def abort(self) -> None:
        """Run SHUTDOWN ABORT."""
        if self._machine.state is not Stage.WAITING:
            raise CommandError(messages.NO_SHUTDOWN)
        LOG.warning("shutdown cancelled (SHUTDOWN ABORT)")
        self._machine.fire(ShutdownEvent.ABORT)
        self._loop.call_soon(self._go_on)

    # -- events -------------------------------------------------------------------------------------------------------

    def _wait(self, words: frozenset[bytes], seconds: int) -> None:
        LOG.info("shutdown waits up to %d seconds for replicas to catch up, holding writes", seconds)
        self._machine.fire(ShutdownEvent.BEGIN)
        self._words = words
        self._held.start(seconds, self._time_out)
        self._master.request_acks_soon()

    def _check(self) -> None:
        if not self._lagging():
            self._finish(ShutdownEvent.LEVEL)

    def _time_out(self) -> None:
        self._finish(ShutdownEvent.TIMED_OUT)

    def _finish(self, event: ShutdownEvent) -> None:
        if self._machine.state is not Stage.WAITING:
            return
        self._held.stop_waiting()
        self._machine.fire(event)
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
        self._held.end()
        self._settle()

    def stop(self) -> None:
        """Stop the timer: the process is exiting."""
        self._held.stop_waiting()

    # -- lagging replicas ---------------------------------------------------------------------------------------------

    def _replicas(self) -> list[Replica]:
        """Return the replicas to wait for: those that acknowledge the stream, now or after receiving their file."""
        known = self._master.roster.all.values() if self._master.leads else ()
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
