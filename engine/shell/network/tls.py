"""Listener for clients over TLS.

Changed directives and SIGHUP make a new context; existing connections keep their context. If a new context cannot be
built, the change fails and the old context stays in use.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from engine.settings.config import Config
from engine.shell.observation.log_lines import LOG
from engine.shell.observation.process_facts import Traffic
from engine.shell.tls import DIRECTIVES, server_context

_HANDSHAKE_SECONDS = 10.0
#: Seconds until the next attempt if a client could not be accepted, for example because no descriptor is left.
_PAUSE_SECONDS = 0.1


class Clients(Protocol):
    """The server's clients, as the listener needs them."""

    #: Counters, in which the listener counts rejected clients, and clients whose handshake is not complete.
    traffic: Traffic

    def is_full(self) -> bool:
        """Return whether ``maxclients`` is reached, counting clients in a handshake."""


class TlsListener:
    """Accepts clients over TLS on bound sockets; follows the directives.

    A client counts towards ``maxclients`` as soon as it connects, because it uses a descriptor during its handshake.
    """

    def __init__(self, config: Config, clients: Clients, accept: Callable[[], asyncio.Protocol], backlog: int) -> None:
        self._config = config
        self._clients = clients
        self._accept = accept
        self._backlog = backlog
        self._context = server_context(config)
        #: Tasks that accept clients, and tasks that wait for handshakes.
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []

    def start(self, sockets: list[socket.socket]) -> None:
        """Start accepting clients on the sockets, which the listener takes over."""
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        for sock in sockets:
            sock.listen(self._backlog)
            self._start_task(self._serve(sock))
        for name in DIRECTIVES:
            self._config.on_change(name, self.reload)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket) -> None:
        while True:
            try:
                client, _ = await self._loop.sock_accept(sock)
            except OSError as error:
                LOG.warning("a client could not be accepted: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if self._clients.is_full():
                self._clients.traffic.rejected += 1
                client.close()
            else:
                client.setblocking(False)
                self._start_task(self._shake_hands(client))

    async def _shake_hands(self, client: socket.socket) -> None:
        traffic = self._clients.traffic
        traffic.handshaking += 1
        try:
            await self._loop.connect_accepted_socket(
                self._accept, client, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
            )
        except OSError as error:
            LOG.info("a client's TLS handshake failed: %s", str(error) or type(error).__name__)
        finally:
            traffic.handshaking -= 1

    def reload(self) -> None:
        """Make a new context from the directives and files. On failure, raise ConfigError and keep the old context."""
        self._context = server_context(self._config)

    def close(self) -> None:
        """Stop accepting clients."""
        for task in self._tasks:
            task.cancel()
        for sock in self._sockets:
            sock.close()
