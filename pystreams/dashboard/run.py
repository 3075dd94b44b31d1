"""The dashboard as a process: an HTTP server that runs until it receives a signal.

If there are too many connections, a new one replaces one whose request is incomplete. With a certificate, the server
uses HTTPS, and a connection loads the certificate's files if they have changed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from pystreams.dashboard import audit_log
from pystreams.dashboard.audit_log import Audit
from pystreams.dashboard.history import History
from pystreams.dashboard.login import Rules
from pystreams.dashboard.oidc import Oidc, Provider
from pystreams.dashboard.reading import AUTOMATIC, Decoders, Masks
from pystreams.dashboard.sampler import INTERVAL, Sampler
from pystreams.dashboard.site import Part, Site, site
from streamclient.config.address import Address

_log = logging.getLogger("pystreams.dashboard")

_MOST_CONNECTIONS = 500  # number of connections above which a new one replaces one that waits for its request
_SPARE = 2  # uvicorn refuses requests above this multiple; requests of replaced connections count until they end
_HISTORY_BYTES = 48 << 20  # maximum size of the history in memory, of all servers together
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Settings:
    """Settings of the dashboard. `names`: accepted host names; `token`: login token; empty to generate a token."""

    bind: str = "127.0.0.1"
    port: int = 8379
    token: str = ""
    names: Collection[str] = ()
    #: Minimum time between two samples of a server, in seconds.
    interval: float = INTERVAL
    #: Addresses and networks of trusted proxies, whose X-Forwarded-For and X-Forwarded-Proto are used.
    proxies: Collection[str] = ()
    #: PEM file with the certificate and its chain; None for HTTP.
    certificate: Path | None = None
    #: PEM file with the certificate's key; None if the certificate's file has it.
    key: Path | None = None
    #: Existing directory of the audit log; None for no audit log.
    state: Path | None = None
    #: OIDC provider for logins.
    provider: Provider | None = None


@dataclass(frozen=True)
class Target:
    """A server of the dashboard. `name`: name of its profile; `masks`: rules for masked fields."""

    address: Address
    changes: bool
    name: str = ""
    masks: Sequence[str] = ()
    decoders: Decoders = AUTOMATIC


def _is_busy(connection: Any) -> bool:
    """Return whether the connection has sent a complete request that is not answered yet."""
    cycle = connection.cycle
    return cycle is not None and not cycle.more_body and not cycle.response_complete


class _Protocol(H11Protocol):
    """A connection of the server. If there are too many, it replaces a connection that waits for its request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        assert self.limit_concurrency is not None
        if len(self.connections) >= self.limit_concurrency // _SPARE:
            waiting = next((each for each in self.connections if not _is_busy(each)), None)
            if waiting is not None:
                self.connections.discard(waiting)
                waiting.transport.abort()
        super().connection_made(transport)


class Server(uvicorn.Server):
    """A uvicorn server for a site. `connections`: maximum number of connections."""

    def __init__(
        self,
        made: Site,
        ready: Callable[[], None] = lambda: None,
        proxies: Collection[str] = (),
        certificate: Certificate | None = None,
        connections: int = _MOST_CONNECTIONS,
    ) -> None:
        super().__init__(configured(made.app, proxies, certificate, connections))
        self._ready, self._end, self._certificate = ready, made.end, certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._certificate is not None and self.config.ssl is not None:
            self.config.ssl.sni_callback = self._certificate.renew  # called at each handshake
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end()
        for waiting in [each for each in self.server_state.connections if not _is_busy(each)]:
            waiting.transport.abort()
        await super().shutdown(sockets)


