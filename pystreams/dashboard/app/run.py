"""The dashboard as a process: an HTTP server that answers until it is told to end.

Browsers that cost something and give nothing are cut: those that never read what they are sent, and those that connect
and never ask.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from pystreams.dashboard.api.login import Rules
from pystreams.dashboard.api.requests.answers import SENT
from pystreams.dashboard.app.endpoints import Metrics
from pystreams.dashboard.app.site import Site, site
from pystreams.dashboard.sampling.sampler import INTERVAL, Sampler
from streamclient.config.address import Address

_LOOK_SECONDS = 5.0
_HEADER_LOOKS = 3  # looks after which a connection must have asked for something
_MOST_CONNECTIONS = 500
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Settings:
    """How the dashboard runs. `names`: host names that it answers to; `token`: empty for one that is made up."""

    bind: str = "127.0.0.1"
    port: int = 8379
    token: str = ""
    changes: bool = False
    names: Collection[str] = ()
    interval: float = INTERVAL
    #: Whether the token stands in the URL that is said. Otherwise, and without one of its own, only passwords work.
    says_token: bool = True
    #: Addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
    proxies: Collection[str] = ()


class Watch:
    """Cuts connections that do not get on: call `look` every few seconds with those of the server."""

    def __init__(self) -> None:
        self._unread: dict[Any, tuple[int, int]] = {}
        self._silent: dict[Any, int] = {}

    def look(self, connections: Collection[Any]) -> None:
        """Cut those that have read nothing, or said nothing, since looks ago."""
        unread: dict[Any, tuple[int, int]] = {}
        silent: dict[Any, int] = {}
        for connection in connections:
            transport = connection.transport
            waiting = transport.get_write_buffer_size()
            sent = getattr(connection.cycle, "scope", {}).get(SENT, 0)
            before = self._unread.get(connection)
            if waiting and before is not None and waiting >= before[0] and sent == before[1]:
                transport.abort()
                continue
            if waiting:
                unread[connection] = waiting, sent
            if connection.cycle is None:
                silent[connection] = self._silent.get(connection, 0) + 1
                if silent[connection] > _HEADER_LOOKS:
                    transport.abort()
        self._unread, self._silent = unread, silent


class Server(uvicorn.Server):
    """uvicorn's server of a site, with a watch, which ends without waiting for pages that listen."""

    def __init__(self, made: Site, ready: Callable[[], None] = lambda: None, proxies: Collection[str] = ()) -> None:
        super().__init__(configured(made.app, proxies))
        self._ready = ready
        self._end = made.end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end()
        await super().shutdown(sockets)

    async def _watch(self) -> None:
        watch = Watch()
        while not self.should_exit:
            await asyncio.sleep(_LOOK_SECONDS)
            watch.look(list(self.server_state.connections))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End with SIGTERM and Ctrl-C, as an end that was asked for: with exit status 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def listen(bind: str, port: int) -> socket.socket:
    """A socket that listens there; OSError where it cannot."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((bind, port))
    except BaseException:
        made.close()
        raise
    return made


def configured(app: ASGIApp, proxies: Collection[str] = ()) -> uvicorn.Config:
    """How the HTTP server runs the application: no log of requests, limits on what a browser may leave open."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        lifespan="on",
        ws="none",
        http="h11",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32 * 1024,
    )


def run(
    address: Address,
    settings: Settings,
    made: socket.socket,
    say: Callable[[str], None],
    metrics: Metrics | None = None,
) -> None:
    """Serve the dashboard of the server at an address on a socket, until SIGTERM or Ctrl-C.

    `metrics` makes the page for Prometheus. `say` is told, when it is ready, the URL to open. The token is behind '#',
    which a browser sends to nobody.
    """
    here = settings.bind in LOOPBACK
    token = settings.token or secrets.token_urlsafe(24)
    port = made.getsockname()[1]
    sampler = Sampler(address, settings.interval)
    rules = Rules(address, token, settings.changes, here)
    made_site = site(rules, sampler, names=settings.names, cookie=f"pystreams-{port}", metrics=metrics)
    host = f"[{settings.bind}]" if ":" in settings.bind else settings.bind

    def ready() -> None:
        fragment = f"#token={token}" if settings.says_token else ""
        say(f"Dashboard of {address.shown}: http://{host}:{port}/{fragment}")
        if not here:
            say(
                "It listens beyond this machine without TLS: passwords and data can be read on the way. "
                "Put a proxy with TLS in front, or use --bind 127.0.0.1 and a tunnel."
            )

    Server(made_site, ready, settings.proxies).run(sockets=[made])
    sys.stdout.flush()
