"""The guard in front of the application: checks of every request, and security headers of every response.

    Host      must be an IP address, localhost, or a configured name; with DNS rebinding, a page of another site would
              send the name of that site
    Origin    must be this dashboard, and Sec-Fetch-Site must be same-origin or none, if a POST has these headers
    type      must be JSON for the body of a POST, since forms of other sites cannot send JSON
    size      is limited, both for the body and for path and query together

The guard neither logs contents of requests nor sends them back.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