class Certificate:
    """The dashboard's certificate and key, in PEM files that may be replaced at run time."""

    def __init__(self, certificate: Path, key: Path | None) -> None:
        self.certificate, self.key = certificate, key
        self._seen = self._stamp()

    def load(self, context: ssl.SSLContext | None = None) -> ssl.SSLContext:
        """Load the files into a context, by default a new one. Raises OSError, such as SSLError."""
        context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key, password="")
        return context

    def _stamp(self) -> tuple[float, ...]:
        try:
            return tuple(path.stat().st_mtime for path in (self.certificate, self.key) if path is not None)
        except OSError:
            return ()

    def renew(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Load changed files for a connection and later ones. Until they are usable, the last ones stay in use."""
        del name
        if (stamp := self._stamp()) == self._seen or not stamp:
            return
        self._seen = stamp
        try:
            connection.context = self.load()
            self.load(context)
        except OSError as cause:
            _log.warning(
                "The certificate %s cannot be loaded, so the previous one stays in use: %s", self.certificate, cause
            )
        else:
            _log.warning("The certificate %s was reloaded.", self.certificate)


def listen(bind: str, port: int) -> socket.socket:
    """Return a socket that is bound to this address and port, on which a server can listen. Raises OSError."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((bind, port))
    except BaseException:
        made.close()
        raise
    return made


def configured(
    app: ASGIApp,
    proxies: Collection[str] = (),
    certificate: Certificate | None = None,
    connections: int = _MOST_CONNECTIONS,
) -> uvicorn.Config:
    """Return uvicorn's configuration: no log of requests, and limits on open connections."""
    return uvicorn.Config(
        app,
        log_config=None,
        ssl_certfile=None if certificate is None else certificate.certificate,
        ssl_keyfile=None if certificate is None or certificate.key is None else str(certificate.key),
        ssl_keyfile_password=None if certificate is None else "",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        lifespan="on",
        ws="none",
        http=_Protocol,
        limit_concurrency=_SPARE * connections,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32 * 1024,
    )


def run(targets: Sequence[Target], settings: Settings, made: socket.socket, say: Callable[[str], None]) -> None:
    """Serve the dashboard of `targets` on the listening socket `made`, until SIGTERM or Ctrl-C.

    `say` is called with the URL to open when the dashboard is ready. The token follows '#', the part of a URL that
    browsers do not send.
    """
    here = settings.bind in LOOPBACK
    token = settings.token or secrets.token_urlsafe(24)
    port = made.getsockname()[1]
    audit = None if settings.state is None else Audit(settings.state / audit_log.FILE)
    parts = [_part(target, settings, token, audit, len(targets)) for target in targets]
    certificate = None if settings.certificate is None else Certificate(settings.certificate, settings.key)
    cookie = f"pystreams-{port}"
    oidc = None if settings.provider is None else Oidc(settings.provider, cookie)
    made_site = site(parts, names=settings.names, cookie=cookie, oidc=oidc)
    host = f"[{settings.bind}]" if ":" in settings.bind else settings.bind

    def ready() -> None:
        shown = ", ".join(part.rules.shown for part in parts)
        say(f"Dashboard of {shown}: {'http' if certificate is None else 'https'}://{host}:{port}/#token={token}")
        if not here and certificate is None:
            say(
                "Other machines can reach the dashboard without TLS, so passwords and data can be intercepted. "
                "Use --tls-certificate, a proxy with TLS in front, or --bind 127.0.0.1 and a tunnel."
            )

    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises the signal again after the shutdown
        signal.signal(number, lambda *_: sys.exit(0))
    Server(made_site, ready, settings.proxies, certificate).run(sockets=[made])


def is_open(settings: Settings) -> bool:
    """Return whether the dashboard is reachable only from this machine, and not through a proxy.

    If so, a user whose password the server does not check may log in (`Rules.open_here`).
    """
    return settings.bind in LOOPBACK and not settings.proxies


def _part(target: Target, settings: Settings, token: str, audit: Audit | None, servers: int) -> Part:
    """Return the part of the site for one server. All servers share the memory limit of the history."""
    history = History(budget=_HISTORY_BYTES // servers)
    sampler = Sampler(target.address, settings.interval, history)
    opened, masks = is_open(settings), Masks(target.masks)
    rules = Rules(target.address, token, target.changes, opened, target.name, masks, target.decoders, audit)
    return Part(rules, sampler)
