"""Clients that the server refuses or disconnects: protected mode and ``timeout``.

Protected mode rejects remote clients while the default user needs no password.

``timeout`` disconnects clients that have sent nothing for this time. Clients that wait for a reply or for messages, or
are reading a reply, stay connected. So do replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.clients.accounts import Accounts
from engine.settings.config import Config
from engine.shell.network.connection import Connection


def is_local(peer: Any) -> bool:
    """Return whether the client with this peer name is on this machine: on loopback, or on a Unix socket."""
    if not isinstance(peer, tuple):
        return True
    host = str(peer[0]).removeprefix("::ffff:")
    return host.startswith("127.") or host == "::1"


def is_refused(config: Config, accounts: Accounts, peer: Any) -> bool:
    """Return whether to reject a new client: it is remote, and could log in without a password."""
    return config.flag("protected-mode") and accounts.default.nopass and not is_local(peer)


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
