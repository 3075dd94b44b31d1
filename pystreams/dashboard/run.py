"""The dashboard as a process: an HTTP server that runs until it receives a signal.

If there are too many connections, a new one replaces one whose request is incomplete. With a certificate, the server
uses HTTPS, and a connection loads the certificate's files if they have changed.

The site has the routes of the API and of the pages' files. Its guard checks every request, and adds security
headers to every response:

    Host      must be an IP address, localhost, or a configured name; with DNS rebinding, a page of another site would
              send the name of that site
    Origin    must be this dashboard, and Sec-Fetch-Site must be same-origin or none, if a POST has these headers
    type      must be JSON for the body of a POST, since forms of other sites cannot send JSON
    size      of the body is limited; uvicorn limits path and headers

The guard neither logs contents of requests nor sends them back.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Collection, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from pystreams.dashboard import changes, overview, streams
from pystreams.dashboard.endpoints import Endpoints, Question, failed
from pystreams.dashboard.login import Refusal, Rules
from pystreams.dashboard.oidc import Oidc, Provider
from pystreams.dashboard.sampler import Sampler
from streamclient.errors import BROKEN, PystreamsError

BODY_BYTES = 256 * 1024
POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}


TOO_LARGE = f"A request may have at most {BODY_BYTES // 1024} KiB."
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^\s:@/?#\[\]]+))(?::\d*)?")
#: Value of Strict-Transport-Security. Sent only for configured names: browsers apply the header to all ports of a name,
#: and other programs may use HTTP on localhost.
STRICT_TRANSPORT = "max-age=31536000"


def host_is_known(host: str, names: Collection[str]) -> bool:
    """Return whether a Host header is allowed: an IP address, localhost or one of the names, with any port."""
    name = _name_of(host)
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name_of(host: str) -> str:
    """Return the name in a Host header; empty if the header is not a name or address with an optional port."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()


def refusal(method: str, headers: Headers, names: Collection[str]) -> tuple[int, str, str] | None:
    """Return the refusal of a request (status, condition and sentence); None if it is allowed."""
    if not host_is_known(headers.get("host", ""), names):
        return 421, "UNKNOWN_HOST", "The dashboard does not accept this host name. Start it with --host NAME."
    if method in ("GET", "HEAD"):
        return None
    if method != "POST":
        return 405, "NO_SUCH_METHOD", "Only GET and POST are supported."
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return 403, "OTHER_SITE", "Changes are accepted only from the dashboard's own pages."
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return 403, "OTHER_SITE", "Changes are accepted only from the dashboard's own pages."
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return 415, "NO_JSON", "The body of a POST must be JSON."
    length = headers.get("content-length", "")
    if length and (not length.isdigit() or int(length) > BODY_BYTES):
        return 413, "TOO_LARGE", TOO_LARGE
    return None


