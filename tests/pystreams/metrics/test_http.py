"""The exporter's HTTP server: responses and misbehaving clients."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.error import HTTPError

import pytest

from pystreams.connect import Wanted
from pystreams.metrics import exporter as http
from pystreams.metrics.collector import Collector
from pystreams.metrics.exporter import Exporter
from tests import servers
from tests.pystreams.metrics.exposed import parsed, value
from tests.suite.waiting import wait_for


@pytest.fixture
def served() -> Iterator[http.MetricsServer]:
    """A running HTTP server with the metrics of an unreachable server."""
    exporter = Exporter(Collector(Wanted(f"redis://127.0.0.1:{servers.free_port()}")))
    with http.MetricsServer("127.0.0.1", 0, exporter) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(20)


def test_metrics_are_at_their_path(served: http.MetricsServer) -> None:
    """`/metrics` returns Prometheus's format, or OpenMetrics if requested; `/` links to it; other paths are missing."""
    with urllib.request.urlopen(served.url) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert value(parsed(answer.read()), "redis_up") == 0
    request = urllib.request.Request(served.url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert answer.read().endswith(b"# EOF\n")
    with urllib.request.urlopen(served.url.removesuffix("metrics")) as answer:
        assert b'href="/metrics"' in answer.read()
    with pytest.raises(HTTPError, match="404"):
        urllib.request.urlopen(f"{served.url}/more")


def test_silent_clients_do_not_block_others(served: http.MetricsServer) -> None:
    """Clients beyond the limit of connections are rejected, and silent connections are closed at a timeout.

    A request replaces a client that sends its own slowly.
    """
    served.patience = 0.3
    address = served.server_address[:2]
    with ExitStack() as stack:
        for at in range(40):
            client = stack.enter_context(socket.create_connection((str(address[0]), int(address[1])), 20))
            if at % 2:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")  # the response is never read
        names = [thread.name for thread in threading.enumerate()]
        assert sum("process_request_thread" in name for name in names) <= 16

        def answered() -> bool:
            try:
                with urllib.request.urlopen(served.url, timeout=20) as answer:
                    return bool(answer.read())
            except OSError:
                return False

        wait_for(answered, "a free connection")
        served.patience = 10.0
        for _ in range(16):
            slow = stack.enter_context(socket.create_connection((str(address[0]), int(address[1])), 20))
            slow.sendall(b"GET /metr")
        assert answered()
