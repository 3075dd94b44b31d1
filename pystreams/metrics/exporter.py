"""Answers to `/metrics`: one scrape at a time, within a time limit, even if the server hangs.

    exporter = Exporter(Collector(wanted))
    body, content_type = exporter.page(request.headers.get("accept", ""))    # blocks: call it in a thread

Requests during a scrape wait for it and share its result. If a hanging server exceeds the time limit, the answer is
`redis_up 0`; no second scrape starts before the first has ended.

`MetricsServer` serves these answers alone, based on the standard library, with limits against misbehaving clients.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from pystreams.metrics.collector import Collector
from pystreams.metrics.table import METRICS, Metric, Sample

#: Less than the default timeout of Prometheus, which is ten seconds.
TIMEOUT_SECONDS = 9.0

_NODE = "node"


class Exporter:
    """The metrics of one server, for any number of threads.

    `timeout`: maximum wait of a request, in seconds. `fresh`: maximum age of samples that later requests reuse.
    """

    def __init__(self, collector: Collector, timeout: float = TIMEOUT_SECONDS, fresh: float = 1.0) -> None:
        self._collector = collector
        self._timeout, self._fresh = timeout, fresh
        self._lock = threading.Lock()
        self._scrape: Future[list[Sample]] | None = None
        self._ended = 0.0
        self._closed = False

    def close(self) -> None:
        """Close the collector's connection, now or when the running scrape has ended."""
        with self._lock:
            self._closed = True
            if self._scrape is None or self._scrape.done():
                self._collector.close()

    def sent(self) -> int:
        """Return the number of commands sent to the server."""
        return self._collector.sent

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Return the current exposition and its content type. `accept`: the header of the request."""
        return exposition(self.samples(), accept)

    def samples(self) -> list[Sample]:
        """Return current samples."""
        with self._lock:
            scrape = self._scrape
            if scrape is None or (scrape.done() and time.monotonic() - self._ended >= self._fresh):
                scrape = self._scrape = Future()
                threading.Thread(target=self._run, args=(scrape,), name="pystreams-scrape", daemon=True).start()
        try:
            return scrape.result(self._timeout)
        except TimeoutError:
            return self._collector.without_answer(self._timeout)

    def _run(self, scrape: Future[list[Sample]]) -> None:
        found: list[Sample] = []
        failure: BaseException | None = None
        try:
            # The remaining quarter of the time is for sending the samples.
            found = self._collector.collect(self._timeout * 0.75)
        except BaseException as cause:  # noqa: BLE001 - `Future.result` raises it in waiting threads
            failure = cause
        with self._lock:
            self._ended = time.monotonic()
            if failure is None:
                scrape.set_result(found)
            else:
                scrape.set_exception(failure)
            if self._closed:
                self._collector.close()


def exposition(samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
    """Return the page and its content type. `accept`: the header of the request."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(samples))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Page:
    """Samples as metric families for prometheus-client."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def describe(self) -> list[Family]:
        """Return no families, since the registry has no other collector with which they could collide."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yield a family for each metric with samples, in the order of the table."""
        families: dict[Metric, Family] = {}
        for metric, value, labels, node in self._samples:
            family = families.get(metric)
            if family is None:
                name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
                families[metric] = family = Family(name, metric.help, metric.kind)
            named = dict(zip(metric.labels, labels, strict=True))
            if node:
                named[_NODE] = node
            family.add_sample(metric.name, named, value)
        for metric in METRICS.values():
            if metric in families:
                yield families[metric]


PATH = "/metrics"
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
        #: Timeout in seconds for a client to send its request, and to read the answer.
        self.patience = 10.0
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

    def setup(self) -> None:
        self.request.settimeout(self.server.patience)
        super().setup()

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
