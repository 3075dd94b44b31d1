"""HTTP server for `/metrics` alone, based on the standard library, with limits against misbehaving clients."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pystreams.metrics.exporter import Exporter

PATH = "/metrics"
_SECONDS = 10.0  # timeout for a client to send its request, and to read the answer
_CLIENTS = 16  # maximum number of concurrent clients; a further one replaces the oldest whose request is incomplete
_REPLACED_SECONDS = 1.0  # time for a replaced client's thread to end
_INDEX = b'<!doctype html><title>pystreams metrics</title><a href="/metrics">Metrics</a>\n'


class MetricsServer(ThreadingHTTPServer):
    """Serves an exporter's page. Raises OSError if it cannot listen on host and port. Port 0 selects a free port."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, host: str, port: int, exporter: Exporter) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.exporter = exporter
        self._slots = threading.BoundedSemaphore(_CLIENTS)
        #: Connections whose request is incomplete, oldest first.
        self.incomplete: dict[socket.socket, None] = {}
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """URL of the metrics."""
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}{PATH}"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            oldest = next(iter(self.incomplete), None)
            if oldest is not None:
                with suppress(OSError):  # it may have ended
                    oldest.shutdown(socket.SHUT_RDWR)
            if oldest is None or not self._slots.acquire(timeout=_REPLACED_SECONDS):
                self.shutdown_request(request)
                return
        self.incomplete[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.incomplete.pop(request, None)
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or time out."""


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    server_version = "pystreams"
    sys_version = ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        self.server.incomplete.pop(self.connection, None)
        path = self.path.partition("?")[0]
        if path == PATH:
            page, content_type = self.server.exporter.page(self.headers.get("Accept", ""))
        elif path == "/":
            page, content_type = _INDEX, "text/html; charset=utf-8"
        else:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(page)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if body:
            self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log nothing, since there is a request every few seconds."""
