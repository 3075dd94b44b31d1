"""Timers for the core: waking blocked clients, expiring keys, ending pauses (such as CLIENT PAUSE).

The core reports when something is due; this module sets event-loop timers and calls the core at that time. Times of the
core are milliseconds since the epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from engine.core.clients.session import Session
from engine.core.dispatch import Core, FatalError
from engine.core.keyspace.changes import NEVER
from engine.shell.clock import now_us
from engine.shell.network.connection import Connection
from engine.shell.observation.watchdog import Watchdog

#: Minimum delay of an expiry timer in microseconds: keys that expire shortly after one another are handled together.
_SHORTEST_US = 1000
#: Maximum delay of an expiry or pause timer in microseconds (one hour). If the system clock is set forward, the engine
#: notices that after this time at the latest.
_LONGEST_US = 3_600_000_000


class Timers:
    """Timers of one server. ``connections``: open connections by session ID; ``settle`` delivers the results of core
    work, and ``fail`` is called with an error that makes the core unusable.
    """

    __slots__ = ("_connections", "_core", "_expiry", "_fail", "_loop", "_pause", "_settle", "_watchdog", "expiry_at")

    def __init__(
        self,
        core: Core,
        loop: asyncio.AbstractEventLoop,
        connections: Mapping[int, Connection],
        settle: Callable[[], None],
        fail: Callable[[BaseException], None],
        watchdog: Watchdog,
    ) -> None:
        self._core = core
        self._loop = loop
        self._connections = connections
        self._settle = settle
        self._fail = fail
        self._watchdog = watchdog
        self._expiry: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        #: Expiry time that the timer is set for. If the core's next expiry differs, call `follow_expiry`.
        self.expiry_at = NEVER

    def stop(self) -> None:
        """Cancel all timers."""
        for timer in (self._expiry, self._pause, *(connection.timer for connection in self._connections.values())):
            if timer is not None:
                timer.cancel()

    # -- blocked clients ----------------------------------------------------------------------------------------------

    def follow(self, connection: Connection, now: int) -> None:
        """Set the timer of a client for its blocking command; ``now`` in microseconds."""
        waiter = connection.session.waiter
        at = waiter.wake_at if waiter is not None else None
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if at is not None:
            connection.timer = self._loop.call_later(max(at * 1000 - now, 0) / 1e6, self._wake, connection)

    def follow_session(self, session: Session) -> None:
        """Set the timer for the current blocking command of a session, if its client is still connected."""
        connection = self._connections.get(session.id)
        if connection is not None:
            self.follow(connection, now_us())

    def _wake(self, connection: Connection) -> None:
        connection.timer = None
        session = connection.session
        waiter = session.waiter
        if waiter is None or waiter.wake_at is None:
            return
        now = now_us()
        if now // 1000 >= waiter.wake_at:
            self._core.telemetry.measured_ns = now * 1000
            try:
                self._core.wake(session, now)
            except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
                self._fail(error)
                return
            try:
                self._settle()
            finally:
                if session.waiter is not None:
                    self.follow(connection, now)
            if self._core.telemetry.latency_ms:
                self._watchdog.note_work(now, session.last_command)
        elif session.waiter is not None:
            self.follow(connection, now)

    # -- expiry -------------------------------------------------------------------------------------------------------

    def follow_expiry(self) -> None:
        """Set the timer for the core's next expiry."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.expiry_at = self._core.changes.next_expiry
        if self.expiry_at != NEVER:
            delay = min(max(self.expiry_at * 1000 - now_us(), _SHORTEST_US), _LONGEST_US)
            self._expiry = self._loop.call_later(delay / 1e6, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self.expiry_at = NEVER
        now = now_us()
        try:
            self._core.expire_due(now)
        except (FatalError, Exception) as error:  # noqa: BLE001 - no command may run after it
            self._fail(error)
            return
        try:
            self._settle()
        finally:
            if self._expiry is None:
                self.follow_expiry()
        if self._core.telemetry.latency_ms:
            self._watchdog.note_work(now, b"expiring keys", b"expire-cycle")

    # -- pauses -------------------------------------------------------------------------------------------------------

    def follow_pause(self) -> None:
        """Handle the start or end of a pause: check held-back clients soon, and again when the pause ends."""
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self._loop.call_later(0, self._check_pauses)

    def _check_pauses(self) -> None:
        self._pause = None
        pause, now = self._core.pause, now_us()
        end = pause.next_end(now // 1000)
        if end:
            delay = min(max(end * 1000 - now, 0), _LONGEST_US)
            self._pause = self._loop.call_later(delay / 1e6, self._check_pauses)
        else:
            pause.clear()
            self._expire()
        for connection in list(self._connections.values()):
            if connection.held_back:
                connection.held_back = False
                connection.yield_to_others()
