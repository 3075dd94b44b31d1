"""The site: routes of all servers and of the pages' files, protected by the guard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from pystreams.dashboard.api import audit, letters, login, overview, pending, queries, server_status, streams
from pystreams.dashboard.app.endpoints import Endpoints, Metrics, Question, problem
from pystreams.dashboard.sampling.sampler import Sampler
from pystreams.dashboard.security.guard import TOO_LARGE, Guard, TooLargeError

if TYPE_CHECKING:
    from pystreams.dashboard.app.oidc import Oidc

STATIC = Path(__file__).absolute().parents[1] / "static"

QUESTIONS: dict[str, Question] = {
    "overview": overview.overview,
    "streams": overview.streams,
    "groups": overview.groups,
    "stream": streams.stream,
    "entries": streams.browse,
    "entry": streams.entry,
    "tail": streams.tail,
    "group": streams.group,
    "pending": pending.overview,
    "pending/entries": pending.entries,
    "letters": letters.holders,
    "letters/overview": letters.overview,
    "letters/page": letters.page,
    "queries": queries.queries,
    "audit": audit.page,
    "server": server_status.server,
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
    """One server of the dashboard: its rules, its sampler, and its metrics for Prometheus."""

    rules: login.Rules
    sampler: Sampler
    metrics: Metrics


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
        every.append(Endpoints(known, each.sampler, f"{cookie}-{at}" if at else cookie, each.metrics, path))
    first = every[0]
    for endpoints in every:
        endpoints.every, endpoints.oidc = every, oidc is not None
    routes: list[BaseRoute] = [Route("/", _page), Mount("/static", _Files(directory=STATIC))]
    for endpoints in every[1:]:
        routes += [
            Route(unquote(endpoints.path), _page),
            Route(f"{unquote(endpoints.path)}/metrics", endpoints.metrics),
            Mount(f"/api{unquote(endpoints.path)}", routes=_api(endpoints)),
        ]
    if oidc is not None:
        routes += oidc.routes(every)
    routes += [Route("/metrics", first.metrics), Mount("/api", routes=_api(first))]

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
