"""One HTTP request and its reply, with a deadline for both together and without redirects.

A timeout of a socket starts again with each byte, so a server that sends slowly would never exceed such a timeout.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import urllib.request
from typing import Any


def reply(request: urllib.request.Request, until: float, context: ssl.SSLContext | None, most: int) -> bytes:
    """Return the reply's content, or its first `most` bytes. `until`: deadline on the clock `time.monotonic`.

    Raises HTTPException and OSError, which includes HTTPError and TimeoutError.
    """
    handlers: list[Any] = [_NoRedirects(), _handler(urllib.request.HTTPHandler, http.client.HTTPConnection, until)]
    if context is not None:
        handlers.append(_handler(urllib.request.HTTPSHandler, http.client.HTTPSConnection, until, context=context))
    opener = urllib.request.build_opener(*handlers)
    with opener.open(request, timeout=_left(until)) as found:
        content: bytes = found.read(most)
        if found.length and len(content) < most:
            raise http.client.IncompleteRead(content, found.length)
        return content


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Turns redirects into HTTPErrors: following a redirect would send the login to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _handler(handler: Any, connection: Any, until: float, **settings: Any) -> Any:
    """Return a handler of urllib that stops reading a reply at the deadline `until`."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, until))

    class Connection(connection):  # type: ignore[misc]
        response_class = Response

    class Handler(handler):  # type: ignore[misc]
        def do_open(self, _: Any, request: Any, **arguments: Any) -> Any:
            return super().do_open(Connection, request, **arguments)

    return Handler(**settings)


class _Timed(io.RawIOBase):
    """Reads a socket's stream. Raises TimeoutError after a deadline."""

    def __init__(self, stream: Any, sock: socket.socket, until: float) -> None:
        self._stream = stream
        self._socket = sock
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._socket.settimeout(_left(self._until))
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()
