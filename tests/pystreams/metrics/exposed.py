"""Parsing of an exposition with Prometheus's parser, which rejects malformed and duplicate series."""

from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pystreams.metrics import Sample, registry_of

Exposed = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(page: bytes) -> Exposed:
    """Return the values by name and labels. Every series must be unique."""
    found: Exposed = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def exposed(samples: list[Sample]) -> Exposed:
    """Return the values of collected samples by name and labels."""
    return parsed(generate_latest(registry_of(lambda: samples)))


def value(found: Exposed, name: str, **labels: str) -> float | None:
    """Return the value of one series; None if it is missing."""
    return found.get((name, frozenset(labels.items())))
