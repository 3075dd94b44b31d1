"""Exposition: samples in the text format of Prometheus, or in OpenMetrics if requested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from pystreams.metrics.table import METRICS, Metric, Sample

_NODE = "node"


def text(samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
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
        """Return no families: the registry has no other collector to check for duplicates."""
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
