"""Endpoints: run a function of the API in a thread for each HTTP request, and turn failures into responses."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pystreams.dashboard import changes, login, overview
from pystreams.dashboard.login import NOT_LOGGED_IN, Refusal, Session, Sessions, same
from pystreams.dashboard.requests import Asked, query
from pystreams.dashboard.sampler import Sampler
from pystreams.errors import CONDITIONS, Status, status_of
from streamclient.errors import PystreamsError

_log = logging.getLogger("pystreams.dashboard")

_THREADS = 24  # maximum number of threads that handle requests
#: HTTP status of an error, by the exit status of the command line. The HTTP status of all other errors is 409.
_STATUS = {
    Status.USAGE: 400,
    Status.MISSING: 404,
    Status.UNREACHABLE: 503,
    Status.NOT_PERMITTED: 403,
}

#: Pattern of advice about options or verbs of the command line.
_COMMAND_LINE = re.compile(r"--\w|'pystreams ")

Question = Callable[[Asked], dict[str, Any]]
Endpoint = Callable[[Request], Awaitable[Response]]


async def failed(request: Request, failure: Exception) -> Response:
    """Return the response to a request that raised a refusal, or an error of the server or the connection."""
    del request
    status, condition, message = 503, "CONNECTION_BROKEN", "The connection to the server broke."
    if isinstance(failure, Refusal):
        status, condition, message = failure.status, failure.condition, str(failure)
    elif isinstance(failure, PystreamsError):
        status, condition = _STATUS.get(status_of(failure), 409), failure.condition
        message = message_of(failure)
    return JSONResponse({"error": {"id": condition, "message": message}}, status)


def message_of(failure: PystreamsError) -> str:
    """Return an error's message without its ID. Advice about the command line is omitted."""
    text = str(failure).removeprefix(f"[{failure.condition}] ")
    found = CONDITIONS.get(failure.condition)
    if found is None or not _COMMAND_LINE.search(found.advice):
        return text
    return text.removesuffix(f" {found.advice.format(**failure.parameters)}")


class Endpoints:
    """The endpoints, with the sessions and their connections. `oidc`: whether there is an OIDC provider for logins."""

    def __init__(self, rules: login.Rules, sampler: Sampler, cookie: str, *, oidc: bool = False) -> None:
        self.rules, self.sampler, self.cookie, self._oidc = rules, sampler, cookie, oidc
        self.sessions = Sessions()
        self._threads: anyio.CapacityLimiter | None = None

    # --- sessions -----------------------------------------------------------------------------------------------------

    def session_of(self, request: Request) -> Session | None:
        """Return the session that a request's cookie names, or None."""
        number = request.cookies.get(self.cookie)
        return self.sessions.find(number) if number else None

    def _need(self, request: Request) -> Session:
        """Return the browser's session. Raises Refusal."""
        session = self.session_of(request)
        if session is None:
            raise Refusal(*NOT_LOGGED_IN)
        return session

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run `work` in one of a few threads, and return its result.

        The work may wait for the server without blocking the event loop, so pages still load.
        """
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(work, *arguments, limiter=self._threads, abandon_on_cancel=True)

    # --- endpoints ----------------------------------------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        """Return the data of the browser's session."""
        return JSONResponse(self._facts(self.session_of(request)))

    def _facts(self, session: Session | None) -> dict[str, Any]:
        return {**login.facts(self.rules, session), "oidc": self._oidc}

    def admit(self, request: Request, response: Response, number: str) -> None:
        """Set the session's cookie in a response."""
        secure = request.url.scheme == "https"
        response.set_cookie(self.cookie, number, path="/", secure=secure, httponly=True, samesite="strict")

    async def log_in(self, request: Request) -> Response:
        """Log in with a token, or as a user of the server."""
        given = await _body(request)
        token, user, password = (given.get(name) for name in ("token", "user", "password"))
        if not all(isinstance(each, str | None) for each in (token, user, password)):
            raise Refusal(400, "INVALID_VALUE", "Token, user and password must be strings.")
        try:
            if token:
                number, session = login.by_token(self.rules, self.sessions, _host(request), token)
            else:
                number, session = await self.in_thread(
                    login.by_password, self.rules, self.sessions, _host(request), user or "", password or ""
                )
        except Refusal as refusal:
            _log.warning("A login was refused: %s.", refusal.condition)
            raise
        answer = JSONResponse(self._facts(session))
        self.admit(request, answer, number)
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the browser's session."""
        session = self.session_of(request)
        if session is not None:
            _check_token(request, session)
        self.sessions.end(request.cookies.get(self.cookie, ""))
        answer = JSONResponse(self._facts(None))
        answer.delete_cookie(self.cookie, path="/", httponly=True, samesite="strict")
        return answer

    def question(self, question: Question) -> Endpoint:
        """Return the endpoint of a function of the API: a GET with parameters in the URL's query."""

        async def answer(request: Request) -> Response:
            asked = self._asked(request, self._need(request), query(request.scope["query_string"]))
            return JSONResponse(await self.in_thread(question, asked))

        return answer

    async def change(self, request: Request) -> Response:
        """Return the plan of a change, or the result of a confirmed change."""
        session = self._need(request)
        _check_token(request, session)
        if not self.rules.changes:
            raise Refusal(403, "READ_ONLY", "Changes are off: the dashboard lacks --allow-changes.")
        if not session.operator:
            raise Refusal(403, "VIEWER", "Your role is viewer, which may not make changes.")
        asked = self._asked(request, session, await _body(request))
        return JSONResponse(await self.in_thread(changes.change, request.path_params["action"], asked))

    async def news(self, request: Request) -> Response:
        """Return the document of `overview.news`, without a thread, since it needs no request to the server."""
        return JSONResponse(overview.news(self.sampler.state, whole=self._need(request).whole))

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _asked(self, request: Request, session: Session, given: dict[str, Any]) -> Asked:
        return Asked(given, session, self.sampler, self.rules, _host(request))


def _host(request: Request) -> str:
    """Return the address of the connection's peer, ignoring headers."""
    return "" if request.client is None else request.client.host


def _check_token(request: Request, session: Session) -> None:
    """Check that the request comes from a page of this session."""
    if not same(request.headers.get("x-csrf-token", ""), session.csrf):
        raise Refusal(403, "OTHER_SITE", "This request does not come from a page of this session. Reload the page.")


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body. Other bodies are refused, including those with half a surrogate pair."""
    with suppress(ValueError, RecursionError):
        found = json.loads(await request.body())
        json.dumps(found, ensure_ascii=False).encode()
        if isinstance(found, dict):
            return found
    raise Refusal(400, "NO_JSON", "The body must be a JSON object.")