class Guard:
    """Refuses requests that fail a check, and adds `HEADERS` to all responses."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                # Browsers revalidate the pages' files on each use, so that an update is visible immediately.
                is_file = scope["path"] == "/" or scope["path"].startswith("/static/")
                headers.setdefault("cache-control", "no-cache" if is_file else "no-store")
                if scope.get("scheme") == "https" and _name_of(Headers(scope=scope).get("host", "")) in self._names:
                    headers.setdefault("strict-transport-security", STRICT_TRANSPORT)
            await send(message)

        problem = refusal(scope["method"], Headers(scope=scope), self._names)
        if problem is None:
            await self._app(scope, _bounded(receive), with_headers)
            return
        status, condition, text = problem
        answer = JSONResponse({"error": {"id": condition, "message": text}}, status, {"connection": "close"})
        await answer(scope, receive, with_headers)


def _bounded(receive: Receive) -> Receive:
    """Return `receive` with a limit on the size of the body."""
    left = BODY_BYTES

    async def bounded() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise Refusal(413, "TOO_LARGE", TOO_LARGE)
        return message

    return bounded


STATIC = Path(__file__).absolute().parent / "static"

QUESTIONS: dict[str, Question] = {
    "overview": overview.overview,
    "streams": overview.streams,
    "groups": overview.groups,
    "stream": streams.stream,
    "entries": streams.browse,
    "entry": streams.entry,
    "group": streams.group,
    "pending": streams.pending_overview,
    "pending/entries": streams.pending_entries,
    "letters": streams.holders,
    "letters/overview": streams.letters_overview,
    "letters/page": streams.letters_page,
    "queries": overview.queries,
    "audit": changes.audit_page,
}


async def _page(request: Request) -> Response:
    del request
    return FileResponse(STATIC / "index.html")


async def _disconnected(request: Request, failure: Exception) -> Response:
    """Return a response that is not sent: the browser disconnected before its request was complete."""
    del request, failure
    return Response(status_code=400)


def site(
    rules: Rules,
    sampler: Sampler,
    *,
    names: Collection[str] = (),
    cookie: str = "pystreams",
    oidc: Oidc | None = None,
) -> ASGIApp:
    """Return the application. `names`: accepted host names, in addition to IP addresses and localhost."""
    if oidc is not None:  # refuse logins without a password, which would make a viewer an operator
        rules = replace(rules, open_here=False)
    endpoints = Endpoints(rules, sampler, cookie, oidc=oidc is not None)
    api = [
        Route("/session", endpoints.session),
        Route("/login", endpoints.log_in, methods=["POST"]),
        Route("/logout", endpoints.log_out, methods=["POST"]),
        Route("/news", endpoints.news),
        Route("/changes/{action}", endpoints.change, methods=["POST"]),
        *(Route(f"/{path}", endpoints.question(question)) for path, question in QUESTIONS.items()),
    ]
    routes = [Route("/", _page), Mount("/static", StaticFiles(directory=STATIC)), Mount("/api", routes=api)]
    if oidc is not None:
        routes += oidc.routes(endpoints)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        del app
        sampler.start()
        try:
            yield
        finally:
            endpoints.sessions.close()
            await asyncio.to_thread(sampler.stop)

    handlers = {**dict.fromkeys((Refusal, PystreamsError, *BROKEN), failed), ClientDisconnect: _disconnected}
    return Guard(Starlette(routes=routes, lifespan=running, exception_handlers=handlers), names)


_log = logging.getLogger("pystreams.dashboard")

_MOST_CONNECTIONS = 500  # number of connections above which a new one replaces one that waits for its request
_SPARE = 2  # uvicorn refuses requests above this multiple; requests of replaced connections count until they end
LOOPBACK = ("127.0.0.1", "::1")


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
        app: ASGIApp,
        ready: Callable[[], None] = lambda: None,
        proxies: Collection[str] = (),
        certificate: Certificate | None = None,
        connections: int = _MOST_CONNECTIONS,
    ) -> None:
        super().__init__(configured(app, proxies, certificate, connections))
        self._ready, self._certificate = ready, certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._certificate is not None and self.config.ssl is not None:
            self.config.ssl.sni_callback = self._certificate.renew  # called at each handshake
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
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


def run(
    rules: Rules,
    sampler: Sampler,
    made: socket.socket,
    say: Callable[[str], None],
    *,
    names: Collection[str] = (),
    proxies: Collection[str] = (),
    certificate: Certificate | None = None,
    provider: Provider | None = None,
) -> None:
    """Serve the dashboard on the bound socket `made`, until SIGTERM or Ctrl-C.

    `say` is called with the URL to open when the dashboard is ready. The token follows '#', the part of a URL that
    browsers do not send. `names`: accepted host names. `proxies`: addresses and networks of trusted proxies, whose
    X-Forwarded-For and X-Forwarded-Proto are used. `certificate`: None for HTTP. `provider`: OIDC provider for logins.
    """
    bind, port = made.getsockname()[:2]
    cookie = f"pystreams-{port}"
    oidc = None if provider is None else Oidc(provider, cookie)
    made_site = site(rules, sampler, names=names, cookie=cookie, oidc=oidc)
    host = f"[{bind}]" if ":" in bind else bind

    def ready() -> None:
        scheme = "http" if certificate is None else "https"
        say(f"Dashboard of {rules.address.shown}: {scheme}://{host}:{port}/#token={rules.token}")
        if bind not in LOOPBACK and certificate is None:
            say(
                "Other machines can reach the dashboard without TLS, so passwords and data can be intercepted. "
                "Use --tls-certificate, a proxy with TLS in front, or --bind 127.0.0.1 and a tunnel."
            )

    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises the signal again after the shutdown
        signal.signal(number, lambda *_: sys.exit(0))
    Server(made_site, ready, proxies, certificate).run(sockets=[made])
