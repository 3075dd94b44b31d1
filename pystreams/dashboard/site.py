"""The site: routes of all servers and of the pages' files, protected by the guard.

The guard checks every request, and adds security headers to every response:

    Host      must be an IP address, localhost, or a configured name; with DNS rebinding, a page of another site would
              send the name of that site
    Origin    must be this dashboard, and Sec-Fetch-Site must be same-origin or none, if a POST has these headers
    type      must be JSON for the body of a POST, since forms of other sites cannot send JSON
    size      is limited, both for the body and for path and query together

The guard neither logs contents of requests nor sends them back.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import AsyncIterator, Callable, Collection, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pystreams.dashboard import changes, login, overview, pending, queries, streams
from pystreams.dashboard.endpoints import Endpoints, Question, problem
from pystreams.dashboard.sampler import Sampler

if TYPE_CHECKING:
    from pystreams.dashboard.oidc import Oidc


BODY_BYTES = 256 * 1024
URL_BYTES = 16 * 1024
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


class TooLargeError(Exception):
    """A body is larger than the limit. Raised when the endpoint reads the body."""


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


def refusal(method: str, size: int, headers: Headers, names: Collection[str]) -> tuple[int, str, str] | None:
    """Return the refusal of a request (status, condition and sentence); None if it is allowed.

    `size`: size of path and query.
    """
    if not host_is_known(headers.get("host", ""), names):
        return 421, "UNKNOWN_HOST", "The dashboard does not accept this host name. Start it with --host NAME."
    if size > URL_BYTES:
        return 414, "TOO_LARGE", "The address of this request is too long."
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
                headers.setdefault("cache-control", "no-store")
                if scope.get("scheme") == "https" and _name_of(Headers(scope=scope).get("host", "")) in self._names:
                    headers.setdefault("strict-transport-security", STRICT_TRANSPORT)
            await send(message)

        size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        problem = refusal(scope["method"], size, Headers(scope=scope), self._names)
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
            raise TooLargeError
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
    "pending": pending.pending_overview,
    "pending/entries": pending.pending_entries,
    "letters": pending.holders,
    "letters/overview": pending.letters_overview,
    "letters/page": pending.letters_page,
    "queries": queries.queries,
    "audit": changes.audit_page,
    "server": overview.server,
}


class _Files(StaticFiles):
    """The pages' files. Browsers revalidate them on each use, so that an update is visible immediately."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["cache-control"] = "no-cache"
        return answer


async def _page(request: Request) -> Response:
    del request
    return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


async def _too_large(request: Request, failure: Exception) -> Response:
    del request, failure
    return problem(413, "TOO_LARGE", TOO_LARGE)


async def _disconnected(request: Request, failure: Exception) -> Response:
    """Return a response that is not sent: the browser disconnected before its request was complete."""
    del request, failure
    return Response(status_code=400)


class Part(NamedTuple):
    """One server of the dashboard: its rules and its sampler."""

    rules: login.Rules
    sampler: Sampler


class Site(NamedTuple):
    """The application, and the function that stops exports before the HTTP server ends."""

    app: ASGIApp
    end: Callable[[], None]


def _api(endpoints: Endpoints) -> list[BaseRoute]:
    """Return the routes of one server's API."""
    return [
        Route("/session", endpoints.session),
        Route("/servers", endpoints.servers),
        Route("/login", endpoints.log_in, methods=["POST"]),
        Route("/logout", endpoints.log_out, methods=["POST"]),
        Route("/news", endpoints.news),
        Route("/export", endpoints.export),
        Route("/changes/{action}", endpoints.change, methods=["POST"]),
        *(Route(f"/{path}", endpoints.question(question)) for path, question in QUESTIONS.items()),
    ]


def site(
    parts: Sequence[Part], *, names: Collection[str] = (), cookie: str = "pystreams", oidc: Oidc | None = None
) -> Site:
    """Return the application for all servers.

    The first server is at `/`, each other server at `/on/NAME`. `names`: accepted host names, in addition to IP
    addresses and localhost.
    """
    every: list[Endpoints] = []
    for at, each in enumerate(parts):
        # With a provider, refuse logins without a password, which would make a viewer an operator.
        known = replace(each.rules, open_here=each.rules.open_here and oidc is None)
        path = f"/on/{quote(each.rules.name, safe='')}" if at else ""
        every.append(Endpoints(known, each.sampler, f"{cookie}-{at}" if at else cookie, path))
    first = every[0]
    for endpoints in every:
        endpoints.every, endpoints.oidc = every, oidc is not None
    routes: list[BaseRoute] = [Route("/", _page), Mount("/static", _Files(directory=STATIC))]
    for endpoints in every[1:]:
        routes += [
            Route(unquote(endpoints.path), _page),
            Mount(f"/api{unquote(endpoints.path)}", routes=_api(endpoints)),
        ]
    if oidc is not None:
        routes += oidc.routes(every)
    routes.append(Mount("/api", routes=_api(first)))

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        del app
        for each in every:
            each.sampler.start()
        try:
            yield
        finally:
            for each in every:
                each.close()
            for each in every:
                await asyncio.to_thread(each.sampler.stop)

    def end() -> None:
        for each in every:
            each.closing = True

    handlers = {TooLargeError: _too_large, ClientDisconnect: _disconnected}
    return Site(Guard(Starlette(routes=routes, lifespan=running, exception_handlers=handlers), names), end)
