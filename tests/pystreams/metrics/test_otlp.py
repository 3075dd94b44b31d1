"""Metrics sent to an OpenTelemetry collector."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import redis
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from pystreams.connect.target import Wanted
from pystreams.metrics import exporter as exporter_module
from pystreams.metrics.collector import Collector
from pystreams.metrics.exporter import Exporter
from pystreams.metrics.otlp import Push
from tests import servers

_Received = queue.Queue[ExportMetricsServiceRequest]
_SCRAPES = "redis_exporter_scrapes_total"


@pytest.fixture
def collected() -> Iterator[tuple[str, _Received]]:
    """Run a collector, and yield its address and the received metrics."""
    received: _Received = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/metrics", received
        server.shutdown()
        thread.join(20)


def _names(request: ExportMetricsServiceRequest) -> set[str]:
    """Return the names of the request's metrics."""
    return {
        metric.name
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_collector_receives_the_metrics(
    instance: servers.Running,
    client: redis.Redis,
    collected: tuple[str, _Received],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Labels become attributes, counters become monotonic sums, and all metrics of a request come from one scrape."""
    monkeypatch.setattr(exporter_module, "_FRESH_SECONDS", 60)
    client.xadd("s", {"n": 1})
    endpoint, received = collected
    collector = Collector(Wanted(instance.url))
    push = Push(Exporter(collector), endpoint, 0.05, "redis://there")
    try:
        request = received.get(timeout=20)
        while _SCRAPES not in _names(request):  # sent before all metrics were registered
            request = received.get(timeout=20)
    finally:
        push.close()
        collector.close()
    (resource,) = request.resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (attributes["service.name"], attributes["server.address"]) == ("pystreams", "redis://there")
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    (length,) = metrics["redis_stream_length"].gauge.data_points
    assert {each.key: each.value.string_value for each in length.attributes} == {"db": "db0", "stream": "s"}
    assert (length.as_int or length.as_double) == 1
    assert metrics["redis_commands_processed_total"].sum.is_monotonic
    (scrapes,) = metrics[_SCRAPES].sum.data_points
    assert (scrapes.as_int or scrapes.as_double) == 1  # one scrape for all metrics
