"""Before a master ends its replicas get a moment to come to have everything, while commands that write wait.

            BEGIN              LEVEL, TIMED_OUT, NOW, ABORT
    NONE ───────────> WAITING ──────────────────────────────> NONE

WAITING ends when all replicas have acknowledged everything, after ``shutdown-timeout``, by SHUTDOWN NOW, or by SHUTDOWN
ABORT. But for ABORT the data are then brought to the disk and the process ends; where that fails the server goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError
from engine.shell.observation.reporting import LOG
from engine.shell.replication.held_writes import HeldWrites
from engine.shell.replication.master.master import Master
from engine.shell.replication.master.replica import Replica
from engine.shell.replication.master.states import Sync
from engine.text.messages import persistence
from streamwire.machine import Machine


class Stage(Enum):
    """Whether the end has begun."""

    NONE = auto()
    #: Replicas lack something.
    WAITING = auto()


class ShutdownEvent(Enum):
    """What happens."""

    BEGIN = auto()
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
    """A machine of a server that is to go on."""
    return Machine("the shutdown", TABLE, Stage.NONE)


class Shutdown:
    """One server's. ``settle`` delivers what the core did while no client's commands ran, ``offset`` tells where the
    stream ends that everything so far has made.
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
        #: Clients that have called SHUTDOWN, and get an error where it comes to nothing.
        self._callers: dict[Session, None] = {}
        self._held = HeldWrites(core, loop, "shutdown", self._look)
        #: A replica may have everything now, or has gone.
        self.look_soon = self._held.look_soon

    # -- commands and signals -----------------------------------------------------------------------------------------

    def delays(self, words: frozenset[bytes], caller: Session | None) -> bool:
        """Whether the process is to end later, as SHUTDOWN's ``words`` say; otherwise its caller ends it now.

        ``caller`` is the client that wants it, if one does: it waits, and gets an error where nothing comes of it.
        """
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
        """How many milliseconds it waits at most from now on; None where it does not."""
        return round(1000 * self._held.left) if self._machine.state is Stage.WAITING else None

    def abort(self) -> None:
        """SHUTDOWN ABORT."""
        if self._machine.state is not Stage.WAITING:
            raise CommandError(persistence.NO_SHUTDOWN)
        LOG.warning("the shutdown is called off: SHUTDOWN ABORT")
        self._machine.fire(ShutdownEvent.ABORT)
        self._loop.call_soon(self._go_on)

    # -- what happens -------------------------------------------------------------------------------------------------

    def _wait(self, words: frozenset[bytes], seconds: int) -> None:
        LOG.info("the end waits for replicas that lack something, for %d seconds at most; writes wait", seconds)
        self._machine.fire(ShutdownEvent.BEGIN)
        self._words = words
        self._held.begin(seconds, self._time_out)
        self._master.ask_soon()

    def _look(self) -> None:
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
            LOG.warning("the engine does not end, because its data could not be written")
            self._go_on()
        else:
            self._core.host.shut_down()

    def _go_on(self) -> None:
        """The server does not end: clients that wait go on."""
        callers, self._callers = self._callers, {}
        for caller in callers:
            if caller.waiter is not None:
                self._core.sessions.end_wait(caller, CommandError(persistence.SHUTDOWN_FAILED))
        self._held.end()
        self._settle()

    def stop(self) -> None:
        """The process ends."""
        self._held.stop_waiting()

    # -- who lags -----------------------------------------------------------------------------------------------------

    def _replicas(self) -> list[Replica]:
        """Those that are to have everything."""
        known = self._master.roster.all.values() if self._master.leads else ()
        return [one for one in known if one.state is not Sync.SERVED and not one.without_acks]

    def _lagging(self) -> list[Replica]:
        replicas = self._replicas()
        offset = self._offset() if replicas else 0
        return [one for one in replicas if one.state is not Sync.ONLINE or one.offset < offset]

    def _report(self) -> None:
        replicas, lagging = self._replicas(), self._lagging()
        for one in lagging:
            behind = max(self._master.written - max(one.offset, 0), 0)
            LOG.warning("replica %s (%s) is %d bytes behind at the end", one.name, one.state.name.lower(), behind)
        if replicas:
            LOG.info("%d of %d replicas have everything", len(replicas) - len(lagging), len(replicas))
