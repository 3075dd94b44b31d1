"""Clients that the server refuses or disconnects: protected mode, ``maxmemory-clients`` and ``timeout``.

Protected mode rejects remote clients while the default user needs no password.

``maxmemory-clients`` limits the buffers of all clients together; above it, the largest clients go. A client's buffers
are its ``tot-mem`` in CLIENT LIST: waiting input, unread replies, commands queued by MULTI, and the arguments of a
blocked command. CLIENT NO-EVICT exempts a client; replicas are always exempt. The longer a check takes, the longer is
the interval until the next check.

``timeout`` disconnects clients that have sent nothing for this time. Clients that wait for a reply or for messages, or
are reading a reply, stay connected. So do replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.core.clients.accounts import Accounts
from engine.core.clients.sessions import memory_of
from engine.settings.config import Config
from engine.shell.clock import now_us
from engine.shell.network.connection import Connection
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.process_facts import Traffic


def is_local(peer: Any) -> bool:
    """Return whether the client with this peer name is on this machine: on loopback, or on a Unix socket."""
    if not isinstance(peer, tuple):
        return True
    host = str(peer[0]).removeprefix("::ffff:")
    return host.startswith("127.") or host == "::1"


def is_refused(config: Config, accounts: Accounts, peer: Any) -> bool:
    """Return whether to reject a new client: it is remote, and could log in without a password."""
    return config.flag("protected-mode") and accounts.default.nopass and not is_local(peer)


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


class IdleClients:
    """Idle check of one server. ``connections``: open connections by session ID."""

    __slots__ = ("_config", "_connections")

    def __init__(self, config: Config, connections: Mapping[int, Connection]) -> None:
        self._config = config
        self._connections = connections

    def check(self, now: int) -> None:
        """Disconnect the clients that have been idle for too long at ``now``, in milliseconds since the epoch."""
        limit = self._config.integer("timeout") * 1000
        if not limit:
            return
        for connection in list(self._connections.values()):
            session = connection.session
            if connection.has_taken():
                session.last_ms = now
            listens = session.waiter or session.subscriptions or session.monitor or session.is_replica
            if now - session.last_ms > limit and not (listens or connection.held_back or connection.stepping):
                # Not close(), which would wait until the client has read its replies.
                connection.transport.abort()
