"""An exposition as a test reads it: with Prometheus's own parser, which refuses what is malformed or stands twice."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from pystreams.metrics import exposition
from pystreams.metrics.table import Sample

Exposed = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(page: bytes) -> Exposed:
    """Each value by name and labels; every series stands once."""
    found: Exposed = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def exposed(samples: list[Sample]) -> Exposed:
    """The same of samples that were collected."""
    return parsed(exposition.text(samples)[0])


def value(found: Exposed, name: str, **labels: str) -> float | None:
    """The value of one series; None if there is none."""
    return found.get((name, frozenset(labels.items())))
