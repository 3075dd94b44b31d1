"""The site: which path is answered by what, with the guard in front and the pages' files behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from pystreams.dashboard.api import groups, letters, login, overview, pending, queries, server_status, streams
from pystreams.dashboard.app.endpoints import Endpoints, Metrics, Question, problem
from pystreams.dashboard.sampling.sampler import Sampler
from pystreams.dashboard.security.guard import TOO_LARGE, Guard, TooLargeError

STATIC = Path(__file__).absolute().parents[1] / "static"

QUESTIONS: dict[str, Question] = {
    "overview": overview.overview,
    "streams": overview.streams,
    "groups": overview.groups,
    "stream": streams.stream,
    "entries": streams.browse,
    "entry": streams.entry,
    "fields": streams.field_statistics,
    "group": groups.group,
    "pending": pending.overview,
    "pending/entries": pending.entries,
    "letters": letters.holders,
    "letters/overview": letters.overview,
    "letters/page": letters.page,
    "queries": queries.queries,
}


class _Files(StaticFiles):
    """The pages' files. A browser asks each time whether they have changed, so that an update is seen at once."""

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


class Site(NamedTuple):
    """The application, and what lets those go who listen, before the HTTP server ends."""

    app: ASGIApp
    end: Callable[[], None]


def site(
    rules: login.Rules,
    sampler: Sampler,
    *,
    names: Collection[str] = (),
    cookie: str = "pystreams",
    metrics: Metrics | None = None,
) -> Site:
    """The whole application. `names`: host names that it answers to beside IP addresses and localhost."""
    shared = Endpoints(rules, sampler, cookie, metrics)
    routes: list[BaseRoute] = [
        Route("/", _page),
        Route("/metrics", shared.metrics),
        Route("/api/session", shared.session),
        Route("/api/login", shared.log_in, methods=["POST"]),
        Route("/api/logout", shared.log_out, methods=["POST"]),
        Route("/api/events", shared.events),
        Route("/api/tail", shared.tail),
        Route("/api/export", shared.export),
        Route("/api/server", shared.question(server_status.Cached())),
        Route("/api/changes/{action}", shared.change, methods=["POST"]),
        *(Route(f"/api/{path}", shared.question(question)) for path, question in QUESTIONS.items()),
        Mount("/static", _Files(directory=STATIC)),
    ]

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        del app
        shared.news.begin()
        sampler.start()
        try:
            yield
        finally:
            shared.close()
            sampler.stop()

    app = Guard(Starlette(routes=routes, lifespan=running, exception_handlers={TooLargeError: _too_large}), names)
    return Site(app, shared.news.end)
