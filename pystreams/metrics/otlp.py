"""Metrics for OpenTelemetry: pushed periodically to a collector by OTLP over HTTP.

The metrics have the same names, labels and kinds (counter or gauge) as for Prometheus. OpenTelemetry's variables
OTEL_EXPORTER_OTLP_... set headers, certificates and compression.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from pystreams.metrics.exporter import Exporter
from pystreams.metrics.table import METRICS, Metric, Sample


class Push:
    """Pushes an exporter's metrics to `endpoint`, such as `http://127.0.0.1:4318/v1/metrics`, until it is closed.

    `where`: the server's URL without secrets. OpenTelemetry logs failed deliveries and drops their data.
    """

    def __init__(self, exporter: Exporter, endpoint: str, seconds: float, where: str) -> None:
        self._exporter = exporter
        self._first = next(iter(METRICS.values()))
        self._of_metric: dict[Metric, list[Sample]] = {}
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint), seconds * 1000)
        resource = Resource.create({"service.name": "pystreams", "server.address": where})
        self._provider = MeterProvider([reader], resource)
        meter = self._provider.get_meter("pystreams")
        for metric in METRICS.values():
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            make(metric.name, [partial(self._observed, metric)], description=metric.help)

    def _observed(self, metric: Metric, _: CallbackOptions) -> Iterable[Observation]:
        """Return the observations of one metric. OpenTelemetry requests all metrics in order; the first metric
        triggers a scrape.
        """
        if metric is self._first:
            self._of_metric = _grouped(self._exporter.samples())
        for sample in self._of_metric.get(metric, ()):
            labels = dict(zip(metric.labels, sample.labels, strict=True))
            yield Observation(sample.value, {**labels, "node": sample.node} if sample.node else labels)

    def close(self) -> None:
        """Push once more, and stop."""
        self._provider.shutdown()


def _grouped(samples: Sequence[Sample]) -> dict[Metric, list[Sample]]:
    found: dict[Metric, list[Sample]] = defaultdict(list)
    for sample in samples:
        found[sample.metric].append(sample)
    return found
