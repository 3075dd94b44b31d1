"""Endpoints: run a function of the API in a thread for each HTTP request, and turn failures into responses.

An export is a range of a stream as a file, in the formats of `pystreams export`. It is written page by page
in a thread, within limits, in a temporary folder. The folder is removed before the file is sent. The open file then has
no name, so the system frees its space when it is closed, even after a crash.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import anyio
import anyio.from_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from pystreams.dashboard import changes, login, overview
from pystreams.dashboard.login import NOT_LOGGED_IN, Refusal, Session, Sessions, same
from pystreams.dashboard.requests import Access, Asked, query
from pystreams.dashboard.sampler import Sampler
from pystreams.errors import CONDITIONS, Status, fail, status_of
from pystreams.files import archives
from pystreams.streams import entries, inventory, paged_calls
from pystreams.values import times
from pystreams.values.fields import columns_of
from streamclient.connection import Connection
from streamclient.errors import PystreamsError
from streamwire.stream_id import StreamId

MOST_EXPORTS = 2  # maximum number of files that are written at a time from a server, in all sessions
MOST_ENTRIES = 1_000_000  # maximum number of exported entries
MOST_BYTES = 256 << 20  # maximum size of the file, and of the entries' fields
_MOST_COLUMNS = 500  # maximum number of columns in CSV and Parquet; further fields are in _other
_DOWNLOAD_SECONDS = 3600.0  # maximum duration of a download
_CHUNK = 1 << 16  # maximum bytes read from the file and sent at a time
_NAME_CHARACTERS = 60  # maximum number of characters of up to four bytes each: file systems allow 255 bytes
_TYPES = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
}


class Export:
    """One export of a stream, which `write` writes to a temporary file.

    `wanted`: function called for each page, in the writing thread; returns False to cancel the export.
    """

    def __init__(self, asked: Asked, wanted: Callable[[], bool]) -> None:
        self._access, self._wanted = asked.access, wanted
        self._stream = asked.key("stream")
        self._reader = asked.reader(self._stream)
        self._form = asked.choice("format", _TYPES, "parquet")
        self._texts = asked.text("from").strip() or "start", asked.text("before").strip() or "end"
        self._begin, self._end = (
            times.position(text, name) for text, name in zip(self._texts, ("from", "before"), strict=True)
        )

    def write(self) -> Response:
        """Write the file, and return the response that sends it.

        Raises Refusal, FILE_UNUSABLE and refusals of the server. Errors leave no file.
        """
        with archives.written(Path(tempfile.gettempdir())):
            folder = tempfile.TemporaryDirectory(prefix="pystreams-export-", ignore_cleanup_errors=True)
        with folder as directory:
            path = Path(directory) / f"export.{self._form}"
            with self._access.lend() as connection:
                self._fill(path, connection)
            with archives.written(path):
                size = path.stat().st_size
                self._check(0, size)
                file = path.open("rb")
        return _Download(_chunks(file), headers=self._headers(size), media_type=_TYPES[self._form])

    def _headers(self, size: int) -> dict[str, str]:
        name = file_name(self._stream, self._form)
        plain = re.sub(r"[^\x21-\x7e]", "_", name)
        disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
        return {"content-length": str(size), "content-disposition": disposition}

    def _fill(self, path: Path, connection: Connection) -> None:
        after, upto = self._range(connection)
        archive: archives.Archive | None = None
        count = size = 0
        whole = False
        try:
            for page in entries.pages(connection, self._stream, after, upto, most=MOST_ENTRIES + 1):
                count += len(page)
                size += sum(len(word) for _, words in page for word in words)
                self._check(count, size)
                page = list(map(self._reader.entry, page))
                with archives.written(path):
                    if archive is None:
                        columns = columns_of(page)[:_MOST_COLUMNS]
                        archive = archives.open_archive(path, self._form, columns, resume=False)
                    archive.write(page)
                    size = max(size, path.stat().st_size if path.exists() else 0)
            if archive is None:
                raise Refusal(404, "NO_ENTRIES", "The stream has no entries in this range.")
            with archives.written(path):
                archive.close(whole=True)
            whole = True
        finally:
            if archive is not None and not whole:
                with suppress(OSError):  # report the original error instead
                    archive.close(whole=False)

    def _range(self, connection: Connection) -> tuple[StreamId, StreamId]:
        """Return the requested range (after, upto]. A range that is known to be too large is refused immediately."""
        found = inventory.need(connection, self._stream)
        after, upto = entries.between(connection, found, self._begin, self._end, paged_calls.now_ms(connection))
        ids = self._begin.id, self._end.id
        if ids[0] is not None and ids[1] is not None and ids[0] >= ids[1]:
            fail("INVALID_VALUE", name="before", value=self._texts[1], expected="it must be after 'from'")
        if upto >= found.last_id:
            self._check(found.exact_backlog(after) or 0, 0)
        return after, upto

    def _check(self, count: int, size: int) -> None:
        """Raise an error to stop the export if the file is too large or the export was cancelled."""
        if not self._wanted():
            raise Refusal(503, "STOPPED", "The export was stopped.")
        if count > MOST_ENTRIES or size > MOST_BYTES:
            most = f"{MOST_ENTRIES:,} entries or {MOST_BYTES >> 20} MiB"
            message = f"The range exceeds {most}, the limit for browsers. Use the command line: pystreams export."
            raise Refusal(413, "TOO_LARGE", message)


class _Download(StreamingResponse):
    """A response that ends after an hour, so that a browser that stops reading does not keep the file."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with anyio.move_on_after(_DOWNLOAD_SECONDS):
            await super().__call__(scope, receive, send)


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the content of a file, and close it."""
    with file:
        while chunk := await anyio.to_thread.run_sync(file.read, _CHUNK):
            yield chunk


def file_name(stream: bytes, form: str) -> str:
    """Return the file name of an export: the stream's name without characters unsafe in headers or file systems."""
    text = re.sub(r"[^\w.-]+", "_", stream.decode("utf-8", "replace"))[:_NAME_CHARACTERS].strip("._-")
    return f"{text or 'stream'}.{form}"


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
        self.sessions = Sessions(time.monotonic, self._ended)
        self.closing = False
        self._accesses: dict[int, Access] = {}
        self._threads: anyio.CapacityLimiter | None = None
        self._exports = 0

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

    def _access(self, session: Session) -> Access:
        return self._accesses.setdefault(id(session), Access(session))

    def _ended(self, session: Session) -> None:
        access = self._accesses.pop(id(session), None)
        if access is not None:
            access.close()

    def close(self) -> None:
        """Stop exports, and close all connections to the server."""
        self.closing = True
        for access in list(self._accesses.values()):
            access.close()

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
            session = self._need(request)
            return JSONResponse(await self.in_thread(lambda: question(self._asked(request, session, _query(request)))))

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

    async def export(self, request: Request) -> Response:
        """Return a range of a stream as a file. The number of files that are written at a time is limited."""
        session = self._need(request)
        if self._exports >= MOST_EXPORTS:
            message = f"{MOST_EXPORTS} exports are running. Try again when one of them has finished."
            raise Refusal(503, "TOO_MANY_EXPORTS", message)

        def wanted() -> bool:
            left: bool = anyio.from_thread.run(request.is_disconnected)
            return not self.closing and not left and self.session_of(request) is not None

        self._exports += 1
        try:
            made = Export(self._asked(request, session, _query(request)), wanted)
            answer: Response = await self.in_thread(made.write)
        finally:
            self._exports -= 1
        return answer

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _asked(self, request: Request, session: Session, given: dict[str, Any]) -> Asked:
        return Asked(given, self._access(session), self.sampler, self.rules, _host(request))


def _host(request: Request) -> str:
    """Return the address of the connection's peer, ignoring headers."""
    return "" if request.client is None else request.client.host


def _check_token(request: Request, session: Session) -> None:
    """Check that the request comes from a page of this session."""
    if not same(request.headers.get("x-csrf-token", ""), session.csrf):
        raise Refusal(403, "OTHER_SITE", "This request does not come from a page of this session. Reload the page.")


def _query(request: Request) -> dict[str, Any]:
    return dict(query(request.scope["query_string"]))


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body. Other bodies are refused, including those with half a surrogate pair."""
    with suppress(ValueError, RecursionError):
        found = json.loads(await request.body())
        json.dumps(found, ensure_ascii=False).encode()
        if isinstance(found, dict):
            return found
    raise Refusal(400, "NO_JSON", "The body must be a JSON object.")
