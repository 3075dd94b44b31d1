"""``maxmemory-clients``: limit for the buffers of all clients together. Above it, the largest clients are disconnected.

A client's buffers are its ``tot-mem`` in CLIENT LIST: waiting input, unread replies, commands queued by MULTI, and the
arguments of a blocked command. CLIENT NO-EVICT exempts a client; replicas are always exempt. The longer a check takes,
the longer is the interval until the next check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.core.clients.description import memory_of
from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.network.connections.connection import Connection
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.traffic import Traffic

#: Minimum interval between two checks in microseconds.
_EVERY_US = 100_000
#: The interval is the duration of the last check times this factor, but at least `_EVERY_US` and at most `_EVERY_US`
#: times this factor.
_FACTOR = 20


class ClientMemory:
    """Buffer limit of one server. ``connections``: open connections by session ID."""

    __slots__ = ("_config", "_connections", "_next_us", "_now_us", "_traffic", "limit")

    def __init__(
        self,
        config: Config,
        connections: Mapping[int, Connection],
        traffic: Traffic,
        now: Callable[[], int] = now_us,
    ) -> None:
        self._config = config
        self._connections = connections
        self._traffic = traffic
        self._now_us = now
        self._next_us = 0
        #: Limit in bytes; if 0, there is no limit and `check` need not be called.
        self.limit = 0
        for name in ("maxmemory", "maxmemory-clients"):
            config.on_change(name, self._follow)
        self._follow()

    def _follow(self) -> None:
        word = self._config.text("maxmemory-clients")
        percent = word.endswith(b"%")
        self.limit = self._config.integer("maxmemory") * int(word[:-1]) // 100 if percent else int(word)

    def check(self, now: int) -> None:
        """If a check is due, disconnect the largest clients until the remaining clients are within the limit.

        ``now``: microseconds since the epoch.
        """
        if 0 <= self._next_us - now <= _FACTOR * _EVERY_US:
            return
        sizes = {number: memory_of(connection.session) for number, connection in self._connections.items()}
        total = sum(sizes.values())
        if total > self.limit:
            for number in sorted(sizes, key=sizes.__getitem__, reverse=True):
                session = self._connections[number].session
                if not (session.no_evict or session.is_replica):
                    self._cut_off(self._connections[number], sizes[number])
                    total -= sizes[number]
                if total <= self.limit:
                    break
        self._next_us = now + max(_EVERY_US, min(_FACTOR * (self._now_us() - now), _FACTOR * _EVERY_US))

    def _cut_off(self, connection: Connection, size: int) -> None:
        self._traffic.evicted += 1
        session = connection.session
        LOG.warning("client %d (%r) dropped: %d bytes, above maxmemory-clients", session.id, session.addr, size)
        connection.transport.abort()
